//! Selects the small files below `/etc` that a layer may repeat.

use super::builder::{Builder, State};
use super::node_id::{NodeId, ROOT};
use super::{Kind, retained};

impl Builder {
    /// The files below `/etc` with only one name and without extended attributes. Those with the
    /// shortest paths come first, so that the limit of all of them leaves out what lies deepest.
    ///
    /// A file with another name is not among them: what a change of one name does to the other
    /// differs between file systems, and a layer that repeats one of them separates the two. To
    /// ostree the names of one of its objects are separate files, so they count as one name each.
    pub(super) fn etc_files(&self) -> Vec<NodeId> {
        let names = self.name_counts();
        let mut files = Vec::new();
        let directories = retained::ETC_DIRECTORIES.iter();
        let directories = directories.filter_map(|path| self.find(path.as_bytes(), None));
        let mut level: Vec<NodeId> = directories.collect();
        for _ in 0..retained::MAX_ETC_DEPTH {
            let mut below = Vec::new();
            for directory in level {
                for child in self.nodes[directory as usize].children.values() {
                    let id = self.resolved(*child) as usize;
                    let inode = &self.inodes[id];
                    match inode.state {
                        State::Here(Kind::Directory) => below.push(*child),
                        State::Here(Kind::File) if names[id] == 1 && !inode.has_xattrs() => {
                            files.push(*child);
                        }
                        State::Here(Kind::File | Kind::Symlink | Kind::Other)
                        | State::Pending
                        | State::Same(_) => {}
                    }
                }
            }
            level = below;
        }
        files
    }

    /// How many names each inode has, at most 255; an object of an ostree repository has one.
    fn name_counts(&self) -> Vec<u8> {
        let objects = self.find(retained::OSTREE_OBJECTS.as_bytes(), None);
        let mut counts = vec![0_u8; self.inodes.len()];
        let mut open = vec![ROOT];
        while let Some(node) = open.pop() {
            if Some(node) == objects {
                continue;
            }
            for child in self.nodes[node as usize].children.values() {
                let count = &mut counts[self.resolved(*child) as usize];
                *count = count.saturating_add(1);
                open.push(*child);
            }
        }
        open.extend(objects);
        while let Some(node) = open.pop() {
            for child in self.nodes[node as usize].children.values() {
                counts[self.resolved(*child) as usize] = 1;
                open.push(*child);
            }
        }
        counts
    }
}
