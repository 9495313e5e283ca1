//! The pool's condition `RenderDegraded`: one entry in an atomic list with other writers.

use jiff::Timestamp;

use super::{camel_case, condition_of};
use mosb_api::{Condition, condition};

/// The type of the pool's condition.
pub const RENDER_DEGRADED: &str = "RenderDegraded";
/// Maximum characters of its message.
const MESSAGE: usize = 4096;

/// The desired conditions of the pool; `None` if they are unchanged. `state`: a note about a pool that
/// is rendered; or reason (`bad-setting`) and message of a failed render.
pub fn render_conditions(
    old: &[Condition],
    state: Result<&str, (&str, &str)>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let before = condition(old, RENDER_DEGRADED);
    let (status, reason, message) = match state {
        Ok(note) => ("False", String::new(), note),
        Err((reason, message)) => ("True", camel_case(reason), message),
    };
    let message: String = message.chars().take(MESSAGE).collect();
    if before.is_some_and(|before| before.matches(status, &reason, &message)) {
        return None;
    }
    let mut list: Vec<Condition> = old.to_vec();
    list.retain(|one| one.kind != RENDER_DEGRADED);
    let updates = (status, &*reason, &*message);
    list.push(condition_of(before, RENDER_DEGRADED, updates, now));
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_entry_changes_and_its_time_only_when_it_flips() {
        let now = |s| Timestamp::from_second(s).unwrap();
        let other = Condition {
            kind: "Updated".to_owned(),
            status: "True".to_owned(),
            ..Condition::default()
        };
        let old = render_conditions(std::slice::from_ref(&other), Ok(""), now(1)).unwrap();
        assert_eq!(old[0], other);
        assert!(old[1].matches("False", "", ""));
        assert_eq!(render_conditions(&old, Ok(""), now(2)), None, "unchanged");

        let wrong = Err(("invalid-machine-configs", "50-a: spec.kernelType"));
        let list = render_conditions(&old, wrong, now(3)).unwrap();
        assert!(list[1].matches("True", "InvalidMachineConfigs", "50-a: spec.kernelType"));
        assert_eq!(list[1].last_transition_time, Some(now(3).into()));
        assert_eq!(render_conditions(&list, wrong, now(4)), None);

        let long = "x".repeat(2 * MESSAGE);
        let list = render_conditions(&list, Err(("bad-setting", &long)), now(5)).unwrap();
        assert_eq!(list[1].message.len(), MESSAGE);
        assert_eq!(
            list[1].last_transition_time,
            Some(now(3).into()),
            "it was degraded all the time"
        );
        let mended = render_conditions(&list, Ok(""), now(6)).unwrap();
        assert_eq!(mended[1].last_transition_time, Some(now(6).into()));
        assert_eq!(mended.len(), 2);
    }
}
