//! The decision: a pure function from a snapshot to the actions that bring the cluster closer to
//! the desired state.
//!
//! | module | decides |
//! | --- | --- |
//! | `opt_in` | whether mosb builds images for the pool |
//! | `component` | which MachineConfig sets the pool's pre-built image |
//! | `desired_build` | the desired build, and whether it is possible |
//! | `seed` | how a pre-built image is put in service, before anything else |
//! | `after_seeding` | how a pre-built image in service is reported and reused |
//! | `select_build` | which build is used: an existing, older, adopted or new one |
//! | `unreconcilable` | whether machines can't take the config on, so that it gets no image |
//! | `live_from` | whether machines get a new image without a reboot |
//! | `create_build` | what a new build contains, and which builds it supersedes |
//! | `adopt` | whether a build reuses the image in service |
//! | `progress` | the next state of a build, from the state of its workload |
//! | `prepared_base` | what a build that must run something is made on |
//! | `existing_image` | whether a direct build needs no workload, as the registry has its image |
//! | `start_workload` | which objects are created before a workload |
//! | `finish_attempt` | the result of a build, from the end of its workload |
//! | `base_tree` | which tree of its base a build records, and which one its image is of |
//! | `promotion` | whether the image of a build comes into service |
//! | `signing` | whether an image is signed, or must be before its build ends |
//! | `own_checks` | which Jobs of own checks are due, and what they found |
//! | `archive_logs` | which logs are archived |
//! | `annotations` | the values in annotations of builds and workloads |
//! | `attempt_failure` | whether and when a failed attempt is retried |
//! | `rollout_disabled` | the pool's condition of a roll-out that the controller does not do |
//! | `report_status` | the status of MachineOSConfig and pool |
//!
//! Invariant: a decision depends on nothing but the snapshot and the time. All state is in API
//! objects, so an action that was lost is simply decided again.

mod adopt;
mod after_seeding;
mod annotations;
mod archive_logs;
mod attempt_failure;
mod base_tree;
mod component;
mod create_build;
mod desired_build;
mod existing_image;
mod finish_attempt;
mod live_from;
mod opt_in;
mod own_checks;
mod prepared_base;
mod progress;
mod promotion;
mod report_status;
mod rollout_disabled;
mod seed;
mod select_build;
mod signing;
mod start_workload;
mod unreconcilable;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use self::desired_build::DesiredBuild;
use self::seed::Seed;
use self::signing::Signature;
use super::action::{Action, BuildEffect};
use super::lookup::{ImageStatus, Lookup, Planned, Pull, RequiredPolicy};
use super::pool_reason::PoolReason;
use super::snapshot::Snapshot;
use mosb_api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, labels};
use mosb_cluster::resolver::{LOOKUP_TIMEOUT, NO_RENDERED_CONFIG};
use mosb_cluster::status::{EventReason, new_event, regarding};
use mosb_image::PinnedRef;
use mosb_reconcile::Problem;
use mosb_reconcile::problem::{REGISTRY_BUSY, REPORT_DELAY};
use mosb_types::ErrorClass;

/// Objects that are applied together are visible within this time.
const APPLY_SKEW: Duration = Duration::from_secs(5);

/// The result of [`decide`] for one snapshot.
pub type Decision = mosb_reconcile::driver::Decision<Lookup, PoolReason, BuildEffect>;

/// Decides what to change. Pure: the same snapshot and time give the same decision.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let mut decision = decide_build(snapshot, now);
    rollout_disabled::report(snapshot, now, &mut decision);
    decision
}

fn decide_build(snapshot: &Snapshot, now: Timestamp) -> Decision {
    if let Some(who) = &snapshot.cluster.other_builder {
        return Decision::unchanged(PoolReason::OtherBuilder(who.clone()));
    }
    let obsolete_components = component::obsolete_components(snapshot);
    if !obsolete_components.is_empty() {
        if let Some(watch) = &snapshot.broken_watch {
            return Decision::unchanged(PoolReason::Problem(Problem::of_watch(watch)));
        }
        return Decision::of(PoolReason::OptingOut, obsolete_components);
    }
    let Some(config) = &snapshot.config else {
        return opt_in::without_config(snapshot, now);
    };
    if config.metadata.is_being_deleted() {
        return Decision::unchanged(PoolReason::OptingOut);
    }
    if let Some(decision) = opt_in::follow_label(snapshot, config) {
        return decision;
    }
    let blocked = |reason: PoolReason| {
        let mut actions = Vec::new();
        // An active build is for an older desired state. This does not hold if only nodes were
        // added or removed.
        let is_older = !matches!(reason, PoolReason::NoNode | PoolReason::MixedPlatforms(_));
        let running = |build: &&MachineOsBuild| {
            is_older
                && is_ours(build, config)
                && !build.metadata.is_being_deleted()
                && !build.status.is_terminal()
        };
        for build in snapshot.builds.iter().filter(running) {
            actions.extend(create_build::interrupt_actions(
                build,
                "the desired state can't be built",
                now,
            ));
        }
        report_status::block(snapshot, config, &reason, now, &mut actions);
        Decision::of(reason, actions)
    };
    let name = &config.spec.machine_config_pool.name;
    if !snapshot.rivals.is_empty() && config.metadata.name != *name {
        return blocked(PoolReason::Rivals(snapshot.rivals.clone()));
    }
    let Some(pool) = &snapshot.pool else {
        let reason = PoolReason::NoPool(name.clone());
        return match apply_skew_left(config, now) {
            Some(again) => Decision { requeue_after: Some(again), ..Decision::unchanged(reason) },
            None => blocked(reason),
        };
    };
    let desired = match DesiredBuild::of(snapshot, config, pool) {
        Ok(desired) => Some(desired),
        Err(PoolReason::NotRendered) => None,
        Err(reason) => return blocked(reason),
    };
    let seed = match Seed::of(snapshot, config, desired.as_ref()) {
        Ok(seed) => seed,
        Err(reason) => return blocked(reason),
    };
    let Some(desired) = desired else {
        return match seed {
            Some(seed) => seed.before_first_render(snapshot, config, now),
            None => {
                let mut actions = Vec::new();
                report_status::unblock(config, now, &mut actions);
                Decision::of(PoolReason::NotRendered, actions)
            }
        };
    };
    let mut builder = DecisionBuilder {
        snapshot,
        now,
        config,
        pool,
        desired,
        seed,
        actions: Vec::new(),
        requeue_after: None,
        is_blocked: false,
        needed_checks: None,
        signature: None,
    };
    match builder.run() {
        Ok(reason) => {
            builder.after_seeding();
            builder.delete_ended_checks();
            let requeue_after = builder.requeue_after;
            Decision { requeue_after, ..Decision::of(reason, builder.actions) }
        }
        Err(lookup) => needs(lookup),
    }
}

/// How long a new MachineOSConfig may lack its pool: they may have been applied together, in any
/// order.
fn apply_skew_left(config: &MachineOsConfig, now: Timestamp) -> Option<Duration> {
    let created = config.metadata.creation_timestamp.as_ref()?.0;
    let age = now.duration_since(created);
    if !age.is_negative() {
        APPLY_SKEW.checked_sub(age.unsigned_abs())
    } else if age.unsigned_abs() <= APPLY_SKEW {
        // The API server's clock may be a little ahead.
        Some(APPLY_SKEW)
    } else {
        // The clock was set back.
        None
    }
}

fn is_ours(build: &MachineOsBuild, config: &MachineOsConfig) -> bool {
    let metadata = &build.metadata;
    metadata.annotation(labels::INPUTS).is_some()
        && metadata.is_controlled_by(config.metadata.uid())
}

/// Reports on the MachineOSConfig that the cluster rejected an action, because users don't read the
/// controller's log.
pub fn report_refusal(snapshot: &Snapshot, problem: Problem, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    if let Some(config) = &snapshot.config {
        report_status::block(snapshot, config, &PoolReason::Problem(problem), now, &mut actions);
    }
    actions
}

/// Why a fact that the decision needs is not available.
enum Unavailable {
    /// It must be looked up first.
    Lookup(Lookup),
    /// The lookup failed, or its result prevents the build.
    Problem(Problem),
}

/// Collects the actions of one decision. If a lookup is needed, they are dropped.
struct DecisionBuilder<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    config: &'a MachineOsConfig,
    pool: &'a MachineConfigPool,
    desired: DesiredBuild,
    /// A pre-built image that must be put in service first.
    seed: Option<Seed>,
    actions: Vec<Action>,
    requeue_after: Option<Duration>,
    /// Whether this decision sets the condition `Blocked`.
    is_blocked: bool,
    /// The Jobs of own checks that must go on; none if that is not known.
    needed_checks: Option<BTreeSet<String>>,
    /// Whether the image is signed that this decision asked about.
    signature: Option<Signature>,
}

impl<'a> DecisionBuilder<'a> {
    /// Whether we created a build for this MachineOSConfig (same UID).
    fn is_ours(&self, build: &MachineOsBuild) -> bool {
        is_ours(build, self.config)
    }

    /// Our builds that are not being deleted.
    fn ours(&self) -> impl Iterator<Item = &'a MachineOsBuild> {
        let builds = self.snapshot.builds.iter();
        builds.filter(|build| self.is_ours(build) && !build.metadata.is_being_deleted())
    }

    fn plan(
        &self,
        lookup: impl FnOnce() -> Lookup,
    ) -> Result<&'a Result<Planned, Problem>, Lookup> {
        self.snapshot.lookup_results.plan.as_ref().ok_or_else(lookup)
    }

    /// Whether a registry has an image.
    fn image_status(
        &self,
        image: &PinnedRef,
        build: &MachineOsBuild,
    ) -> Result<&'a ImageStatus, Lookup> {
        let secret = build.metadata.annotation(labels::RENDERED_IMAGE_PUSH_SECRET);
        let found = self.snapshot.lookup_results.exists.get(image);
        found.ok_or_else(|| Lookup::Exists {
            image: image.clone(),
            secret: secret.unwrap_or(&self.desired.push_secret).to_owned(),
            // A pre-built image may be outside the push repository.
            pull: if *image.repo() == self.desired.push { Pull::Not } else { pull_of(self.config) },
            policy: RequiredPolicy::Unchecked,
        })
    }

    /// The next decision is made after this time, or sooner.
    fn requeue_within(&mut self, time: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(time, |before| before.min(time)));
    }

    /// Reports a problem, or requests the missing lookup.
    fn unavailable(&mut self, cause: Unavailable) -> Result<PoolReason, Lookup> {
        match cause {
            Unavailable::Lookup(lookup) => Err(lookup),
            Unavailable::Problem(problem) => Ok(self.problem(&problem)),
        }
    }

    /// Why nothing follows from what the snapshot lacks.
    fn unseen(&mut self) -> Option<PoolReason> {
        let watch = self.snapshot.broken_watch.as_ref()?;
        Some(self.problem(&Problem::of_watch(watch)))
    }

    /// Reports a problem if a user must act or it persists.
    fn problem(&mut self, problem: &Problem) -> PoolReason {
        let reason = PoolReason::Problem(problem.clone());
        if is_reported(self.snapshot, problem) {
            self.block(&reason);
        }
        reason
    }

    fn block(&mut self, reason: &PoolReason) {
        self.is_blocked = true;
        report_status::block(self.snapshot, self.config, reason, self.now, &mut self.actions);
    }

    fn emit_build_event(
        &mut self,
        build: &MachineOsBuild,
        reason: EventReason,
        edge: &str,
        note: impl Into<String>,
    ) {
        let on = regarding("MachineOSBuild", &build.metadata);
        self.actions.push(Action::Event(new_event(on, reason, edge, note)));
    }

    fn emit_config_event(&mut self, reason: EventReason, edge: &str, note: impl Into<String>) {
        let on = regarding("MachineOSConfig", &self.config.metadata);
        self.actions.push(Action::Event(new_event(on, reason, edge, note)));
    }
}

/// Whether a problem is reported: a user must act, or it persists. The queue decides when to retry.
fn is_reported(snapshot: &Snapshot, problem: &Problem) -> bool {
    let earlier = snapshot.earlier_problem.as_ref();
    let lasts = earlier.is_some_and(|earlier| earlier.lasted >= REPORT_DELAY);
    let at_once = [NO_RENDERED_CONFIG, LOOKUP_TIMEOUT, REGISTRY_BUSY].contains(&&*problem.reason);
    problem.class != ErrorClass::Transient || at_once || lasts
}

/// Pull credentials of a MachineOSConfig.
fn pull_of(config: &MachineOsConfig) -> Pull {
    match &config.spec.base_image_pull_secret {
        Some(own) => Pull::Own(own.name.clone()),
        None => Pull::Global,
    }
}

fn needs(lookup: Lookup) -> Decision {
    let reason = match &lookup {
        Lookup::Plan(_) | Lookup::OsImage { .. } => PoolReason::Planning,
        Lookup::Exists { image, .. } => PoolReason::Confirming(image.to_string()),
        Lookup::Sign(lookup) => PoolReason::Signing(lookup.image.to_string()),
        Lookup::Checks(lookup) => PoolReason::Checking(lookup.image.to_string()),
        Lookup::Existing(lookup) => PoolReason::Preparing(lookup.build.to_string()),
        Lookup::Result { build } => PoolReason::Preparing(build.to_string()),
    };
    Decision::looking_up(lookup, reason)
}

#[cfg(test)]
mod tests;
