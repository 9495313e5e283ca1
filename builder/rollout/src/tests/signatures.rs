//! Machines that take an image only with a signature that their policy requires.

use super::fleet::*;
use super::stories::{running, status};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use std::time::Duration;

/// Machines that run the first image.
fn rolling(mode: &str) -> Fleet {
    let mut fleet = Fleet::new(3);
    fleet.annotate(labels::ROLLOUT, mode);
    fleet.settle();
    fleet
}

/// Until the next tries of what failed.
fn try_again(fleet: &mut Fleet) {
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(Duration::from_secs(11 * 60));
    }
    fleet.settle();
}

#[test]
fn a_refused_signature_is_named_and_costs_nothing() {
    let mut fleet = rolling("automatic");
    fleet.annotate(labels::VERIFY_ON_MACHINES, "required");
    fleet.max_unavailable(IntOrString::Int(3));
    fleet.node("w0").refuses.insert(image(2).digest());
    fleet.serve("worker", 2);
    try_again(&mut fleet);
    assert_eq!(running(&fleet, 2), 2);
    let refused = &fleet.nodes["w0"];
    assert_eq!((refused.state(), refused.boot, refused.slot()), ("Degraded", 0, None));
    assert!(!refused.machine.unschedulable && !refused.is_drained(), "it is in service");
    let (_, reason, message) = status(&fleet, "NodeDegraded");
    assert_eq!(reason, "RolloutNodesDegraded");
    assert!(message.contains("w0") && message.contains("refused by the policy"), "{message}");
    // Somebody signs the image.
    fleet.node("w0").refuses.clear();
    try_again(&mut fleet);
    assert_eq!((running(&fleet, 2), &*status(&fleet, "Updated").0), (3, "True"));
}

#[test]
fn the_setting_alone_reboots_no_machine() {
    let mut fleet = rolling("automatic");
    for (number, verify) in [(2, "required"), (3, "none"), (4, "required")] {
        let before = fleet.reboots.len();
        fleet.annotate(labels::VERIFY_ON_MACHINES, verify);
        fleet.settle();
        assert_eq!(fleet.reboots.len(), before, "{verify}");
        assert_eq!(&*status(&fleet, "Updated").0, "True", "{verify}");
        fleet.serve("worker", number);
        fleet.settle();
        assert_eq!(running(&fleet, number), 3, "{verify}");
        let is_required = verify == "required";
        let mut machines = fleet.nodes.values().filter(|node| node.pool == "worker");
        assert!(machines.all(|node| node.is_staged_verified == is_required), "{verify}");
    }
    fleet.annotate(labels::VERIFY_ON_MACHINES, "yes");
    fleet.serve("worker", 5);
    fleet.settle();
    assert_eq!(running(&fleet, 5), 0, "no such value");
    assert_eq!(status(&fleet, "RolloutDegraded").1, "BadAnnotation");
}

#[test]
fn an_unverified_image_is_staged_anew() {
    let mut fleet = rolling("stage");
    fleet.serve("worker", 2);
    fleet.settle();
    let staged = |fleet: &Fleet| {
        let it = |name: &str| (fleet.nodes[name].staged, fleet.nodes[name].is_staged_verified);
        ["w0", "w1"].map(it)
    };
    let digest = image(2).digest();
    assert_eq!(staged(&fleet), [(Some(digest), false); 2]);
    fleet.node("w1").refuses.insert(digest);
    fleet.annotate(labels::VERIFY_ON_MACHINES, "required");
    fleet.settle();
    assert_eq!(staged(&fleet), [(Some(digest), true), (None, false)], "one refuses it");
    fleet.annotate(labels::VERIFY_ON_MACHINES, "none");
    try_again(&mut fleet);
    assert_eq!(staged(&fleet), [(Some(digest), true), (Some(digest), false)]);
    assert!(fleet.reboots.is_empty(), "{:?}", fleet.reboots);
}
