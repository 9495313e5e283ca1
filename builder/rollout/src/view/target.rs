//! What a pool's machines should run, as far as it is known. Pure.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::desired_target::Desired;
use crate::machine_state::MachineState;
use crate::snapshot::RolloutSnapshot;
use mosb_api::labels;
use mosb_api::rollout::{NodeTarget, PinnedBuild};
use mosb_image::Digest;

/// What the machines of a pool should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutTarget")]
pub struct TargetView {
    /// `NAME@sha256:…`.
    #[schemars(with = "String")]
    pub build: PinnedBuild,
    /// The build in service, if the pool is pinned to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub newer: Option<PinnedBuild>,
    /// Whether the pool is pinned to it.
    #[serde(rename = "pinned")]
    pub is_pinned: bool,
    /// Whether it is rolled out once, whatever the mode is.
    #[serde(rename = "once")]
    pub is_once: bool,
    /// None if only the controller can look it up: then the image decides alone.
    #[serde(skip)]
    pub target: Option<NodeTarget>,
    /// The images that machines may run while they get it without a reboot.
    #[serde(skip)]
    pub live_images: BTreeSet<Digest>,
}

impl TargetView {
    pub(super) fn of(snapshot: &RolloutSnapshot, desired: &Desired) -> Option<Self> {
        match desired {
            Desired::Target(desired) => Some(Self {
                newer: desired.newer.clone(),
                is_pinned: desired.is_pinned,
                is_once: desired.is_once,
                live_images: desired.live_images.clone(),
                ..Self::new(desired.build.clone(), Some(desired.target.clone()))
            }),
            Desired::LookUp(_) | Desired::Pending | Desired::Unknown(_) => Self::named(snapshot),
            Desired::Nothing | Desired::Invalid(_) => None,
        }
    }

    pub(super) fn new(build: PinnedBuild, target: Option<NodeTarget>) -> Self {
        let live_images = BTreeSet::new();
        Self { build, newer: None, is_pinned: false, is_once: false, target, live_images }
    }

    /// The target that an annotation names, of which only the controller looks up the rest.
    fn named(snapshot: &RolloutSnapshot) -> Option<Self> {
        let metadata = &snapshot.config.as_ref()?.metadata;
        let pin = |annotation| PinnedBuild::in_annotation(metadata, annotation).ok().flatten();
        let (once, pinned) = (pin(labels::ROLLOUT_ONCE), pin(labels::ROLLOUT_BUILD));
        let (is_once, is_pinned) = (once.is_some(), pinned.is_some());
        Some(Self { is_once, is_pinned, ..Self::new(once.or(pinned)?, None) })
    }

    /// Whether a machine has it and the roll-out is through with it, as the controller counts.
    pub(super) fn is_on(&self, state: &MachineState<'_>) -> bool {
        let has_part = |target: &NodeTarget| target.accepts_part(state.machine_part());
        state.effective_image() == Some(self.build.digest)
            && self.target.as_ref().is_none_or(has_part)
            && !state.has_slot()
    }

    /// Whether a machine may get its files without a reboot: it runs an image that differs only in such
    /// files, or runs the target and has others.
    pub(super) fn may_go_live(&self, state: &MachineState<'_>) -> bool {
        if state.runs(self.build.digest) {
            return state.live().is_some() || state.is_live_unknown();
        }
        state.booted().is_some_and(|booted| self.live_images.contains(&booted))
    }
}
