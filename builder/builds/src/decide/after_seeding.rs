//! A pre-built image after it was put in service: reuse it, report it, and clean up.

use super::DecisionBuilder;
use crate::lookup::{ImageStatus, Lookup};
use crate::pool_reason::PoolReason;
use mosb_api::{Condition, MachineOsBuild, MachineOsBuildStatus, condition, labels};
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{ConditionUpdate, EventReason, PRE_BUILT_IMAGE_SEEDED, SEEDED};
use mosb_image::PinnedRef;
use mosb_reconcile::write::Patch;

/// Message of the condition `Seeded`, before and after its MachineConfig is deleted.
const SEEDED_MESSAGE: &str = "the pool's first image was built elsewhere";
const COMPONENT_MISSING_MESSAGE: &str = "the pool's first image was built elsewhere; the MachineConfig that brought it is gone, so the pool's rendered config names another OS image";

impl DecisionBuilder<'_> {
    /// Reuses the pre-built image if it matches the desired state.
    pub(super) fn reuse_seeded_build(&mut self) -> Result<Option<PoolReason>, Lookup> {
        let annotations = &self.config.metadata.annotations;
        if annotations.contains_key(labels::REBUILD) {
            return Ok(None);
        }
        let build = self.ours().find(|build| build.is_pre_built() && self.matches_desired(build));
        let image = build.and_then(|build| build.status.image()?.parse().ok());
        let (Some(build), Some(image)) = (build, image) else {
            return Ok(None);
        };
        let text = build.status.image().unwrap_or_default();
        if matches!(Gate::recorded(self.config, build, text), Gate::Rejected(_)) {
            // The pool's own image is built instead.
            return Ok(None);
        }
        match self.image_status(&image, build)? {
            ImageStatus::Present(_) => self.advance(build).map(Some),
            ImageStatus::Missing => Ok(None),
            ImageStatus::Unknown(problem) => Ok(Some(self.problem(problem))),
        }
    }

    /// Update of the condition `Seeded`, if it applies.
    pub(super) fn seeded_condition(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
    ) -> Option<ConditionUpdate<'static>> {
        let old = condition(&self.config.status.conditions, SEEDED);
        let is = build.is_pre_built() && self.is_ours(build) && status.image().is_some();
        if !is && !old.is_some_and(Condition::is_true) {
            return None;
        }
        let message =
            if self.is_component_missing() { COMPONENT_MISSING_MESSAGE } else { SEEDED_MESSAGE };
        let by_another = |old: &&Condition| {
            ![SEEDED_MESSAGE, COMPONENT_MISSING_MESSAGE].contains(&&*old.message)
        };
        if !is && message == SEEDED_MESSAGE && old.is_some_and(|old| by_another(&old)) {
            return None;
        }
        if message == COMPONENT_MISSING_MESSAGE && old.is_none_or(|old| old.message != message) {
            let edge = self.config.metadata.resource_version();
            self.emit_config_event(EventReason::PreBuiltImageMissing, edge, message);
        }
        Some(ConditionUpdate {
            kind: SEEDED,
            status: "True",
            reason: PRE_BUILT_IMAGE_SEEDED,
            message,
        })
    }

    /// Cleans up after seeding, once there is nothing else to do.
    pub(super) fn after_seeding(&mut self) {
        if !self.actions.is_empty() || self.seed.is_some() {
            return;
        }
        self.reclaim_components();
        let metadata = &self.config.metadata;
        let served = metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD).is_some()
            && !self.config.status.current_image_pull_spec.is_empty();
        let Some(text) = metadata.annotations.get(labels::PRE_BUILT_IMAGE) else {
            return;
        };
        if !served {
            return;
        }
        let began_with_it = |build: &MachineOsBuild| {
            let image = build.status.image().and_then(|image| image.parse().ok());
            build.is_pre_built() && image.is_some_and(|image: PinnedRef| text.parse() == Ok(image))
        };
        if !self.snapshot.builds.iter().any(began_with_it) {
            let note = format!(
                "annotation {} is removed, because an image is in service already; to start with {text}, delete this MachineOSConfig and create it again",
                labels::PRE_BUILT_IMAGE
            );
            let edge = metadata.resource_version();
            self.emit_config_event(EventReason::ConfigReconcileFailed, edge, note);
        }
        let mut patch = Patch::default();
        patch.remove(labels::PRE_BUILT_IMAGE);
        self.actions.push(object::patch(kinds::MACHINE_OS_CONFIG, metadata, patch));
    }
}
