//! Resolves paths as the kernel does in a chroot of the base, and as Ignition does before it writes.

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;

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

/// Where the paths of one tree lead. What was found is remembered, so that links with long targets cost
/// once a directory, and not once an entry.
#[derive(Debug, Default)]
pub(super) struct Paths {
    known: RefCell<Known>,
}

/// What was found in a tree of this shape. Directories stay where they are until that changes.
#[derive(Debug, Default)]
struct Known {
    shape: u64,
    /// The directories that links lead to.
    links: HashMap<TreePath, LinkEnd>,
    /// Of [`Paths::join`]: directories as a config writes them.
    joined: HashMap<TreePath, Joined>,
    /// Components of paths and targets that were looked up.
    #[cfg(test)]
    steps: usize,
}

#[derive(Debug, Clone)]
struct LinkEnd {
    directory: TreePath,
    /// How many links are followed on the way, with the first.
    links: usize,
}

/// A directory as Ignition computes its path, and the kernel's real path of it.
#[derive(Debug, Clone)]
struct Joined {
    at: TreePath,
    here: Option<TreePath>,
}

/// A path that is walked, or the target of a link on it.
struct Walk {
    link: Option<TreePath>,
    links_before: usize,
    rest: Vec<String>,
}

impl Known {
    fn components(&mut self, path: &str) -> Vec<String> {
        let components = components(path);
        self.count(components.len());
        components
    }

    fn count(&mut self, _steps: usize) {
        #[cfg(test)]
        {
            self.steps += _steps;
        }
    }
}

impl Paths {
    /// What is known of this tree.
    fn known(&self, tree: &Overlay<'_>) -> RefMut<'_, Known> {
        let mut known = self.known.borrow_mut();
        if known.shape != tree.shape() {
            known.shape = tree.shape();
            known.links.clear();
            known.joined.clear();
        }
        known
    }

    /// Resolves all links of a path, including the last component; `None` if nothing exists there.
    pub fn real(&self, tree: &Overlay<'_>, path: &str) -> Result<Option<TreePath>, PathError> {
        let mut known = self.known(tree);
        let mut at = TreePath::root();
        let mut links = 0;
        let rest = known.components(path);
        let mut open = vec![Walk { link: None, links_before: 0, rest }];
        while let Some(walk) = open.last_mut() {
            let Some(component) = walk.rest.pop() else {
                let (link, links) = (walk.link.take(), links - walk.links_before);
                if let Some(link) = link.filter(|_| is_directory(tree, &at)) {
                    known.links.insert(link, LinkEnd { directory: at.clone(), links });
                }
                open.pop();
                continue;
            };
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
                    if let Some(end) = known.links.get(&next) {
                        links += end.links;
                        at = end.directory.clone();
                        known.count(1);
                    } else {
                        if target.starts_with('/') {
                            at = TreePath::root();
                        }
                        let rest = known.components(&target);
                        open.push(Walk { link: Some(next), links_before: links, rest });
                        links += 1;
                    }
                    if links > MAX_LINKS {
                        return Err(PathError::Loop);
                    }
                }
                (Kind::Symlink, None) => return Ok(None),
                (Kind::Directory | Kind::File | Kind::Other, _) => at = next,
            }
        }
        Ok(Some(at))
    }

    /// The path at which Ignition writes an entry: each parent that is a link is replaced by that
    /// link's target, and the last component is never followed. The kernel resolves links to links.
    pub fn join(&self, tree: &Overlay<'_>, path: &str) -> Result<TreePath, PathError> {
        let path = clean(path);
        let Some(parent) = path.parent() else {
            return Ok(path);
        };
        let at = self.joined(tree, parent)?.at;
        Ok(at.join(path.name()).unwrap_or(at))
    }

    fn joined(&self, tree: &Overlay<'_>, directory: TreePath) -> Result<Joined, PathError> {
        let mut below = Vec::new();
        let mut above = directory;
        let mut joined = loop {
            if let Some(joined) = self.known(tree).joined.get(&above) {
                break joined.clone();
            }
            match above.parent() {
                Some(parent) => below.push(std::mem::replace(&mut above, parent)),
                None => break Joined { at: TreePath::root(), here: Some(TreePath::root()) },
            }
        };
        while let Some(directory) = below.pop() {
            joined = self.enter(tree, joined, directory.name())?;
            if joined.here.as_ref().is_some_and(|here| is_directory(tree, here)) {
                self.known(tree).joined.insert(directory, joined.clone());
            } else if let (Some(here), false) = (&joined.here, below.is_empty()) {
                return Err(PathError::NotADirectory(here.clone()));
            }
        }
        Ok(joined)
    }

    fn enter(
        &self,
        tree: &Overlay<'_>,
        Joined { at, here }: Joined,
        component: &str,
    ) -> Result<Joined, PathError> {
        self.known(tree).count(1);
        let exact = here.and_then(|here| here.join(component).ok());
        let found = exact.as_ref().and_then(|exact| tree.get(exact));
        let next = at.join(component).unwrap_or_default();
        Ok(match found.map(|found| (found.kind, found.target)) {
            Some((Kind::Symlink, Some(target))) => {
                let to = if target.starts_with('/') {
                    clean(&target)
                } else {
                    clean(&format!("{at}/{target}"))
                };
                self.known(tree).count(target.split('/').count());
                let here = self.real(tree, &to.to_string())?;
                Joined { at: to, here }
            }
            Some((Kind::Symlink, None)) | None => Joined { at: next, here: None },
            Some((Kind::Directory | Kind::File | Kind::Other, _)) => {
                Joined { at: next, here: exact }
            }
        })
    }

    /// Where Ignition writes an entry, through all links; a path that can't be resolved is as it is
    /// written. What is missing is made.
    pub fn written(&self, tree: &Overlay<'_>, path: &str) -> String {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            match self.join(tree, &path).map(|next| next.to_string()) {
                Ok(next) if next != path => path = next,
                Ok(_) | Err(_) => break,
            }
        }
        path
    }

    /// Resolves the links of the parents, but not the last component; `None` if a parent does not
    /// exist.
    pub fn exact(
        &self,
        tree: &Overlay<'_>,
        path: &TreePath,
    ) -> Result<Option<TreePath>, PathError> {
        let Some(parent) = path.parent() else {
            return Ok(Some(path.clone()));
        };
        let Some(parent) = self.real(tree, &parent.to_string())? else {
            return Ok(None);
        };
        match tree.get(&parent) {
            Some(found) if found.kind == Kind::Directory => Ok(parent.join(path.name()).ok()),
            Some(_) => Err(PathError::NotADirectory(parent)),
            None => Ok(None),
        }
    }
}

fn is_directory(tree: &Overlay<'_>, path: &TreePath) -> bool {
    tree.get(path).is_some_and(|found| found.kind == Kind::Directory)
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

/// Where Ignition writes entries on a base, through all links.
pub(in crate::plan) fn real_paths<'p>(
    base: &BaseTree,
    paths: impl IntoIterator<Item = &'p String>,
) -> Vec<String> {
    let (tree, known) = (Overlay::new(base), Paths::default());
    paths.into_iter().map(|path| known.written(&tree, path)).collect()
}

impl Applier<'_> {
    /// Creates a directory and its parents, as `mkdir -p` of root does, and returns its real path.
    pub(super) fn mkdir_all(&mut self, path: &TreePath) -> Result<TreePath, PathError> {
        if let Some(real) = self.paths.real(&self.tree, &path.to_string())? {
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
                Some(Kind::Symlink) => match self.paths.real(&self.tree, &next.to_string())? {
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
#[path = "paths_tests.rs"]
mod tests;
