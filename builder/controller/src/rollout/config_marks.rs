//! What the roll-out writes to the MachineOSConfig: the history, the finalizer, and the end of a
//! roll-out that happens once. One patch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::desired_target::{Desired, served};
use crate::action::{Action, Patch};
use crate::kinds::Kind;
use mosb_plan::api::MachineOsConfig;
use mosb_plan::api::labels;
use mosb_plan::api::rollout::{History, HistoryEntry, OnDelete};

/// The patch; none if the MachineOSConfig has it all. `is_done`: all machines run the target.
pub(super) fn patch(cx: &Context<'_>, is_done: bool) -> Option<Action> {
    let config = cx.snapshot.config.as_ref()?;
    let mut patch = Patch::default();
    if config.metadata.is_being_deleted() {
        patch.finalizers = on_deletion(cx, config, is_done);
    } else {
        if let Some((build, target)) = served(cx.snapshot)
            && let Some(config_name) = target.config
        {
            let entry = HistoryEntry {
                build: build.name,
                image: target.image,
                config: config_name,
                since: Time(cx.now),
            };
            if let Some(history) = History::of(&config.metadata).with(entry) {
                patch.set(labels::HISTORY, history.to_json());
            }
        }
        if cx.desired_target().is_some_and(|desired| desired.is_once) && is_done {
            patch.remove(labels::ROLLOUT_ONCE);
        }
        let finalizers = &config.metadata.finalizers;
        if !cx.is_off() && !finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER) {
            let ours = std::iter::once(labels::ROLLOUT_FINALIZER.to_owned());
            patch.finalizers = Some(finalizers.iter().cloned().chain(ours).collect());
        }
    }
    let is_changed = !patch.annotations.is_empty() || patch.finalizers.is_some();
    is_changed.then(|| Action::patch(Kind::MachineOsConfig, &config.metadata, patch))
}

/// The finalizers without ours, once the machines have what they keep.
fn on_deletion(cx: &Context<'_>, config: &MachineOsConfig, is_done: bool) -> Option<Vec<String>> {
    let finalizers = &config.metadata.finalizers;
    if !finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER) {
        return None;
    }
    let keeps = OnDelete::of(&config.metadata) == Ok(OnDelete::Keep);
    let is_stock = matches!(cx.desired, Desired::Target(desired) if desired.is_deletion) && is_done;
    let others = finalizers.iter().filter(|one| *one != labels::ROLLOUT_FINALIZER);
    (keeps || is_stock).then(|| others.cloned().collect())
}
