//! Resolves paths as the kernel does in a chroot of the base, and as Ignition does before it writes.

use super::{Applier, ApplyError};
use mosb_image::overlay::{Node, Overlay};
use mosb_image::path::TreePath;
use mosb_image::tree::{BaseTree, Kind};

/// The kernel's limit of links in one path.
const MAX_LINKS: usize = 40;

/// Why a path can't be resolved.
#[derive(Debug)]
pub(super) enum PathError {
    NotADirectory(TreePath),
    Dangling(TreePath),
    Loop,
}

impl PathError {
    pub(super) fn of(self, path: &str) -> ApplyError {
        let path = path.to_owned();
        match self {
            Self::NotADirectory(parent) => ApplyError::NotADirectory { path, parent },
            Self::Dangling(link) => ApplyError::DanglingLink { path, link },
            Self::Loop => ApplyError::LinkLoop { path },
        }
    }
}

/// Resolves all links of a path, including the last component; `None` if nothing exists there.
pub(super) fn real(tree: &Overlay<'_>, path: &str) -> Result<Option<TreePath>, PathError> {
    let mut at = TreePath::root();
    let mut rest: Vec<String> = components(path);
    let mut links = 0;
    while let Some(component) = rest.pop() {
        let Some(here) = tree.get(&at) else {
            return Ok(None);
        };
        if here.kind != Kind::Directory {
            return Err(PathError::NotADirectory(at));
        }
        if component == ".." {
            at = at.parent().unwrap_or_default();
            continue;
        }
        let Ok(next) = at.join(&component) else {
            continue;
        };
        let Some(found) = tree.get(&next) else {
            // Nothing can exist below a missing component.
            return Ok(None);
        };
        match (found.kind, found.target) {
            (Kind::Symlink, Some(target)) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(PathError::Loop);
                }
                if target.starts_with('/') {
                    at = TreePath::root();
                }
                rest.extend(components(&target));
            }
            (Kind::Symlink, None) => return Ok(None),
            (Kind::Directory | Kind::File | Kind::Other, _) => at = next,
        }
    }
    Ok(Some(at))
}

/// The components of a text, last first, without empty ones and `.`.
fn components(path: &str) -> Vec<String> {
    path.split('/').rev().filter(|c| !matches!(*c, "" | ".")).map(str::to_owned).collect()
}

/// Takes `.` and `..` out of a text alone, as Go's `filepath.Clean` does with an absolute path.
fn clean(path: &str) -> TreePath {
    let mut at = TreePath::root();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => at = at.parent().unwrap_or_default(),
            name => at = at.join(name).unwrap_or(at),
        }
    }
    at
}

/// The path at which Ignition writes an entry: each parent that is a link is replaced by that link's
/// target, and the last component is never followed. The kernel resolves links to links.
pub(super) fn join_path(tree: &Overlay<'_>, path: &str) -> Result<TreePath, PathError> {
    let path = clean(path);
    let Some(parent) = path.parent() else {
        return Ok(path);
    };
    // The path as Ignition computes it, and the kernel's real path of it, if that exists.
    let mut at = TreePath::root();
    let mut here = Ok(Some(TreePath::root()));
    for component in parent.components() {
        let exact = match here? {
            Some(here) => match tree.get(&here) {
                Some(found) if found.kind == Kind::Directory => here.join(component).ok(),
                Some(_) => return Err(PathError::NotADirectory(here)),
                None => None,
            },
            None => None,
        };
        let found = exact.as_ref().and_then(|exact| tree.get(exact));
        let next = at.join(component).unwrap_or_default();
        (at, here) = match found.map(|found| (found.kind, found.target)) {
            Some((Kind::Symlink, Some(target))) => {
                let to = if target.starts_with('/') {
                    clean(&target)
                } else {
                    clean(&format!("{at}/{target}"))
                };
                let here = real(tree, &to.to_string());
                (to, here)
            }
            Some((Kind::Symlink, None)) | None => (next, Ok(None)),
            Some((Kind::Directory | Kind::File | Kind::Other, _)) => (next, Ok(exact)),
        };
    }
    Ok(at.join(path.name()).unwrap_or(at))
}

/// Where Ignition writes an entry on a base, through all links; a path that can't be resolved is as it is
/// written. What is missing is made.
pub(in crate::plan) fn real_path(base: &BaseTree, path: &str) -> String {
    let tree = Overlay::new(base);
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match join_path(&tree, &path).map(|next| next.to_string()) {
            Ok(next) if next != path => path = next,
            Ok(_) | Err(_) => break,
        }
    }
    path
}

/// Resolves the links of the parents, but not the last component; `None` if a parent does not exist.
pub(super) fn exact(tree: &Overlay<'_>, path: &TreePath) -> Result<Option<TreePath>, PathError> {
    let Some(parent) = path.parent() else {
        return Ok(Some(path.clone()));
    };
    let Some(parent) = real(tree, &parent.to_string())? else {
        return Ok(None);
    };
    match tree.get(&parent) {
        Some(found) if found.kind == Kind::Directory => Ok(parent.join(path.name()).ok()),
        Some(_) => Err(PathError::NotADirectory(parent)),
        None => Ok(None),
    }
}

impl Applier<'_> {
    /// Creates a directory and its parents, as `mkdir -p` of root does, and returns its real path.
    pub(super) fn mkdir_all(&mut self, path: &TreePath) -> Result<TreePath, PathError> {
        if let Some(real) = real(&self.tree, &path.to_string())? {
            return match self.tree.get(&real) {
                Some(found) if found.kind == Kind::Directory => Ok(real),
                _ => Err(PathError::NotADirectory(real)),
            };
        }
        let mut at = TreePath::root();
        for component in path.components() {
            let next = at.join(component).unwrap_or_default();
            at = match self.tree.get(&next).map(|found| found.kind) {
                None => {
                    let meta = self.inherit_ownership(&at, 0o755, true);
                    self.tree.put(next.clone(), Node::Directory { meta });
                    next
                }
                Some(Kind::Directory) => next,
                Some(Kind::File | Kind::Other) => return Err(PathError::NotADirectory(next)),
                Some(Kind::Symlink) => match real(&self.tree, &next.to_string())? {
                    Some(real) => real,
                    None => return Err(PathError::Dangling(next)),
                },
            };
        }
        Ok(at)
    }

    /// The real path of an entry of the config; creates its parents.
    pub(super) fn place(&mut self, path: &TreePath) -> Result<TreePath, PathError> {
        let Some(parent) = path.parent() else {
            return Ok(path.clone());
        };
        let parent = self.mkdir_all(&parent)?;
        Ok(parent.join(path.name()).unwrap_or(parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::tree::OwnedEntry;

    fn base() -> BaseTree {
        let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
        BaseTree::from_entries([
            entry("var/usrlocal", OwnedEntry::directory(0o755)),
            entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
            entry("one", OwnedEntry::symlink("two")),
            entry("two", OwnedEntry::symlink("/usr/local/../../etc")),
            entry("etc/file", OwnedEntry::file(b"")),
            entry("loop", OwnedEntry::symlink("pool")),
            entry("pool", OwnedEntry::symlink("loop")),
            entry("gone", OwnedEntry::symlink("var/none")),
        ])
    }

    #[test]
    fn the_kernel_follows_every_link() {
        let base = base();
        let tree = Overlay::new(&base);
        for (path, want) in [
            ("/usr/local", Some("/var/usrlocal")),
            ("/one/file", Some("/etc/file")),
            ("/usr/local/..", Some("/var")),
            ("/../../etc", Some("/etc")),
            ("/gone", None),
            ("/none/..", None),
            ("/", Some("/")),
        ] {
            let got = real(&tree, path).unwrap().map(|p| p.to_string());
            assert_eq!(got.as_deref(), want, "{path}");
        }
        assert!(matches!(real(&tree, "/loop/x"), Err(PathError::Loop)));
        assert!(matches!(real(&tree, "/etc/file/x"), Err(PathError::NotADirectory(_))));
    }

    #[test]
    fn ignition_follows_one_link_a_component_and_never_the_last() {
        let base = base();
        let tree = Overlay::new(&base);
        for (path, want) in [
            ("/usr/local/bin/x", "/var/usrlocal/bin/x"),
            ("/usr/local", "/usr/local"),
            ("/one/x", "/two/x"),
            ("/gone/a/x", "/var/none/a/x"),
            ("/none/x", "/none/x"),
        ] {
            assert_eq!(join_path(&tree, path).unwrap().to_string(), want, "{path}");
        }
        assert!(matches!(join_path(&tree, "/etc/file/a/x"), Err(PathError::NotADirectory(_))));
    }

    #[test]
    fn a_real_path_follows_links_that_lead_nowhere_yet() {
        for (path, want) in [
            ("/usr/local/bin/x", "/var/usrlocal/bin/x"),
            ("/one/x", "/etc/x"),
            ("/gone/a/x", "/var/none/a/x"),
            ("/gone", "/gone"),
            ("/loop/x", "/loop/x"),
            ("/etc/file/a/x", "/etc/file/a/x"),
        ] {
            assert_eq!(real_path(&base(), path), want, "{path}");
        }
    }
}
