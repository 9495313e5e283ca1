//! Where the roll-out of a pool stands. The log, metrics and the status of the MachineConfigPool are
//! functions of it; the latter as the Machine Config Operator writes it. Pure.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::context::Context;
use super::machine_status::{MachineProgress, MachineStatus};
use super::pool_conditions::set_conditions;
use super::reason::{Blocked, RolloutReason};
use mosb_api::rollout::RolloutMode;
use mosb_api::{API_VERSION, Condition};

/// Where the roll-out of a pool stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    pub reason: RolloutReason,
    pub machines: Vec<MachineStatus>,
    /// Of a pool with a policy: the ring that machines are brought to the target in now, from 1, and how
    /// many there are.
    pub ring: Option<(usize, usize)>,
    /// When the next window begins, unless one is open.
    pub next_window: Option<Timestamp>,
}

impl PoolStatus {
    /// `blocked`: why nothing new is begun.
    pub(super) fn new(
        ctx: &Context<'_>,
        machines: Vec<MachineStatus>,
        blocked: Option<Blocked>,
    ) -> Self {
        let mut status =
            Self { reason: RolloutReason::Off, machines, ring: None, next_window: None };
        status.reason = match blocked {
            Some(blocked) => RolloutReason::Blocked(blocked),
            None => status.find_reason(ctx),
        };
        status
    }

    fn find_reason(&self, ctx: &Context<'_>) -> RolloutReason {
        let snapshot = ctx.snapshot;
        if snapshot.is_pool_missing {
            let names = self.machines.iter().map(|machine| machine.name.clone());
            return RolloutReason::NoPool(names.collect());
        }
        if snapshot.pool.metadata.is_being_deleted() {
            return RolloutReason::Deleting;
        }
        if ctx.is_target_pending() {
            return RolloutReason::LookingUp;
        }
        let Some(desired) = ctx.desired_target().filter(|_| !ctx.is_off()) else {
            return RolloutReason::Off;
        };
        let build = desired.build.to_string();
        let machines = self.machines.len();
        if self.is_done(ctx) {
            RolloutReason::Updated(build)
        } else if snapshot.pool.spec.paused {
            RolloutReason::Paused(build)
        } else if desired.mode == RolloutMode::Stage {
            RolloutReason::Staging { build, staged: self.staged_or_updated(), machines }
        } else {
            let updated = self.count(|one| one.is_updated);
            RolloutReason::RollingOut { build, updated, machines }
        }
    }

    /// Whether all machines run the target, also those that are of this pool once their labels are
    /// corrected.
    pub(super) fn is_done(&self, ctx: &Context<'_>) -> bool {
        ctx.snapshot.shared_nodes.is_empty() && self.machines.iter().all(|one| one.is_updated)
    }

    pub(super) fn staged_or_updated(&self) -> usize {
        self.count(|one| one.is_staged || one.is_updated)
    }

    pub fn count(&self, is: impl Fn(&MachineStatus) -> bool) -> usize {
        self.machines.iter().filter(|one| is(one)).count()
    }

    /// When the machine in this progress that has had its slot the longest got it.
    pub fn oldest_slot(&self, progress: MachineProgress) -> Option<Timestamp> {
        let machines = self.machines.iter().filter(|one| one.progress == progress);
        machines.filter_map(|one| one.slot_since).min()
    }

    /// Files of their images that the machines hide, all together.
    pub fn hidden_files(&self) -> usize {
        self.machines.iter().filter_map(|one| one.hidden_files).sum()
    }

    /// What changes of the status of the MachineConfigPool; none if it is unchanged.
    pub(super) fn update(&self, ctx: &Context<'_>) -> Option<PoolStatusUpdate> {
        if ctx.snapshot.is_pool_missing {
            return None;
        }
        let pool = &ctx.snapshot.pool;
        let count =
            |is: fn(&MachineStatus) -> bool| i64::try_from(self.count(is)).expect("less than 2^63");
        let mut update = PoolStatusUpdate {
            observed_generation: pool.metadata.generation,
            machine_count: count(|_| true),
            updated_machine_count: count(|one| one.is_updated),
            ready_machine_count: count(|one| one.is_updated && one.is_available),
            unavailable_machine_count: count(|one| !one.is_available || one.has_slot),
            degraded_machine_count: count(|one| one.degraded.is_some()),
            configuration: None,
            conditions: pool.status.conditions.clone(),
        };
        let is_ready = update.ready_machine_count == update.machine_count
            && update.unavailable_machine_count == 0;
        let is_done = is_ready && ctx.is_newest();
        if is_done {
            update.configuration = configuration(ctx);
        }
        set_conditions(ctx, self, is_done, &mut update.conditions);
        update.is_change(ctx).then_some(update)
    }
}

/// The fields of the status of a MachineConfigPool that a roll-out writes, as a merge patch.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatusUpdate {
    /// The generation of the pool that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub machine_count: i64,
    pub updated_machine_count: i64,
    pub ready_machine_count: i64,
    pub unavailable_machine_count: i64,
    pub degraded_machine_count: i64,
    /// Reference to the rendered config that all machines have; `None` leaves the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
    /// All conditions, in which only those of the roll-out change: the API replaces the list as one.
    pub conditions: Vec<Condition>,
}

impl PoolStatusUpdate {
    fn is_change(&self, ctx: &Context<'_>) -> bool {
        let status = &ctx.snapshot.pool.status;
        let name = self.configuration.as_ref().map(|value| value["name"].as_str());
        status.observed_generation != self.observed_generation
            || status.machine_count != self.machine_count
            || status.updated_machine_count != self.updated_machine_count
            || status.ready_machine_count != self.ready_machine_count
            || status.unavailable_machine_count != self.unavailable_machine_count
            || status.degraded_machine_count != self.degraded_machine_count
            || name.is_some_and(|name| name != Some(&*status.configuration.name))
            || status.conditions != self.conditions
    }
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
