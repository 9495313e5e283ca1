//! `mosb serve-ignition` as `deploy/ignition-server` installs it. Its image is that of the tested
//! program, and its only pod is on a given machine. The lab has no load balancer, so machines connect
//! to the pod itself.

use std::time::Duration;

use serde_json::{Value, json};

use mosb_tests::{Machine, Node, wait};

use crate::controller_pod::{image, pull_with_login, rendered};

const NAMESPACE: &str = "mosb-ignition";
/// The account, and the Secret that it mounts.
const NAME: &str = "mosb-ignition-server";
const LABEL: &str = "app.kubernetes.io/component=ignition-server";
/// A pod that is pulled, or a Secret that is mounted anew, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Applies the folder; where machines reach the pod.
pub fn install(node: &Node, machine: &Machine) -> String {
    let (deployments, objects) = rendered(node, "ignition-server");
    objects.iter().for_each(|object| node.apply(&object.to_string()));
    pull_with_login(node, NAMESPACE, NAME);
    let image = image(node);
    for mut deployment in deployments {
        deployment["spec"]["replicas"] = json!(1);
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["containers"][0]["image"] = json!(image);
        pod["nodeSelector"] = json!({ "kubernetes.io/hostname": machine.name() });
        node.apply(&deployment.to_string());
    }
    let address = wait("the address of the server's pod", LIMIT, || {
        pod(node)?["status"]["podIP"].as_str().map(str::to_owned)
    });
    format!("{address}:8443")
}

/// Waits until the pod on this machine serves the config of a pool.
pub fn wait_serving(node: &Node, machine: &Machine, pool: &str) {
    let key = format!("{pool}.tokens");
    wait("the pool in the Secret of the server", LIMIT, || {
        let secret = node.api().find(Some(NAMESPACE), "secret", NAME)?;
        secret["data"][&key].is_string().then_some(())
    });
    // After a change of the pod, the kubelet mounts the Secret at once; otherwise within a minute.
    let name = pod(node).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    node.kubectl(&["annotate", "pod", &name, "--namespace", NAMESPACE, "test=mount"]).ok();
    let mounted = format!("ls /var/lib/kubelet/pods/*/volumes/kubernetes.io~secret/configs/{key}");
    wait("the pool in the pod of the server", LIMIT, || {
        let is_ready = mosb_tests::condition(&pod(node)?, "Ready");
        (is_ready && machine.run(&mounted).status.success()).then_some(())
    });
}

fn pod(node: &Node) -> Option<Value> {
    node.api().list(Some(NAMESPACE), "pods", LABEL).into_iter().next()
}
