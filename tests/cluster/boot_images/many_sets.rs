//! Many machine sets: what a pass asks the API server.

use std::collections::BTreeMap;
use std::thread;

use mosb_tests::boot_images::{BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::Value;

use super::{all_machine_sets, message_of, openshift};
use crate::rbac_use::{requests_of_controller, resource};

const ALL: usize = 2000;
/// Sets whose image is the stream's; the others have one that nothing proves to be of a stream.
const FOLLOWING: usize = 100;
const THREADS: usize = 8;
const CUSTOM: &str = "ami-00000000000000bad";

fn name(number: usize) -> String {
    format!("set-{number:04}")
}

fn create_all(cluster: &BootImageCluster) {
    let target = format!(
        "/apis/machine.openshift.io/v1beta1/namespaces/{MACHINE_API_NAMESPACE}/machinesets"
    );
    let create = |first: usize| {
        for number in (first..ALL).step_by(THREADS) {
            let image = if number < FOLLOWING { ami(1) } else { CUSTOM.to_owned() };
            let set = aws_machine_set(&name(number), &image);
            let (code, answer) = cluster.node.api().ask("POST", &target, Some(&set));
            assert_eq!(code, 201, "{answer:#}");
        }
    };
    thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || create(first));
        }
    });
}

/// The controller's requests so far, such as `list machinesets`, but for those that are no part of a
/// pass: of its Lease, its watches, and the lists with which it looks for kinds that this cluster
/// does not have.
fn requests(cluster: &BootImageCluster) -> BTreeMap<String, usize> {
    let mut requests = BTreeMap::new();
    for event in requests_of_controller(&cluster.node) {
        let (resource, verb) = (resource(&event), event["verb"].as_str().unwrap());
        let is_absent = verb == "list" && event["responseStatus"]["code"] != 200;
        if resource != "leases" && verb != "watch" && !is_absent {
            *requests.entry(format!("{verb} {resource}")).or_default() += 1;
        }
    }
    requests
}

/// How many sets have this release as the last one of their record.
fn recorded(cluster: &BootImageCluster, release: u32) -> usize {
    let all = cluster.node.api().list(Some(MACHINE_API_NAMESPACE), "bootimagehistories", "");
    let last = |history: &Value| history["status"]["details"].as_array()?.last().cloned();
    let is_it = |history: &&Value| {
        last(history).is_some_and(|last| last["bootImageRef"] == ami(release).as_str())
    };
    all.iter().filter(is_it).count()
}

#[test]
#[ignore = "make test-all: 2,000 sets"]
fn a_release_costs_writes_and_no_reads() {
    let cluster = openshift(2);
    create_all(&cluster);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.start_controller();
    let wait_for = |release: u32| {
        cluster.wait(&format!("release {release}"), || {
            let message = message_of(&cluster, "BootImageUpdateProgressing", "False")?;
            let all = format!("Reconciled {FOLLOWING} of {ALL} MAPI MachineSets");
            (message.starts_with(&all) && recorded(&cluster, release) == FOLLOWING).then_some(())
        });
    };
    wait_for(2);
    let before = requests(&cluster);
    cluster.set_release(3);
    wait_for(3);
    let mut new = requests(&cluster);
    for (what, count) in &before {
        *new.get_mut(what).unwrap() -= count;
    }
    new.retain(|_, count| *count > 0);
    let mut take = |what: &str| new.remove(what).unwrap_or_default();
    assert_eq!(take("patch machinesets"), FOLLOWING);
    // The attempt, and what was then seen.
    assert_eq!(take("patch bootimagehistories/status"), 2 * FOLLOWING);
    // Each pass reads the stub of the sets once, and writes the conditions once. A pass makes many
    // writes, and its own writes begin the next.
    for what in ["get secrets", "patch machineconfigurations/status"] {
        let count = take(what);
        assert!((1..FOLLOWING / 4).contains(&count), "{what}: {count}");
    }
    take("create events");
    assert!(new.is_empty(), "{new:#?}");
}
