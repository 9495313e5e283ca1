//! A writer that watches the sets and puts its own image back as soon as it sees another one, as a
//! GitOps controller does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use mosb_tests::boot_images::{BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{all_machine_sets, image_of_aws, message_of, openshift};

const SETS: usize = 8;

/// How often it saw another image in each set.
type Seen = Arc<Mutex<BTreeMap<String, usize>>>;

/// Starts the rival, which ends with the runtime.
fn start_rival(cluster: &BootImageCluster) -> (Runtime, Seen) {
    let runtime = Runtime::new().unwrap();
    let seen = Seen::default();
    let kubeconfig = Kubeconfig::read_from(cluster.node.kubeconfig()).unwrap();
    runtime.spawn(revert(kubeconfig, Arc::clone(&seen)));
    (runtime, seen)
}

async fn revert(kubeconfig: Kubeconfig, seen: Seen) {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let kind = GroupVersionKind::gvk("machine.openshift.io", "v1beta1", "MachineSet");
    let kind = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client, MACHINE_API_NAMESPACE, &kind);
    let image = "/spec/template/spec/providerSpec/value/ami/id";
    let own = json!({ "spec": { "template": { "spec": { "providerSpec": {
        "value": { "ami": { "id": ami(1) } } } } } } });
    let watch = api.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);
    while let Some(event) = watch.try_next().await.unwrap() {
        let (WatchEvent::Added(set) | WatchEvent::Modified(set)) = event else { continue };
        if set.data.pointer(image) != Some(&json!(ami(2))) {
            continue;
        }
        let name = set.metadata.name.unwrap();
        // Before the change, which the test may see as soon as it is made.
        *seen.lock().unwrap().entry(name.clone()).or_default() += 1;
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&own)).await.unwrap();
    }
}

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn a_rival_is_left_alone_after_three_writes() {
    let cluster = openshift(2);
    let names: Vec<String> = (0..SETS).map(|n| format!("fought-{n}")).collect();
    for name in &names {
        cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set(name, &ami(1)));
    }
    let (_runtime, seen) = start_rival(&cluster);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.start_controller();
    let is_over = || {
        let message = message_of(&cluster, "BootImageUpdateDegraded", "True")?;
        let remedy =
            |name| format!("unpin {MACHINE_API_NAMESPACE}/machineset.machine.openshift.io/{name}`");
        names.iter().all(|name| message.contains(&remedy(name))).then_some(message)
    };
    let message = cluster.wait("the end of all attempts", is_over);
    assert!(message.contains("providerSpec.value.ami"), "{message}");
    let want: BTreeMap<String, usize> = names.iter().map(|name| (name.clone(), 3)).collect();
    assert_eq!(*seen.lock().unwrap(), want);
    // Neither a restart nor a change of another field begins anew.
    cluster.kill_controller();
    let scaled = json!({ "spec": { "replicas": 5 } });
    for name in &names {
        let set = format!("machineset.machine.openshift.io/{name}");
        cluster.patch(MACHINE_API_NAMESPACE, &set, &scaled);
    }
    cluster.settings(&all_machine_sets(&[ami(1), ami(3)]));
    cluster.start_controller();
    cluster.wait_for_log(&format!(" {SETS} failed"));
    assert_eq!(*seen.lock().unwrap(), want);
    assert!(names.iter().all(|name| image_of_aws(&cluster, name) == ami(1)));
}
