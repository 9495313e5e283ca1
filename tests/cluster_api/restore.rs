//! An administrator takes a MachineDeployment back to the image before. Its Cluster names no control
//! plane, so Cluster API never reports it as available.

use mosb_tests::boot_images::{ROLL, TENANT};
use mosb_tests::condition;
use serde_json::json;

use super::tenant::{Kind, TEMPLATE, Tenant, have};

#[test]
fn a_restored_deployment_rolls_back_and_stays() {
    const SET: &str = "machinedeployment.cluster.x-k8s.io/rolls";
    let tenant = Tenant::without_control_plane();
    tenant.set(Kind::Deployment, "rolls", 2, |set| {
        set["metadata"]["annotations"] = json!({ ROLL: "true" });
    });
    tenant.start_controller();
    let has = |release: u32| {
        tenant.wait_for(Kind::Deployment, "rolls", &format!("image {release}"), |machines| {
            machines.len() == 2 && have(machines, release)
        });
    };
    has(2);
    let object = tenant.cluster.get(TENANT, "cluster.cluster.x-k8s.io/prod");
    assert!(!condition(&object, "Available"), "{object:#}");
    tenant.wait("the record", || {
        let history = tenant.cluster.mosb(&["boot-images", "history", SET]).ok().text();
        history.contains("fedora-coreos-2-").then_some(())
    });
    // It succeeds also while the core controllers write the status of the deployment.
    let run = |action: &str| drop(tenant.cluster.mosb(&["boot-images", action, SET]).ok());
    run("restore");
    has(1);
    assert_eq!(tenant.template_of(Kind::Deployment, "rolls"), TEMPLATE);
    let status = tenant.cluster.mosb(&["boot-images", "status"]).ok().text();
    assert!(status.contains("pinned"), "{status}");
    // Another process reads the pin, and changes nothing.
    tenant.cluster.kill_controller();
    tenant.start_controller();
    tenant.cluster.wait_for_log("machine sets: 0 current, 0 updating, 0 waiting");
    assert_eq!(tenant.template_of(Kind::Deployment, "rolls"), TEMPLATE);

    run("unpin");
    has(2);
}
