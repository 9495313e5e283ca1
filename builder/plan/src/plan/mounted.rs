//! Files that are bind mounts in a build container, so that no `RUN` line can change those of the
//! image.

use mosb_ignition::{Config, Owner};

/// Names of the files in `/etc`.
const NAMES: [&str; 3] = ["hostname", "hosts", "resolv.conf"];
/// Most bytes of such a file. Only compressed contents can be larger: a rendered config is smaller.
const LIMIT: u64 = 16 * 1024 * 1024;

/// One of these files in a config. A Containerfile copies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The name in `/etc`.
    pub name: &'static str,
    pub what: MountedAs,
}

/// The node that a config sets at such a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountedAs {
    File {
        content: Vec<u8>,
        mode: u32,
        /// Default: root.
        user: Owner,
        /// Default: root.
        group: Owner,
    },
    /// A symbolic link, owned by root.
    Link {
        /// As it is written.
        target: String,
    },
}

/// Why a Containerfile build can't set such a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}: a build container has its own file there, so {problem} in a Containerfile build; give the file whole, with contents, owned by root"
)]
pub struct MountedError {
    pub path: String,
    pub problem: &'static str,
}

impl Mounted {
    /// Its path in the image.
    pub fn path(&self) -> String {
        path(self.name)
    }
}

fn path(name: &str) -> String {
    format!("/etc/{name}")
}

/// The nodes that a config sets at these paths.
///
/// # Errors
/// An entry that can't be copied: an append, another mode or owner for a file of the base, a hard
/// link, a directory.
pub fn mounted(config: &Config) -> Result<Vec<Mounted>, MountedError> {
    let storage = &config.storage;
    let mut found = Vec::new();
    for name in NAMES {
        let path = path(name);
        let refuse = |problem| MountedError { path: path.clone(), problem };
        if storage.directories.iter().any(|directory| directory.path == path) {
            return Err(refuse("it can't become a directory"));
        }
        if let Some(link) = storage.links.iter().find(|link| link.path == path) {
            let root = |owner: &Owner| matches!(owner, Owner::Unset | Owner::Id(0));
            if link.hard || !root(&link.user) || !root(&link.group) {
                return Err(refuse("it can't become a hard link or another's link"));
            }
            found.push(Mounted { name, what: MountedAs::Link { target: link.target.clone() } });
        }
        if let Some(file) = storage.files.iter().find(|file| file.path == path) {
            let contents = file.contents.as_ref().filter(|contents| contents.source.is_some());
            let (Some(contents), true) = (contents, file.append.is_empty()) else {
                return Err(refuse("nothing can be appended and no mode or owner changed"));
            };
            let content = contents
                .bytes(LIMIT)
                .map_err(|_| refuse("contents that can't be read can't be copied"))?;
            found.push(Mounted {
                name,
                what: MountedAs::File {
                    content: content.to_vec(),
                    mode: file.mode.unwrap_or(0o644),
                    user: file.user.clone(),
                    group: file.group.clone(),
                },
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(storage: Value) -> Result<Vec<Mounted>, MountedError> {
        let config = json!({ "ignition": { "version": "3.5.0" }, "storage": storage });
        mounted(&mosb_ignition::parse(&config).unwrap().config)
    }

    #[test]
    fn only_what_can_be_copied_whole() {
        let source = json!({ "source": "data:,x" });
        let file = |path: &str| json!({ "path": path, "contents": source, "mode": 0o600, "overwrite": true });
        for (what, storage, want) in [
            ("none", json!({ "files": [file("/etc/hosts.d"), file("/hosts")] }), Some(0)),
            (
                "file and link",
                json!({ "files": [file("/etc/hosts")], "links": [{ "path": "/etc/resolv.conf", "target": "../run/x" }] }),
                Some(2),
            ),
            ("append", json!({ "files": [{ "path": "/etc/hosts", "append": [source] }] }), None),
            ("mode only", json!({ "files": [{ "path": "/etc/hosts", "mode": 0o600 }] }), None),
            ("directory", json!({ "directories": [{ "path": "/etc/hosts" }] }), None),
            (
                "hard link",
                json!({ "links": [{ "path": "/etc/hosts", "target": "/a", "hard": true }] }),
                None,
            ),
        ] {
            assert_eq!(of(storage).ok().map(|found| found.len()), want, "{what}");
        }
    }
}
