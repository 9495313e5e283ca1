//! MachineDeployments of one Cluster: one rolls after the other, and one that replaces machines when
//! somebody deletes them waits for that.

use mosb_tests::boot_images::{ROLL, TENANT, gcp_image};
use serde_json::json;

use super::tenant::{Kind, TEMPLATE, Tenant, have};

#[test]
fn deployments_of_a_cluster_roll_in_turn() {
    let tenant = Tenant::new();
    let names = ["first", "second", "third"];
    for name in names {
        tenant.set(Kind::Deployment, name, 1, |set| {
            set["metadata"]["annotations"] = json!({ ROLL: "true" });
        });
    }
    tenant.start_controller();
    tenant.wait("all to have rolled", || {
        // A deployment that had begun and then has an old machine was rolling at both looks.
        let began = names.map(|name| tenant.template_of(Kind::Deployment, name) != TEMPLATE);
        let done = names.map(|name| have(&tenant.machines(Kind::Deployment, name), 2));
        let rolling = began.iter().zip(done).filter(|(began, done)| **began && !done).count();
        assert!(rolling <= 1, "{names:?} began: {began:?}, are done: {done:?}");
        done.into_iter().all(|done| done).then_some(())
    });
}

#[test]
fn on_delete_changes_the_machine_that_is_deleted() {
    let tenant = Tenant::new();
    let old = tenant.set(Kind::Deployment, "by-hand", 2, |set| {
        set["spec"]["rollout"] = json!({ "strategy": { "type": "OnDelete" } });
    });
    tenant.start_controller();
    tenant.wait("the template of by-hand", || {
        (tenant.template_of(Kind::Deployment, "by-hand") != TEMPLATE).then_some(())
    });
    assert_eq!(tenant.machines(Kind::Deployment, "by-hand"), old);
    let target = format!("machine.cluster.x-k8s.io/{}", old[0].name);
    tenant.cluster.node.kubectl(&["delete", &target, "--namespace", TENANT, "--wait=false"]).ok();
    let new = tenant.wait_for(Kind::Deployment, "by-hand", "the machine instead", |machines| {
        machines.len() == 2 && !machines.contains(&old[0])
    });
    let (kept, next): (Vec<_>, Vec<_>) = new.into_iter().partition(|machine| old.contains(machine));
    assert_eq!(kept, old[1..]);
    assert_eq!(next[0].image, gcp_image(2));
}
