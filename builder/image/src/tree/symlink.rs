//! Walks a path through a tree component by component, following symbolic links inside the root.

use super::node_id::{NodeId, ROOT};

/// Maximum length of a component (NAME_MAX of every Linux file system).
pub(super) const MAX_NAME_LEN: usize = 255;
/// Maximum number of symbolic links in one path, as in Linux (path_resolution(7)).
pub(super) const MAX_LINKS: usize = 40;

/// The state of a walk: the directories entered, and the remaining components.
#[derive(Debug)]
pub(super) struct PathWalker {
    /// Remaining components, the next one last.
    todo: Vec<Box<[u8]>>,
    /// The directories from the root to the current one.
    stack: Vec<NodeId>,
    links: usize,
    /// Components added since the last [`Self::take_steps`].
    steps: usize,
}

impl PathWalker {
    pub(super) fn new(path: &[u8]) -> Self {
        let mut way = Self { todo: Vec::new(), stack: vec![ROOT], links: 0, steps: 0 };
        way.push(path);
        way
    }

    fn push(&mut self, path: &[u8]) {
        let components = path.split(|b| *b == b'/').rev();
        let components = components.inspect(|_| self.steps += 1);
        let real = components.filter(|c| !c.is_empty() && *c != b".");
        self.todo.extend(real.map(Box::from));
    }

    /// Number of components added since the last call.
    pub(super) fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }

    /// The current directory.
    pub(super) fn here(&self) -> NodeId {
        self.stack.last().copied().unwrap_or(ROOT)
    }

    /// The next name to look up in the current directory.
    pub(super) fn next(&mut self) -> Option<Box<[u8]>> {
        loop {
            let name = self.todo.pop()?;
            if *name != *b".." {
                return Some(name);
            }
            if self.stack.len() > 1 {
                self.stack.pop();
            }
        }
    }

    pub(super) fn enter(&mut self, directory: NodeId) {
        self.stack.push(directory);
    }

    /// Follows a link of the current directory; `None` if there were too many links.
    pub(super) fn follow(&mut self, target: &[u8]) -> Option<()> {
        self.links += 1;
        if target.starts_with(b"/") {
            self.stack.truncate(1);
        }
        self.push(target);
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
