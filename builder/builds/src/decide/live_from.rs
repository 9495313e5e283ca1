//! Whether machines that run the image in service can take on that of a new build without a reboot.
//!
//! Invariant: it is decided when the build is created, so neither an upgrade of mosb nor a setting
//! changes how an image comes to machines that have one. A machine that gets the image compares the
//! two once more, and reboots if they differ in anything else.

use super::DecisionBuilder;
use crate::lookup::Planned;
use mosb_api::{BuildOn, MachineOsBuild, labels};
use mosb_image::PinnedRef;

impl DecisionBuilder<'_> {
    /// The annotation `mosb.dev/live-from` of a new build. `source`: the build whose image it adopts.
    pub(super) fn live_from(
        &self,
        planned: &Planned,
        source: Option<&MachineOsBuild>,
    ) -> Option<String> {
        if !self.is_rolled_out() {
            return None;
        }
        if let Some(source) = source {
            // Machines that have its image live go on without a reboot.
            return source.metadata.annotation(labels::LIVE_FROM).map(str::to_owned);
        }
        let before = self.in_service()?;
        let image: PinnedRef = before.status.image()?.parse().ok()?;
        let base = before.metadata.annotation(labels::BASE);
        let is_live = self.config.metadata.annotation(labels::LIVE_APPLY) == Some("true")
            && planned.is_live_change
            && base == Some(&*planned.base.to_string())
            && self.desired.build_on == BuildOn::EveryConfig
            && self.has_other_inputs(before)
            && !before.is_pre_built()
            && !self.is_outdated(before);
        // So that a machine takes one such image after the other on.
        let first = before.metadata.annotation(labels::LIVE_FROM).map(str::to_owned);
        is_live.then(|| first.unwrap_or_else(|| image.digest().to_string()))
    }
}
