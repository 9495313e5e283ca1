//! The differences between versions and builds of systemd, and the directories that they read.

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;

use super::chroot::{self, FinalComponent, resolve_path};
use super::error::Unsupported;

/// The systemd whose `systemctl` is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    version: u32,
    split_usr: bool,
}

/// Whether a version has a behaviour; unknown between the versions that were examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behavior {
    Yes,
    No,
    Unknown,
}

/// Where links are made.
pub(super) const CONFIG: &str = "/etc/systemd/system";
pub(super) const RUNTIME_CONFIG: &str = "/run/systemd/system";
pub(super) const TRANSIENT: [&str; 4] = [
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
];

/// The directories of `PATH` in a container.
const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The versions that were examined; RHEL 9 and Debian 12 have the first, RHEL 10, Fedora 42 and
/// Debian 13 the second.
const OLD: u32 = 252;
const NEW: u32 = 257;

impl Dialect {
    /// The systemd of this version. `split_usr`: built with `/lib` and `/usr/lib` as two places, as
    /// Debian's were up to 254.
    pub fn new(version: u32, split_usr: bool) -> Self {
        Self { version, split_usr }
    }

    /// The systemd in a tree, by its shared library; `None` if there is no `systemctl`.
    ///
    /// # Errors
    /// If there is one and its version is unknown or not supported.
    pub fn detect(tree: &Overlay<'_>) -> Result<Option<Self>, Unsupported> {
        let mut installed = false;
        for directory in PROGRAMS {
            installed |=
                resolve_path(tree, &format!("{directory}/systemctl"), FinalComponent::Follow)?
                    .found()
                    .is_some();
        }
        if !installed {
            return Ok(None);
        }
        let version = library_version(tree)?
            .ok_or_else(|| Unsupported::Version("not to be found".to_owned()))?;
        if version < OLD {
            return Err(Unsupported::Version(version.to_string()));
        }
        let debian = tree.get(&path("/etc/debian_version")).is_some();
        Ok(Some(Self::new(version, debian && version < 255)))
    }

    /// The directories with unit files, the most important first.
    pub(super) fn unit_directories(&self) -> Vec<TreePath> {
        let mut directories = vec![
            "/etc/systemd/system.control",
            "/run/systemd/system.control",
            "/run/systemd/transient",
            "/run/systemd/generator.early",
            CONFIG,
            "/etc/systemd/system.attached",
            RUNTIME_CONFIG,
            "/run/systemd/system.attached",
            "/run/systemd/generator",
            "/usr/local/lib/systemd/system",
        ];
        if self.split_usr {
            directories.push("/lib/systemd/system");
        }
        directories.extend(["/usr/lib/systemd/system", "/run/systemd/generator.late"]);
        directories.into_iter().map(path).collect()
    }

    /// The directories with preset files, the most important first.
    pub(super) fn preset_directories(&self) -> Vec<TreePath> {
        let mut directories = vec![
            "/etc/systemd/system-preset",
            "/run/systemd/system-preset",
            "/usr/local/lib/systemd/system-preset",
            "/usr/lib/systemd/system-preset",
        ];
        if self.split_usr {
            directories.push("/lib/systemd/system-preset");
        }
        directories.into_iter().map(path).collect()
    }

    /// Whether `UpheldBy=` makes links (systemd 254).
    pub(super) fn upholds(&self) -> bool {
        self.version >= 254
    }

    /// Whether `ignore` is a word of preset files.
    pub(super) fn ignores(&self) -> Behavior {
        self.since_new()
    }

    /// Whether a link that leads nowhere gives way to an alias.
    pub(super) fn replaces_dangling(&self) -> Behavior {
        self.since_new()
    }

    /// Whether the alias of a linked unit leads to the link, not to the file outside the unit
    /// directories.
    pub(super) fn alias_leads_to_link(&self) -> Behavior {
        self.since_new()
    }

    /// Whether a quote that isn't closed takes the whole line with it, not only the rest.
    pub(super) fn open_quote_drops_line(&self) -> Behavior {
        self.since_new()
    }

    fn since_new(&self) -> Behavior {
        match self.version {
            ..=OLD => Behavior::No,
            NEW.. => Behavior::Yes,
            _ => Behavior::Unknown,
        }
    }
}

/// The version in the name of `libsystemd-shared-252.so`, `libsystemd-shared-252.4-598.fc38.so`.
fn library_version(tree: &Overlay<'_>) -> Result<Option<u32>, Unsupported> {
    let mut directories = Vec::new();
    for library in ["/usr/lib", "/usr/lib64", "/lib", "/lib64"] {
        directories.push(path(library).join("systemd"));
        // Debian's multiarch directory, such as x86_64-linux-gnu.
        for (child, _) in chroot::list(tree, &path(library))? {
            if child.name().contains("-linux-") {
                directories.push(child.join("systemd"));
            }
        }
    }
    for directory in directories.into_iter().flatten() {
        for (file, _) in chroot::list(tree, &directory)? {
            let version = file
                .name()
                .strip_prefix("libsystemd-shared-")
                .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
            if version.is_some() {
                return Ok(version);
            }
        }
    }
    Ok(None)
}

pub(super) fn path(constant: &str) -> TreePath {
    constant.parse().expect("the constants of this module are clean absolute paths")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::tree::{BaseTree, OwnedEntry};

    #[test]
    fn version_is_in_the_name_of_the_library() {
        let file = || OwnedEntry::file(b"");
        for (what, paths, want) in [
            ("nothing", &[][..], Ok(None)),
            (
                "a library without the program",
                &["usr/lib/systemd/libsystemd-shared-252.so"][..],
                Ok(None),
            ),
            (
                "Debian 12",
                &[
                    "usr/bin/systemctl",
                    "etc/debian_version",
                    "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so",
                ],
                Ok(Some(Dialect::new(252, true))),
            ),
            (
                "Debian 13",
                &[
                    "usr/bin/systemctl",
                    "etc/debian_version",
                    "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.so",
                ],
                Ok(Some(Dialect::new(257, false))),
            ),
            (
                "Fedora CoreOS",
                &["usr/bin/systemctl", "usr/lib/systemd/libsystemd-shared-257.9-2.fc42.so"],
                Ok(Some(Dialect::new(257, false))),
            ),
            (
                "RHEL 9",
                &["usr/bin/systemctl", "usr/lib/systemd/libsystemd-shared-252.so"],
                Ok(Some(Dialect::new(252, false))),
            ),
            (
                "RHEL 8",
                &["usr/bin/systemctl", "usr/lib/systemd/libsystemd-shared-239.so"],
                Err(Unsupported::Version("239".to_owned())),
            ),
            (
                "a stand-in",
                &["usr/bin/systemctl"],
                Err(Unsupported::Version("not to be found".to_owned())),
            ),
        ] {
            let base =
                BaseTree::from_entries(paths.iter().map(|p| (p.as_bytes().to_vec(), file())));
            assert_eq!(Dialect::detect(&Overlay::new(&base)), want, "{what}");
        }
    }
}
