//! Images in use that are too old: the condition, its events, and what the command shows.

use mosb_tests::boot_images::{
    BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_machine_set, release,
};
use serde_json::{Value, json};

use super::{all_machine_sets, entries, message_of, openshift};

const SET: &str = "machineset.machine.openshift.io/a";
const PIN: &str = "mosb.dev/boot-image-pin";

/// The reasons of the events about the conditions.
fn events(cluster: &BootImageCluster) -> Vec<Value> {
    let events = cluster.node.api().list(Some("default"), "events.events.k8s.io", "");
    events.iter().map(|event| event["reason"].clone()).collect()
}

/// The image of an earlier release, which only the history knows by now.
#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn an_old_image_is_reported() {
    let cluster = openshift(1);
    cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set("a", &ami(1)));
    let mut settings = all_machine_sets(&[]);
    settings["oldest"] = json!(release(2));
    cluster.settings(&settings);
    cluster.start_controller();
    // It had the image: nothing was written.
    let found = [(ami(1), 0)];
    let recorded = || (entries(&cluster, MACHINE_API_NAMESPACE, "a") == found).then_some(());
    cluster.wait("the record", recorded);
    let pin = |value: Value| json!({ "metadata": { "annotations": { PIN: value } } });
    cluster.patch(MACHINE_API_NAMESPACE, SET, &pin(json!("always")));
    // The controller may see the next images before it sees the pin.
    let history = "bootimagehistory/a.machineset.machine.openshift.io";
    let is_pinned = || {
        (cluster.get(MACHINE_API_NAMESPACE, history)["status"]["pinned"] == "always").then_some(())
    };
    cluster.wait("the pin", is_pinned);
    cluster.set_release(3);
    let full_name = format!("{MACHINE_API_NAMESPACE}/{SET}");
    let message = cluster.wait("the condition with the set", || {
        let listed = message_of(&cluster, "BootImageSkewed", "True");
        listed.filter(|_| shown(&cluster)["daysBehind"] == 59)
    });
    let want = format!(
        "images older than {}, from which machines may not reach the cluster's OS: {full_name}",
        release(2)
    );
    assert_eq!(message, want);
    let status = shown(&cluster);
    assert_eq!(status["warnings"], json!([want]));
    let set = &status["sets"][0];
    assert_eq!((&set["code"], &set["image"]), (&json!("pinned"), &json!(ami(1))));
    let text = cluster.mosb(&["boot-images", "status"]).ok().text();
    for part in [&*format!("warning: {want}"), "is 59 days older than the OS that it should have"] {
        assert!(text.contains(part), "{text}");
    }
    let is = |reason: &str| events(&cluster).contains(&json!(reason)).then_some(());
    cluster.wait("its event", || is("BootImagesTooOld"));

    // The pin is removed, and an image of the history may be replaced.
    cluster.patch(MACHINE_API_NAMESPACE, SET, &pin(Value::Null));
    let written = [(ami(1), 0), (ami(3), 1)];
    let recorded = || (entries(&cluster, MACHINE_API_NAMESPACE, "a") == written).then_some(());
    cluster.wait("the new image", recorded);
    cluster.wait("the end", || message_of(&cluster, "BootImageSkewed", "False"));
    cluster.wait("the event of the end", || is("BootImagesNewEnough"));
    assert_eq!(shown(&cluster)["daysBehind"], 0);
}

fn shown(cluster: &BootImageCluster) -> Value {
    let text = cluster.mosb(&["boot-images", "status", "-o", "json"]).ok().text();
    serde_json::from_str(&text).unwrap()
}
