//! What a pool's machines should run, as far as it is known. Pure.

use std::collections::BTreeSet;

use crate::rollout::desired_target::DesiredTarget;
use mosb_image::Digest;
use mosb_plan::api::rollout::{NodeTarget, PinnedBuild};
use mosb_plan::api::{MachineOsConfig, labels};

/// What the machines should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetView {
    /// Build and digest of its image.
    pub build: PinnedBuild,
    /// The build in service, if the pool is pinned to another one.
    pub newer: Option<PinnedBuild>,
    pub is_pinned: bool,
    /// It is rolled out once, whatever the mode is.
    pub is_once: bool,
    /// None if only the controller can look it up: then the image decides alone.
    pub(super) target: Option<NodeTarget>,
    /// The images that machines may run while they get it without a reboot.
    pub(super) live_images: BTreeSet<Digest>,
}

impl TargetView {
    pub(super) fn of(desired: &DesiredTarget) -> Self {
        Self {
            build: desired.build.clone(),
            newer: desired.newer.clone(),
            is_pinned: desired.is_pinned,
            is_once: desired.is_once,
            target: Some(desired.target.clone()),
            live_images: desired.live_images.clone(),
        }
    }

    /// The target that an annotation names, of which only the controller looks up the rest.
    pub(super) fn named(config: &MachineOsConfig) -> Option<Self> {
        let pin =
            |annotation| PinnedBuild::in_annotation(&config.metadata, annotation).ok().flatten();
        let (once, pinned) = (pin(labels::ROLLOUT_ONCE), pin(labels::ROLLOUT_BUILD));
        let (is_once, is_pinned) = (once.is_some(), pinned.is_some());
        let build = once.or(pinned)?;
        Some(Self {
            build,
            newer: None,
            is_pinned,
            is_once,
            target: None,
            live_images: BTreeSet::new(),
        })
    }
}
