//! Events about the conditions: when a problem begins and when it is over. Pure.

use super::effect::ObjectRef;
use super::report::{DEGRADED, EXPIRING, SKEWED};
use mosb_api::{Condition, condition};
use mosb_cluster::cluster_cache::BootImageKind;
use mosb_cluster::status::{EventReason, new_event};
use mosb_reconcile::write::{Event, Regarding};

/// The conditions that report a problem while they are true.
const PROBLEMS: [Problem; 3] = [
    Problem {
        condition: DEGRADED,
        begins: EventReason::BootImageUpdateFailed,
        ends: EventReason::BootImageUpdateRecovered,
        over: "no boot image of a machine set has an error",
    },
    Problem {
        condition: SKEWED,
        begins: EventReason::BootImagesTooOld,
        ends: EventReason::BootImagesNewEnough,
        over: "no boot image in use is known to be older than the limit",
    },
    Problem {
        condition: EXPIRING,
        begins: EventReason::BootImageUserDataExpiring,
        ends: EventReason::BootImageUserDataRenewed,
        over: "no CA in user data that is known expires soon",
    },
];

/// A condition and the events of its edges.
struct Problem {
    condition: &'static str,
    begins: EventReason,
    ends: EventReason,
    /// The note of the end, if the condition has no message then.
    over: &'static str,
}

/// The events of a change of the conditions of this object.
pub(super) fn events(object: &ObjectRef, before: &[Condition], after: &[Condition]) -> Vec<Event> {
    PROBLEMS.iter().filter_map(|problem| problem.event(object, before, after)).collect()
}

impl Problem {
    fn event(
        &self,
        object: &ObjectRef,
        before: &[Condition],
        after: &[Condition],
    ) -> Option<Event> {
        let was = condition(before, self.condition).is_some_and(Condition::is_true);
        // Without the condition, it is not known whether the problem is over.
        let now = condition(after, self.condition)?;
        let reason = match (was, now.is_true()) {
            (false, true) => self.begins,
            (true, false) => self.ends,
            (true, true) | (false, false) => return None,
        };
        let since = now.last_transition_time.as_ref();
        let edge = since.map(|time| time.0.to_string()).unwrap_or_default();
        let note = if now.message.is_empty() { self.over } else { &*now.message };
        Some(new_event(regarding(object), reason, &edge, note))
    }
}

fn regarding(object: &ObjectRef) -> Regarding {
    Regarding {
        api_version: match object.kind {
            BootImageKind::MachineConfiguration => "operator.openshift.io/v1",
            _ => "mosb.dev/v1alpha1",
        },
        kind: object.kind.as_str(),
        name: object.name.clone(),
        uid: object.uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use mosb_cluster::status::set_condition;
    use mosb_reconcile::write::EventKind;

    fn list(states: &[(&str, &str, &str)], second: i64) -> Vec<Condition> {
        let mut list = Vec::new();
        let now = jiff::Timestamp::from_second(second).unwrap();
        for (kind, status, message) in states {
            set_condition(&mut list, kind, (*status, "Because", message), now);
        }
        list
    }

    #[test]
    fn each_problem_has_an_event_when_it_begins_and_one_when_it_is_over() {
        let object = ObjectRef {
            kind: BootImageKind::BootImageStatus,
            version: "v1alpha1".to_owned(),
            namespace: String::new(),
            name: "cluster".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
        };
        for (kind, begins, ends) in [
            (DEGRADED, "BootImageUpdateFailed", "BootImageUpdateRecovered"),
            (SKEWED, "BootImagesTooOld", "BootImagesNewEnough"),
            (EXPIRING, "BootImageUserDataExpiring", "BootImageUserDataRenewed"),
        ] {
            let bad = list(&[(kind, "True", "a is old")], 1);
            let worse = list(&[(kind, "True", "a and b are old")], 1);
            let good = list(&[(kind, "False", "")], 2);
            let none = Vec::new();
            for (what, before, after, want) in [
                ("it begins", &none, &bad, Some(begins)),
                ("it was good", &good, &bad, Some(begins)),
                ("it goes on", &bad, &worse, None),
                ("it is over", &worse, &good, Some(ends)),
                ("it never was", &none, &good, None),
                ("it is not known any more", &bad, &none, None),
            ] {
                let events = events(&object, before, after);
                let reasons: Vec<_> = events.iter().map(|one| one.reason).collect();
                assert_eq!(reasons, Vec::from_iter(want), "{kind}: {what}");
                for event in events {
                    let is_begin = want == Some(begins);
                    assert_eq!(event.kind == EventKind::Warning, is_begin, "{kind}: {what}");
                    assert_eq!(event.note == "a is old", is_begin, "{kind}: {what}");
                    assert!(!event.note.is_empty(), "{kind}: {what}");
                }
            }
        }
        // All at once, and again later: each event has a name of its own.
        let all = [DEGRADED, SKEWED, EXPIRING].map(|kind| (kind, "True", "x"));
        let names: BTreeSet<String> = [1, 2]
            .into_iter()
            .flat_map(|second| events(&object, &[], &list(&all, second)))
            .map(|event| event.name)
            .collect();
        assert_eq!(names.len(), 6);
    }
}
