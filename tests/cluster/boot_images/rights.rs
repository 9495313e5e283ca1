//! Sets of every kind and every platform, with no right unused and none missing.

use mosb_tests::boot_images::{
    ClusterApiControllers, MACHINE_API_NAMESPACE, REGION, TENANT, ami, aws_control_plane,
    aws_machine_set, cluster, cluster_api_set, gcp_image, kubevirt_image, machine_template,
    metal_disk, release, vmware_release,
};
use serde_json::{Value, json};

use super::{all_of_both, condition_of, details, openshift, set_renderer, wait_for_ami};
use crate::rbac_use::{assert_all_used, granted};

/// What is granted and not used here, and why it must be granted.
const EXCUSED: &[(&str, &str)] = &[
    ("bootimagehistories get", "reads an object that exists already when it is created"),
    ("bootimagestatuses.mosb.dev get", "the same"),
    ("images.openstack.k-orc.cloud get", "the same"),
    ("awsmachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("azuremachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("gcpmachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("metal3machinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("openstackmachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
    ("vspheremachinetemplates.infrastructure.cluster.x-k8s.io get", "the same"),
];

/// A version of an image definition in a gallery of Azure.
fn gallery_image(version: u32) -> String {
    format!(
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/mine/images/fcos/versions/{version}.0.0"
    )
}

/// The `Image` of the OpenStack resource controller for a release.
fn openstack_image(number: u32) -> String {
    format!("mosb-boot-image-{}-amd64", release(number))
}

/// The machines of a provider, and the same with the image of the second release.
fn machines() -> [(&'static str, Value, Value); 7] {
    let azure = |version: &str| {
        json!({ "image": { "computeGallery": { "gallery": "mine", "name": "fcos",
            "subscriptionID": "s", "resourceGroup": "g", "version": version } } })
    };
    let openstack = |image: Value| {
        json!({ "image": image, "flavor": "m1.large",
            "identityRef": { "name": "clouds", "cloudName": "c" } })
    };
    let metal3 = |number: u32, sha256: String| json!({ "image": { "url": metal_disk(number), "checksum": sha256, "checksumType": "sha256" } });
    let kubevirt = |number: u32| {
        json!({ "virtualMachineTemplate": { "spec": { "template": { "spec": {
            "domain": { "devices": { "disks": [{ "name": "root", "disk": {} }] } },
            "volumes": [{ "name": "root", "containerDisk": { "image": kubevirt_image(number) } }] } } } } })
    };
    let aws = |number: u32| json!({ "ami": { "id": ami(number) }, "instanceType": "m6i.xlarge" });
    let by_reference = json!({ "imageRef": { "name": openstack_image(2) } });
    [
        ("AWS", aws(1), aws(2)),
        ("GCP", json!({ "image": gcp_image(1) }), json!({ "image": gcp_image(2) })),
        ("Azure", azure("1.0.0"), azure("2.0.0")),
        ("VSphere", json!({ "template": "fcos-1" }), json!({ "template": "fcos-2" })),
        ("OpenStack", openstack(json!({ "filter": { "name": "fcos" } })), openstack(by_reference)),
        ("Metal3", metal3(1, "c".repeat(64)), metal3(2, "a".repeat(64))),
        ("Kubevirt", kubevirt(1), kubevirt(2)),
    ]
}

#[test]
fn every_platform_follows_and_uses_every_right() {
    let cluster = openshift(2);
    cluster.readable_stub(TENANT, super::STUB);
    for set in [aws_machine_set("workers", &ami(1)), aws_control_plane(&ami(1))] {
        cluster.apply(MACHINE_API_NAMESPACE, &set);
    }
    let infrastructure = json!({ "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSCluster", "metadata": { "name": "prod" }, "spec": { "region": REGION } });
    cluster.apply(TENANT, &infrastructure);
    let mut owner = self::cluster(cluster.api_version, "prod");
    owner["spec"]["infrastructureRef"] = json!({ "apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "AWSCluster", "name": "prod" });
    let owner = cluster.apply_with_status(Some(TENANT), &owner);
    let add = |kind: &str, name: &str, template: &Value| {
        let mut set = cluster_api_set(cluster.api_version, kind, name, &owner, template);
        set["metadata"]["annotations"] = json!({ "mosb.dev/boot-image-is-stock": "true" });
        if kind == "MachineDeployment" {
            set["spec"]["rollout"] = json!({ "strategy": { "type": "OnDelete" } });
        }
        cluster.apply(TENANT, &set);
    };
    let name = |provider: &str| provider.to_lowercase();
    for (provider, before, _) in machines() {
        let template = machine_template(provider, &name(provider), &before);
        cluster.apply(TENANT, &template);
        add("MachineSet", &name(provider), &template);
        if provider == "GCP" {
            add("MachineDeployment", "deployment", &template);
        }
    }
    let mut settings = all_of_both(&[ami(1)]);
    settings["images"] = json!({ release(2): gallery_image(2), vmware_release(1): "fcos-1",
        vmware_release(2): "fcos-2" });
    cluster.settings(&settings);
    let controllers = ClusterApiControllers::new(&cluster);
    controllers.observe();
    cluster.start_controller();

    for set in ["workers", "cluster"] {
        cluster
            .wait(set, || (details(&cluster, MACHINE_API_NAMESPACE, set).len() == 2).then_some(()));
    }
    wait_for_ami(&cluster, "workers", &ami(2));
    for (provider, _, after) in machines() {
        let set = name(provider);
        cluster.wait(&set, || {
            controllers.observe();
            (details(&cluster, TENANT, &set).len() == 2).then_some(())
        });
        let template = cluster.template_of(&format!("machineset.cluster.x-k8s.io/{set}"));
        assert!(template.starts_with(&format!("{set}-")), "{template}");
        let kind = format!("{set}machinetemplate");
        let template = cluster.get(TENANT, &format!("{kind}/{template}"));
        assert_eq!(template["spec"]["template"]["spec"], after, "{provider}");
    }
    let deployment = "deployment";
    cluster.wait(deployment, || {
        (details(&cluster, TENANT, deployment) == [gcp_image(1), gcp_image(2)]).then_some(())
    });
    let image =
        cluster.get(TENANT, &format!("images.openstack.k-orc.cloud/{}", openstack_image(2)));
    assert_eq!(image["spec"]["cloudCredentialsRef"]["secretName"], "clouds");

    // Beside another controller, the conditions are elsewhere.
    set_renderer(&cluster, 1);
    cluster.wait("a status of ours", || {
        let status = cluster.node.api().find(None, "bootimagestatus", "cluster")?;
        condition_of(&status, "BootImageUpdateProgressing", "False")
    });
    cluster.kill_controller();
    let base = granted(&cluster.node, "kubernetes");
    assert_all_used(&cluster.node, "boot-images", &base, EXCUSED);
}
