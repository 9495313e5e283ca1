//! Walks a path through a tree component by component, following symbolic links inside the root.

use std::collections::HashMap;

use super::builder::Node;
use super::{NodeId, ROOT};

/// Maximum length of a component (NAME_MAX of every Linux file system).
pub(super) const MAX_NAME_LEN: usize = 255;
/// Maximum number of symbolic links in one path, as in Linux (path_resolution(7)).
pub(super) const MAX_LINKS: usize = 40;

/// Where links that were followed lead.
pub(super) type LinkEnds = HashMap<NodeId, LinkEnd>;

/// A directory that a link leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkEnd {
    directory: NodeId,
    /// How many links are followed on the way, with the first.
    links: usize,
}

/// The state of a walk. The target of each link is walked to its end before the walk goes on, so that
/// the next walk that meets the link knows where it leads.
#[derive(Debug)]
pub(super) struct PathWalker {
    /// The path, and the targets of the links that are being followed; never empty.
    open: Vec<Target>,
    /// Links followed so far.
    links: usize,
    /// Components added, and known links followed, since the last [`Self::take_steps`].
    steps: usize,
}

/// A path that is walked.
#[derive(Debug)]
struct Target {
    /// The link whose target it is; none for the first path.
    link: Option<NodeId>,
    /// Remaining components, the next one last.
    todo: Vec<Box<[u8]>>,
    here: NodeId,
    /// Links followed before this one.
    links_before: usize,
}

impl PathWalker {
    pub(super) fn new(path: &[u8]) -> Self {
        let mut walker = Self { open: Vec::new(), links: 0, steps: 0 };
        walker.push(None, path, ROOT);
        walker
    }

    fn push(&mut self, link: Option<NodeId>, path: &[u8], here: NodeId) {
        let components = path.split(|b| *b == b'/').rev();
        let components = components.inspect(|_| self.steps += 1);
        let real = components.filter(|c| !c.is_empty() && *c != b".");
        let todo = real.map(Box::from).collect();
        self.open.push(Target { link, todo, here, links_before: self.links });
    }

    /// Number of steps since the last call.
    pub(super) fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }

    fn last(&mut self) -> &mut Target {
        self.open.last_mut().expect("the first path is never removed")
    }

    pub(super) fn here(&self) -> NodeId {
        self.open.last().map_or(ROOT, |last| last.here)
    }

    /// The next name to look up in the current directory. Adds the links that were followed to their
    /// end to `known`.
    pub(super) fn next(&mut self, nodes: &[Node], known: &mut LinkEnds) -> Option<Box<[u8]>> {
        loop {
            let last = self.last();
            match last.todo.pop() {
                Some(name) if *name == *b".." => last.here = nodes[last.here as usize].parent,
                Some(name) => return Some(name),
                None => {
                    let (link, directory) = (last.link?, last.here);
                    let links = self.links - self.last().links_before;
                    known.insert(link, LinkEnd { directory, links });
                    self.open.pop();
                    self.enter(directory);
                }
            }
        }
    }

    pub(super) fn enter(&mut self, directory: NodeId) {
        self.last().here = directory;
    }

    /// Follows a link of the current directory; `None` if there were too many links.
    pub(super) fn follow(&mut self, link: NodeId, target: &[u8], known: &LinkEnds) -> Option<()> {
        if let Some(end) = known.get(&link) {
            self.steps += 1;
            self.links += end.links;
            self.enter(end.directory);
        } else {
            let here = if target.starts_with(b"/") { ROOT } else { self.here() };
            self.push(Some(link), target, here);
            self.links += 1;
        }
        (self.links <= MAX_LINKS).then_some(())
    }
}

/// The directory of a path, and the last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

pub(super) fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
