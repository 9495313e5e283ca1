//! Files over which a build container mounts its own while a step runs: nothing that runs can write
//! them.

use mosb_ignition::{Config, Owner};

/// The files, all in `/etc`.
const NAMES: [&str; 3] = ["hostname", "hosts", "resolv.conf"];
/// Bytes of such a file; those of a whole rendered config are fewer, unless they are compressed.
const LIMIT: u64 = 16 * 1024 * 1024;

/// One of these files as a config wants it: a Containerfile copies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Its name in `/etc`.
    pub name: &'static str,
    /// The node there.
    pub what: MountedAs,
}

/// What a config wants at such a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountedAs {
    File {
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
        /// The owner; unsaid is root.
        user: Owner,
        /// The group; unsaid is root.
        group: Owner,
    },
    /// A symbolic link of root.
    Link {
        /// Where it points, as it is written.
        target: String,
    },
}

/// What such a file can't be in a Containerfile build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}: a build container has its own file there, so {problem} in a Containerfile build; give the file whole, with contents, owned by root"
)]
pub struct MountedError {
    pub path: String,
    /// What isn't possible.
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

/// What a config wants at these paths.
///
/// # Errors
/// Something that can't be copied: an append, another mode or owner for what the base has, a hard
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
