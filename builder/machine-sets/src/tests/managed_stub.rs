//! `bootImages.stub: managed`: the reference changes with the image.

use serde_json::{Value, json};

use super::fake_cluster::{ALL, FakeCluster, NEW as NEW_FCOS, OLD as OLD_FCOS};
use super::openshift::{NEW, cluster, codes, set, spec, stub_secret};
use crate::view::rbac;
use mosb_cluster::cluster_cache::BootImageKind::{MachineApiMachineSet, MachineDeployment};

const MANAGED: &str = "worker-user-data-managed";
const OWN: &str = "worker-user-data";

fn managed(cluster: &mut FakeCluster) {
    cluster.settings = format!("{ALL}, stub: managed}}");
}

#[test]
fn a_set_with_the_installed_secret_gets_the_managed_one_of_the_same_pool() {
    // The version of the own stub; name, version and pool of the other Secret.
    for (what, own, other, want) in [
        ("the same pool", "3.2.0", Some((MANAGED, "3.5.0", "worker")), MANAGED),
        (
            "an own stub of spec 2 stays as it is",
            "2.2.0",
            Some((MANAGED, "3.5.0", "worker")),
            MANAGED,
        ),
        ("another pool", "3.2.0", Some((MANAGED, "3.5.0", "infra")), OWN),
        ("one that new images can't read", "3.2.0", Some((MANAGED, "2.2.0", "worker")), OWN),
        ("no such Secret", "3.2.0", None, OWN),
    ] {
        let mut cluster = cluster();
        managed(&mut cluster);
        set(&mut cluster, "a");
        stub_secret(&mut cluster, OWN, own, "worker");
        if let Some((name, version, pool)) = other {
            stub_secret(&mut cluster, name, version, pool);
        }
        let before = cluster.secrets.clone();
        let plan = cluster.settle();
        assert_eq!(codes(&plan), ["current"], "{what}");
        assert_eq!(spec(&cluster, "a")["userDataSecret"]["name"], want, "{what}");
        assert_eq!(spec(&cluster, "a")["disks"][0]["image"], NEW, "{what}");
        assert_eq!(cluster.secrets, before, "{what}");
        let of_set = cluster.writes.iter().filter(|write| write.starts_with("boot image of"));
        assert_eq!(of_set.count(), 1, "{what}: {:?}", cluster.writes);
    }
}

#[test]
fn a_secret_of_another_name_stays() {
    let mut cluster = cluster();
    managed(&mut cluster);
    set(&mut cluster, "a");
    cluster.edit(MachineApiMachineSet, "a", |one| {
        one["spec"]["template"]["spec"]["providerSpec"]["value"]["userDataSecret"]["name"] =
            json!("mine");
    });
    stub_secret(&mut cluster, "mine", "3.2.0", "worker");
    stub_secret(&mut cluster, "mine-managed", "3.2.0", "worker");
    assert_eq!(codes(&cluster.settle()), ["current"]);
    assert_eq!(spec(&cluster, "a")["userDataSecret"]["name"], "mine");
}

#[test]
fn without_the_right_to_the_managed_secret_the_set_is_skipped() {
    let mut cluster = cluster();
    managed(&mut cluster);
    set(&mut cluster, "a");
    stub_secret(&mut cluster, OWN, "3.2.0", "worker");
    // It may not be read.
    cluster.secrets.insert(format!("machines/{MANAGED}"), Value::Null);
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["no-right"]);
    let reason = plan.sets[0].outcome.reason();
    assert!(reason.contains(MANAGED) && reason.contains("boot-images rbac"), "{reason}");
    let objects = rbac::objects(&cluster.snapshot(), ("mosb", "controller"));
    let rules: Vec<(&Value, &Value)> = objects[0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (&rule["resourceNames"], &rule["verbs"]))
        .collect();
    let want = [(&json!([OWN]), &json!(["get", "update"])), (&json!([MANAGED]), &json!(["get"]))];
    assert_eq!(rules, want);
}

/// The reference and the template change in one patch, so that machines are replaced once.
#[test]
fn a_machine_deployment_rolls_once() {
    let mut cluster = FakeCluster::new(NEW_FCOS);
    managed(&mut cluster);
    cluster.set(MachineDeployment, "d", OLD_FCOS);
    cluster.annotate(MachineDeployment, "d", "mosb.dev/boot-image-roll", "true");
    cluster.edit(MachineDeployment, "d", |one| {
        one["spec"]["template"]["spec"]["bootstrap"] = json!({ "dataSecretName": OWN });
        one["status"]["observedGeneration"] = json!(2);
    });
    for name in [OWN, MANAGED] {
        stub_secret(&mut cluster, name, "3.2.0", "worker");
    }
    cluster.settle();
    assert_eq!(cluster.image(MachineDeployment, "d"), NEW_FCOS);
    let object = &cluster.objects[&(MachineDeployment, "machines/d".to_owned())];
    assert_eq!(object["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"], MANAGED);
    let patches = cluster.writes.iter().filter(|write| write.contains("MachineDeployment"));
    assert_eq!(patches.count(), 1, "{:?}", cluster.writes);
}
