//! The one Kubernetes node of a test run.

use std::sync::OnceLock;

use super::node::{Node, Problem, Programs};
use super::parts::{CONTAINERD, KUBERNETES, REGISTRY, RUNC};

/// The node, started by the first test that asks; the others wait for it. Tests keep apart by
/// [`Namespace`](super::Namespace) and by names in the registry.
#[track_caller]
pub fn node() -> &'static Node {
    static NODE: OnceLock<Result<Node, Problem>> = OnceLock::new();
    match NODE.get_or_init(|| Node::start(&programs())) {
        Ok(node) => node,
        Err(why) => panic!("no Kubernetes node for the tests: {why}"),
    }
}

/// The built parts that a node is made of, made now if they are not there.
#[track_caller]
pub fn programs() -> Programs {
    Programs {
        kubernetes: KUBERNETES.directory(),
        containerd: CONTAINERD.directory(),
        runc: RUNC.directory(),
        registry: REGISTRY.directory(),
    }
}
