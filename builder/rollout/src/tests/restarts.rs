//! The controller is killed after any write, and what others change or break meanwhile.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mosb_api::rollout::ConfirmedTarget;
use mosb_api::{Metadata, labels};
use std::time::Duration;

#[test]
fn a_controller_killed_after_any_write_ends_the_same() {
    let mut whole = rolling(3, "automatic");
    whole.settle();
    let marks = |fleet: &Fleet| -> Vec<_> {
        let nodes = fleet.nodes.values().cloned();
        let marks = nodes.map(|node| {
            let mut marks = node.machine.metadata.annotations;
            // It has the time, too.
            let confirmed = marks.remove(labels::NODE_CONFIRMED);
            let confirmed = confirmed.map(|text| serde_json::from_str::<ConfirmedTarget>(&text));
            (marks, confirmed.map(|confirmed| confirmed.unwrap().target))
        });
        marks.collect()
    };
    for kill_after in 0..14 {
        let mut fleet = rolling(3, "automatic");
        fleet.settle_with_kills(kill_after);
        assert_eq!(marks(&fleet), marks(&whole), "killed after {kill_after}");
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (3, 3), "killed after {kill_after}");
        assert!(fleet.jobs.is_empty(), "killed after {kill_after}");
    }
}

#[test]
fn a_slot_that_somebody_else_wrote_counts_and_is_reported() {
    let mut fleet = rolling(2, "automatic");
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_SLOT.to_owned(), "mine".to_owned());
    let decision = fleet.pass("worker", usize::MAX);
    assert!(decision.actions.len() > 1);
    for _ in 0..20 {
        fleet.run_jobs();
        let decision = fleet.decide("worker");
        for action in &decision.actions {
            fleet.apply(action);
        }
    }
    assert_eq!(running(&fleet, 2), 0, "one may be unavailable");
    assert!(status(&fleet, "NodeDegraded").2.contains("mosb.dev/slot is not readable"));
}

#[test]
fn an_apply_that_failed_for_a_passing_reason_is_tried_again_in_its_slot() {
    let mut fleet = rolling(1, "automatic");
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    // Neither the staged image nor the registry is left.
    fleet.node("w0").cut_power();
    fleet.boot_all();
    fleet.is_registry_down = true;
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), running(&fleet, 2)), ("Degraded", 0));
    let after = fleet.decide("worker").requeue_after.unwrap();
    assert!(after <= Duration::from_secs(300), "{after:?}");
    fleet.is_registry_down = false;
    fleet.wait(Duration::from_secs(301));
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn a_job_whose_last_pod_is_not_seen_yet_is_decided_about_again_without_an_event() {
    let mut fleet = rolling(1, "automatic");
    while fleet.jobs.is_empty() {
        fleet.pass("worker", usize::MAX);
    }
    let wait = Duration::from_secs(7);
    fleet.jobs.values_mut().for_each(|job| job.seen.awaits_pod = Some(wait));
    assert_eq!(fleet.decide("worker").requeue_after, Some(wait));
    // Nothing showed it: the try failed, and another one follows.
    let now = fleet.now;
    for job in fleet.jobs.values_mut() {
        job.seen.awaits_pod = None;
        job.seen.phase = JobPhase::Failed {
            exit_code: Some(0),
            report: None,
            message: "its pod was deleted".to_owned(),
            at: Some(Time(now)),
        };
    }
    fleet.wait(Duration::from_secs(61));
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn without_a_digest_of_the_controllers_image_the_pool_reports_it_and_no_job_is_created() {
    for (image, cause) in [("reg.example/mosb:1", "reg.example/mosb:1"), ("", "not known")] {
        let mut fleet = rolling(2, "automatic");
        let pinned = std::mem::replace(&mut fleet.own_image, image.to_owned());
        fleet.node("w1").cut_power();
        fleet.settle();
        assert!(fleet.jobs.is_empty() && fleet.nodes.values().all(|node| node.slot().is_none()));
        let degraded = status(&fleet, "RolloutDegraded");
        assert_eq!((&*degraded.0, &*degraded.1), ("True", "NoControllerDigest"));
        assert!(degraded.2.contains(cause) && degraded.2.contains("by digest"), "{}", degraded.2);
        // Upgraded in the middle of a drain: nothing is evicted for a Job that is refused.
        fleet.own_image = pinned.clone();
        fleet.node("w0").held.insert("db".to_owned());
        fleet.settle();
        assert!(fleet.nodes["w0"].slot().is_some());
        fleet.own_image = image.to_owned();
        fleet.node("w0").held.clear();
        fleet.settle();
        assert!(fleet.reboots.is_empty() && !fleet.nodes["w0"].is_drained());
        fleet.own_image = pinned;
        fleet.settle();
        assert_eq!(
            (running(&fleet, 2), status(&fleet, "RolloutDegraded").0.as_str()),
            (2, "False")
        );
    }
}

#[test]
fn an_uncordoned_machine_is_cordoned_again_while_it_is_drained() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.node("w0").machine.unschedulable = false;
    fleet.settle();
    assert!(fleet.nodes["w0"].machine.unschedulable);
}

/// Whatever it was doing: `kubectl cordon` writes nothing on a node that a slot cordoned, so an
/// administrator who wants to keep it cordoned takes the slot away.
#[test]
fn a_machine_whose_slot_is_taken_away_stays_cordoned() {
    for is_rebooting in [false, true] {
        let mut fleet = rolling(1, "automatic");
        if is_rebooting {
            while !fleet.nodes["w0"].is_down {
                fleet.pass("worker", usize::MAX);
                fleet.run_jobs();
                fleet.end_pods();
            }
        } else {
            fleet.node("w0").held.insert("db".to_owned());
            fleet.settle();
        }
        let version = fleet.next_version();
        let node = fleet.node("w0");
        node.machine.metadata.annotations.remove(labels::NODE_SLOT);
        node.machine.metadata.resource_version = Some(version);
        node.is_cordoned_by_hand = true;
        node.held.clear();
        fleet.settle();
        let node = fleet.node("w0");
        assert!(node.machine.unschedulable && node.slot().is_none());
        node.is_cordoned_by_hand = false;
        node.machine.unschedulable = false;
        assert_eq!(running(&fleet, 2), usize::from(is_rebooting));
        fleet.settle();
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
    }
}

#[test]
fn two_configs_for_a_pool_and_a_wrong_limit_are_reported_and_nothing_begins() {
    type Edit = fn(&mut Fleet);
    let cases: [(&str, Edit); 2] = [
        ("BadMaxUnavailable", |fleet| {
            let many = "many".to_owned();
            let value = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(many);
            fleet.max_unavailable(value);
        }),
        ("PinNotFound", |fleet| fleet.annotate(labels::ROLLOUT_BUILD, &pin(9).to_string())),
    ];
    for (want, edit) in cases {
        let mut fleet = rolling(2, "automatic");
        edit(&mut fleet);
        fleet.settle();
        assert_eq!((status(&fleet, "RolloutDegraded").1.as_str(), running(&fleet, 2)), (want, 0));
    }
    let mut fleet = rolling(2, "automatic");
    let mut snapshot = fleet.snapshot("worker");
    snapshot.config = None;
    let rival = |name: &str| Metadata { name: name.to_owned(), ..Metadata::default() };
    snapshot.rivals = vec![rival("a"), rival("b")];
    let reason = decide(&snapshot, fleet.now).reason;
    assert!(
        matches!(reason, RolloutReason::Blocked(Blocked { reason: "Rivals", .. })),
        "{reason:?}"
    );
    snapshot.other_controller = Some("machine-config-controller".to_owned());
    let decision = decide(&snapshot, fleet.now);
    assert!(decision.actions.is_empty() && decision.lookups.is_empty());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
}

#[test]
fn a_machine_of_another_platform_is_degraded_and_the_others_go_on() {
    let mut fleet = rolling(2, "automatic");
    let labels = &mut fleet.node("w0").machine.metadata.labels;
    labels.insert("kubernetes.io/arch".to_owned(), "arm64".to_owned());
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.state(), running(&fleet, 2)), ("Degraded", 1));
    assert!(node.reason().contains("linux/arm64"), "{}", node.reason());
}

#[test]
fn one_decision_begins_few_of_thousand_machines() {
    let mut fleet = Fleet::new(1000);
    fleet.annotate(labels::ROLLOUT, "automatic");
    let snapshot = fleet.snapshot("worker");
    let decision = decide(&snapshot, fleet.now);
    assert_eq!(decision.actions.len(), 13, "ten reports, the config, the pool and its event");
}

#[test]
fn a_deleted_config_leaves_the_image_or_goes_to_stock_first() {
    for (choice, want) in [("keep", 2), ("stock", STOCK_IMAGE)] {
        let mut fleet = rolling(2, "automatic");
        fleet.annotate(labels::ON_DELETE, choice);
        fleet.settle();
        let now = fleet.now;
        let metadata = &mut fleet.configs.get_mut("worker").unwrap().metadata;
        assert_eq!(metadata.finalizers, [labels::ROLLOUT_FINALIZER]);
        metadata.deletion_timestamp = Some(Time(now));
        fleet.settle();
        assert!(!fleet.configs.contains_key("worker"), "{choice}");
        assert_eq!(running(&fleet, want), 2, "{choice}");
        assert!(fleet.nodes.values().all(|node| !node.machine.unschedulable));
        let message = status(&fleet, "Updating").2;
        let running = format!("keep what they run: {} on ", image(want).digest());
        assert!(message.contains(&running), "{message}");
    }
}

#[test]
fn a_drain_is_cancelled_when_its_config_is_deleted() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.configs.clear();
    fleet.settle();
    assert!(fleet.nodes.values().all(|node| node.slot().is_none() && !node.machine.unschedulable));
}

#[test]
fn a_machine_that_booted_its_target_keeps_its_slot_until_it_is_ready() {
    let mut fleet = rolling(2, "automatic");
    while running(&fleet, 2) == 0 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    let name = fleet.nodes.iter().find(|(_, node)| node.is_down).unwrap().0.clone();
    fleet.boot_all();
    fleet.node(&name).machine.ready = false;
    fleet.settle();
    let node = &fleet.nodes[&name];
    assert!(node.slot().is_some() && node.machine.unschedulable);
    assert_eq!((node.state(), running(&fleet, 2)), ("Rebooting", 1));
    fleet.node(&name).machine.ready = true;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
}

/// The controller of Jobs has not replaced the pod yet that a reboot ended.
fn rebooted_machine(not_bootable: bool) -> Fleet {
    let mut fleet = rolling(1, "automatic");
    if not_bootable {
        fleet.node("w0").not_bootable.insert(image(2).digest());
    }
    while !fleet.nodes["w0"].is_down {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    fleet.boot_all();
    fleet.pass("worker", usize::MAX);
    let names: Vec<String> = fleet.jobs.keys().cloned().collect();
    let is = |verb: &str| names.iter().any(|name| name.starts_with(&format!("mosb-{verb}-")));
    assert!(names.len() == 2 && is("apply") && is("report"), "{names:?}");
    let report = names.iter().find(|name| name.starts_with("mosb-report-")).unwrap();
    fleet.run_job(report);
    fleet.pass("worker", usize::MAX);
    fleet
}

#[test]
fn a_machine_that_rebooted_reports_although_its_apply_job_still_runs() {
    let mut fleet = rebooted_machine(false);
    let node = &fleet.nodes["w0"];
    assert_eq!((node.slot(), node.machine.unschedulable, node.state()), (None, false, "Done"));
    assert_eq!(fleet.reboots.len(), 1);
    assert!(fleet.jobs.is_empty(), "both are obsolete");
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn a_machine_that_reports_another_image_waits_for_its_apply_job_to_report_the_cause() {
    let mut fleet = rebooted_machine(true);
    let node = &fleet.nodes["w0"];
    assert!(node.slot().is_some() && node.machine.unschedulable);
    assert_eq!(node.state(), "Rebooting");
    let names: Vec<&String> = fleet.jobs.keys().collect();
    assert!(names.len() == 1 && names[0].starts_with("mosb-apply-"), "{names:?}");
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.jobs.len(), 1, "one report a boot");
    fleet.settle();
    assert!(fleet.nodes["w0"].reason().contains("finalizing failed"));
    assert_eq!(fleet.reboots.len(), 1);
}
