//! The controller, installed as the documentation says, does its work with the rights of `deploy/`,
//! and uses each of them.
//!
//! On a node of its own: no other test's objects are served, and its audit log has the requests of
//! this controller only.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use mosb_tests::{Node, base_image, mosb_image, programs, wait};

use crate::rbac_use::assert_all_used;

#[path = "../demo/cluster/objects.rs"]
pub mod objects;
use objects::{IMAGE, NAMESPACE, change, objects, os_config};

/// A build on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// What is granted and not used in this story, and why it must be granted.
const EXCUSED: &[(&str, &str)] = &[
    (
        "machineosconfigs/finalizers update",
        "asked for by admission, which leaves no trace in the log",
    ),
    ("machineosbuilds/finalizers update", "the same"),
    ("machineconfigpools/finalizers update", "the same"),
    ("machineosconfigs/status patch", "only for a nested repository"),
    ("machineosbuilds delete", "of one that is not wanted any more, while its MachineOSConfig is"),
    ("machineosbuilds get", "of one that was there when it was to be made"),
    ("jobs get", "the same"),
    ("secrets get", "read for a plan, too"),
    ("configmaps get", "of one that was there when it was to be made; handed on to sidecars"),
    ("serviceaccounts get", "of one that was there when it was to be made"),
    ("roles get", "the same"),
    ("rolebindings get", "the same"),
    ("namespaces get", "only with `retention` in the settings"),
    ("configmaps delete", "what a failed build left; otherwise its Job's end takes it along"),
    ("secrets delete", "the same"),
    ("serviceaccounts delete", "the same"),
    ("roles delete", "the same"),
    ("rolebindings delete", "the same"),
    ("leases list", "while another controller has it"),
    ("leases watch", "the same"),
    ("controllerconfigs watch", "a kind that this cluster has not got"),
    ("imagedigestmirrorsets.config.openshift.io watch", "the same"),
    ("imagetagmirrorsets.config.openshift.io watch", "the same"),
    ("images.config.openshift.io watch", "the same"),
    ("kubeletconfigs watch", "the same"),
    ("containerruntimeconfigs watch", "the same"),
    ("imagecontentsourcepolicies.operator.openshift.io watch", "the same"),
];

fn deploy(folder: &str) -> PathBuf {
    mosb_tests::repository().join("deploy").join(folder)
}

/// Waits until it says something about the pool's image, and returns that.
fn image(node: &Node, pool: &str, before: Option<&str>) -> String {
    wait(&format!("an image of {pool}"), LIMIT, || {
        let config = node.find(&format!("machineosconfig/{pool}"))?;
        let image = config["status"]["currentImagePullSpec"].as_str()?;
        (Some(image) != before).then(|| image.to_owned())
    })
}

/// Another pool, which opts in by its label, as clusters without MachineOSConfigs did, and builds
/// without Jobs.
fn labelled(node: &Node, base: &str) -> Vec<Value> {
    let config_map = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data,
        })
    };
    let role = json!({"machineconfiguration.openshift.io/role": "infra"});
    vec![
        config_map(
            "on-cluster-build-config",
            json!({
                "imageBuilderType": "custom-pod-builder", "baseImagePullSecretName": "global-pull-secret-copy", "finalImagePushSecretName": "push",
                "finalImagePullspec": node.registry().repository("acme/infra-os:latest"),
            }),
        ),
        config_map(
            "machine-config-osimageurl",
            json!({
                "baseOSContainerImage": node.registry().repository("acme/base:v1"), "baseOSExtensionsContainerImage": "", "osImageURL": "",
                "releaseVersion": "1",
            }),
        ),
        config_map("on-cluster-build-custom-dockerfile", json!({"infra": ""})),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "00-infra", "labels": role},
            "spec": {"osImageURL": base, "config": {"ignition": {"version": "3.5.0"}}},
        }),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "infra", "labels": {"machineconfiguration.openshift.io/layering-enabled": ""}},
            "spec": {"machineConfigSelector": {"matchLabels": role}},
        }),
    ]
}

/// A third pool, which begins with an image that is there; the MachineConfig that brings it names
/// another one yet.
fn seeded(node: &Node, base: &str, image: &str) -> Vec<Value> {
    let kind = |kind: &str, mut object: Value| {
        object["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
        object["kind"] = json!(kind);
        object
    };
    let role = json!({"machineconfiguration.openshift.io/role": "golden"});
    vec![
        kind(
            "MachineConfig",
            json!({"metadata": {"name": "00-golden", "labels": role}, "spec": {"osImageURL": base}}),
        ),
        kind(
            "MachineConfig",
            json!({"metadata": {"name": COMPONENT, "labels": role}, "spec": {"osImageURL": base}}),
        ),
        kind(
            "MachineConfigPool",
            json!({"metadata": {"name": "golden"}, "spec": {"machineConfigSelector": {"matchLabels": role}}}),
        ),
        kind(
            "MachineOSConfig",
            json!({
                "metadata": {"name": "golden", "annotations": {"machineconfiguration.openshift.io/pre-built-image": image}},
                "spec": {
                    "machineConfigPool": {"name": "golden"}, "imageBuilder": {"imageBuilderType": "Job"},
                    "renderedImagePushSecret": {"name": "push"},
                    "renderedImagePushSpec": node.registry().repository("acme/golden-os:latest"),
                },
            }),
        ),
    ]
}

const COMPONENT: &str = "10-prebuiltimage-osimageurl-golden";

#[test]
fn the_installed_controller_uses_exactly_its_rights() {
    let node = Node::start(&programs()).unwrap();
    node.registry().push(&base_image().reference("base"), "acme/base:v1");
    node.import(&format!("oci-archive:{}", mosb_image().display()), IMAGE);
    for folder in ["crds", "kubernetes"] {
        node.kubectl(&["apply", "-k", deploy(folder).to_str().unwrap()]).ok();
    }
    let base = format!("acme/base@{}", base_image().digest("base"));
    let base = node.registry().repository(&base);
    for object in objects(&node, &base) {
        node.apply(&object.to_string());
    }
    node.apply(&os_config(&node).to_string());
    let first = image(&node, "worker", None);
    node.apply(&change().to_string());
    image(&node, "worker", Some(&first));

    for object in labelled(&node, &base) {
        node.apply(&object.to_string());
    }
    image(&node, "infra", None);
    for object in seeded(&node, &base, &first) {
        node.apply(&object.to_string());
    }
    assert_eq!(image(&node, "golden", None), first);
    node.kubectl(&["delete", "machineosconfig", "golden", "--wait=false"]).ok();
    wait("its MachineConfig's end", LIMIT, || {
        let found = node.find(&format!("machineconfig/{COMPONENT}"));
        found.is_none().then_some(())
    });
    let label = "machineconfiguration.openshift.io/layering-enabled-";
    node.kubectl(&["label", "machineconfigpool", "infra", label]).ok();
    node.kubectl(&["delete", "machineosconfig", "worker", "--wait=false"]).ok();
    wait("nothing of them is left", LIMIT, || {
        let kinds = "machineosconfigs,machineosbuilds,jobs";
        node.api().list(Some(NAMESPACE), kinds, "").is_empty().then_some(())
    });

    assert_all_used(&node, "kubernetes", &BTreeSet::new(), EXCUSED);
}
