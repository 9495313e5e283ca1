//! Machines of which it is recorded that they run their image well.

use super::fleet::*;
use super::stories::rolling;
use mosb_api::labels;
use mosb_api::rollout::{ConfirmedTarget, NodeTarget};

/// What a machine ran well last.
fn confirmed(fleet: &Fleet, name: &str) -> Option<NodeTarget> {
    let text = fleet.nodes[name].machine.metadata.annotation(labels::NODE_CONFIRMED)?;
    Some(serde_json::from_str::<ConfirmedTarget>(text).unwrap().target)
}

#[test]
fn a_slot_ends_with_the_record_of_its_target() {
    let mut fleet = rolling(2, "automatic");
    let runs = |fleet: &Fleet, number| {
        ["w0", "w1"].iter().all(|name| confirmed(fleet, name).unwrap().image == image(number))
    };
    // Machines that had it before they were of the pool did not get a slot for it.
    assert!(fleet.reboots.is_empty() && runs(&fleet, 1));
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    // Until the end of its slot, it is not known whether the machine runs it well.
    while fleet.nodes["w0"].slot().is_some() {
        assert!(runs(&fleet, 1));
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    assert_eq!(confirmed(&fleet, "w0").unwrap().image, image(2));
    fleet.settle();
    assert!(runs(&fleet, 2));
}

#[test]
fn record_is_written_once_and_unreadable_one_anew() {
    let mut fleet = rolling(1, "automatic");
    fleet.settle();
    let record = |fleet: &Fleet| {
        fleet.nodes["w0"].machine.metadata.annotation(labels::NODE_CONFIRMED).unwrap().to_owned()
    };
    let first = record(&fleet);
    fleet.wait(std::time::Duration::from_secs(600));
    let writes = fleet.node_writes;
    fleet.settle();
    assert_eq!((record(&fleet), fleet.node_writes), (first, writes));
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_CONFIRMED.to_owned(), "yes".to_owned());
    fleet.settle();
    assert_eq!(confirmed(&fleet, "w0").unwrap().image, image(2));
    // A machine that is not Ready runs nothing well.
    let node = fleet.node("w0");
    node.machine.metadata.annotations.remove(labels::NODE_CONFIRMED);
    node.machine.ready = false;
    fleet.settle();
    assert_eq!(confirmed(&fleet, "w0"), None);
}
