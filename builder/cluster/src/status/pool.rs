//! The pool's condition `ImageBuildDegraded`: one entry in an atomic list with other writers.

use jiff::Timestamp;

use super::condition_of;
use super::rollout::ROLLOUT_NODES_DEGRADED;
use mosb_api::{Condition, condition};

/// The type of the pool's condition.
pub const IMAGE_BUILD_DEGRADED: &str = "ImageBuildDegraded";
/// Conditions that block new builds.
const OTHER_DEGRADED: [&str; 4] =
    ["NodeDegraded", "RenderDegraded", "PinnedImageSetsDegraded", "PoolSynchronizerDegraded"];
/// Maximum characters of a build's message in a pool's condition.
const MESSAGE: usize = 4096;

/// The conditions of a pool that block new builds. Machines that failed a roll-out don't: a
/// corrected image repairs them.
pub fn blocking_conditions(conditions: &[Condition]) -> Vec<&'static str> {
    let is_blocking = |kind: &&str| {
        condition(conditions, kind)
            .is_some_and(|one| one.is_true() && one.reason != ROLLOUT_NODES_DEGRADED)
    };
    OTHER_DEGRADED.into_iter().filter(is_blocking).collect()
}

/// The state of a pool's build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolBuild<'a> {
    /// The pool has no MachineOSConfig any more.
    OptedOut,
    /// Planned, prepared or running.
    Building,
    Succeeded,
    Failed {
        build: &'a str,
        message: &'a str,
    },
}

/// The desired conditions of the pool; `None` if they are unchanged. Other components report the
/// same build with other messages. If status and reason are equal, their message remains, to avoid
/// overwriting each other forever.
pub fn pool_conditions(
    pool: &str,
    old: &[Condition],
    build: PoolBuild<'_>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let before = condition(old, IMAGE_BUILD_DEGRADED);
    let is_degraded = before.is_some_and(Condition::is_true);
    let (status, reason, message) = match build {
        PoolBuild::OptedOut if is_degraded => {
            ("False", "NoLayeredObjects", format!("Pool {pool} has no MachineOSConfig"))
        }
        PoolBuild::OptedOut => return None,
        PoolBuild::Building => {
            ("False", "Building", format!("OS image build in progress for pool {pool}"))
        }
        PoolBuild::Succeeded => {
            ("False", "BuildSuccess", format!("OS image build for pool {pool} succeeded"))
        }
        PoolBuild::Failed { build, message } => {
            let short: String = message.chars().take(MESSAGE).collect();
            (
                "True",
                "BuildFailed",
                format!(
                    "OS image build for pool {pool} failed (MachineOSBuild: {build}): Failed: {short}"
                ),
            )
        }
    };
    let is_said = before.is_some_and(|before| {
        let named = match build {
            PoolBuild::Failed { build, .. } => before.message.contains(build),
            _ => true,
        };
        before.status == status && before.reason == reason && named
    });
    if is_said {
        return None;
    }
    let mut list: Vec<Condition> = old.to_vec();
    list.retain(|one| one.kind != IMAGE_BUILD_DEGRADED);
    list.push(condition_of(before, IMAGE_BUILD_DEGRADED, (status, reason, &message), now));
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_failed_a_roll_out_do_not_block_builds() {
        let degraded = |kind: &str, status: &str, reason: &str| Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            ..Condition::default()
        };
        for (what, list, want) in [
            ("a daemon's", degraded("NodeDegraded", "True", ""), &["NodeDegraded"][..]),
            ("ours", degraded("NodeDegraded", "True", ROLLOUT_NODES_DEGRADED), &[]),
            ("not degraded", degraded("NodeDegraded", "False", ""), &[]),
            ("a sum of the others", degraded("Degraded", "True", ""), &[]),
            ("not rendered", degraded("RenderDegraded", "True", "Bad"), &["RenderDegraded"]),
        ] {
            assert_eq!(blocking_conditions(&[list]), want, "{what}");
        }
    }

    #[test]
    fn only_our_entry_changes_and_it_moves_to_the_end() {
        let now = |s| Timestamp::from_second(s).unwrap();
        let other = |kind: &str| Condition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            message: "theirs".to_owned(),
            ..Condition::default()
        };
        let failed = PoolBuild::Failed { build: "worker-0", message: "no such package" };
        assert_eq!(
            pool_conditions("worker", &[other("Updated")], PoolBuild::OptedOut, now(1)),
            None
        );
        let old = pool_conditions("worker", &[other("Updated")], PoolBuild::Building, now(1));
        let mut old = old.unwrap();
        old.push(other("Updating"));
        let list = pool_conditions("worker", &old, failed, now(5)).unwrap();
        let kinds: Vec<_> = list.iter().map(|one| &*one.kind).collect();
        assert_eq!(kinds, ["Updated", "Updating", IMAGE_BUILD_DEGRADED]);
        assert_eq!(list[0], other("Updated"));
        let ours = &list[2];
        assert_eq!((&*ours.status, &*ours.reason), ("True", "BuildFailed"));
        assert_eq!(ours.last_transition_time, Some(now(5).into()));
        for part in ["pool worker", "MachineOSBuild: worker-0", "no such package"] {
            assert!(ours.message.contains(part), "{}", ours.message);
        }
        assert_eq!(pool_conditions("worker", &list, failed, now(6)), None, "unchanged");
        // After a failure is fixed (row 34 of docs/reference/behaviours.md).
        let building = pool_conditions("worker", &list, PoolBuild::Building, now(7)).unwrap();
        assert!(building[2].matches(
            "False",
            "Building",
            "OS image build in progress for pool worker"
        ));
        let done = pool_conditions("worker", &building, PoolBuild::Succeeded, now(9)).unwrap();
        assert_eq!(
            (&*done[2].reason, done[2].last_transition_time.clone()),
            ("BuildSuccess", Some(now(7).into())),
            "the status did not flip"
        );
        // Another component's message for the same state is not replaced.
        let mut theirs = done.clone();
        theirs[2].message = "in their words".to_owned();
        assert_eq!(pool_conditions("worker", &theirs, PoolBuild::Succeeded, now(10)), None);
        let cleared = pool_conditions("worker", &list, PoolBuild::OptedOut, now(11)).unwrap();
        assert_eq!(cleared[2].reason, "NoLayeredObjects");
        assert_eq!(pool_conditions("worker", &done, PoolBuild::OptedOut, now(11)), None);
    }
}
