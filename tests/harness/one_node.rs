//! The Kubernetes node that all tests of a run share.

use std::sync::OnceLock;

use super::node::{Node, Problem, Programs};
use super::parts::{CONTAINERD, KUBERNETES, REGISTRY, RUNC};

/// Returns the node, which the first caller starts while others wait. Tests are isolated by
/// [`Namespace`](super::Namespace) and by names in the registry.
#[track_caller]
pub fn node() -> &'static Node {
    static NODE: OnceLock<Result<Node, Problem>> = OnceLock::new();
    match NODE.get_or_init(|| Node::start(&programs())) {
        Ok(node) => node,
        Err(why) => panic!("no Kubernetes node for the tests: {why}"),
    }
}

/// The parts of a node, built now if they are missing.
#[track_caller]
pub fn programs() -> Programs {
    Programs {
        kubernetes: KUBERNETES.directory(),
        containerd: CONTAINERD.directory(),
        runc: RUNC.directory(),
        registry: REGISTRY.directory(),
    }
}
