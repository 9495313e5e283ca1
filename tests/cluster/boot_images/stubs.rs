//! Stubs of new machines: what an image without Ignition 2 could not read is converted first, and
//! only with a right to this very Secret.

use mosb_tests::boot_images::{MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::{Value, json};

use super::{
    all_machine_sets, details, image_of_aws, openshift_without_stub, reason_of, wait_for_ami,
};

const SECRET: &str = "worker-user-data";
const MANAGED: &str = "worker-user-data-managed";
const CA: &str = "data:text/plain;charset=utf-8;base64,LS0tLS1CRUdJTg==";

/// As installers of OpenShift 4.1 to 4.5 wrote it.
pub fn of_spec_2() -> Value {
    json!({ "ignition": { "version": "2.2.0", "config": { "append": [{
            "source": "https://api-int.example.com:22623/config/worker", "verification": {} }] },
        "security": { "tls": { "certificateAuthorities": [{ "source": CA, "verification": {} }] } }, "timeouts": {} },
        "networkd": {}, "passwd": {}, "storage": {}, "systemd": {} })
}

/// A machine set whose machines start with this Secret.
pub fn machine_set(name: &str, secret: &str) -> Value {
    let mut set = aws_machine_set(name, &ami(1));
    set["spec"]["template"]["spec"]["providerSpec"]["value"]["userDataSecret"]["name"] =
        json!(secret);
    set
}

#[test]
fn a_shared_stub_is_converted_first() {
    let cluster = openshift_without_stub(2);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.stub(MACHINE_API_NAMESPACE, SECRET, &of_spec_2());
    cluster.stub(MACHINE_API_NAMESPACE, "unreadable", &json!({ "ignitionVersion": 1 }));
    for (name, secret) in [("a", SECRET), ("b", SECRET), ("bad", "unreadable")] {
        cluster.apply(MACHINE_API_NAMESPACE, &machine_set(name, secret));
    }
    cluster.start_controller();
    for name in ["a", "b"] {
        let reason = cluster.wait(name, || reason_of(&cluster, name));
        assert!(reason.contains("mosb boot-images rbac"), "{reason}");
    }
    assert_eq!(cluster.stub_of(MACHINE_API_NAMESPACE, SECRET), of_spec_2());
    assert_eq!(image_of_aws(&cluster, "a"), ami(1));

    let rights = cluster.mosb(&["boot-images", "rbac"]).ok().text();
    assert!(rights.contains("resourceNames"), "{rights}");
    cluster.node.apply(&rights);
    // A pass, for which the controller would otherwise wait up to a minute.
    cluster.apply(MACHINE_API_NAMESPACE, &machine_set("c", SECRET));
    for name in ["a", "b", "c"] {
        wait_for_ami(&cluster, name, &ami(2));
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

    // A stub that no image reads leaves its set alone, and only that one.
    let reason = cluster.wait("bad", || {
        reason_of(&cluster, "bad").filter(|reason| !reason.contains("mosb boot-images rbac"))
    });
    assert!(reason.contains("unreadable"), "{reason}");
    assert_eq!(image_of_aws(&cluster, "bad"), ami(1));
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "bad"), [ami(1)]);
    assert!(!cluster.log().contains("22623"), "a stub is in the log");
}

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn a_set_gets_the_managed_secret() {
    let cluster = openshift_without_stub(2);
    let mut settings = all_machine_sets(&[ami(1)]);
    settings["stub"] = json!("managed");
    cluster.settings(&settings);
    let newer = json!({ "ignition": { "version": "3.2.0", "config": { "merge": [{
        "source": "https://api-int.example.com:22623/config/worker" }] } } });
    let stubs = [(SECRET, of_spec_2()), (MANAGED, newer)];
    for (name, stub) in &stubs {
        cluster.stub(MACHINE_API_NAMESPACE, name, stub);
    }
    cluster.apply(MACHINE_API_NAMESPACE, &machine_set("a", SECRET));
    cluster.start_controller();
    let reason = cluster.wait("a", || reason_of(&cluster, "a"));
    assert!(reason.contains("mosb boot-images rbac"), "{reason}");

    let rights = cluster.mosb(&["boot-images", "rbac"]).ok().text();
    cluster.node.apply(&rights);
    // A pass, for which the controller would otherwise wait up to a minute.
    cluster.apply(MACHINE_API_NAMESPACE, &machine_set("b", SECRET));
    for name in ["a", "b"] {
        wait_for_ami(&cluster, name, &ami(2));
        let set =
            cluster.get(MACHINE_API_NAMESPACE, &format!("machineset.machine.openshift.io/{name}"));
        let value = &set["spec"]["template"]["spec"]["providerSpec"]["value"];
        assert_eq!(value["userDataSecret"]["name"], MANAGED);
        assert_eq!(set["metadata"]["generation"], 2, "one write has both");
    }
    for (name, stub) in &stubs {
        assert_eq!(cluster.stub_of(MACHINE_API_NAMESPACE, name), *stub, "{name} is not written");
    }
}
