//! Configs that machines can't take on, because an image does not bring all of them. They get no image
//! unless the MachineOSConfig accepts it.

use super::DecisionBuilder;
use crate::lookup::Planned;
use crate::pool_reason::PoolReason;
use mosb_api::{BuildOn, labels};

impl DecisionBuilder<'_> {
    /// Why the planned config gets no image, if images alone bring configs to the pool's machines.
    pub(super) fn unreconcilable(&self, planned: &Planned) -> Option<PoolReason> {
        let by_image = self.desired.build_on == BuildOn::EveryConfig && self.is_rolled_out();
        let rendered = self.desired.rendered.as_str();
        let accepted = self.config.metadata.annotation(labels::ACCEPT_UNRECONCILABLE);
        if !by_image || planned.unreconcilable.is_empty() || accepted == Some(rendered) {
            return None;
        }
        let before = &self.in_service()?.spec.machine_config.name;
        let places = planned.unreconcilable.iter().map(|finding| {
            let place = finding.object.as_deref().unwrap_or_default();
            format!("{place}: {}", finding.message)
        });
        let places: Vec<String> = places.collect();
        Some(PoolReason::Unreconcilable(format!(
            "machines that have {before} can't take on {rendered} without a reinstallation: {}; revert the MachineConfig, or reinstall the machines and annotate the MachineOSConfig with {}={rendered}",
            places.join("; "),
            labels::ACCEPT_UNRECONCILABLE
        )))
    }
}
