//! A list of the images that Jobs on machines may have. The policy is bound to another namespace too, so
//! that no other test's Jobs are refused.

use serde_json::{Value, json};

use super::{CONTROLLER, NAMESPACE, SOON, install, job, pod};
use crate::deploy::rendered;
use mosb_tests::{node, wait};

const LIST: &str = "mosb-rollout-images";
const ELSEWHERE: &str = "rollout-images";

/// Waits until Jobs and pods with the image of the golden files are refused, or are not.
#[track_caller]
fn wait_refused(what: &str, want: bool) {
    for mut object in [job("stage"), pod("stage")] {
        object["metadata"]["namespace"] = json!(ELSEWHERE);
        let text = object.to_string();
        wait(&format!("{what}: a {}", object["kind"]), SOON, || {
            let words = ["create", "--dry-run=server", "--filename=-"];
            let answer = node().kubectl_with(&words, text.as_bytes());
            let is_refused = answer.stderr.contains(LIST);
            (is_refused == want && answer.status.success() != want).then_some(())
        });
    }
}

fn list(data: Value) {
    let list = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": LIST, "namespace": ELSEWHERE } });
    node().apply(&list.to_string());
}

#[test]
fn a_list_of_images_is_kept_on_machines() {
    install();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": ELSEWHERE } });
    node().apply(&namespace.to_string());
    let objects = rendered("rollout").into_iter();
    let mut bindings = objects.filter(|object| object["spec"]["policyName"] == LIST);
    let mut binding = bindings.next().unwrap();
    assert_eq!(binding["spec"]["paramRef"]["namespace"], NAMESPACE);
    let labels = "kubernetes.io/metadata.name";
    let selector = &mut binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"];
    assert_eq!(selector, &json!({ labels: NAMESPACE }));
    *selector = json!({ labels: ELSEWHERE });
    binding["spec"]["paramRef"]["namespace"] = json!(ELSEWHERE);
    binding["metadata"]["name"] = json!(ELSEWHERE);
    node().apply(&binding.to_string());

    let image = job("stage")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let image = image.as_str().unwrap();
    let other = image.replace("@sha256:4", "@sha256:5");
    assert_ne!(image, other);
    list(json!({ "images": other }));
    wait_refused("another image is listed", true);
    list(json!({ "images": format!("{other}\n  {image}\n") }));
    wait_refused("the image is listed too", false);
    list(json!({}));
    wait_refused("a list without images", true);
    node().kubectl(&["delete", "configmap", LIST, "--namespace", ELSEWHERE]).ok();
    wait_refused("no list", false);

    // The account of which the list protects can't change it.
    for verb in ["create", "update", "patch", "delete", "deletecollection"] {
        let user = format!("--as={CONTROLLER}");
        let may = ["auth", "can-i", verb, "configmaps", "--namespace", NAMESPACE, &user];
        assert_eq!(node().kubectl(&may).text().trim(), "no", "{verb}");
    }
}
