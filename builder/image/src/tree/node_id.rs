//! Where a node or an inode is in the list of a builder.

pub(super) type NodeId = u32;
pub(super) type InodeId = u32;
/// The node of `/`.
pub(super) const ROOT: NodeId = 0;
