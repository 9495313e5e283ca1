//! Resolves paths of a tree as a program in a chroot of it does: symbolic links are followed,
//! absolute ones from the root, and never lead out of it.

use std::collections::VecDeque;

use bytes::Bytes;

use mosb_image::TreePath;
use mosb_image::overlay::{Content, Found, Meta, Node, Overlay};
use mosb_image::tree::Kind;

use super::error::Unsupported;

/// The kernel's limit for links in one path.
const MAX_LINKS: usize = 40;

/// Whether the last component is followed if it is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalComponent {
    Follow,
    NoFollow,
}

/// The result of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathResolution {
    /// An existing path; it is a link only with [`FinalComponent::NoFollow`].
    Found(TreePath),
    /// A path that does not exist.
    Missing(TreePath),
    /// Through a file, or through `..` of a missing directory.
    Unreachable,
    Loop,
}

impl PathResolution {
    /// The path, existing or not.
    pub(super) fn path(self) -> Option<TreePath> {
        match self {
            Self::Found(path) | Self::Missing(path) => Some(path),
            Self::Unreachable | Self::Loop => None,
        }
    }

    /// The path, if it exists.
    pub(super) fn found(self) -> Option<TreePath> {
        match self {
            Self::Found(path) => Some(path),
            Self::Missing(_) | Self::Unreachable | Self::Loop => None,
        }
    }
}

/// Follows an absolute path.
pub(super) fn resolve_path(
    tree: &Overlay<'_>,
    path: &str,
    last: FinalComponent,
) -> Result<PathResolution, Unsupported> {
    let mut rest: VecDeque<String> = path.split('/').map(str::to_owned).collect();
    let mut at = TreePath::root();
    let mut links = 0;
    while let Some(component) = rest.pop_front() {
        match component.as_str() {
            "" | "." => continue,
            ".." => {
                at = at.parent().unwrap_or_default();
                continue;
            }
            _ => {}
        }
        let Ok(child) = at.join(&component) else {
            return Ok(PathResolution::Unreachable);
        };
        let ends_here = rest.iter().all(|c| matches!(c.as_str(), "" | "."));
        let Some(found) = tree.get(&child) else {
            return Ok(absent(child, &rest));
        };
        match found.kind {
            Kind::Symlink if !(ends_here && last == FinalComponent::NoFollow) => {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(PathResolution::Loop);
                }
                let target = found.target.ok_or(Unsupported::Path(child))?;
                if target.starts_with('/') {
                    at = TreePath::root();
                }
                for part in target.rsplit('/') {
                    rest.push_front(part.to_owned());
                }
            }
            Kind::Directory => at = child,
            Kind::File | Kind::Symlink | Kind::Other if ends_here => at = child,
            Kind::File | Kind::Symlink | Kind::Other => return Ok(PathResolution::Unreachable),
        }
    }
    Ok(PathResolution::Found(at))
}

fn absent(mut at: TreePath, rest: &VecDeque<String>) -> PathResolution {
    for component in rest.iter().filter(|c| !matches!(c.as_str(), "" | ".")) {
        match at.join(component) {
            Ok(below) => at = below,
            Err(_) => return PathResolution::Unreachable,
        }
    }
    PathResolution::Missing(at)
}

/// The absolute target of the link at `link`.
pub(super) fn absolute(link: &TreePath, target: &str) -> String {
    match (target.starts_with('/'), link.parent()) {
        (false, Some(parent)) => format!("{parent}/{target}"),
        (true, _) | (false, None) => target.to_owned(),
    }
}

/// The bytes of the regular file at exactly this path; `None` if there is none.
pub(super) fn read(tree: &Overlay<'_>, path: &TreePath) -> Result<Option<Bytes>, Unsupported> {
    match tree.content(path) {
        Content::Known(bytes) => Ok(Some(bytes)),
        Content::NotRetained => Err(Unsupported::Content(path.clone())),
        Content::NoFile => Ok(None),
    }
}

/// The directory that a path resolves to, if it is one.
pub(super) fn directory(
    tree: &Overlay<'_>,
    path: &TreePath,
) -> Result<Option<TreePath>, Unsupported> {
    let real = resolve_path(tree, &path.to_string(), FinalComponent::Follow)?.found();
    Ok(real.filter(|real| is_directory(tree, real)))
}

pub(super) fn is_directory(tree: &Overlay<'_>, path: &TreePath) -> bool {
    tree.get(path).is_some_and(|found| found.kind == Kind::Directory)
}

/// The entries of a directory, with their resolved paths.
pub(super) fn list(
    tree: &Overlay<'_>,
    path: &TreePath,
) -> Result<Vec<(TreePath, Found)>, Unsupported> {
    let Some(real) = directory(tree, path)? else {
        return Ok(Vec::new());
    };
    let named = tree.children(&real).into_iter().filter_map(|name| {
        let child = real.join(&name).ok()?;
        let found = tree.get(&child)?;
        Some((child, found))
    });
    Ok(named.collect())
}

/// Creates missing parent directories (0755, root) and returns the resolved path; `None` if a
/// parent is not a directory.
pub(super) fn make_parents(
    tree: &mut Overlay<'_>,
    path: &TreePath,
) -> Result<Option<TreePath>, Unsupported> {
    let mut real = TreePath::root();
    let parent = path.parent().unwrap_or_default();
    for component in parent.components() {
        let child = real.join(component).expect("a component of a path is a component");
        if tree.get(&child).is_none() {
            let meta = inherit_ownership(tree, &real, 0o755, true);
            tree.put(child.clone(), Node::Directory { meta });
        }
        match directory(tree, &child)? {
            Some(directory) => real = directory,
            None => return Ok(None),
        }
    }
    Ok(real.join(path.name()).ok())
}

/// Mode and owner of an entry that root creates in this directory: it inherits the group of a
/// set-gid directory.
pub(super) fn inherit_ownership(
    tree: &Overlay<'_>,
    parent: &TreePath,
    mode: u32,
    is_directory: bool,
) -> Meta {
    let set_gid = tree.get(parent).map(|found| found.meta).filter(|meta| meta.mode & 0o2000 != 0);
    let bit = if is_directory { 0o2000 } else { 0 };
    match set_gid {
        Some(Meta { gid, .. }) => Meta { mode: mode | bit, uid: 0, gid },
        None => Meta { mode, uid: 0, gid: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::tree::{BaseTree, OwnedEntry};

    #[test]
    fn links_are_followed_inside_the_root() {
        let link = |target: &str| OwnedEntry::symlink(target);
        let base = BaseTree::from_entries([
            (b"usr/lib/x".to_vec(), OwnedEntry::file(b"x")),
            (b"lib".to_vec(), link("usr/lib")),
            (b"etc/up".to_vec(), link("../../../lib/x")),
            (b"etc/gone".to_vec(), link("/nope/y")),
            (b"etc/a".to_vec(), link("b")),
            (b"etc/b".to_vec(), link("a")),
        ]);
        let tree = Overlay::new(&base);
        let path = |s: &str| s.parse::<TreePath>().unwrap();
        for (what, from, last, want) in [
            (
                "through a link",
                "/lib/x",
                FinalComponent::Follow,
                PathResolution::Found(path("/usr/lib/x")),
            ),
            (
                "up and out",
                "/etc/up",
                FinalComponent::Follow,
                PathResolution::Found(path("/usr/lib/x")),
            ),
            (
                "last kept",
                "/etc/up",
                FinalComponent::NoFollow,
                PathResolution::Found(path("/etc/up")),
            ),
            (
                "last kept, parent followed",
                "/lib/../lib/x",
                FinalComponent::NoFollow,
                PathResolution::Found(path("/usr/lib/x")),
            ),
            (
                "dangling",
                "/etc/gone",
                FinalComponent::Follow,
                PathResolution::Missing(path("/nope/y")),
            ),
            (
                "below nothing",
                "/nope/a/b",
                FinalComponent::NoFollow,
                PathResolution::Missing(path("/nope/a/b")),
            ),
            (
                "up from nothing",
                "/nope/../lib",
                FinalComponent::NoFollow,
                PathResolution::Unreachable,
            ),
            ("below a file", "/usr/lib/x/y", FinalComponent::NoFollow, PathResolution::Unreachable),
            ("loop", "/etc/a", FinalComponent::Follow, PathResolution::Loop),
        ] {
            assert_eq!(resolve_path(&tree, from, last), Ok(want), "{what}");
        }
    }

    #[test]
    fn missing_parents_are_made_where_the_links_lead() {
        let base = BaseTree::from_entries([
            (b"usr/etc".to_vec(), OwnedEntry { gid: 7, ..OwnedEntry::directory(0o2755) }),
            (b"etc".to_vec(), OwnedEntry::symlink("usr/etc")),
            (b"bad".to_vec(), OwnedEntry::symlink("nope")),
        ]);
        let mut tree = Overlay::new(&base);
        let path = |s: &str| s.parse::<TreePath>().unwrap();
        let real = make_parents(&mut tree, &path("/etc/systemd/x")).unwrap();
        assert_eq!(real, Some(path("/usr/etc/systemd/x")));
        let made = tree.get(&path("/usr/etc/systemd")).unwrap().meta;
        assert_eq!((made.mode, made.gid), (0o2755, 7));
        assert_eq!(make_parents(&mut tree, &path("/bad/x")).unwrap(), None);
    }
}
