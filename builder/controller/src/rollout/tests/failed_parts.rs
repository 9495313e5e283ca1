//! Changes without a reboot that fail on machines, or after which machines are away: they reach no
//! more than two.

use super::fleet::*;
use super::machine_parts::{has, with_part};
use super::stories::status;
use crate::rollout::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Keys, and files that come live.
#[test]
fn two_machines_that_failed_without_a_reboot_stop_the_pool() {
    for is_live in [false, true] {
        let mut fleet = with_part(40, "automatic");
        if is_live {
            fleet.serve_live("worker", 3, 2);
        } else {
            fleet.serve_part("worker", 3, 2, part(1, 2));
        }
        fleet.nodes.values_mut().for_each(|node| node.refuses_part = true);
        let mut tried = BTreeSet::new();
        for _ in 0..60 {
            fleet.pass("worker", usize::MAX);
            let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
            tried.extend(parts.map(|job| job.node.clone()));
            fleet.run_jobs();
            fleet.wait(Duration::from_secs(61));
        }
        let (_, reason, message) = status(&fleet, "RolloutDegraded");
        assert_eq!((tried.len(), &*reason), (2, "MachinesFailed"), "{is_live}: {tried:?}");
        let is_named = tried.iter().all(|name| message.contains(&format!("{name}: ")));
        assert!(is_named && message.contains(": no user core"), "{message}");
        assert_eq!(fleet.reboots.len(), 40, "{is_live}");
        // What two of them had is repaired.
        fleet.nodes.values_mut().for_each(|node| node.refuses_part = false);
        fleet.wait(Duration::from_secs(601));
        fleet.settle();
        assert_eq!(&*status(&fleet, "Updated").0, "True", "{is_live}");
        assert_eq!(&*status(&fleet, "RolloutDegraded").0, "False", "{is_live}");
    }
}

#[test]
fn two_machines_that_go_away_while_they_change_stop_the_pool() {
    let mut fleet = with_part(6, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    for _ in 0..12 {
        fleet.pass("worker", usize::MAX);
        let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
        let names: Vec<String> = parts.map(|job| job.node.clone()).collect();
        names.iter().filter(|_| fleet.jobs.values().all(|job| job.seen.has_login)).for_each(
            |name| {
                fleet.nodes.get_mut(name).unwrap().go_away();
            },
        );
    }
    assert_eq!(fleet.nodes.values().filter(|node| node.is_lost).count(), 2);
    let (_, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!(reason, "MachinesFailed");
    assert!(message.contains("it is not Ready"), "{message}");
    fleet.nodes.values_mut().for_each(|node| node.is_lost = false);
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 2)), fleet.reboots.len()), (6, 6));
}
