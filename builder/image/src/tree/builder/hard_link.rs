//! Hard links, whose target may be a later entry.

use std::mem;

use super::{Builder, Inode, State};
use crate::layer::EntryError;
use crate::tree::Kind;
use crate::tree::node_id::{InodeId, NodeId};
use crate::tree::symlink;

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
