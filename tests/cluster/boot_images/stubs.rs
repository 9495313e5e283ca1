//! Stubs of new machines: what an image without Ignition 2 could not read is converted first, and
//! only with a right to this very Secret.

use mosb_tests::boot_images::{MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::{Value, json};

use super::{all_machine_sets, image_of_aws, is_skipped, openshift_without_stub};

const SECRET: &str = "worker-user-data";
const CA: &str = "data:text/plain;charset=utf-8;base64,LS0tLS1CRUdJTg==";

/// As installers of OpenShift 4.1 to 4.5 wrote it.
fn of_spec_2() -> Value {
    json!({ "ignition": { "version": "2.2.0", "config": { "append": [{
            "source": "https://api-int.example.com:22623/config/worker", "verification": {} }] },
        "security": { "tls": { "certificateAuthorities": [{ "source": CA, "verification": {} }] } }, "timeouts": {} },
        "networkd": {}, "passwd": {}, "storage": {}, "systemd": {} })
}

#[test]
fn a_shared_stub_is_converted_before_the_first_image_and_only_with_a_right_to_it() {
    let cluster = openshift_without_stub(2);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.stub(MACHINE_API_NAMESPACE, SECRET, &of_spec_2());
    for name in ["a", "b"] {
        cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set(name, &ami(1)));
    }
    cluster.start_controller();
    cluster.wait("both to be listed", || is_skipped(&cluster, &["a", "b"]).then_some(()));
    assert_eq!(cluster.stub_of(MACHINE_API_NAMESPACE, SECRET), of_spec_2());
    assert_eq!(image_of_aws(&cluster, "a"), ami(1));

    let rights = cluster.mosb(&["boot-images", "rbac"]).ok().text();
    assert!(rights.contains("resourceNames"), "{rights}");
    cluster.node.apply(&rights);
    for name in ["a", "b"] {
        cluster.wait(name, || (image_of_aws(&cluster, name) == ami(2)).then_some(()));
    }
    let stub = cluster.stub_of(MACHINE_API_NAMESPACE, SECRET);
    let ignition = &stub["ignition"];
    assert!(ignition["version"].as_str().unwrap().starts_with("3."), "{stub:#}");
    let of_2 = of_spec_2();
    assert_eq!(
        ignition["config"]["merge"][0]["source"],
        of_2["ignition"]["config"]["append"][0]["source"]
    );
    assert_eq!(ignition["security"]["tls"]["certificateAuthorities"][0]["source"], CA);
    let secret = cluster.get(MACHINE_API_NAMESPACE, &format!("secret/{SECRET}"));
    let annotation = &secret["metadata"]["annotations"]["machineconfiguration.openshift.io/stub-ignition-upgraded-to"];
    assert_eq!(annotation, &ignition["version"]);
    assert!(!cluster.log().contains("22623"), "a stub is in the log");
}

#[test]
fn a_stub_that_no_image_reads_leaves_its_sets_alone() {
    let cluster = openshift_without_stub(2);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.stub(MACHINE_API_NAMESPACE, SECRET, &json!({ "ignitionVersion": 1 }));
    cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set("a", &ami(1)));
    cluster.node.apply(&cluster.mosb(&["boot-images", "rbac"]).ok().text());
    cluster.start_controller();
    let why =
        cluster.wait("an error", || super::why_of(&cluster, "BootImageUpdateDegraded", "True"));
    assert!(why.contains(SECRET), "{why}");
    assert_eq!(image_of_aws(&cluster, "a"), ami(1));
}
