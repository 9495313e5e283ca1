//! What a config has below `/var`, where an update of an image never writes, and what brings it to
//! machines.
//!
//! Input: the config. Output: the paths that an image brings to machines, and the programs that do
//! so: `apply` runs on the machine, `collect` in an image that buildah builds. Invariant: whether a
//! path is among them depends on the config alone, so that the names of a build need no base.

use std::fmt;

use mosb_ignition::Config;
use mosb_image::Digest;
use mosb_image::overlay::Meta;
use mosb_image::path::TreePath;
use mosb_types::{Finding, escape_control};

/// Where an image has the list, the contents and `apply`.
pub const FOLDER: &str = "/usr/lib/mosb/var-files";
/// The folder of the unit.
pub(super) const UNITS: &str = "/usr/lib/systemd/system";
/// The unit that runs `apply`.
pub(super) const UNIT: &str = "mosb-var-files.service";
/// Compares the list with the machine, and writes what is missing or older.
pub(super) const APPLY: &str = include_str!("apply");
/// The content of [`UNIT`].
pub(super) const UNIT_FILE: &str = include_str!("mosb-var-files.service");
/// Adds all of this to an image that buildah builds.
const COLLECT: &str = include_str!("collect");

/// The name that `apply` gives to what it has not finished.
const TEMPORARY: &str = ".mosb-var-files.new";

/// Top-level directories that don't lie below `/var` in any base, or whose contents no image has.
const ELSEWHERE: [&str; 16] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "media", "ostree", "proc",
    "run", "sbin", "sys", "sysroot", "tmp",
];

/// The paths of a config that an image may have to bring to machines.
#[derive(Debug, Clone, Default)]
pub(super) struct VarPaths {
    /// As the config spells them, sorted. Whether they lie below `/var` depends on the base's links.
    pub paths: Vec<String>,
    /// The entries that the list can't hold.
    pub refused: Vec<Finding>,
}

impl VarPaths {
    /// Reads the files, directories and links of a config.
    pub(super) fn of(config: &Config) -> Self {
        let storage = &config.storage;
        let files = storage.files.iter().map(|file| (file.path.as_str(), None));
        let directories =
            storage.directories.iter().map(|directory| (directory.path.as_str(), None));
        let links = storage
            .links
            .iter()
            .map(|link| (link.path.as_str(), Some(link.target.as_str()).filter(|_| !link.hard)));
        let mut found = Self::default();
        for (path, target) in files.chain(directories).chain(links) {
            if !may_lie_below_var(path) {
                continue;
            }
            if is_listable(path) && !target.is_some_and(|target| target.contains(char::is_control))
            {
                found.paths.push(path.to_owned());
            } else {
                let path = escape_control(path).to_string();
                let message = format!(
                    "{path}: control characters, a component that ends in a blank, and the name {TEMPORARY} can't be listed, so it reaches only machines that are installed from the image; choose another path or target"
                );
                found.refused.push(Finding::new("var-file-refused", message).path(path));
            }
        }
        found.paths.sort();
        found
    }
}

/// Whether a path can be below `/var` in a base: links such as `/usr/local` and `/opt` lead there.
pub(super) fn may_lie_below_var(path: &str) -> bool {
    let mut components = path.split('/').filter(|component| !component.is_empty());
    match (components.next(), components.next()) {
        (Some("usr"), Some("local")) => components.next().is_some(),
        (Some("usr"), _) | (_, None) => false,
        (Some(top), Some(_)) => !ELSEWHERE.contains(&top),
        (None, Some(_)) => false,
    }
}

/// Whether a line can hold it: the shell splits lines at line breaks and removes blanks at the end.
fn is_listable(path: &str) -> bool {
    let mut components = path.split('/');
    !path.contains(char::is_control)
        && !components.any(|component| component.ends_with(' ') || component == TEMPORARY)
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VarFile {
    pub kind: VarFileKind,
    pub meta: Meta,
    /// In the image; below `/var`.
    pub path: TreePath,
}

/// The type of a path, with the digest of what `content` has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VarFileKind {
    Directory,
    File(Digest),
    /// The digest of its target.
    Symlink(Digest),
}

impl fmt::Display for VarFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, digest) = match self.kind {
            VarFileKind::Directory => ('d', "-".to_owned()),
            VarFileKind::File(digest) => ('f', digest.hex()),
            VarFileKind::Symlink(digest) => ('l', digest.hex()),
        };
        let Meta { mode, uid, gid } = self.meta;
        write!(f, "{kind} {mode:o} {uid} {gid} {digest} {}", self.path)
    }
}

/// What an image gets for these paths, for people; nothing for none. `in_base` is whether the paths
/// are those of the base, and known to lie below `/var`.
pub(super) fn findings(paths: &[String], in_base: bool) -> Vec<Finding> {
    if paths.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "{UNIT} brings these paths to machines before sysinit.target, from their copies in {FOLDER}"
    );
    let unit = Finding::new("var-files-unit", message).object(UNIT);
    let files = paths.iter().map(|path| {
        let unsure = if in_base { "" } else { ", if it lies below /var in the base" };
        let message = format!(
            "{path} reaches machines at the next boot{unsure}: it is written where it is absent or as mosb wrote it last"
        );
        Finding::new("var-file", message).path(path.clone())
    });
    [unit].into_iter().chain(files).collect()
}

/// The files with which `collect` runs in a build of buildah, by their names: `collect`, what it
/// puts into the image, and the paths that it looks for.
pub(crate) fn collect_files(paths: &[String]) -> Vec<(&'static str, String)> {
    let lines = paths.iter().flat_map(|path| [path.as_str(), "\n"]).collect();
    vec![
        ("apply", APPLY.to_owned()),
        ("collect", COLLECT.to_owned()),
        (UNIT, UNIT_FILE.to_owned()),
        ("paths", lines),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_a_base_can_have_below_var() {
        for (path, want) in [
            ("/var/lib/x", true),
            ("/var/x", true),
            ("/usr/local/bin/x", true),
            ("/opt/x", true),
            ("/home/core/.bashrc", true),
            ("/root/x", true),
            ("/srv/x", true),
            ("/mnt/x", true),
            ("/data/x", true),
            ("/var", false),
            ("/opt", false),
            ("/usr/local", false),
            ("/usr/lib/x", false),
            ("/etc/opt/x", false),
            ("/run/x", false),
            ("/boot/x", false),
        ] {
            assert_eq!(may_lie_below_var(path), want, "{path}");
        }
    }

    #[test]
    fn what_line_cant_hold_is_refused_by_name() {
        let config = json!({ "ignition": { "version": "3.5.0" }, "storage": {
            "files": [{ "path": "/opt/b" }, { "path": "/opt/a b/ü" }, { "path": "/opt/line\nbreak" },
                { "path": "/opt/blank " }, { "path": "/opt/blank /x" }, { "path": "/etc/line\nbreak" }],
            "directories": [{ "path": "/var/.mosb-var-files.new" }, { "path": "/var/a" }],
            "links": [{ "path": "/opt/link", "target": "a\tb" }, { "path": "/opt/other", "target": "a b " }],
        } });
        let found = VarPaths::of(&mosb_ignition::parse(&config).unwrap().config);
        assert_eq!(found.paths, ["/opt/a b/ü", "/opt/b", "/opt/other", "/var/a"]);
        let refused: Vec<_> =
            found.refused.iter().map(|one| one.path.as_deref().unwrap()).collect();
        let want = [
            "/opt/line\\nbreak",
            "/opt/blank ",
            "/opt/blank /x",
            "/var/.mosb-var-files.new",
            "/opt/link",
        ];
        assert_eq!(refused, want);
    }

    #[test]
    fn line_is_what_shell_makes_of_the_path() {
        let digest = Digest::of(b"x");
        let meta = Meta { mode: 0o4755, uid: 0, gid: 7 };
        let path: TreePath = "/var/a b".parse().unwrap();
        for (kind, want) in [
            (VarFileKind::Directory, "d 4755 0 7 - /var/a b".to_owned()),
            (VarFileKind::File(digest), format!("f 4755 0 7 {} /var/a b", digest.hex())),
            (VarFileKind::Symlink(digest), format!("l 4755 0 7 {} /var/a b", digest.hex())),
        ] {
            assert_eq!(VarFile { kind, meta, path: path.clone() }.to_string(), want);
        }
    }
}
