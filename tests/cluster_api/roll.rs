//! Which machines are replaced when a new image comes.

use mosb_tests::boot_images::{ROLL, TENANT, gcp_image};
use serde_json::json;

use super::tenant::{Kind, TEMPLATE, Tenant, have, same};

#[test]
fn deployments_roll_and_sets_change_their_next_machine() {
    let tenant = Tenant::new();
    let rolls = tenant.set(Kind::Deployment, "rolls", 2, |set| {
        set["metadata"]["annotations"] = json!({ ROLL: "true" });
    });
    let stays = tenant.set(Kind::Deployment, "stays", 2, |_| ());
    let alone = tenant.set(Kind::Set, "alone", 1, |_| ());
    tenant.start_controller();

    let new = tenant.wait_for(Kind::Deployment, "rolls", "new machines", |machines| {
        machines.len() == 2 && have(machines, 2)
    });
    assert_eq!(same(&rolls, &new), 0, "{rolls:?} {new:?}");
    let template = tenant.template_of(Kind::Deployment, "rolls");
    assert!(template.starts_with("workers-"), "{template}");

    // The standalone set has the same new template, and its machine is the one that it had.
    tenant.wait("the template of alone", || {
        (tenant.template_of(Kind::Set, "alone") == template).then_some(())
    });
    tenant.cluster.patch(
        TENANT,
        "machineset.cluster.x-k8s.io/alone",
        &json!({ "spec": { "replicas": 2 } }),
    );
    let both =
        tenant.wait_for(Kind::Set, "alone", "the next machine", |machines| machines.len() == 2);
    let (old, next): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|machine| alone.contains(machine));
    assert_eq!((old, next.len()), (alone, 1));
    assert_eq!(next[0].image, gcp_image(2));

    // The other deployment did not opt in.
    tenant.wait("the skipped set", || {
        let list = tenant.cluster.mosb(&["boot-images", "status", "-o", "json"]).ok().json();
        let mut sets = list["sets"].as_array().unwrap().iter();
        let skipped = sets.find(|set| set["set"].as_str().unwrap().ends_with("/stays"))?;
        (skipped["code"] == "rolls-machines").then_some(())
    });
    assert_eq!(tenant.machines(Kind::Deployment, "stays"), stays);
    assert_eq!(tenant.template_of(Kind::Deployment, "stays"), TEMPLATE);
}
