//! The section `storage`: files, directories and links, each by itself; [`super::places`] compares
//! them.

use super::config::{Directory, File, Link, Owner, Storage};
use super::content::Resource;
use super::object::Object;
use super::version::SpecVersion;
use super::{disks, resource};
use crate::places::check_path;

/// Longest name of a file on Linux, `NAME_MAX`.
pub(super) const NAME_MAX: usize = 255;
/// The prefix of a whiteout's name (OCI image spec, layer): no file in an image can have such a
/// name.
pub(super) const WHITEOUT: &str = ".wh.";
/// Longest path, `PATH_MAX` without its NUL.
const PATH_MAX: usize = 4095;

pub(super) fn read(root: &Object<'_, '_>) -> Storage {
    let storage = root.object("storage");
    Storage {
        directories: storage.each("directories", directory),
        files: storage.each("files", file),
        links: storage.each("links", link),
        disks: storage.each("disks", disks::disk),
        raid: storage.each("raid", disks::raid),
        filesystems: storage.each("filesystems", disks::filesystem),
        luks: storage.each("luks", disks::luks),
    }
}

fn file(o: &Object<'_, '_>) -> File {
    let path = node_path(o, true);
    let (user, group) = (owner(o, "user"), owner(o, "group"));
    let mode = mode(o, Node::File);
    let contents = resource::read(&o.object("contents"), o.remote());
    let append = o.each("append", append);
    let overwrite = o.bool("overwrite");
    if o.is_readable() && overwrite == Some(true) && contents.source.is_none() {
        let message = "the file would be replaced by nothing; give contents (an empty source for an empty file), or no overwrite";
        o.problem("overwrite", "overwrite-without-contents", message);
    }
    let contents = contents.source.is_some().then_some(contents);
    File { path, overwrite, mode, user, group, contents, append }
}

fn append(o: &Object<'_, '_>) -> Resource {
    let resource = resource::read(o, o.remote());
    if o.is_readable() && resource.source.is_none() {
        o.problem(
            "source",
            "append-without-source",
            "there is nothing to append; give a data URL, or remove the entry",
        );
    }
    resource
}

fn directory(o: &Object<'_, '_>) -> Directory {
    Directory {
        path: node_path(o, false),
        overwrite: o.bool("overwrite"),
        mode: mode(o, Node::Directory),
        user: owner(o, "user"),
        group: owner(o, "group"),
    }
}

fn link(o: &Object<'_, '_>) -> Link {
    let path = node_path(o, true);
    let (overwrite, hard) = (o.bool("overwrite"), o.bool("hard").unwrap_or(false));
    let (user, group) = (owner(o, "user"), owner(o, "group"));
    let target = o.text("target").unwrap_or_default();
    if o.is_readable() {
        if target.is_empty() {
            let code = if o.version() < SpecVersion::V3_3 { "unusable-link" } else { "bad-link" };
            o.problem("target", code, "a link needs a target");
        } else if target.contains('\0') {
            o.problem("target", "unusable-link", "no path can hold a NUL character");
        } else if target.len() > PATH_MAX {
            o.problem("target", "unusable-link", "no path can be longer than 4095 bytes");
        }
    }
    Link { path, overwrite, user, group, target: target.to_owned(), hard }
}

/// The path of a node. Only a directory can be at `/`.
fn node_path(o: &Object<'_, '_>, may_not_be_root: bool) -> String {
    if !o.can_read("path") {
        return String::new();
    }
    let path = o.text("path").unwrap_or_default();
    if let Err(message) = check_path(path) {
        o.problem("path", "bad-path", message);
    } else if may_not_be_root && path == "/" {
        o.problem("path", "unusable-path", "the root is a directory and stays one");
    } else if path.contains('\0') {
        o.problem("path", "unusable-path", "no path can hold a NUL character");
    } else if path.len() > PATH_MAX || path.split('/').any(|name| name.len() > NAME_MAX) {
        o.problem(
            "path",
            "unusable-path",
            "no name can be longer than 255 bytes, no path longer than 4095",
        );
    } else if path.split('/').any(|name| name.starts_with(WHITEOUT)) {
        let message = "a name that begins with `.wh.` takes another path away in a layer of an image; give it another name";
        o.problem("path", "unusable-path", message);
    }
    path.to_owned()
}

/// What a mode is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    File,
    Directory,
}

fn mode(o: &Object<'_, '_>, node: Node) -> Option<u32> {
    let given = o.integer("mode")?;
    let Some(mode) = u32::try_from(given).ok().filter(|mode| *mode <= 0o7777) else {
        let meant = u32::try_from(given).ok().and_then(|mode| meant_as_octal(mode, node));
        let meant = meant.map(|octal| {
            format!(
                "; if octal {octal:03o} is meant, write 0{octal:03o} in YAML or {octal} in JSON"
            )
        });
        let message = format!(
            "{given} is not a mode; give 0 to 4095, which is octal 7777, in decimal{}",
            meant.unwrap_or_default()
        );
        o.problem("mode", "bad-mode", message);
        return None;
    };
    let meant = meant_as_octal(mode, node);
    if let Some(octal) = meant {
        let message = format!(
            "{mode} is decimal, and octal {mode:04o}; if octal {octal:03o} is meant, write 0{octal:03o} in YAML or {octal} in JSON"
        );
        o.warn("mode", "decimal-mode", message);
    }
    if o.version() >= SpecVersion::V3_6 {
        return Some(mode);
    }
    if mode > 0o777 && meant.is_none() {
        let message = format!(
            "spec {} drops setuid, setgid and sticky: octal {mode:o} becomes {:o}; on a directory that has one, it is lost; spec 3.6.0 keeps them",
            o.version(),
            mode & 0o777
        );
        o.warn("mode", "special-mode-bits", message);
    }
    Some(mode & 0o777)
}

/// The octal mode that the decimal digits spell, if that is a usual mode and this one is not: an
/// octal mode whose leading zero is missing. The rules are those of Butane.
fn meant_as_octal(mode: u32, node: Node) -> Option<u32> {
    let octal = u32::from_str_radix(&mode.to_string(), 8).ok()?;
    (!is_usual_mode(mode, node) && is_usual_mode(octal, node)).then_some(octal)
}

/// Whether nobody would wonder about this mode.
fn is_usual_mode(mode: u32, node: Node) -> bool {
    if mode == 0 {
        return true;
    }
    // What others may do, those before them may too; for no one, writing or executing without
    // reading, or reading alone where others execute.
    let mut lower = 0;
    for class in [mode & 7, mode >> 3 & 7, mode >> 6 & 7] {
        let (read, execute) = (class & 4 != 0, class & 1 != 0);
        let is_odd = class & lower != lower
            || (execute && lower & 4 != 0 && lower & 1 == 0)
            || (class != 0 && !read);
        if is_odd {
            return false;
        }
        lower |= class;
    }
    let (anyone_writes, anyone_executes) = (lower & 2 != 0, lower & 1 != 0);
    lower & 4 != 0
        && match node {
            Node::File => mode & 0o1000 == 0 && (mode & 0o6000 == 0 || anyone_executes),
            Node::Directory => {
                anyone_executes && mode & 0o4000 == 0 && (mode & 0o3000 == 0 || anyone_writes)
            }
        }
}

fn owner(o: &Object<'_, '_>, key: &'static str) -> Owner {
    let owner = o.object(key);
    let (id, name) = (owner.integer("id"), owner.text("name").filter(|name| !name.is_empty()));
    if id.is_some() && name.is_some() {
        owner.problem_here("bad-owner", "gives both an id and a name; keep one");
    }
    // For chown, the greatest number means "unchanged".
    let usable = id.map(|id| u32::try_from(id).ok().filter(|id| *id != u32::MAX));
    if usable == Some(None) {
        owner.problem("id", "unusable-owner", "must be 0 to 4294967294");
    }
    match (usable.flatten(), name) {
        (Some(id), _) => Owner::Id(id),
        (None, Some(name)) => Owner::Name(name.to_owned()),
        (None, None) => Owner::Unset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_modes_that_spell_octal_ones_are_known() {
        for (node, mode, want) in [
            (Node::File, 644, Some(0o644)),
            (Node::File, 755, Some(0o755)),
            (Node::File, 600, Some(0o600)),
            (Node::File, 640, Some(0o640)),
            (Node::File, 400, Some(0o400)),
            (Node::File, 440, Some(0o440)),
            (Node::File, 444, Some(0o444)),
            (Node::File, 777, Some(0o777)),
            (Node::File, 4755, Some(0o4755)),
            (Node::Directory, 755, Some(0o755)),
            (Node::Directory, 1777, Some(0o1777)),
            (Node::Directory, 644, None),
            (Node::File, 0, None),
            (Node::File, 0o644, None),
            (Node::File, 0o755, None),
            (Node::File, 0o600, None),
            (Node::File, 0o4755, None),
            (Node::Directory, 0o1777, None),
            (Node::Directory, 0o2775, None),
            (Node::Directory, 0o700, None),
        ] {
            assert_eq!(meant_as_octal(mode, node), want, "{mode}");
        }
    }
}
