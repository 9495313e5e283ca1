//! What a command brings the machine to.

use mosb_plan::api::rollout::{MachinePart, NodeTarget};

use crate::pull_access::PullAccess;

/// What a command brings the machine to.
#[derive(Debug, Clone, Copy)]
pub struct DesiredState<'a> {
    pub target: &'a NodeTarget,
    /// What the target needs beside its image: [`read_machine_part`](crate::read_machine_part). With
    /// none, all of that stays as it is.
    pub part: Option<&'a MachinePart>,
    /// What its image is pulled with.
    pub access: &'a PullAccess,
}
