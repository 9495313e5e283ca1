//! Resolves paths in the tree: follows the links of the layer that is being added, and no others.

use std::collections::HashMap;

use super::super::Kind;
use super::super::symlink::{self, LinkEnds, PathWalker, split};
use super::{Builder, Inode, State};
use crate::layer::EntryError;
use crate::tree::{NodeId, ROOT};

/// Directories that paths lead to, valid until a node that a path may lead through is removed.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// By path.
    directories: HashMap<Box<[u8]>, NodeId>,
    links: LinkEnds,
}

impl Builder {
    /// The directory of a path, created if it is missing, and the last component.
    pub(super) fn parent<'p>(
        &mut self,
        layer: u16,
        path: &'p [u8],
    ) -> Result<(NodeId, &'p [u8]), EntryError> {
        let (above, name) = split(path);
        if let Some(node) = self.made.directories.get(above) {
            return Ok((*node, name));
        }
        let node = self.make_directories(layer, above)?;
        self.made.directories.insert(above.into(), node);
        Ok((node, name))
    }

    fn make_directories(&mut self, layer: u16, path: &[u8]) -> Result<NodeId, EntryError> {
        let mut way = PathWalker::new(path);
        self.count_steps(way.take_steps());
        self.nodes[ROOT as usize].layer = layer;
        while let Some(name) = way.next(&self.nodes, &mut self.made.links) {
            let here = way.here();
            let old = self.child(here, &name);
            let own = old.is_some_and(|old| self.nodes[old as usize].layer == layer);
            let next = match old.map(|old| (old, self.state(old))) {
                Some((old, State::Here(Kind::Directory))) => {
                    self.nodes[old as usize].layer = layer;
                    old
                }
                Some((old, State::Here(Kind::Symlink))) if own => {
                    way.follow(old, self.link_target(old), &self.made.links)
                        .ok_or(EntryError::LinkLoop)?;
                    self.count_steps(way.take_steps());
                    continue;
                }
                Some(_) if own => return Err(EntryError::NotADirectory),
                Some(_) | None if name.len() > symlink::MAX_NAME_LEN => {
                    return Err(EntryError::Path);
                }
                Some(_) | None => {
                    let inode = self.add_inode(Inode::directory(layer));
                    self.place(layer, here, &name, inode)
                }
            };
            way.enter(next);
        }
        Ok(way.here())
    }

    /// The node at a path; links on the way are followed, those of one layer or all.
    pub(in crate::tree) fn find(&self, path: &[u8], links_of: Option<u16>) -> Option<NodeId> {
        if path.is_empty() {
            return Some(ROOT);
        }
        let (above, name) = split(path);
        self.child(self.find_directory(above, links_of)?, name)
    }

    /// The directory at a path. The layer is the one that is being added.
    pub(super) fn find_directory(&self, path: &[u8], links_of: Option<u16>) -> Option<NodeId> {
        self.check_steps().ok()?;
        let found = if links_of.is_some() { &self.found_in_layer } else { &self.found };
        let mut found = found.borrow_mut();
        if let Some(directory) = found.directories.get(path) {
            return Some(*directory);
        }
        let mut way = PathWalker::new(path);
        self.count_steps(way.take_steps());
        while let Some(name) = way.next(&self.nodes, &mut found.links) {
            let node = self.child(way.here(), &name)?;
            match self.state(node) {
                State::Here(Kind::Directory) => way.enter(node),
                State::Here(Kind::Symlink)
                    if links_of.is_none_or(|layer| self.nodes[node as usize].layer == layer) =>
                {
                    let followed = way.follow(node, self.link_target(node), &found.links);
                    self.count_steps(way.take_steps());
                    followed?;
                }
                State::Here(Kind::Symlink | Kind::File | Kind::Other)
                | State::Pending
                | State::Same(_) => return None,
            }
        }
        found.directories.insert(path.into(), way.here());
        Some(way.here())
    }

    fn link_target(&self, link: NodeId) -> &[u8] {
        self.inodes[self.resolved(link) as usize].bytes.as_deref().unwrap_or_default()
    }
}
