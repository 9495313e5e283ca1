//! The plan as a decision for the driver: what is looked up, written and reported, and when the sets
//! are decided again. Pure.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::effect::{Action, BootImageEffect};
use super::figures::BootImageFigures;
use super::lookups;
use super::plan::{BootImagePlan, Outcome};
use super::report::{self, is_degraded};
use super::snapshot::BootImageSnapshot;
use mosb_cluster::secret_ref::SecretRef;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::waits::{BOOT_IMAGE_RECHECK, BOOT_IMAGE_RIGHTS};

/// The most writes of a pass; the next pass goes on.
pub(super) const MAX_WRITES: usize = 200;
/// When a pass follows a write, whose event may be late, or whose failure is to be reported.
pub(super) const SOON: Duration = Duration::from_secs(1);

pub(super) type BootImageDecision = Decision<SecretRef, BootImageReason, BootImageEffect>;

pub(super) fn decision(
    plan: &BootImagePlan,
    figures: &BootImageFigures,
    snapshot: &BootImageSnapshot,
    now: Timestamp,
) -> BootImageDecision {
    let lookups = lookups::next(&plan.lookups, snapshot);
    let writes = plan.sets.iter().filter_map(|set| {
        let (set, write) = (Some(set.set.clone()), set.write.clone()?);
        Some(Action::Effect(BootImageEffect { set, write }))
    });
    let mut actions: Vec<Action> = writes.collect();
    let is_soon = !actions.is_empty() || !plan.lookups.is_empty();
    let waits = [
        (actions.len() > MAX_WRITES).then_some(Duration::ZERO),
        is_soon.then_some(SOON),
        snapshot.memory.next_retry(now),
        recheck(plan, snapshot),
    ];
    if lookups.is_empty() {
        actions.truncate(MAX_WRITES);
        actions.extend(report::actions(plan, figures, snapshot, now));
    } else {
        actions.clear();
    }
    let requeue_after = waits.into_iter().flatten().min();
    Decision { lookups, requeue_after, ..Decision::of(BootImageReason::of(plan), actions) }
}

/// When the sets are decided again without a change.
fn recheck(plan: &BootImagePlan, snapshot: &BootImageSnapshot) -> Option<Duration> {
    let needs_rights = !snapshot.stubs.is_empty()
        || !snapshot.unread.is_empty()
        || !snapshot.doubtful.is_empty()
        || snapshot.golden_doubt.is_some();
    let recheck = if needs_rights { BOOT_IMAGE_RIGHTS } else { BOOT_IMAGE_RECHECK };
    (plan.is_on || needs_rights).then_some(recheck)
}

/// The state of all boot images, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootImageReason {
    pub is_degraded: bool,
    is_on: bool,
    counts: [usize; 5],
}

impl BootImageReason {
    fn of(plan: &BootImagePlan) -> Self {
        let mut counts = [0; 5];
        for set in &plan.sets {
            let at = match set.outcome {
                Outcome::Current => 0,
                Outcome::Updating => 1,
                Outcome::Waiting(_) => 2,
                Outcome::Skipped { .. } => 3,
                Outcome::Failed(_) => 4,
            };
            counts[at] += 1;
        }
        Self { is_degraded: is_degraded(plan), is_on: plan.is_on, counts }
    }
}

impl fmt::Display for BootImageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on && !self.is_degraded {
            return f.write_str("no machine sets are selected");
        }
        let [current, updating, waiting, skipped, failed] = self.counts;
        write!(
            f,
            "machine sets: {current} current, {updating} updating, {waiting} waiting, {skipped} skipped, {failed} failed"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::decide;
    use crate::figures::figures;
    use crate::tests::fake_cluster::{FakeCluster, NEW, OLD};
    use mosb_cluster::cluster_cache::BootImageKind::{self, ClusterApiMachineSet};
    use mosb_cluster::user_data_secret::FoundSecret;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn decision_of(snapshot: &BootImageSnapshot) -> BootImageDecision {
        let plan = decide(snapshot, NOW);
        decision(&plan, &figures(&plan, snapshot, NOW), snapshot, NOW)
    }

    #[test]
    fn a_right_that_no_watch_shows_is_looked_for_each_minute() {
        let snapshot = FakeCluster::new(NEW).snapshot();
        let mut off = snapshot.clone();
        off.settings = Ok(Default::default());
        let mut with_stub = snapshot.clone();
        with_stub.stubs.insert("a/b".parse().unwrap(), FoundSecret::Missing);
        let mut unread = snapshot.clone();
        unread.unread.insert(BootImageKind::MachineDeployment, "forbidden".to_owned());
        let mut doubtful = snapshot.clone();
        doubtful.golden_doubt = Some("connection refused".to_owned());
        for (what, snapshot, want) in [
            ("off", off, None),
            ("on", snapshot, Some(600)),
            ("with a stub", with_stub, Some(60)),
            ("a kind that can't be listed", unread, Some(60)),
            ("a watch that failed", doubtful, Some(60)),
        ] {
            let again = decision_of(&snapshot).requeue_after;
            assert_eq!(again.map(|again| again.as_secs()), want, "{what}");
        }
    }

    #[test]
    fn a_pass_has_so_many_writes_and_the_next_follows() {
        for (count, writes, again) in [(1, 1, SOON), (MAX_WRITES + 1, MAX_WRITES, Duration::ZERO)] {
            let mut cluster = FakeCluster::new(NEW);
            for n in 0..count {
                cluster.set(ClusterApiMachineSet, &format!("s{n}"), OLD);
            }
            let decision = decision_of(&cluster.snapshot());
            let of_sets = decision
                .actions
                .iter()
                .filter(|action| matches!(action, Action::Effect(effect) if effect.set.is_some()));
            assert_eq!(of_sets.count(), writes);
            assert_eq!(decision.requeue_after, Some(again));
        }
    }
}
