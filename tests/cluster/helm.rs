//! The chart of `deploy/helm`: what it renders is what `kubectl kustomize` makes of the same
//! manifests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use mosb_api::ClusterSettings;
use mosb_tests::parts::HELM_TEMPLATE;
use mosb_tests::{Finished, finish, limited, programs, repository, run};

/// Kind and name.
type Objects = BTreeMap<(String, String), Value>;

fn deploy(folder: &str) -> PathBuf {
    mosb_tests::repository().join("deploy").join(folder)
}

fn objects(text: &str) -> Objects {
    let mut all = Objects::new();
    for text in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        if !object.is_null() {
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            let key = (word(&object["kind"]), word(&object["metadata"]["name"]));
            assert!(all.insert(key, object).is_none(), "twice: {text}");
        }
    }
    all
}

fn kustomized(folder: &str) -> Objects {
    objects(&kustomize(&deploy(folder)))
}

fn kustomize(folder: &Path) -> String {
    let kubectl = programs().kubernetes.join("kubectl");
    run(kubectl.to_str().unwrap(), ["kustomize", folder.to_str().unwrap()]).text()
}

/// What the kustomization in a page of `docs/` makes, which begins after this text.
fn kustomized_in_docs(page: &str, heading: &str) -> Objects {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let (_, text) = text.split_once(heading).unwrap();
    let (_, text) = text.split_once("```yaml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    // It names folders relative to the repository.
    let place = tempfile::TempDir::new_in(mosb_tests::repository().join("target")).unwrap();
    let text = text.replace("- deploy/", "- ../../deploy/");
    std::fs::write(place.path().join("kustomization.yaml"), text).unwrap();
    objects(&kustomize(place.path()))
}

fn helm(values: &Value) -> Finished {
    let mut command = limited(HELM_TEMPLATE.program());
    command.arg(deploy("helm")).arg("mosb-system");
    finish(&mut command, values.to_string().as_bytes())
}

fn rendered(values: &Value) -> Objects {
    objects(&helm(values).ok().text())
}

fn key(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[test]
fn the_chart_is_the_manifests() {
    let chart = rendered(&json!({}));
    let mut want = kustomized("kubernetes");
    // Helm wants it there before it begins, to keep its releases in.
    assert!(want.remove(&key("Namespace", "mosb-system")).is_some());
    want.extend(kustomized("crds"));
    assert!(chart.keys().eq(want.keys()), "{:?}", chart.keys());
    for (name, object) in &chart {
        assert_eq!(object, &want[name], "{name:?}");
    }

    let mut watched = rendered(&json!({"monitoring": true}));
    watched.retain(|name, _| !chart.contains_key(name));
    assert_eq!(watched, kustomized("monitoring"));
}

#[test]
fn the_chart_with_more_is_the_overlay() {
    for (folder, values) in [
        ("rollout", json!({"rollout": true})),
        ("boot-images", json!({"bootImages": true})),
        ("signing", json!({"config": {"signing": {"secret": "os-signing-key"}}})),
        ("rollout-hosted", json!({"rollout": true, "hostedControlPlane": true})),
    ] {
        let chart = rendered(&values);
        let mut want = kustomized(folder);
        assert!(want.remove(&key("Namespace", "mosb-system")).is_some());
        want.extend(kustomized("crds"));
        assert!(chart.keys().eq(want.keys()), "{folder}: {:?}", chart.keys());
        for (name, object) in &chart {
            assert_eq!(object, &want[name], "{folder}: {name:?}");
        }
    }
}

#[test]
fn the_charts_server_of_configs_is_its_manifests() {
    let without = rendered(&json!({}));
    let mut added = rendered(&json!({"ignitionServer": true}));
    added.retain(|name, _| !without.contains_key(name));
    assert_eq!(added, kustomized("ignition-server"));

    let image = "registry.example.com/acme/mosb:v1";
    let changed = rendered(&json!({"ignitionServer": true, "image": image,
        "pod": {"priorityClassName": "mine"}}));
    let server = &changed[&key("Deployment", "mosb-ignition-server")];
    let mut want = added[&key("Deployment", "mosb-ignition-server")].clone();
    want["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    assert_eq!(server, &want);

    let ranges = json!(["192.0.2.0/24"]);
    let mut closed = rendered(&json!({"ignitionServer": true, "ignitionSourceRanges": ranges}));
    closed.retain(|name, _| !without.contains_key(name));
    assert_eq!(closed, kustomized_in_docs("new-machines.md", "### Who reaches the server"));
    assert_eq!(
        closed[&key("Service", "mosb-ignition-server")]["spec"]["loadBalancerSourceRanges"],
        ranges
    );
}

#[test]
fn settings_for_signatures_are_valid() {
    let key = key("ConfigMap", "mosb-config");
    let settings = |objects: Objects| {
        let text = objects[&key]["data"]["config.yaml"].as_str().unwrap().to_owned();
        ClusterSettings::parse(&text).unwrap()
    };
    let in_docs = settings(kustomized_in_docs("signing.md", "### Install with signatures"));
    let policy = in_docs.signature_policy.clone().unwrap();
    assert_eq!(in_docs.signing.secret.as_deref(), Some("os-signing-key"));
    let signing = json!({"secret": "os-signing-key"});
    let of_chart = rendered(&json!({"config": {"signing": signing, "signaturePolicy": policy}}));
    assert_eq!(settings(of_chart), in_docs);
}

#[test]
fn values_change_only_what_they_name() {
    let default = rendered(&json!({}));
    let changed = rendered(&json!({
        "image": "registry.example.com/acme/mosb:v1", "render": false, "arguments": ["--verbose"],
        "pod": {"nodeSelector": {"a": "b"}, "priorityClassName": "mine"},
        "container": {"resources": {"limits": {"memory": "1Gi"}}},
    }));
    let deployment = key("Deployment", "mosb-controller");
    let mut want = default.clone();
    // What --render needs besides.
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        want.remove(&key(kind, "mosb-controller-render"));
    }
    let pod = &mut want.get_mut(&deployment).unwrap()["spec"]["template"]["spec"];
    pod["nodeSelector"] = json!({"a": "b"});
    pod["priorityClassName"] = json!("mine");
    let container = &mut pod["containers"][0];
    container["image"] = json!("registry.example.com/acme/mosb:v1");
    container["args"] = json!(["--listen=0.0.0.0:8797", "--log-format=json", "--verbose"]);
    container["resources"]["limits"]["memory"] = json!("1Gi");
    assert_eq!(changed, want);

    let wrong = [
        ("a value that there is not", json!({"imagePullSecrets": []}), "imagePullSecrets"),
        ("another type", json!({"render": "yes"}), "render"),
        ("no image", json!({"image": ""}), "image"),
        (
            "a policy that is not text",
            json!({"config": {"signaturePolicy": {"default": []}}}),
            "signaturePolicy",
        ),
        ("what has a value of its own", json!({"container": {"image": "a"}}), "image"),
    ];
    for (what, values, part) in wrong {
        let finished = helm(&values);
        assert!(
            !finished.status.success() && finished.stderr.contains(part),
            "{what}: {finished:?}"
        );
    }
}

#[test]
fn the_chart_has_the_programs_version() {
    let text = std::fs::read_to_string(deploy("helm/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&text).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
    let manifest = repository().join("builder/mosb/Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
    assert_eq!(chart["description"].as_str(), manifest["package"]["description"].as_str());
}
