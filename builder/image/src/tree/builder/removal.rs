//! Removes what an entry replaces, and what whiteouts and opaque directories hide.

use std::cell::RefCell;
use std::mem;

use super::walk::Resolved;
use super::{Builder, State};
use crate::tree::Kind;
use crate::tree::node_id::NodeId;
use crate::tree::symlink::split;

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
