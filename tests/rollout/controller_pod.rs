//! The controller as `deploy/rollout` installs it: a pod on a control-plane node, with its account,
//! the rights and the policies of the overlay. Only its image is another one: that of the tested
//! program, by digest, from the lab's registry.

use std::time::Duration;

use serde_json::{Value, json};

use mosb_tests::{Node, finish, limited, mosb_image, wait};

use crate::rollout_cluster::{NODE_JOBS, objects::NAMESPACE};

/// Its image is pulled, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const NAME: &str = "mosb-controller";
const LABEL: &str = "app.kubernetes.io/component=controller";

/// Applies the overlay.
pub fn install(node: &Node) {
    node.registry().push(&format!("oci-archive:{}", mosb_image().display()), "acme/mosb:dev");
    let (deployments, objects) = rendered(node, "rollout");
    objects.iter().for_each(|object| node.apply(&object.to_string()));
    // The registry wants a login for the image of mosb.
    pull_with_login(node, NODE_JOBS, "default");
    pull_with_login(node, NAMESPACE, NAME);
    let image = image(node);
    for mut deployment in deployments {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        node.apply(&deployment.to_string());
    }
}

/// The Deployments of a folder of `deploy`, and its other objects.
pub fn rendered(node: &Node, folder: &str) -> (Vec<Value>, Vec<Value>) {
    node.overlay(folder).into_iter().partition(|object| object["kind"] == "Deployment")
}

/// Waits until it answers its probe; its pod.
pub fn wait_ready(node: &Node) -> Value {
    wait("the controller", LIMIT, || {
        let pods = node.api().list(Some(NAMESPACE), "pods", LABEL);
        let ready = |pod: &&Value| mosb_tests::condition(pod, "Ready");
        pods.iter().find(ready).cloned()
    })
}

/// What its containers wrote, also the one before.
pub fn log(node: &Node) -> String {
    let read = |more: &[&str]| {
        let words = ["logs", "--namespace", NAMESPACE, "--selector", LABEL, "--tail=-1"];
        node.kubectl(&[&words[..], more].concat()).text()
    };
    format!("{}{}", read(&["--previous"]), read(&[]))
}

/// How often its container was started again.
pub fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
}

/// The image of the tested program, by digest.
pub fn image(node: &Node) -> String {
    let mut inspect = limited("skopeo");
    inspect
        .args(["inspect", "--format", "{{.Digest}}", "--authfile"])
        .arg(node.registry().authfile())
        .arg("--cert-dir")
        .arg(node.registry().certificates())
        .arg(format!("docker://{}", node.registry().repository("acme/mosb:dev")));
    let digest = finish(&mut inspect, &[]).ok().text().trim().to_owned();
    node.registry().repository(&format!("acme/mosb@{digest}"))
}

/// Lets the pods of an account pull it.
pub fn pull_with_login(node: &Node, namespace: &str, account: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "image-pull", "namespace": namespace },
        "stringData": { ".dockerconfigjson": node.registry().pull_config().to_string() },
    });
    node.apply(&secret.to_string());
    let patch = json!({ "imagePullSecrets": [{ "name": "image-pull" }] }).to_string();
    let account = format!("serviceaccount/{account}");
    let words = ["patch", &account, "--namespace", namespace, "--patch", &patch];
    wait("the account of the namespace", LIMIT, || {
        node.kubectl(&words).status.success().then_some(())
    });
}
