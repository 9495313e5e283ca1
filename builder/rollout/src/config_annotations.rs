//! What the roll-out writes to the MachineOSConfig: the history, the stock image of a pool that is
//! pinned to it, the finalizer, and the end of a roll-out that happens once. One patch.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::desired_target::{Desired, served};
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use crate::effect::Action;
use mosb_api::rollout::{FailedTarget, History, HistoryEntry, NodeTarget, OnDelete, PinnedBuild};
use mosb_api::{MachineOsConfig, RenderedName, labels};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::target::by_image;
use mosb_image::Digest;
use mosb_reconcile::write::Patch;

/// The patch; none if the MachineOSConfig has it all. `is_done`: all machines run the target; `failed`: the
/// record that it failed.
pub(super) fn patch(
    ctx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    is_done: bool,
    failed: Option<&FailedTarget>,
) -> Option<Action> {
    let config = ctx.snapshot.config.as_ref()?;
    let mut patch = Patch::default();
    if config.metadata.is_being_deleted() {
        patch.finalizers = on_deletion(ctx, config, is_done);
    } else {
        let history = History::of(&config.metadata);
        let newer = newer_history(ctx, config, machines, history.clone());
        if newer != history {
            patch.set(labels::HISTORY, newer.to_json());
        }
        if let Some(desired) = ctx.desired_target() {
            let image = desired.build.is_stock().then(|| desired.target.image.to_string());
            if config.metadata.annotation(labels::STOCK_IMAGE) != image.as_deref() {
                match image {
                    Some(image) => patch.set(labels::STOCK_IMAGE, image),
                    None => patch.remove(labels::STOCK_IMAGE),
                }
            }
        }
        if ctx.desired_target().is_some_and(|desired| desired.is_once) && is_done {
            patch.remove(labels::ROLLOUT_ONCE);
        }
        if let Some(failed) = failed {
            let json = serde_json::to_string(failed).expect("a record is JSON");
            patch.set(labels::FAILED_TARGET, json);
        }
        let finalizers = &config.metadata.finalizers;
        if !ctx.is_off() && !finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER) {
            let ours = std::iter::once(labels::ROLLOUT_FINALIZER.to_owned());
            patch.finalizers = Some(finalizers.iter().cloned().chain(ours).collect());
        }
    }
    let is_changed = !patch.annotations.is_empty() || patch.finalizers.is_some();
    is_changed.then(|| object::patch(kinds::MACHINE_OS_CONFIG, &config.metadata, patch))
}

/// The history with what is in service now, and with what machines are brought to, or several of them
/// report to run.
fn newer_history(
    ctx: &Context<'_>,
    config: &MachineOsConfig,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    mut history: History,
) -> History {
    let served = served(ctx.snapshot).and_then(|(build, target)| entry(ctx, build, target));
    if let Some(newer) = served.and_then(|entry| history.with(entry)) {
        history = newer;
    }
    if let Some(newer) = history.with_confirmed(|entry| is_confirmed(machines, entry), ctx.now) {
        history = newer;
    }
    let reported: Vec<Current> =
        machines.iter().filter_map(|(state, _)| Current::of(state)).collect();
    // Where `mosb rollout undo` goes is not the choice of a single machine.
    let is_usual = |count: usize| count >= 2 || count == machines.len();
    for current in reported.iter().collect::<BTreeSet<_>>() {
        let known = history.entries().iter().find(|one| current.is_of(one)).cloned();
        let known = known.or_else(|| {
            let rendered = current.config.as_ref();
            let (build, target) = by_image(config, &ctx.snapshot.builds, current.image, rendered)?;
            entry(ctx, build, target).filter(|_| history.has_space())
        });
        let ran =
            |entry: &HistoryEntry| history.last_ran().iter().any(|one| one.pin() == entry.pin());
        let of_it = |entry: &HistoryEntry| reported.iter().filter(|one| one.is_of(entry)).count();
        if let Some(entry) = known.filter(|entry| !ran(entry) && is_usual(of_it(entry)))
            && let Some(newer) = history.with_ran(&entry, ctx.now)
        {
            history = newer;
        }
    }
    let Some(desired) = ctx.desired_target() else {
        return history;
    };
    let states = || machines.iter().map(|(state, _)| state);
    let gets = |state: &MachineState<'_>| {
        state.valid_slot().is_some_and(|slot| slot.target == desired.target)
    };
    let have = states().filter(|state| state.has(&desired.target)).count();
    let Some(entry) = entry(ctx, desired.build.clone(), desired.target.clone()) else {
        return history;
    };
    let is_used = states().any(gets) || have > 0 && is_usual(have);
    let newer = is_used.then(|| history.with_ran(&entry, ctx.now)).flatten();
    newer.unwrap_or(history)
}

/// Whether new machines may boot an image: a machine ran it well, which the roll-out alone records, or
/// the pool has no machine.
fn is_confirmed(machines: &[(MachineState<'_>, Option<SlotPhase>)], entry: &HistoryEntry) -> bool {
    let ran_well = |state: &MachineState<'_>| {
        state.confirmed().is_some_and(|it| it.target.image.digest() == entry.image.digest())
    };
    machines.is_empty() || machines.iter().any(|(state, _)| ran_well(state))
}

/// The image that a machine booted, or that came live; config and machine part of the target that was
/// brought to it last, if that target has this image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Current {
    image: Digest,
    config: Option<RenderedName>,
    machine_part: Option<Digest>,
}

impl Current {
    fn of(state: &MachineState<'_>) -> Option<Self> {
        let live = state.live().map(|live| live.image.digest());
        let image = live.or(state.booted())?;
        let applied = state.report.as_ref().and_then(|report| report.applied.as_ref());
        let applied = applied.filter(|applied| applied.image.digest() == image);
        Some(Self {
            image,
            config: applied.and_then(|applied| applied.config.clone()),
            machine_part: applied.and_then(|applied| applied.machine_part),
        })
    }

    /// Whether this entry is it. Without a record on the machine, its image decides.
    fn is_of(&self, entry: &HistoryEntry) -> bool {
        let is_same = entry.machine_part == self.machine_part;
        entry.image.digest() == self.image && (self.config.is_none() || is_same)
    }
}

/// None for the stock image, which has no rendered config.
fn entry(ctx: &Context<'_>, build: PinnedBuild, target: NodeTarget) -> Option<HistoryEntry> {
    Some(HistoryEntry {
        build: build.name,
        image: target.image,
        config: target.config?,
        machine_part: target.machine_part,
        live_from: target.live_from,
        since: Time(ctx.now),
        ran: None,
        confirmed: None,
    })
}

/// The finalizers without ours, once the machines have what they keep.
fn on_deletion(ctx: &Context<'_>, config: &MachineOsConfig, is_done: bool) -> Option<Vec<String>> {
    let finalizers = &config.metadata.finalizers;
    if !finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER) {
        return None;
    }
    let keeps = OnDelete::of(&config.metadata) == Ok(OnDelete::Keep);
    let is_stock =
        matches!(ctx.desired, Desired::Target(desired) if desired.is_deletion) && is_done;
    let others = finalizers.iter().filter(|one| *one != labels::ROLLOUT_FINALIZER);
    (keeps || is_stock).then(|| others.cloned().collect())
}
