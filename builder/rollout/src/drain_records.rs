//! What is remembered of all drains after a pass. Pure.
//!
//! A new process begins anew.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::drain::{Drain, DrainRecord, DrainRecords, NodeEvictions};
use super::snapshot::RolloutSnapshot;
use mosb_api::labels;

/// What is remembered after a pass. A node without evictions was not reached, or no pod on it had
/// to be evicted.
pub(super) fn after_pass(
    mut records: DrainRecords,
    snapshot: &RolloutSnapshot,
    evictions: &BTreeMap<String, NodeEvictions>,
    now: Timestamp,
) -> DrainRecords {
    // Pods that come while it is not cordoned are the first ones when it is again.
    records.retain(|node, _| {
        let machine = snapshot.machines.iter().find(|machine| machine.name() == node);
        machine.is_some_and(|one| {
            one.node.unschedulable && one.node.metadata.annotation(labels::NODE_SLOT).is_some()
        })
    });
    for (node, pods) in &snapshot.lookup_results.pods {
        let drain = pods.as_ref().map(|pods| Drain::of(pods, records.get(node)));
        let drain = drain.as_ref().map_err(|problem| &*problem.message);
        let mut record = DrainRecord::after_list(records.get(node), drain, now);
        if let Some(evictions) = evictions.get(node) {
            record.refused.clone_from(&evictions.refused);
            if evictions.accepted.iter().any(|uid| record.is_first(uid)) {
                record.progress = now;
            }
        }
        records.insert(node.clone(), record);
    }
    records
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mosb_types::ErrorClass;

    use super::*;
    use crate::Refusal;
    use crate::lookup::SeenPod;
    use crate::snapshot::Machine;
    use mosb_reconcile::Problem;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused(pods: &[&str]) -> Vec<Refusal> {
        let refusal = |pod: &&str| Refusal {
            namespace: "n".to_owned(),
            pod: (*pod).to_owned(),
            message: "budget".to_owned(),
        };
        pods.iter().map(refusal).collect()
    }

    /// Pods on the node `a`; `-` is one that is being deleted.
    fn snapshot(has_slot: bool, pods: Option<&[&str]>) -> RolloutSnapshot {
        let mut machine = Machine::default();
        machine.node.unschedulable = true;
        machine.node.metadata.name = "a".to_owned();
        if has_slot {
            machine.node.metadata.annotations.insert(labels::NODE_SLOT.to_owned(), "{}".to_owned());
        }
        let mut snapshot =
            RolloutSnapshot { machines: vec![machine], ..RolloutSnapshot::default() };
        let pod = |name: &&str| SeenPod {
            name: (*name).to_owned(),
            uid: name.trim_start_matches('-').to_owned(),
            deleting: name.starts_with('-'),
            ..SeenPod::default()
        };
        if let Some(pods) = pods {
            let pods = pods.iter().map(pod).collect();
            snapshot.lookup_results.pods.insert("a".to_owned(), Ok(pods));
        }
        snapshot
    }

    #[test]
    fn a_drain_is_remembered_until_its_end_or_the_end_of_the_slot() {
        let first = Some(BTreeSet::from(["x".to_owned()]));
        let earlier = DrainRecord { refused: refused(&["x"]), first, ..DrainRecord::new(at(0)) };
        let record = |listed, progress, pods: &[&str]| {
            let (listed, progress, refused) = (at(listed), at(progress), refused(pods));
            Some(DrainRecord { listed, progress, refused, ..earlier.clone() })
        };
        let ended = |record: Option<DrainRecord>| {
            let ending = BTreeMap::from([("x".to_owned(), at(9))]);
            record.map(|record| DrainRecord { ending, ..record })
        };
        let done = |record: Option<DrainRecord>| {
            record.map(|record| DrainRecord { is_done: true, ..record })
        };
        let tried = |accepted: &[&str], pods: &[&str]| {
            let accepted = accepted.iter().map(|uid| (*uid).to_owned()).collect();
            Some(NodeEvictions { accepted, refused: refused(pods) })
        };
        let (x, y, ending): (&[&str], &[&str], &[&str]) = (&["x"], &["y"], &["-x"]);
        for (what, has_slot, pods, evictions, want) in [
            ("nothing was listed", true, None, None, record(0, 0, x)),
            ("the pass ended before its evictions", true, Some(x), None, record(9, 0, x)),
            ("it is still held", true, Some(x), tried(&[], x), record(9, 0, x)),
            ("another pod is held, one is not", true, Some(x), tried(&["x"], y), record(9, 9, y)),
            ("one that came later is evicted", true, Some(x), tried(&["z"], x), record(9, 0, x)),
            ("the last one ends", true, Some(ending), None, ended(record(9, 0, &[]))),
            ("no pod is left", true, Some(&[][..]), None, done(record(9, 0, &[]))),
            ("no slot", false, None, None, None),
        ] {
            let records =
                [("a".to_owned(), earlier.clone()), ("deleted".to_owned(), earlier.clone())];
            let evictions = evictions.map(|one| ("a".to_owned(), one)).into_iter().collect();
            let found = after_pass(records.into(), &snapshot(has_slot, pods), &evictions, at(9));
            assert_eq!(found.get("a"), want.as_ref(), "{what}");
            assert!(!found.contains_key("deleted"), "{what}");
        }
        let mut failed = snapshot(true, None);
        let problem = Problem {
            class: ErrorClass::Transient,
            reason: "x".to_owned(),
            message: "no answer".to_owned(),
        };
        failed.lookup_results.pods.insert("a".to_owned(), Err(problem));
        let records = [("a".to_owned(), earlier)].into();
        let records = after_pass(records, &failed, &BTreeMap::new(), at(9));
        let found = &records["a"];
        assert_eq!((found.listed, found.progress), (at(9), at(0)), "it is listed less often");
        assert_eq!(found.waiting().as_deref(), Some("no answer"));
        assert_eq!(found.held().as_deref(), Some("draining: pod n/x: budget"), "as far as known");
        let again = after_pass(records, &snapshot(true, Some(x)), &BTreeMap::new(), at(20));
        assert_eq!(again["a"].unlisted, None);
    }

    #[test]
    fn a_held_drain_lists_pods_less_often_and_one_that_is_not_held_at_once() {
        let lists = |record: DrainRecord| -> Vec<i64> {
            let mut record = record;
            let mut lists = Vec::new();
            for second in 0..3600 {
                if record.wait(at(second)).is_none() {
                    record.listed = at(second);
                    lists.push(second);
                }
            }
            lists
        };
        let new = || DrainRecord::new(at(0));
        let held = lists(DrainRecord { refused: refused(&["x"]), ..new() });
        let failing = lists(DrainRecord { unlisted: Some("no answer".to_owned()), ..new() });
        let ending = lists(new());
        assert_eq!(held[..6], [5, 10, 15, 20, 25, 32]);
        assert_eq!(ending[..6], [1, 2, 3, 4, 5, 7]);
        assert_eq!(failing, held);
        for lists in [held, ending] {
            assert!(lists.len() < 80, "{} in an hour", lists.len());
            assert_eq!(lists[lists.len() - 1] - lists[lists.len() - 2], 60);
        }
    }

    #[test]
    fn what_holds_a_drain_is_the_first_refusal_or_a_pod_that_does_not_end() {
        let mut record = DrainRecord::new(at(0));
        assert_eq!(record.held(), None);
        record.waits_for = Some("pod n/y".to_owned());
        assert_eq!(record.held().as_deref(), Some("draining: pod n/y"));
        record.refused = refused(&["x", "z"]);
        assert_eq!(record.held().as_deref(), Some("draining: pod n/x: budget"));
    }
}
