//! The way of a path through a tree, links included, never out of the root.

use super::builder::{NodeId, ROOT};

/// Bytes of one component (NAME_MAX of every Linux file system).
pub(super) const LONGEST_NAME: usize = 255;
/// Symbolic links on the way of one path, as Linux has it (path_resolution(7)).
pub(super) const MOST_LINKS: usize = 40;

/// Where a path has led so far, and what is left of it.
#[derive(Debug)]
pub(super) struct Way {
    /// Components still to go, the next one last.
    todo: Vec<Box<[u8]>>,
    /// The directories from the root to here.
    stack: Vec<NodeId>,
    links: usize,
    /// Components of all that it was given, since they were last taken.
    steps: usize,
}

impl Way {
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

    /// How many components it was given since the last time.
    pub(super) fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }

    /// The directory that it has come to.
    pub(super) fn here(&self) -> NodeId {
        self.stack.last().copied().unwrap_or(ROOT)
    }

    /// The next name to look up here.
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

    /// Goes where a link that was found here leads; `None` if these were too many.
    pub(super) fn follow(&mut self, target: &[u8]) -> Option<()> {
        self.links += 1;
        if target.starts_with(b"/") {
            self.stack.truncate(1);
        }
        self.push(target);
        (self.links <= MOST_LINKS).then_some(())
    }
}

/// The directory of a path, and the last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// For a message.
pub(super) fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
