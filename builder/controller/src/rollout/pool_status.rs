//! The status of a pool that mosb rolls out, as the Machine Config Operator writes it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::blocked::Blocked;
use super::context::Context;
use super::machine_progress::MachineProgress;
use super::machine_state::BOOT_FULL;
use super::pool_status_update::PoolStatusUpdate;
use crate::name_list::name_list;
use crate::status::{
    BLOCKED, RENDER_DEGRADED, ROLLOUT_DEGRADED, ROLLOUT_NODES_DEGRADED, set_condition,
};
use mosb_image::Digest;
use mosb_plan::api::rollout::RolloutMode;
use mosb_plan::api::{API_VERSION, Condition, MachineConfigPool, condition};

/// The most machines that a message names.
const NAMED: usize = 5;
/// Maximum characters of a message.
const MESSAGE: usize = 4096;
/// Maximum characters of the cause that builds are blocked for, so that the rest of a message has space.
const BLOCKED_MESSAGE: usize = 2048;

/// One machine, as far as the pool counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub name: String,
    pub progress: MachineProgress,
    /// When it got its slot.
    pub slot_since: Option<Timestamp>,
    pub is_available: bool,
    pub has_slot: bool,
    /// It runs the target and has no slot.
    pub is_updated: bool,
    pub is_staged: bool,
    pub is_lost: bool,
    /// It runs the image of the target, and nothing but its machine part is missing.
    pub lacks_part: bool,
    pub degraded: Option<String>,
    pub waiting: Option<String>,
    pub booted: Option<Digest>,
    /// How many files of its image it hides, if it reported that in this boot.
    pub hidden_files: Option<usize>,
    /// Its next reboot may leave it without a way back.
    pub is_boot_full: bool,
}

/// What changes of the pool's status; none if it is unchanged.
pub(super) fn update(
    ctx: &Context<'_>,
    machines: &[Standing],
    blocked: Option<&Blocked>,
) -> Option<PoolStatusUpdate> {
    if ctx.snapshot.is_pool_missing {
        return None;
    }
    let pool = &ctx.snapshot.pool;
    let count = |is: &dyn Fn(&Standing) -> bool| {
        i64::try_from(machines.iter().filter(|one| is(one)).count()).expect("less than 2^63")
    };
    let mut update = PoolStatusUpdate {
        observed_generation: pool.metadata.generation,
        machine_count: count(&|_| true),
        updated_machine_count: count(&|one| one.is_updated),
        ready_machine_count: count(&|one| one.is_updated && one.is_available),
        unavailable_machine_count: count(&|one| !one.is_available || one.has_slot),
        degraded_machine_count: count(&|one| one.degraded.is_some()),
        configuration: None,
        conditions: pool.status.conditions.clone(),
    };
    let is_done =
        update.ready_machine_count == update.machine_count && update.unavailable_machine_count == 0;
    let is_newest = ctx.desired_target().is_some_and(|desired| is_newest(ctx, desired.is_pinned));
    if is_done && is_newest {
        update.configuration = configuration(ctx);
    }
    conditions(ctx, machines, is_done && is_newest, blocked, &mut update.conditions);
    is_changed(pool, &update).then_some(update)
}

fn is_changed(pool: &MachineConfigPool, update: &PoolStatusUpdate) -> bool {
    let status = &pool.status;
    let name = update.configuration.as_ref().map(|value| value["name"].as_str());
    status.observed_generation != update.observed_generation
        || status.machine_count != update.machine_count
        || status.updated_machine_count != update.updated_machine_count
        || status.ready_machine_count != update.ready_machine_count
        || status.unavailable_machine_count != update.unavailable_machine_count
        || status.degraded_machine_count != update.degraded_machine_count
        || name.is_some_and(|name| name != Some(&*status.configuration.name))
        || status.conditions != update.conditions
}

/// Whether the target is of the pool's rendered config, or of what the pool is pinned to.
fn is_newest(ctx: &Context<'_>, is_pinned: bool) -> bool {
    let config = ctx.target().and_then(|target| target.config.as_ref());
    let rendered = &ctx.snapshot.pool.spec.configuration.name;
    is_pinned || config.is_none_or(|config| config.to_string() == *rendered)
}

/// The rendered config that the machines have; none for the stock image, which is of no config.
fn configuration(ctx: &Context<'_>) -> Option<Value> {
    let name = ctx.target()?.config.as_ref()?.to_string();
    let reference =
        |name: &str| json!({ "apiVersion": API_VERSION, "kind": "MachineConfig", "name": name });
    let mut configuration = reference(&name);
    let wanted = &ctx.snapshot.pool.spec.configuration;
    let source: Vec<Value> = if wanted.name == name {
        wanted.source.iter().map(|source| reference(&source.name)).collect()
    } else {
        Vec::new()
    };
    configuration["source"] = json!(source);
    Some(configuration)
}

/// Sets the conditions that a roll-out writes; others stay.
fn conditions(
    ctx: &Context<'_>,
    machines: &[Standing],
    is_done: bool,
    blocked: Option<&Blocked>,
    list: &mut Vec<Condition>,
) {
    let now = ctx.now;
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
        set("Updated", true, "", &format!("All nodes are updated with {name}{pinned}"));
        set("Updating", false, "", "");
    } else {
        set("Updated", false, "", pinned.trim_start_matches("; "));
        let (is_updating, message) = progress(ctx, machines, name.as_deref());
        set("Updating", is_updating, "", &format!("{message}{}", not_built(ctx)));
    }
    set("NodeDegraded", !degraded.is_empty(), reason, &degraded);
    match blocked {
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
    if ctx.desired_target().is_some_and(|desired| is_newest(ctx, desired.is_pinned)) {
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

/// Whether machines are on their way, and a text for people.
fn progress(ctx: &Context<'_>, machines: &[Standing], name: Option<&str>) -> (bool, String) {
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
            let have = machines.iter().filter(|one| one.is_staged || one.is_updated).count();
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
            if is_all && !is_newest(ctx, desired.is_pinned) {
                return (true, format!("Waiting for the image of {rendered}"));
            }
            (true, format!("All nodes are updating to {name}{}{waiting}", full(machines)))
        }
    }
}

/// Which images run, and on how many machines; empty if no machine reported one.
fn runs(machines: &[Standing]) -> String {
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
fn waiting(machines: &[Standing]) -> String {
    let mut texts: Vec<&String> = Vec::new();
    for text in machines.iter().filter_map(|one| one.waiting.as_ref()) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let more = texts.len().saturating_sub(NAMED);
    let groups = texts.iter().take(NAMED).map(|text| {
        let is_it = |one: &Standing| one.waiting.as_ref() == Some(*text);
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
fn lacking(machines: &[Standing]) -> String {
    let names = named(machines, |one| one.lacks_part.then(|| one.name.clone()));
    if names.is_empty() {
        return names;
    }
    format!("; mosb rollout start brings its keys, password and kernel arguments to {names}")
}

/// Machines whose next reboot may leave them without a way back.
fn full(machines: &[Standing]) -> String {
    let names = named(machines, |one| one.is_boot_full.then(|| one.name.clone()));
    if names.is_empty() {
        return names;
    }
    format!("; {names}: {BOOT_FULL}")
}

/// Texts of the first machines that have one, and how many more there are.
fn named(machines: &[Standing], text: impl Fn(&Standing) -> Option<String>) -> String {
    let texts: Vec<String> = machines.iter().filter_map(text).collect();
    name_list(&texts, NAMED)
}
