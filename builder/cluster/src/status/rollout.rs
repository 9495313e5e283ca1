//! The pool's conditions of a roll-out.

use jiff::Timestamp;

use super::condition_of;
use mosb_api::{Condition, condition};

/// The type of the pool's condition: nothing new is begun, and why.
pub const ROLLOUT_DEGRADED: &str = "RolloutDegraded";
/// Reason of `NodeDegraded` and `Degraded` if the roll-out wrote them. A corrected image must get
/// through to machines that failed, so they don't block builds.
pub const ROLLOUT_NODES_DEGRADED: &str = "RolloutNodesDegraded";
/// Reason of [`ROLLOUT_DEGRADED`]: the controller runs without `--rollout`.
pub const NOT_ENABLED: &str = "NotEnabled";

/// Sets one condition at its place in the list, or at the end.
pub fn set_condition(
    list: &mut Vec<Condition>,
    kind: &str,
    updates: (&str, &str, &str),
    now: Timestamp,
) {
    let (status, reason, message) = updates;
    let new = condition_of(condition(list, kind), kind, updates, now);
    match list.iter_mut().find(|one| one.kind == kind) {
        Some(old) if old.matches(status, reason, message) => {}
        Some(old) => *old = new,
        None => list.push(new),
    }
}

/// The conditions of a pool in a controller without `--rollout`; `None` if they are unchanged.
/// `is_wanted`: the MachineOSConfig asks for a roll-out.
pub fn not_enabled_conditions(
    old: &[Condition],
    is_wanted: bool,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let before = condition(old, ROLLOUT_DEGRADED);
    let message = "the controller runs without --rollout, so nothing is brought to the machines; apply the overlay deploy/rollout, or set mosb.dev/rollout to none";
    let updates = if is_wanted {
        ("True", NOT_ENABLED, message)
    } else if before.is_some_and(|before| before.is_true() && before.reason == NOT_ENABLED) {
        ("False", "", "")
    } else {
        return None;
    };
    let mut list = old.to_vec();
    set_condition(&mut list, ROLLOUT_DEGRADED, updates, now);
    (list != old).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_out_without_its_overlay_is_reported_until_nobody_asks_for_it() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let other = Condition { kind: "Updated".to_owned(), ..Condition::default() };
        let old = [other.clone()];
        assert_eq!(not_enabled_conditions(&old, false, now(1)), None);
        let reported = not_enabled_conditions(&old, true, now(1)).unwrap();
        assert_eq!(reported[0], other);
        assert!(reported[1].is_true() && reported[1].message.contains("deploy/rollout"));
        assert_eq!(not_enabled_conditions(&reported, true, now(2)), None, "unchanged");
        let cleared = not_enabled_conditions(&reported, false, now(3)).unwrap();
        assert!(cleared[1].matches("False", "", ""));
        assert_eq!(cleared[1].last_transition_time, Some(now(3).into()));
        let mut running = reported.clone();
        running[1].reason = "PinNotFound".to_owned();
        assert_eq!(not_enabled_conditions(&running, false, now(4)), None, "not ours");
    }
}
