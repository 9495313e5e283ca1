//! What Ignition and systemd wrote into `/etc` of a machine that was installed from a config: the
//! same as a build puts into an image, for each entry by itself. A machine has no reason to refuse a
//! whole config, so an entry that can't be decided is left out, with a finding.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::entries::Entry;
use super::paths::Paths;
use super::units::PRESET_FILE;
use super::{Applier, ApplyError, TOTAL_LIMIT};
use mosb_ignition as ignition;
use mosb_image::overlay::{Content, LayerEntry, Meta, Node, Overlay};
use mosb_image::path::TreePath;
use mosb_image::tree::BaseTree;
use mosb_types::Finding;

const ETC: &str = "/etc/";

/// What a config left below `/etc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenEtc {
    pub entries: BTreeMap<TreePath, WrittenEntry>,
    /// Entries and units about which nothing is known, and why.
    pub undecided: Vec<Finding>,
}

/// What a config left at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrittenEntry {
    File {
        meta: Meta,
        content: Bytes,
        /// Whether the order of its lines differs from machine to machine, as in Ignition's list of
        /// presets.
        unordered: bool,
    },
    Directory {
        meta: Meta,
    },
    Link {
        meta: Meta,
        target: String,
    },
    /// What the image has there was removed: the link of a unit that is disabled, for example.
    Removed,
}

/// What a config left below `/etc` of a machine with this `/etc` and `/usr`. Files and links of the
/// image don't stop it, because the image may be a later one that has the config already.
///
/// # Errors
/// An Ignition config that can't be read.
pub fn written_to_etc(base: &BaseTree, config: &Value) -> Result<WrittenEtc, ignition::Error> {
    let config = ignition::parse(config)?.config;
    let mut applier = Applier {
        tree: Overlay::new(base),
        paths: Paths::default(),
        reasons: Vec::new(),
        warnings: Vec::new(),
        left: TOTAL_LIMIT,
    };
    let preset_file: TreePath = PRESET_FILE.parse().expect("a clean path");
    // Ignition made it, in an earlier image if not on the machine.
    applier.tree.remove(&preset_file);
    let mut undecided = applier.lenient_entries(&config.storage);
    if let Err(error) = applier.units(&config.systemd) {
        undecided.push(Finding::new("undecided", error.to_string()).path("systemd.units"));
    }
    applier.presets(&config.systemd);
    if applier.tree.get(&preset_file).is_none() {
        applier.tree.withdraw(&preset_file);
    }
    let reasons = applier.reasons.iter().map(|reason| {
        let Finding { message, .. } = reason.finding();
        Finding::new("undecided", message)
    });
    undecided.extend(reasons);
    Ok(WrittenEtc { entries: written(&applier.tree), undecided })
}

fn written(tree: &Overlay<'_>) -> BTreeMap<TreePath, WrittenEntry> {
    let mut entries = BTreeMap::new();
    for entry in tree.layer() {
        if !entry.path().to_string().starts_with(ETC) {
            continue;
        }
        match entry {
            // A whiteout comes before what replaces it.
            LayerEntry::Whiteout(path) => drop(entries.insert(path, WrittenEntry::Removed)),
            LayerEntry::Put(path, node) => {
                if let Some(written) = written_entry(tree, &path, node) {
                    entries.insert(path, written);
                }
            }
            LayerEntry::Parent(..) => {}
        }
    }
    entries
}

fn written_entry(tree: &Overlay<'_>, path: &TreePath, node: Node) -> Option<WrittenEntry> {
    let unordered = path.to_string() == PRESET_FILE;
    Some(match node {
        Node::File { meta, content } => WrittenEntry::File { meta, content, unordered },
        Node::Directory { meta } => WrittenEntry::Directory { meta },
        Node::Symlink { meta, target } => WrittenEntry::Link { meta, target },
        Node::Hardlink { .. } => match (tree.get(path), tree.content(path)) {
            (Some(found), Content::Known(content)) => {
                WrittenEntry::File { meta: found.meta, content, unordered }
            }
            _ => return None,
        },
    })
}

impl Applier<'_> {
    /// Makes those entries of a config that lie below `/etc`; those that can't be made are returned.
    fn lenient_entries(&mut self, storage: &ignition::Storage) -> Vec<Finding> {
        let mut storage = storage.clone();
        for file in &mut storage.files {
            file.overwrite = Some(file.contents.is_some() || file.overwrite == Some(true));
        }
        for link in &mut storage.links {
            link.overwrite = Some(true);
        }
        let directories = storage.directories.iter().map(Entry::Directory);
        let files = storage.files.iter().map(Entry::File);
        let links = storage.links.iter().map(Entry::Link);
        let mut undecided = Vec::new();
        let mut refuse = |path: &str, error: ApplyError| {
            undecided.push(Finding::new("undecided", error.to_string()).path(path));
        };
        let mut entries = Vec::new();
        for entry in directories.chain(files).chain(links) {
            if !entry.path().starts_with(ETC) {
                continue;
            }
            match self.paths.join(&self.tree, entry.path()) {
                Ok(at) => entries.push((at, entry)),
                Err(stop) => refuse(entry.path(), stop.of(entry.path())),
            }
        }
        entries.sort_by_key(|(at, entry)| entry.order(at));
        for (at, entry) in entries {
            if let Err(error) = self.entry(&at, &entry) {
                refuse(entry.path(), error);
            }
        }
        undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::tree::OwnedEntry;
    use serde_json::json;

    fn base() -> BaseTree {
        let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
        let unit = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
        let wants = "etc/systemd/system/multi-user.target.wants";
        BaseTree::from_entries([
            entry("etc/passwd", OwnedEntry::file(b"core:x:1000:1000::/:\n")),
            entry("etc/group", OwnedEntry::file(b"wheel:x:10:core\n")),
            entry("etc/motd", OwnedEntry::file(b"base\n")),
            entry("etc/os-release", OwnedEntry::symlink("../usr/lib/os-release")),
            entry("etc/folder/inside", OwnedEntry::file(b"")),
            entry(
                "etc/systemd/system-preset/20-ignition.preset",
                OwnedEntry::file(b"enable other.service\n"),
            ),
            entry("usr/lib/systemd/system/base.service", OwnedEntry::file(unit)),
            entry(
                &format!("{wants}/base.service"),
                OwnedEntry::symlink("/usr/lib/systemd/system/base.service"),
            ),
            entry("usr/bin/systemctl", OwnedEntry::file(b"")),
            entry("usr/lib/systemd/libsystemd-shared-257.so", OwnedEntry::file(b"")),
        ])
    }

    fn lines(written: &WrittenEtc) -> Vec<String> {
        let owner = |meta: &Meta| format!("{:o} {}:{}", meta.mode, meta.uid, meta.gid);
        let entries = written.entries.iter().map(|(path, entry)| match entry {
            WrittenEntry::File { meta, content, unordered } => {
                let content = String::from_utf8_lossy(content).trim_end().replace('\n', "|");
                let order = if *unordered { " unordered" } else { "" };
                format!("f {path} {} {content}{order}", owner(meta))
            }
            WrittenEntry::Directory { meta } => format!("d {path} {}", owner(meta)),
            WrittenEntry::Link { meta, target } => {
                format!("l {path} {target} {}:{}", meta.uid, meta.gid)
            }
            WrittenEntry::Removed => format!("- {path}"),
        });
        entries.collect()
    }

    #[test]
    fn entries_equal_those_of_ignition_and_systemd() {
        let base = base();
        let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
        let config = json!({
            "ignition": { "version": "3.4.0" },
            "storage": {
                "files": [
                    { "path": "/etc/motd", "mode": 0o640, "user": { "name": "core" },
                      "contents": { "source": "data:,mine" } },
                    { "path": "/etc/new/file", "contents": { "source": "data:,new" } },
                    { "path": "/usr/local/bin/x", "contents": { "source": "data:,x" } },
                    { "path": "/etc/folder", "contents": { "source": "data:,x" } },
                    { "path": "/etc/unknown", "user": { "name": "nobody" } },
                ],
                "directories": [{ "path": "/etc/made", "mode": 0o700, "group": { "name": "wheel" } }],
                "links": [
                    { "path": "/etc/link", "target": "motd" },
                    { "path": "/etc/hard", "target": "/etc/new/file", "hard": true },
                ],
            },
            "systemd": { "units": [
                { "name": "own.service", "enabled": true, "contents": unit },
                { "name": "base.service", "enabled": false,
                  "dropins": [{ "name": "10-a.conf", "contents": "[Unit]\n" }] },
                { "name": "no.service", "mask": true },
            ] },
        });
        let written = written_to_etc(&base, &config).unwrap();
        let wants = "/etc/systemd/system/multi-user.target.wants";
        assert_eq!(
            lines(&written),
            [
                "f /etc/folder 644 0:0 x",
                "f /etc/hard 644 0:0 new",
                "l /etc/link motd 1000:0",
                "d /etc/made 700 0:10",
                "f /etc/motd 640 1000:0 mine",
                "d /etc/new 755 0:0",
                "f /etc/new/file 644 0:0 new",
                "f /etc/systemd/system-preset/20-ignition.preset 644 0:0 disable base.service|enable own.service unordered",
                "d /etc/systemd/system/base.service.d 755 0:0",
                "f /etc/systemd/system/base.service.d/10-a.conf 644 0:0 [Unit]",
                &format!("d {wants} 755 0:0"),
                &format!("- {wants}/base.service"),
                &format!("l {wants}/own.service /etc/systemd/system/own.service 0:0"),
                "l /etc/systemd/system/no.service /dev/null 0:0",
                "f /etc/systemd/system/own.service 644 0:0 [Service]|ExecStart=/bin/true|[Install]|WantedBy=multi-user.target",
            ]
        );
        let paths: Vec<_> = written.undecided.iter().map(|one| one.path.as_deref()).collect();
        assert_eq!(paths, [Some("/etc/unknown")], "{:?}", written.undecided);
    }

    #[test]
    fn image_that_has_config_changes_nothing_of_that() {
        let config = json!({
            "ignition": { "version": "3.4.0" },
            "storage": { "files": [{ "path": "/etc/motd", "contents": { "source": "data:,base%0A" } }] },
        });
        let written = written_to_etc(&base(), &config).unwrap();
        assert_eq!(lines(&written), ["f /etc/motd 644 0:0 base"]);
        let none = written_to_etc(&base(), &json!({ "ignition": { "version": "3.4.0" } })).unwrap();
        assert_eq!(none, WrittenEtc::default());
        assert!(written_to_etc(&base(), &json!({})).is_err());
    }
}
