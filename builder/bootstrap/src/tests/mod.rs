//! Whole installations, as objects.

mod judged;
mod made;
mod odd;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use mosb_api::{API_VERSION, labels, yaml};
use mosb_build::SecretObject;
use mosb_ignition::Contents;
use mosb_merge::{self as render, Component, Outcome, Rendered, Request};
use mosb_types::{Diagnostic as _, Secret};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// The objects as parsed manifests.
pub(super) fn manifests(objects: &[Value]) -> Manifests {
    sorted(objects).unwrap()
}

fn sorted(objects: &[Value]) -> Option<Manifests> {
    fn read<T: DeserializeOwned>(raw: &Value) -> Option<T> {
        serde_json::from_value(raw.clone()).ok()
    }
    fn manifest<T: DeserializeOwned>(origin: String, raw: &Value) -> Option<Manifest<T>> {
        Some(Manifest { origin, object: read(raw)?, raw: raw.clone() })
    }
    let mut all = Manifests::default();
    for (at, raw) in objects.iter().enumerate() {
        let origin = format!("f (document {})", at + 1);
        match raw["kind"].as_str()? {
            "MachineConfig" => all.configs.push(Component { origin, config: read(raw)? }),
            "MachineConfigPool" => all.pools.push(manifest(origin, raw)?),
            "ControllerConfig" => all.controller_configs.push(manifest(origin, raw)?),
            "MachineOSConfig" => all.os_configs.push(manifest(origin, raw)?),
            "ConfigMap" => all.settings.push(manifest(origin, raw)?),
            "Secret" => all.secrets.push((origin, Secret::new(SecretObject(read(raw)?)))),
            "ImageDigestMirrorSet" => {
                all.mirror_sets.push(Manifest { origin, object: (), raw: raw.clone() });
            }
            "Image" => {
                all.image_configs.push(Manifest { origin, object: (), raw: raw.clone() });
            }
            _ => return None,
        }
    }
    Some(all)
}

fn options(cluster: Cluster) -> ValidationOptions {
    ValidationOptions { cluster, pull_secret: None, registries: true }
}

fn pool(name: &str) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "MachineConfigPool", "metadata": { "name": name },
            "spec": { "machineConfigSelector": { "matchLabels": { labels::ROLE: name } } } })
}

fn os_config(name: &str) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "MachineOSConfig",
            "metadata": { "name": name, "annotations": { labels::PRE_BUILT_IMAGE: format!("registry.example.com/acme/os@{DIGEST}") } },
            "spec": { "machineConfigPool": { "name": name }, "imageBuilder": { "imageBuilderType": "Job" },
                      "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": "registry.example.com/acme/os:latest" } })
}

fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": "{\"auths\":{\"registry.example.com\":{\"username\":\"u\",\"password\":\"hunter2\"}}}" } })
}

fn config(name: &str, role: &str, spec: Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": "MachineConfig", "metadata": { "name": name, "labels": { labels::ROLE: role } }, "spec": spec })
}

/// One of its fields is another.
fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn codes(error: Error) -> Vec<(String, String)> {
    let findings = error.findings().into_iter();
    findings.map(|it| (it.code, it.object.unwrap_or_default())).collect()
}

/// What a pool's objects are rendered to; nothing of them lies elsewhere.
fn rendered(request: &Request) -> Rendered {
    match render::render(request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => *rendered,
        other => panic!("{other:?}"),
    }
}

fn kubernetes(all: &Manifests) -> Result<kubernetes::Output, Error> {
    let checked = check(all, &options(Cluster::Kubernetes))?;
    let configs = kubernetes::configs(all, &checked);
    let requests = kubernetes::requests(all, &checked, &configs)?;
    let pools = requests.iter().map(|request| kubernetes::RenderedPool {
        rendered: rendered(request),
        pins: request.pins.clone(),
    });
    kubernetes::output(all, &checked, &configs, &pools.collect::<Vec<_>>())
}

fn golden() -> (PathBuf, Vec<Value>) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("testdata/bootstrap/three-pools");
    let text = std::fs::read(folder.join("manifests.yaml")).unwrap();
    (folder, yaml::parse_all(&text, yaml::Limits::LIST).unwrap())
}
