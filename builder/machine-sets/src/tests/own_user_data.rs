//! Secrets that MachineOSConfigs name for mosb's own user data.

use serde_json::json;

use super::fake_cluster::{ALL, FakeCluster, NEW as NEW_FCOS, OLD as OLD_FCOS};
use super::openshift::{NEW, OLD, cluster, codes, set, spec, stub_secret};
use mosb_cluster::cluster_cache::BootImageKind::ClusterApiMachineSet;

const SECRET: &str = "worker-user-data";

fn name_secret(cluster: &mut FakeCluster) {
    cluster.pool("worker", None, Some(SECRET));
}

/// The user data in the Secret, and what happens to a set that uses it.
const CASES: [(&str, Option<&str>, &str); 3] = [
    ("written by mosb", Some("3.2.0"), "current"),
    ("of the installer still", Some("2.2.0"), "waiting"),
    ("there is none", None, "waiting"),
];

#[test]
fn a_secret_with_user_data_of_mosb_is_never_converted_and_the_image_waits_for_spec_3() {
    for (what, version, want) in CASES {
        for is_managed in [false, true] {
            let mut cluster = cluster();
            set(&mut cluster, "a");
            if let Some(version) = version {
                stub_secret(&mut cluster, SECRET, version, "worker");
            }
            if is_managed {
                cluster.settings = format!("{ALL}, stub: managed}}");
                stub_secret(&mut cluster, "worker-user-data-managed", "3.2.0", "worker");
            }
            name_secret(&mut cluster);
            let before = cluster.secrets.clone();
            let plan = cluster.settle();
            assert_eq!(codes(&plan), [want], "{what}");
            assert_eq!(cluster.secrets, before, "{what}");
            let image = if want == "current" { NEW } else { OLD };
            assert_eq!(spec(&cluster, "a")["disks"][0]["image"], image, "{what}");
            assert_eq!(spec(&cluster, "a")["userDataSecret"]["name"], SECRET, "{what}");
            let reason = plan.sets[0].outcome.reason();
            assert_eq!(reason.contains("condition UserData"), want == "waiting", "{reason}");
        }
    }
}

#[test]
fn the_same_holds_for_sets_of_cluster_api() {
    for (what, version, want) in CASES {
        let mut cluster = FakeCluster::new(NEW_FCOS);
        cluster.set(ClusterApiMachineSet, "a", OLD_FCOS);
        cluster.edit(ClusterApiMachineSet, "a", |one| {
            one["spec"]["template"]["spec"]["bootstrap"] = json!({ "dataSecretName": SECRET });
        });
        if let Some(version) = version {
            stub_secret(&mut cluster, SECRET, version, "worker");
        }
        name_secret(&mut cluster);
        let before = cluster.secrets.clone();
        assert_eq!(codes(&cluster.settle()), [want], "{what}");
        assert_eq!(cluster.secrets, before, "{what}");
        let image = if want == "current" { NEW_FCOS } else { OLD_FCOS };
        assert_eq!(cluster.image(ClusterApiMachineSet, "a"), image, "{what}");
    }
}
