//! A table of configs on a small base. The tests in `tests/` compare with the real Ignition; this
//! table contains its observed results.

mod commit;
mod entries;
mod rejections;
mod small_files;
mod units;
mod var_files;

use serde_json::{Value, json};

use super::*;
use mosb_image::Digest;
use mosb_image::overlay::{Content, LayerEntry};
use mosb_image::tree::OwnedEntry;

fn base() -> BaseTree {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    let unknown = |size| OwnedEntry { content: None, size, ..OwnedEntry::file(b"") };
    BaseTree::from_entries([
        entry("etc", OwnedEntry::directory(0o755)),
        entry("etc/passwd", OwnedEntry::file(b"root:x:0:0::/root:/bin/sh\ncore:x:1000:1000::/:\n")),
        entry("etc/group", OwnedEntry::file(b"root:x:0:\nwheel:x:10:core\n")),
        entry("usr/lib/passwd", OwnedEntry::file(b"chrony:x:992:992::/:\n")),
        entry("etc/motd", unknown(5)),
        entry(
            "etc/issue",
            OwnedEntry { mode: 0o4710, uid: 3, gid: 4, ..OwnedEntry::file(b"base ") },
        ),
        entry("etc/secret", OwnedEntry { mode: 0o600, ..OwnedEntry::file(b"secret") }),
        entry("etc/sudoers.d", OwnedEntry::directory(0o750)),
        entry("etc/shared", OwnedEntry { gid: 10, ..OwnedEntry::directory(0o2775) }),
        entry("etc/alias", OwnedEntry::symlink("motd")),
        entry("etc/nowhere", OwnedEntry::symlink("none")),
        entry("etc/systemd/system/masked.service", OwnedEntry::symlink("/dev/null")),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("var/usrlocal/bin", OwnedEntry::directory(0o755)),
        entry("tmp", OwnedEntry::directory(0o1777)),
        entry("usr/bin/systemctl", unknown(1)),
        entry("usr/lib/systemd/libsystemd-shared-257.so", unknown(1)),
        entry("opt/tree/a", unknown(1)),
        entry("opt/tree/b", unknown(1)),
    ])
}

fn applied(base: &BaseTree, storage: Value, units: Value) -> Result<Applied<'_>, ApplyError> {
    let config = json!({
        "ignition": { "version": "3.5.0" }, "storage": storage, "systemd": { "units": units },
    });
    let config = mosb_ignition::parse(&config).unwrap().config;
    apply(base, Some(&config), Bytes::from_static(b"{}"), Additions::default(), true)
}

/// The layer without the config's own file, one entry a line.
fn lines(applied: &Applied<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for entry in applied.tree.layer() {
        let line = match &entry {
            LayerEntry::Parent(path, meta) => {
                format!("= {path} {:o} {}:{}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Whiteout(path) => format!("- {path}"),
            LayerEntry::Put(path, Node::Directory { meta }) => {
                format!("d {path} {:o} {}:{}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::File { meta, content }) => {
                let text = String::from_utf8_lossy(content).trim_end().to_owned();
                format!("f {path} {:o} {}:{} {text}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::Symlink { meta, target }) => {
                format!("l {path} {target} {}:{}", meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::Hardlink { to }) => format!("h {path} {to}"),
        };
        if !line.contains("/machine-config-daemon") {
            lines.push(line);
        }
    }
    lines.retain(|line| {
        line != "= /etc 755 0:0"
            && line != "= /etc/systemd 755 0:0"
            && line != "= /etc/systemd/system 755 0:0"
    });
    lines
}
