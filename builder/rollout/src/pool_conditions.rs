//! The conditions of a pool that mosb rolls out, as the Machine Config Operator writes them, and the
//! events of what changes of them. Pure.

use std::collections::BTreeMap;

use super::context::Context;
use super::effect::Action;
use super::machine_state::BOOT_FULL;
use super::machine_status::MachineStatus;
use super::pool_status::{PoolStatus, PoolStatusUpdate};
use mosb_api::rollout::RolloutMode;
use mosb_api::{Condition, MachineOsBuild, condition, labels};
use mosb_cluster::name_list::name_list;
use mosb_cluster::status::{
    BLOCKED, EventReason, RENDER_DEGRADED, ROLLOUT_DEGRADED, ROLLOUT_NODES_DEGRADED, new_event,
    regarding, set_condition,
};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::diff::OsSummary;

/// The most machines that a message names.
const NAMED: usize = 5;
/// Maximum characters of a message.
const MESSAGE: usize = 4096;
/// Maximum characters of the cause that builds are blocked for, so that the rest of a message has space.
const BLOCKED_MESSAGE: usize = 2048;

/// Sets the conditions that a roll-out writes; others stay. `is_done`: all machines are updated and
/// available.
pub(super) fn set_conditions(
    ctx: &Context<'_>,
    status: &PoolStatus,
    is_done: bool,
    list: &mut Vec<Condition>,
) {
    let (now, machines) = (ctx.now, status.machines.as_slice());
    let mut set = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let message: String = message.chars().take(MESSAGE).collect();
        let status = if is_true { "True" } else { "False" };
        set_condition(list, kind, (status, reason, &message), now);
    };
    let name = ctx.desired_target().map(|desired| {
        let config = desired.target.config.as_ref().map(ToString::to_string);
        config.unwrap_or_else(|| desired.build.to_string())
    });
    let degraded = named(machines, |one| {
        one.degraded.as_ref().map(|text| format!("node {} is reporting: {text:?}", one.name))
    });
    let reason = if degraded.is_empty() { "" } else { ROLLOUT_NODES_DEGRADED };
    let pinned = pinned(ctx);
    if is_done {
        let name = name.unwrap_or_default();
        let soaking = soaking(machines);
        set("Updated", true, "", &format!("All nodes are updated with {name}{pinned}{soaking}"));
        set("Updating", false, "", "");
    } else {
        set("Updated", false, "", pinned.trim_start_matches("; "));
        let (is_updating, message) = progress(ctx, status, name.as_deref());
        let os = os_change(ctx, machines);
        set("Updating", is_updating, "", &format!("{message}{os}{}", not_built(ctx)));
    }
    set("NodeDegraded", !degraded.is_empty(), reason, &degraded);
    match status.reason.blocked() {
        Some(blocked) => set(ROLLOUT_DEGRADED, true, blocked.reason, &blocked.message),
        None => set(ROLLOUT_DEGRADED, false, "", ""),
    }
    let is_unrendered = condition(list, RENDER_DEGRADED).is_some_and(Condition::is_true);
    let status = if is_unrendered || !degraded.is_empty() { "True" } else { "False" };
    set_condition(list, "Degraded", (status, reason, ""), now);
}

/// What a pinned pool adds to its messages.
fn pinned(ctx: &Context<'_>) -> String {
    let Some(desired) = ctx.desired_target().filter(|desired| desired.is_pinned) else {
        return String::new();
    };
    let newer = desired.newer.as_ref().map(|newer| format!("; {newer} is newer"));
    format!("; pinned to {}{}", desired.build, newer.unwrap_or_default())
}

/// Why the image of the pool's rendered config is not built; empty if it is, or if nothing prevents that.
fn not_built(ctx: &Context<'_>) -> String {
    if ctx.is_newest() {
        return String::new();
    }
    let config = ctx.snapshot.config.as_ref();
    let blocked = config.and_then(|config| condition(&config.status.conditions, BLOCKED));
    let Some(blocked) = blocked.filter(|blocked| blocked.is_true()) else {
        return String::new();
    };
    let rendered = &ctx.snapshot.pool.spec.configuration.name;
    let (reason, message) = (&blocked.reason, &blocked.message);
    let text = format!("; no image of {rendered} is built: {reason}: {message}");
    text.chars().take(BLOCKED_MESSAGE).collect()
}

/// What of the OS changes on machines that are not updated; empty if that is not known.
fn os_change(ctx: &Context<'_>, machines: &[MachineStatus]) -> String {
    let builds = &ctx.snapshot.builds;
    let target = ctx.desired_target().and_then(|desired| {
        let is_it = |build: &&MachineOsBuild| {
            let image = build.status.image().and_then(|image| image.parse::<PinnedRef>().ok());
            build.metadata.name == desired.build.name
                && image.is_some_and(|image| image.digest() == desired.build.digest)
        };
        builds.iter().find(is_it)
    });
    let Some(target) = target else {
        return String::new();
    };
    // If the config changed while an OS is rolled out, the newer build was compared with the earlier
    // one, whose OS it has.
    let same_os = builds.iter().filter(|build| is_on_same(build, target));
    let mut summaries = std::iter::once(target).chain(same_os);
    // Each compares the OS with that of one image, and machines may run others.
    let is_of = |summary: &OsSummary| {
        machines.iter().any(|one| !one.is_updated && one.booted == Some(summary.from))
    };
    let summary =
        summaries.find_map(|build| OsSummary::of(&build.metadata).filter(|summary| is_of(summary)));
    summary.map_or(String::new(), |summary| format!("; OS: {summary}"))
}

/// Whether the layers of two builds are on the same base, or on the same prepared base.
fn is_on_same(build: &MachineOsBuild, other: &MachineOsBuild) -> bool {
    let [one, two] = [build, other].map(|build| {
        [labels::BASE, labels::METHOD, labels::PREPARED].map(|key| build.metadata.annotation(key))
    });
    one[0].is_some() && one == two
}

/// Whether machines are on their way, and a text for people.
fn progress(ctx: &Context<'_>, status: &PoolStatus, name: Option<&str>) -> (bool, String) {
    let machines = status.machines.as_slice();
    let Some((desired, name)) = ctx.desired_target().zip(name) else {
        let text =
            format!("no image is rolled out; the machines keep what they run{}", runs(machines));
        return (false, text);
    };
    if ctx.snapshot.pool.spec.paused {
        return (false, format!("Pool is paused; will not update to {name}"));
    }
    let behind =
        named(machines, |one| (!one.is_updated && !one.has_slot).then(|| one.name.clone()));
    match desired.mode {
        RolloutMode::None => {
            (false, format!("not rolled out: mosb.dev/rollout is none; not at {name}: {behind}"))
        }
        RolloutMode::Stage => {
            let have = status.staged_or_updated();
            let all = machines.len();
            (
                false,
                format!(
                    "{name} is staged or running on {have} of {all} machines; they run it after a reboot{}{}{}",
                    lacking(machines),
                    full(machines),
                    waiting(machines)
                ),
            )
        }
        RolloutMode::Automatic => {
            let waiting = waiting(machines);
            let rendered = &ctx.snapshot.pool.spec.configuration.name;
            let is_all = machines.iter().all(|one| one.is_updated);
            if is_all && !ctx.is_newest() {
                return (true, format!("Waiting for the image of {rendered}"));
            }
            let ring = status.ring.map(|(ring, of)| format!("; ring {ring} of {of}"));
            let (ring, soaking) = (ring.unwrap_or_default(), soaking(machines));
            let full = full(machines);
            (true, format!("All nodes are updating to {name}{ring}{full}{soaking}{waiting}"))
        }
    }
}

/// Which images run, and on how many machines; empty if no machine reported one.
fn runs(machines: &[MachineStatus]) -> String {
    let mut counts: BTreeMap<Digest, usize> = BTreeMap::new();
    for digest in machines.iter().filter_map(|one| one.booted) {
        *counts.entry(digest).or_default() += 1;
    }
    let mut counts: Vec<(Digest, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(NAMED);
    let counts = counts.iter().take(NAMED);
    let texts: Vec<String> = counts.map(|(digest, count)| format!("{digest} on {count}")).collect();
    match (texts.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", texts.join(", ")),
        (false, _) => format!(": {} and {more} other images", texts.join(", ")),
    }
}

/// What machines wait for; those that wait for the same are named together.
fn waiting(machines: &[MachineStatus]) -> String {
    let mut texts: Vec<&String> = Vec::new();
    for text in machines.iter().filter_map(|one| one.waiting.as_ref()) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let more = texts.len().saturating_sub(NAMED);
    let groups = texts.iter().take(NAMED).map(|text| {
        let is_it = |one: &MachineStatus| one.waiting.as_ref() == Some(*text);
        format!("{}: {text}", named(machines, |one| is_it(one).then(|| one.name.clone())))
    });
    let groups: Vec<String> = groups.collect();
    match (groups.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; waiting: {}", groups.join(", ")),
        (false, _) => format!("; waiting: {} and {more} other reasons", groups.join(", ")),
    }
}

/// Machines to which nothing but the machine part is to be brought.
fn lacking(machines: &[MachineStatus]) -> String {
    let names = named(machines, |one| one.lacks_part.then(|| one.name.clone()));
    if names.is_empty() {
        return names;
    }
    format!("; mosb rollout start brings its keys, password and kernel arguments to {names}")
}

/// Machines whose checks must hold for a time, and until when.
fn soaking(machines: &[MachineStatus]) -> String {
    let names = named(machines, |one| Some(format!("{} until {}", one.name, one.soaks_until?)));
    if names.is_empty() { names } else { format!("; soaking: {names}") }
}

/// Machines whose next reboot may leave them without a way back.
fn full(machines: &[MachineStatus]) -> String {
    let names = named(machines, |one| one.is_boot_full.then(|| one.name.clone()));
    if names.is_empty() {
        return names;
    }
    format!("; {names}: {BOOT_FULL}")
}

/// Texts of the first machines that have one, and how many more there are.
fn named(machines: &[MachineStatus], text: impl Fn(&MachineStatus) -> Option<String>) -> String {
    let texts: Vec<String> = machines.iter().filter_map(text).collect();
    name_list(&texts, NAMED)
}

/// The events of this write of the pool's status; those of its machines are on their Nodes. They
/// follow the write, so that one that is rejected or repeated causes none.
pub(super) fn events(ctx: &Context<'_>, update: Option<&PoolStatusUpdate>) -> Vec<Action> {
    let Some(update) = update else {
        return Vec::new();
    };
    let metadata = &ctx.snapshot.pool.metadata;
    let old = |kind: &str| condition(&ctx.snapshot.pool.status.conditions, kind);
    let new = |kind: &str| condition(&update.conditions, kind);
    let is_true = |one: Option<&Condition>| one.is_some_and(Condition::is_true);
    let begins = |kind: &str| new(kind).filter(|one| one.is_true() && !is_true(old(kind)));
    let message = |one: &Condition| one.message.clone();
    let mut found: Vec<(EventReason, String)> = Vec::new();
    let blocked = (old(ROLLOUT_DEGRADED), new(ROLLOUT_DEGRADED));
    match blocked {
        (old, Some(new)) if new.is_true() => {
            let is_same = old.is_some_and(|old| old.is_true() && old.reason == new.reason);
            if !is_same {
                let note = format!("{}: {}", new.reason, new.message);
                found.push((EventReason::RolloutBlocked, note));
            }
        }
        (old, _) if is_true(old) => {
            let reason = old.map(|old| old.reason.clone()).unwrap_or_default();
            let note = format!("no longer {reason}");
            found.push((EventReason::RolloutUnblocked, note));
        }
        _ => {}
    }
    found.extend(begins("Updating").map(|one| (EventReason::RolloutStarted, message(one))));
    found.extend(begins("Updated").map(|one| (EventReason::RolloutCompleted, message(one))));
    let on = || regarding("MachineConfigPool", metadata);
    // The same change may come again, which is another event.
    let edge = |text: &str| format!("{} {text}", ctx.now);
    let events = found.into_iter();
    events
        .map(|(reason, text)| Action::Event(new_event(on(), reason, &edge(&text), text)))
        .collect()
}
