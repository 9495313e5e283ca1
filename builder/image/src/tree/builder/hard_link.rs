//! Hard links, whose target may be a later entry.

use std::cell::RefCell;
use std::mem;

use super::walk::Resolved;
use super::{Builder, Inode, State};
use crate::layer::EntryError;
use crate::tree::symlink::{self, split};
use crate::tree::{InodeId, Kind, NodeId};

impl Builder {
    pub(super) fn link(
        &mut self,
        layer: u16,
        entry: u32,
        path: &[u8],
        to: &[u8],
    ) -> Result<(), EntryError> {
        let inode = match self.find(to, None) {
            Some(node) if self.state(node) == State::Here(Kind::Directory) => {
                return Err(EntryError::LinkToDirectory(symlink::lossy(to)));
            }
            Some(node) => self.nodes[node as usize].inode,
            None => {
                let inode = self.add_inode(Inode {
                    state: State::Pending,
                    entry,
                    bytes: Some(to.into()),
                    ..Inode::directory(layer)
                });
                self.pending.push(inode);
                inode
            }
        };
        let (parent, name) = self.parent(layer, path)?;
        match self.child(parent, name) {
            Some(old) if self.nodes[old as usize].inode == inode => {
                self.nodes[old as usize].layer = layer;
            }
            Some(_) | None => {
                self.place(layer, parent, name, inode);
            }
        }
        Ok(())
    }

    /// Resolves pending hard links whose targets are there now.
    pub(super) fn settle(&mut self) -> Result<(), EntryError> {
        for inode in mem::take(&mut self.pending) {
            let to = self.inodes[inode as usize].bytes.clone().unwrap_or_default();
            let found = self.find(&to, None).map(|node| self.resolved(node));
            match found {
                Some(found)
                    if found != inode
                        && self.inodes[found as usize].state != State::Here(Kind::Directory) =>
                {
                    self.inodes[inode as usize].state = State::Same(found);
                }
                Some(_) | None => self.pending.push(inode),
            }
            self.check_steps()?;
        }
        Ok(())
    }

    /// The inode of a node, through hard links that were pending. Each refers to an earlier state,
    /// so there is no loop.
    pub(in crate::tree) fn resolved(&self, node: NodeId) -> InodeId {
        let mut inode = self.nodes[node as usize].inode;
        while let State::Same(other) = self.inodes[inode as usize].state {
            self.count_steps(1);
            inode = other;
        }
        inode
    }
}

impl Builder {
    pub(super) fn drop_node(&mut self, parent: NodeId, name: &[u8], node: NodeId) {
        match self.state(node) {
            // No directory's path leads through it.
            State::Here(Kind::File | Kind::Other) => {}
            State::Here(Kind::Directory | Kind::Symlink) | State::Pending | State::Same(_) => {
                // New maps, because clearing one takes as long as its largest size.
                self.made = Resolved::default();
                self.found_in_layer = RefCell::default();
                self.found = RefCell::default();
            }
        }
        self.nodes[parent as usize].children.remove(name);
        let mut removed = vec![node];
        while let Some(node) = removed.pop() {
            removed.extend(mem::take(&mut self.nodes[node as usize].children).into_values());
            self.free.push(node);
        }
    }

    pub(super) fn white_out(&mut self, layer: u16, path: &[u8]) {
        let (above, name) = split(path);
        let Some(parent) = self.find_directory(above, Some(layer)) else {
            return;
        };
        match self.child(parent, name) {
            Some(node) if self.nodes[node as usize].layer == layer => self.hide_below(layer, node),
            Some(node) => self.drop_node(parent, name, node),
            None => {}
        }
    }

    /// Removes the nodes of lower layers below a node.
    pub(super) fn hide_below(&mut self, layer: u16, node: NodeId) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            self.count_steps(self.nodes[node as usize].children.len());
            let children: Vec<_> = self.nodes[node as usize]
                .children
                .iter()
                .map(|(name, child)| (name.clone(), *child))
                .collect();
            for (name, child) in children {
                if self.nodes[child as usize].layer == layer {
                    todo.push(child);
                } else {
                    self.drop_node(node, &name, child);
                }
            }
        }
    }
}
