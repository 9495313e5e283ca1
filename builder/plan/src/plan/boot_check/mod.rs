//! What an image has to bring a machine back to its earlier image by itself, if it does not come up
//! there: a program, and two units that run it. On the machine, it acts only on an image that `mosb
//! node` brought and that is not confirmed yet.
//!
//! Input: nothing, so it is the same in every image. Output: the files and links of an image.

/// The folder of the program, and of the checks of an administrator.
pub(super) const FOLDER: &str = "/usr/lib/mosb";
/// The program.
pub(super) const PROGRAM: &str = "boot-check";

/// A unit of an image, and the target that starts it.
#[derive(Debug)]
pub(super) struct Unit {
    pub name: &'static str,
    pub file: &'static str,
    /// The folder beside it with the link that does so.
    pub started_by: &'static str,
}

/// The content of the program.
pub(super) const PROGRAM_FILE: &str = include_str!("boot-check");
pub(super) const BOOT_UNITS: [Unit; 2] = [
    Unit {
        name: "mosb-boot-guard.service",
        file: include_str!("mosb-boot-guard.service"),
        started_by: "sysinit.target.wants",
    },
    Unit {
        name: "mosb-boot-check.service",
        file: include_str!("mosb-boot-check.service"),
        started_by: "boot-complete.target.requires",
    },
];

/// The files that a build of buildah copies into its image, by their names.
pub(crate) fn boot_check_files() -> Vec<(&'static str, String)> {
    let units = BOOT_UNITS.iter().map(|unit| (unit.name, unit.file.to_owned()));
    units.chain([(PROGRAM, PROGRAM_FILE.to_owned())]).collect()
}
