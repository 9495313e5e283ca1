//! What the roll-out writes to the MachineOSConfig: the history, the finalizer, and the end of a
//! roll-out that happens once. One patch.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::desired_target::{Desired, served};
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use super::target_source::by_image;
use crate::action::{Action, Patch};
use crate::kinds::Kind;
use mosb_image::Digest;
use mosb_plan::api::MachineOsConfig;
use mosb_plan::api::labels;
use mosb_plan::api::rollout::{History, HistoryEntry, NodeTarget, OnDelete, PinnedBuild};

/// The patch; none if the MachineOSConfig has it all. `is_done`: all machines run the target.
pub(super) fn patch(
    cx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    is_done: bool,
) -> Option<Action> {
    let config = cx.snapshot.config.as_ref()?;
    let mut patch = Patch::default();
    if config.metadata.is_being_deleted() {
        patch.finalizers = on_deletion(cx, config, is_done);
    } else {
        let history = History::of(&config.metadata);
        let newer = newer_history(cx, config, machines, history.clone());
        if newer != history {
            patch.set(labels::HISTORY, newer.to_json());
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

/// The history with what is in service now, and with what the machines run or are brought to.
fn newer_history(
    cx: &Context<'_>,
    config: &MachineOsConfig,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    mut history: History,
) -> History {
    let served = served(cx.snapshot).and_then(|(build, target)| entry(cx, build, target));
    if let Some(newer) = served.and_then(|entry| history.with(entry)) {
        history = newer;
    }
    let booted: BTreeSet<Digest> =
        machines.iter().filter_map(|(state, _)| state.booted()).collect();
    for digest in &booted {
        let ran = history.last_ran().iter().any(|one| one.image.digest() == *digest);
        let known = history.entries().iter().find(|one| one.image.digest() == *digest).cloned();
        let known = known.or_else(|| {
            let (build, target) = by_image(config, &cx.snapshot.builds, *digest)?;
            entry(cx, build, target).filter(|_| history.has_space())
        });
        if let (false, Some(entry)) = (ran, known)
            && let Some(newer) = history.with_ran(&entry, cx.now)
        {
            history = newer;
        }
    }
    let Some(desired) = cx.desired_target() else {
        return history;
    };
    let has_slot = |(state, _): &(MachineState<'_>, Option<SlotPhase>)| {
        state.valid_slot().is_some_and(|slot| slot.target == desired.target)
    };
    let is_used = booted.contains(&desired.target.image.digest()) || machines.iter().any(has_slot);
    let entry = entry(cx, desired.build.clone(), desired.target.clone()).filter(|_| is_used);
    entry.and_then(|entry| history.with_ran(&entry, cx.now)).unwrap_or(history)
}

/// None for the stock image, which has no rendered config.
fn entry(cx: &Context<'_>, build: PinnedBuild, target: NodeTarget) -> Option<HistoryEntry> {
    let config = target.config?;
    let since = Time(cx.now);
    Some(HistoryEntry { build: build.name, image: target.image, config, since, ran: None })
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
