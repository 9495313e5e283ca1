//! The Job that a decision creates on a machine.

use super::job_request::{NodeJobRequest, NodeVerb};
use super::machine_state::MachineState;
use super::policy::PoolPolicy;
use super::snapshot::{Machine, RolloutSnapshot};
use mosb_api::labels;
use mosb_api::rollout::{NodeTarget, SoftRebootMode};
use mosb_image::Digest;

/// Hex digits in the name of a Job that stand for the UID of a node. Two nodes must never have one
/// name for their Jobs; with more digits, the longest name would not be a label.
const NODE: usize = 24;

impl NodeJobRequest {
    pub(super) fn new(
        snapshot: &RolloutSnapshot,
        machine: &Machine,
        verb: NodeVerb,
        target: Option<&NodeTarget>,
        number: u32,
    ) -> Self {
        let has_image = |target: &NodeTarget| {
            let state = MachineState::of(machine);
            let digest = target.image.digest();
            state.runs(digest) || state.effective_image() == Some(digest)
        };
        let node_uid = machine.node.metadata.uid();
        let node = &Digest::of(node_uid.as_bytes()).hex()[..NODE];
        let what = target.map_or_else(|| "boot".to_owned(), NodeTarget::id);
        Self {
            name: format!("mosb-{}-{node}-{what}-{number}", verb.as_str()),
            verb,
            pool: snapshot.pool.metadata.name.clone(),
            node: machine.node.metadata.name.clone(),
            node_uid: node_uid.to_owned(),
            target: target.cloned(),
            number,
            pulls: match verb {
                NodeVerb::Report | NodeVerb::Part => false,
                // What is staged may be lost before it runs.
                NodeVerb::Apply => true,
                NodeVerb::Stage => !target.is_some_and(has_image),
            },
            adopts: verb == NodeVerb::Apply && adopts(snapshot),
            may_be_soft: verb == NodeVerb::Apply && may_be_soft(snapshot),
            confirms: matches!(verb, NodeVerb::Report | NodeVerb::Apply)
                && may_confirm(snapshot, &MachineState::of(machine), target),
            image: snapshot.cluster.own_image.clone(),
        }
    }
}

/// Whether a Job confirms on the machine what it runs at its end: this target, or else what it runs now. With
/// a policy, the machine may leave that by itself until the soak time is over.
pub(super) fn may_confirm(
    snapshot: &RolloutSnapshot,
    state: &MachineState<'_>,
    target: Option<&NodeTarget>,
) -> bool {
    let is_it = |image: Digest| match target {
        Some(target) => target.image.digest() == image,
        None => state.runs(image),
    };
    let is_confirmed = || state.confirmed().is_some_and(|known| is_it(known.target.image.digest()));
    snapshot.policy == PoolPolicy::None || is_confirmed()
}

/// Whether machines of the pool may leave their kernel running. No target is decided while the setting
/// is not a valid one.
pub(super) fn may_be_soft(snapshot: &RolloutSnapshot) -> bool {
    let config = snapshot.config.as_ref();
    config.is_some_and(|config| SoftRebootMode::of(&config.metadata) == Ok(SoftRebootMode::Auto))
}

/// Whether machines of the pool adopt what their first config wrote.
pub fn adopts(snapshot: &RolloutSnapshot) -> bool {
    let config = snapshot.config.as_ref();
    config.is_some_and(|config| config.metadata.annotation(labels::ADOPT) == Some("true"))
}
