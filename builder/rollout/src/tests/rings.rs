//! Pools with a policy: rings, windows, and what must be healthy.

use std::time::Duration;

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::rollout::{ConfirmedTarget, FailedTarget, Soak, SoakPhase};
use mosb_api::{ClusterSettings, Metadata, labels};

/// The policy with these fields.
pub fn policy(fields: &str) -> PoolPolicy {
    let settings = ClusterSettings::parse(&format!("rolloutPolicies: {{p: {fields}}}")).unwrap();
    let annotations = [(labels::ROLLOUT_POLICY.to_owned(), "p".to_owned())].into();
    PoolPolicy::of(&Metadata { annotations, ..Metadata::default() }, Ok(&settings))
}

/// As many machines that run build 1 get build 2 with this policy.
fn with_policy(machines: usize, fields: &str) -> Fleet {
    let mut fleet = rolling(machines, "automatic");
    fleet.max_unavailable(IntOrString::String("100%".to_owned()));
    fleet.policies.insert("worker".to_owned(), policy(fields));
    fleet
}

fn confirmed(fleet: &Fleet, number: u32) -> usize {
    let is_it = |text: &str| {
        serde_json::from_str::<ConfirmedTarget>(text).unwrap().target.image == image(number)
    };
    let nodes = fleet.nodes.values().filter(|node| node.pool == "worker");
    let texts = nodes.filter_map(|node| node.machine.metadata.annotation(labels::NODE_CONFIRMED));
    texts.filter(|text| is_it(text)).count()
}

fn soak(fleet: &Fleet, name: &str) -> Option<SoakPhase> {
    Soak::of(&fleet.nodes[name].machine.metadata).map(|soak| soak.phase)
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// Passes until nothing but time changes anything, in at most these minutes.
fn run(fleet: &mut Fleet, most: u64) {
    for _ in 0..most {
        fleet.settle();
        fleet.wait(minutes(1));
    }
    fleet.settle();
}

#[test]
fn a_ring_begins_after_the_one_before_soaked() {
    let rings = "{rings: [{count: 1, soak: 30m}, {percent: 40}], soak: 10m}";
    let mut fleet = with_policy(5, rings);
    fleet.settle();
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (1, 0));
    let staged = fleet.nodes.values().filter(|node| node.staged == Some(image(2).digest()));
    assert_eq!(staged.count(), 4, "others are staged meanwhile");
    let message = status(&fleet, "Updating").2;
    let until = "w0 soaks until 2026-01-01T00:";
    assert!(message.contains("; ring 1 of 3; soaking: w0 until "), "{message}");
    assert!(
        message.contains("w1, w2: it is in ring 2 of 3, and ring 1 is not done: "),
        "{message}"
    );
    assert!(message.contains(until), "{message}");
    // An idle minute asks nobody.
    fleet.asked.clear();
    let decision = fleet.decide("worker");
    assert!(fleet.asked.is_empty() && decision.actions.is_empty(), "{:?}", fleet.asked);
    assert!(decision.requeue_after.unwrap() > minutes(25));
    run(&mut fleet, 28);
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (1, 0));
    assert!(fleet.nodes["w0"].is_unconfirmed, "it may leave the image by itself while it soaks");
    run(&mut fleet, 3);
    assert!(!fleet.nodes["w0"].is_unconfirmed);
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (3, 1));
    assert_eq!(soak(&fleet, "w0"), None);
    run(&mut fleet, 12);
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (5, 3));
    assert!(status(&fleet, "Updated").2.contains("; soaking: w3 until "));
    run(&mut fleet, 12);
    assert_eq!(confirmed(&fleet, 2), 5);
    assert!(!status(&fleet, "Updated").2.contains("soak"));
    fleet.asked.clear();
    let idle = fleet.decide("worker");
    assert!(idle.actions.is_empty() && idle.requeue_after.is_none() && fleet.asked.is_empty());
}

#[test]
fn slots_are_given_in_windows_only() {
    // It begins on Thursday, 2026-01-01, at midnight.
    let mut fleet = with_policy(2, "{windows: [{from: '01:00', to: '02:00'}]}");
    let decisions = fleet.settle();
    let soonest = decisions.iter().filter_map(|one| one.requeue_after).min().unwrap();
    assert!(soonest > minutes(55) && soonest <= minutes(60), "{soonest:?}");
    assert!(fleet.reboots.is_empty());
    let message = status(&fleet, "Updating").2;
    let want = "w0, w1: it is outside the windows of policy p; the next one begins at 2026-01-01T01:00:00Z";
    assert!(message.contains(want), "{message}");
    fleet.wait(soonest);
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes.values().filter(|node| node.slot().is_some()).count(), 2);
    // What was begun is finished.
    fleet.wait(minutes(90));
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
}

#[test]
fn an_image_that_fails_checks_stops_and_is_taken_back() {
    let fields =
        "{rings: [{count: 1}], soak: 1h, health: {nodeConditions: {Good: 'True'}, failAfter: 10m}}";
    let mut fleet = with_policy(3, fields);
    let good = |fleet: &mut Fleet, name: &str, is: &str| {
        fleet.node(name).machine.conditions.insert("Good".to_owned(), is.to_owned());
    };
    for name in ["w0", "w1", "w2"] {
        good(&mut fleet, name, "True");
    }
    fleet.settle();
    assert!(matches!(soak(&fleet, "w0"), Some(SoakPhase::Holding { .. })));
    // What passes begins the time anew, and fails nothing.
    run(&mut fleet, 20);
    good(&mut fleet, "w0", "False");
    run(&mut fleet, 8);
    assert!(matches!(soak(&fleet, "w0"), Some(SoakPhase::Failing { .. })));
    assert!(
        status(&fleet, "Updating").2.contains("w0: it is not healthy: its condition Good is False")
    );
    good(&mut fleet, "w0", "True");
    run(&mut fleet, 50);
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (1, 0));
    good(&mut fleet, "w0", "Unknown");
    let reboots = fleet.reboots.len();
    run(&mut fleet, 15);
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (0, reboots + 1), "one reboot");
    assert!(fleet.nodes["w0"].slot().is_none() && !fleet.nodes["w0"].machine.unschedulable);
    let (degraded, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!((&*degraded, &*reason), ("True", "TargetFailed"));
    assert!(message.contains("w0: its condition Good is Unknown"), "{message}");
    let reason = fleet.nodes["w0"].reason();
    assert!(reason.contains("it runs another image again"), "{reason}");
    assert!(FailedTarget::of(&fleet.configs["worker"].metadata).is_some());
    // Nothing goes on by itself, whatever its checks are now.
    good(&mut fleet, "w0", "True");
    run(&mut fleet, 200);
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (0, reboots + 1));
    fleet.asked.clear();
    let idle = fleet.decide("worker");
    assert!(idle.actions.is_empty() && fleet.asked.is_empty(), "{:?}", fleet.asked);
    // A person tries it again.
    let snapshot = fleet.snapshot("worker");
    let change = RolloutRequest::Start.change(&snapshot, true, None).unwrap();
    assert_eq!(change.annotations[labels::FAILED_TARGET], None);
    assert_eq!(change.retries.len(), 1);
    let metadata = &mut fleet.configs.get_mut("worker").unwrap().metadata;
    metadata.annotations.remove(labels::FAILED_TARGET);
    fleet.node("w0").machine.metadata.annotations.remove(labels::NODE_SOAK);
    run(&mut fleet, 140);
    assert_eq!((running(&fleet, 2), confirmed(&fleet, 2)), (3, 3));
}

#[test]
fn another_image_follows_one_that_failed() {
    let mut fleet = with_policy(2, "{rings: [{count: 1}], soak: 10m, health: {failAfter: 0s}}");
    fleet.settle();
    fleet.node("w0").machine.ready = false;
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").1, "TargetFailed");
    fleet.node("w0").machine.ready = true;
    fleet.settle();
    assert_eq!((running(&fleet, 1), fleet.reboots.len()), (2, 2));
    fleet.serve("worker", 3);
    run(&mut fleet, 25);
    assert_eq!((running(&fleet, 3), confirmed(&fleet, 3)), (2, 2));
    assert_eq!(soak(&fleet, "w0"), None);
}

#[test]
fn so_many_machines_may_fail() {
    let fields =
        "{maxFailures: 2, soak: 10m, health: {nodeConditions: {Good: 'True'}, failAfter: 0s}}";
    let mut fleet = with_policy(4, fields);
    fleet.max_unavailable(IntOrString::Int(1));
    for name in ["w1", "w3"] {
        fleet.node(name).machine.conditions.insert("Good".to_owned(), "True".to_owned());
    }
    run(&mut fleet, 30);
    // The third one is not tried, or was before the second one failed.
    assert_eq!(status(&fleet, "RolloutDegraded").1, "TargetFailed");
    let message = status(&fleet, "RolloutDegraded").2;
    assert!(message.contains("w0: ") && message.contains("w2: "), "{message}");
    let runs = |name: &str, number| fleet.nodes[name].booted == image(number).digest();
    assert!(runs("w0", 1) && runs("w1", 2) && runs("w2", 1) && runs("w3", 1));
}

#[test]
fn pods_must_be_ready_for_the_soak_time() {
    let fields =
        "{soak: 10m, health: {pods: [{selector: {matchLabels: {app: agent}}}], failAfter: 5m}}";
    let mut fleet = with_policy(1, fields);
    let pod = |is_ready| CheckedPod { name: "a/b".to_owned(), is_ready, has_ended: false };
    fleet.node("w0").checked_pods = vec![pod(true)];
    fleet.is_pod_list_failing = true;
    run(&mut fleet, 30);
    // Not known: no progress, and no failure.
    assert_eq!((running(&fleet, 1), running(&fleet, 2)), (1, 0), "pods of the drain are not known");
    fleet.is_pod_list_failing = false;
    run(&mut fleet, 3);
    assert!(matches!(soak(&fleet, "w0"), Some(SoakPhase::Holding { .. })));
    fleet.is_pod_list_failing = true;
    run(&mut fleet, 30);
    assert_eq!(confirmed(&fleet, 2), 0);
    assert!(status(&fleet, "Updated").0 == "True" && soak(&fleet, "w0").is_some());
    fleet.is_pod_list_failing = false;
    run(&mut fleet, 1);
    assert_eq!(confirmed(&fleet, 2), 1);
    fleet.serve("worker", 3);
    fleet.node("w0").checked_pods = vec![pod(false)];
    run(&mut fleet, 10);
    assert_eq!(running(&fleet, 2), 1);
    assert!(fleet.nodes["w0"].reason().contains("not Ready: a/b"));
}

#[test]
fn alerts_and_pods_hold_drains() {
    let fields = "{blockOn: {alerts: {prometheus: 'http://p', names: [A]}, pods: [{selector: {matchLabels: {app: db}}}]}}";
    let mut fleet = with_policy(3, fields);
    let waiting = |fleet: &Fleet| status(fleet, "Updating").2;
    fleet.is_prometheus_silent = true;
    run(&mut fleet, 2);
    assert!(waiting(&fleet).contains("has not answered yet"), "{}", waiting(&fleet));
    fleet.is_prometheus_silent = false;
    fleet.alerts = Err(problem("http://p: no answer"));
    run(&mut fleet, 2);
    assert!(waiting(&fleet).contains("it is not known which alerts fire: http://p"));
    fleet.alerts = Ok(["A".to_owned()].into());
    run(&mut fleet, 2);
    assert!(waiting(&fleet).contains("w0, w1, w2: alerts fire: A"), "{}", waiting(&fleet));
    assert!(fleet.reboots.is_empty());
    let pod = |has_ended| CheckedPod { name: "a/db".to_owned(), is_ready: true, has_ended };
    fleet.node("w0").checked_pods = vec![pod(false)];
    fleet.node("w1").checked_pods = vec![pod(true)];
    fleet.alerts = Ok([].into());
    run(&mut fleet, 3);
    assert_eq!(running(&fleet, 2), 2, "the others go on");
    assert!(waiting(&fleet).contains("w0: it waits for pods to end: a/db"), "{}", waiting(&fleet));
    fleet.node("w0").checked_pods.clear();
    run(&mut fleet, 3);
    assert_eq!(running(&fleet, 2), 3);
}

#[test]
fn a_late_drain_is_reported_and_not_forced() {
    let mut fleet = with_policy(2, "{drainTimeout: 20m}");
    fleet.node("w0").held.insert("db".to_owned());
    run(&mut fleet, 6);
    assert_eq!((running(&fleet, 2), status(&fleet, "RolloutDegraded").0), (1, "False".to_owned()));
    run(&mut fleet, 6);
    let (degraded, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!((&*degraded, &*reason), ("True", "DrainTimeout"));
    assert!(message.contains("w0 is drained since ") && message.contains("budget db"), "{message}");
    assert_eq!(running(&fleet, 2), 1);
    fleet.node("w0").held.clear();
    run(&mut fleet, 3);
    assert_eq!((running(&fleet, 2), status(&fleet, "RolloutDegraded").0), (2, "False".to_owned()));
}

#[test]
fn a_wrong_policy_stops_new_slots_only() {
    let named = |name: &str| {
        let annotations = [(labels::ROLLOUT_POLICY.to_owned(), name.to_owned())].into();
        let metadata = Metadata { name: "c".to_owned(), annotations, ..Metadata::default() };
        let settings = ClusterSettings::parse("rolloutPolicies: {a: {}, b: {}}").unwrap();
        PoolPolicy::of(&metadata, Ok(&settings))
    };
    let mut fleet = rolling(2, "automatic");
    for (wrong, want) in [
        (
            named("x"),
            "\"x\" is not in rolloutPolicies of ConfigMap mosb-config; add it there, or name one of a, b",
        ),
        (PoolPolicy::Invalid("config.yaml: no".to_owned()), "config.yaml: no"),
        (
            policy("{rings: [{selector: {matchLabels: {ring: x}}}]}"),
            "ring 1 of policy p selects no machine",
        ),
    ] {
        fleet.policies.insert("worker".to_owned(), wrong);
        run(&mut fleet, 2);
        let (degraded, reason, message) = status(&fleet, "RolloutDegraded");
        assert_eq!((&*degraded, &*reason), ("True", "BadRolloutPolicy"));
        assert!(message.contains(want), "{message}");
        assert!(fleet.reboots.is_empty());
    }
    let staged = fleet.nodes.values().filter(|node| node.staged.is_some());
    assert_eq!(staged.count(), 2);
    fleet.policies.insert("worker".to_owned(), named("a"));
    run(&mut fleet, 2);
    assert_eq!(running(&fleet, 2), 2);
}
