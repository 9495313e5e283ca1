//! Boot images that wait for the OS of a pool, and follow it: another base in service, a way back.

use mosb_tests::boot_images::{
    BootImageCluster, CLUSTER_API_SETS, ClusterApi, TENANT, cluster, cluster_api_set, gcp_image,
    gcp_template, release, select_all,
};
use serde_json::{Value, json};

use super::{details, plain, reason_of};

const API: &str = "machineconfiguration.openshift.io/v1";
const SET: &str = "machineset.cluster.x-k8s.io/a";
const POOL: &str = "worker";

fn image(number: u32) -> String {
    format!("registry.example/os/worker@sha256:{number:064x}")
}

/// The build on the base of this release, as the controller of builds leaves it.
fn build(cluster: &BootImageCluster, number: u32) {
    let config = cluster.node.get(&format!("machineosconfig/{POOL}"));
    let controller = json!({ "apiVersion": API, "kind": "MachineOSConfig", "name": POOL,
        "uid": config["metadata"]["uid"], "controller": true });
    let condition = json!({ "type": "Succeeded", "status": "True", "reason": "Ready",
        "message": "a", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    cluster.apply_with_status(
        None,
        &json!({ "apiVersion": API, "kind": "MachineOSBuild",
            "metadata": { "name": format!("{POOL}-{number:032x}"), "ownerReferences": [controller],
                "annotations": { "mosb.dev/base-version": release(number),
                    "mosb.dev/stage": "replaced" } },
            "spec": { "machineConfig": { "name": format!("rendered-{POOL}-{number:032x}") },
                "machineOSConfig": { "name": POOL },
                "renderedImagePushSpec": "registry.example/os/worker:latest" },
            "status": { "conditions": [condition], "digestedImagePushSpec": image(number) } }),
    );
}

/// The image on the base of this release comes into service.
fn put_in_service(cluster: &BootImageCluster, number: u32) {
    let status = json!({ "status": { "currentImagePullSpec": image(number),
        "machineOSBuild": { "group": "machineconfiguration.openshift.io", "resource": "machineosbuilds",
            "name": format!("{POOL}-{number:032x}") } } });
    let object = format!("machineosconfig/{POOL}");
    let change = status.to_string();
    let words = ["patch", &object, "--subresource=status", "--type=merge", "--patch", &change];
    cluster.node.kubectl(&words).ok();
}

fn shown(cluster: &BootImageCluster) -> Value {
    let text = cluster.mosb(&["boot-images", "status", "-o", "json"]).ok().text();
    serde_json::from_str(&text).unwrap()
}

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn images_wait_for_the_os_of_a_pool() {
    let cluster = plain(ClusterApi::V1Beta2, 1);
    let mut settings = select_all(&CLUSTER_API_SETS, &[]);
    settings["oldest"] = json!(release(1));
    cluster.settings(&settings);
    let mut tenant = self::cluster(cluster.api_version, "prod");
    tenant["status"] =
        json!({ "conditions": [mosb_tests::boot_images::condition("Available", "True")] });
    let tenant = cluster.apply_with_status(Some(TENANT), &tenant);
    let template = gcp_template("first", &gcp_image(1));
    cluster.apply(TENANT, &template);
    let set = cluster_api_set(cluster.api_version, "MachineSet", "a", &tenant, &template);
    cluster.apply(TENANT, &set);
    cluster.node.apply(
        &json!({ "apiVersion": API, "kind": "MachineOSConfig", "metadata": { "name": POOL },
            "spec": { "machineConfigPool": { "name": POOL },
                "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": "registry.example/os/worker:latest" } })
        .to_string(),
    );
    for number in [1, 2, 3] {
        build(&cluster, number);
    }
    put_in_service(&cluster, 1);
    cluster.start_controller();
    let recorded = || (details(&cluster, TENANT, "a") == [gcp_image(1)]).then_some(());
    cluster.wait("the record", recorded);

    // The stream is ahead of the pool.
    cluster.set_release(2);
    let want = format!("new machines of pool {POOL} get {}", release(1));
    cluster.wait("the reason", || reason_of(&cluster, "a").filter(|reason| reason.contains(&want)));
    assert_eq!(
        (shown(&cluster)["daysBehind"].clone(), cluster.template_of(SET)),
        (json!(0), "first".into())
    );

    // The base moves, and nothing else does.
    put_in_service(&cluster, 2);
    let has_both =
        || (details(&cluster, TENANT, "a") == [gcp_image(1), gcp_image(2)]).then_some(());
    cluster.wait("the image of the release that the pool has now", has_both);

    // Its tag is followed beyond the ConfigMap.
    put_in_service(&cluster, 3);
    let days = |days: i64| (shown(&cluster)["daysBehind"] == days).then_some(());
    cluster.wait("the age against the pool", || days(28));
    let notes = shown(&cluster)["notes"].to_string();
    assert!(notes.contains("make the ConfigMap from the stream as it is now"), "{notes}");
    cluster.set_release(3);
    cluster.wait("the newest image", || {
        (details(&cluster, TENANT, "a").last() == Some(&gcp_image(3))).then_some(())
    });
    cluster.wait("no age", || days(0));
}
