//! Whole installations, and every way in which one can be wrong.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::api::{API_VERSION, labels, yaml};
use crate::http::Secret;
use crate::ignition::Contents;
use crate::render::{self, Component, Outcome, Rendered, Request};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// Objects as they are written, by what they are.
pub(super) fn manifests(objects: &[Value]) -> Manifests {
    sorted(objects).unwrap()
}

fn sorted(objects: &[Value]) -> Option<Manifests> {
    fn read<T: DeserializeOwned>(raw: &Value) -> Option<T> {
        serde_json::from_value(raw.clone()).ok()
    }
    fn manifest<T: DeserializeOwned>(origin: String, raw: &Value) -> Option<Manifest<T>> {
        Some(Manifest {
            origin,
            object: read(raw)?,
            raw: raw.clone(),
        })
    }
    let mut all = Manifests::default();
    for (at, raw) in objects.iter().enumerate() {
        let origin = format!("f (document {})", at + 1);
        match raw["kind"].as_str()? {
            "MachineConfig" => all.configs.push(Component {
                origin,
                config: read(raw)?,
            }),
            "MachineConfigPool" => all.pools.push(manifest(origin, raw)?),
            "ControllerConfig" => all.controller_configs.push(manifest(origin, raw)?),
            "MachineOSConfig" => all.os_configs.push(manifest(origin, raw)?),
            "ConfigMap" => all.settings.push(manifest(origin, raw)?),
            "Secret" => all.secrets.push((origin, Secret::new(read(raw)?))),
            "ImageDigestMirrorSet" => all.mirror_sets.push(raw.clone()),
            _ => return None,
        }
    }
    Some(all)
}

fn asked(cluster: Cluster) -> Asked {
    Asked {
        cluster,
        pull_secret: None,
        registries: true,
    }
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
    findings
        .map(|it| (it.code, it.object.unwrap_or_default()))
        .collect()
}

#[test]
fn whatever_is_wrong_is_told_with_its_place() {
    let image = |text: String| {
        let annotations = json!({ labels::PRE_BUILT_IMAGE: text });
        with(os_config("worker"), "/metadata/annotations", annotations)
    };
    let hex = &DIGEST["sha256:".len()..];
    let annotation = "metadata.annotations.machineconfiguration.openshift.io/pre-built-image";
    let repo = "registry.example.com/acme/os";
    for (what, config, code, field) in [
        (
            "no annotation",
            with(os_config("worker"), "/metadata/annotations", json!({})),
            "pre-built-image-missing",
            annotation,
        ),
        (
            "empty",
            image(String::new()),
            "pre-built-image-missing",
            annotation,
        ),
        (
            "a tag only",
            image(format!("{repo}:v1")),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "no host",
            image(format!("acme/os@{DIGEST}")),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "short",
            image(format!("{repo}@sha256:{}", &hex[1..])),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "no hex",
            image(format!("{repo}@sha256:{}", "g".repeat(64))),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "upper case",
            image(format!("{repo}@sha256:{}", "A".repeat(64))),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "md5",
            image(format!("{repo}@md5:{}", &hex[32..])),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "another pool",
            os_config("infra"),
            "unknown-pool",
            "spec.machineConfigPool.name",
        ),
        (
            "no name of a pool",
            os_config("Worker"),
            "bad-machine-os-config",
            "spec.machineConfigPool.name",
        ),
        (
            "not the pool's name",
            with(os_config("worker"), "/metadata/name", json!("mine")),
            "bad-machine-os-config",
            "metadata.name",
        ),
        (
            "builder",
            with(os_config("worker"), "/spec/imageBuilder", Value::Null),
            "bad-machine-os-config",
            "spec.imageBuilder.imageBuilderType",
        ),
        (
            "push spec",
            with(
                os_config("worker"),
                "/spec/renderedImagePushSpec",
                json!("host/os:v1"),
            ),
            "bad-machine-os-config",
            "spec.renderedImagePushSpec",
        ),
        (
            "no push secret",
            with(
                os_config("worker"),
                "/spec/renderedImagePushSecret",
                json!({}),
            ),
            "bad-machine-os-config",
            "spec.renderedImagePushSecret.name",
        ),
        (
            "another secret",
            with(
                os_config("worker"),
                "/spec/renderedImagePushSecret/name",
                json!("none"),
            ),
            "missing-secret",
            "spec.renderedImagePushSecret",
        ),
        (
            "another pull secret",
            with(
                os_config("worker"),
                "/spec/baseImagePullSecret",
                json!({ "name": "none" }),
            ),
            "missing-secret",
            "spec.baseImagePullSecret",
        ),
        (
            "Containerfile",
            with(
                os_config("worker"),
                "/spec/containerFile",
                json!([{ "content": "x".repeat(4097) }]),
            ),
            "bad-machine-os-config",
            "spec.containerFile",
        ),
    ] {
        let name = config["metadata"]["name"].as_str().unwrap().to_owned();
        let all = manifests(&[pool("worker"), secret("push"), config]);
        let found = codes(check(&all, &asked(Cluster::Kubernetes)).unwrap_err());
        let place = format!("f (document 3): MachineOSConfig {name}: {field}");
        assert!(
            found.contains(&(code.to_owned(), place)),
            "{what}: {found:?}"
        );
    }
}

#[test]
fn several_objects_are_judged_together() {
    let seeded = |mut config: Value| {
        config["metadata"]["annotations"] = json!({});
        config["status"] = json!({ "conditions": [{ "type": "Seeded", "status": "True", "reason": "PreBuiltImageSeeded" }] });
        config
    };
    let built = with(
        os_config("worker"),
        "/metadata/annotations",
        json!({ labels::CURRENT_MACHINE_OS_BUILD: "worker-1" }),
    );
    let missing = with(os_config("infra"), "/metadata/annotations", json!({}));
    let both = [pool("worker"), pool("infra"), secret("push")];
    for (what, more, want) in [
        ("none", vec![], &["no-machine-os-config"][..]),
        (
            "two for a pool",
            vec![os_config("worker"), os_config("worker")],
            &["duplicate-name", "pool-twice"],
        ),
        (
            "one of two has none",
            vec![os_config("worker"), missing.clone()],
            &["pre-built-image-missing"],
        ),
        (
            "two problems",
            vec![missing, os_config("other")],
            &["pre-built-image-missing", "unknown-pool"],
        ),
        (
            "a pool twice",
            vec![os_config("worker"), pool("worker")],
            &["duplicate-name"],
        ),
        (
            "in service",
            vec![seeded(os_config("worker")), os_config("infra")],
            &[],
        ),
        ("has a build", vec![built, os_config("infra")], &[]),
    ] {
        let all = manifests(&[both.to_vec(), more].concat());
        let found = match check(&all, &asked(Cluster::Kubernetes)) {
            Ok(checked) => {
                let pools: Vec<_> = checked
                    .seeds
                    .iter()
                    .map(|seed| seed.pool.as_str())
                    .collect();
                assert_eq!(pools, ["infra"], "{what}");
                assert_eq!(checked.notices[0].code, "already-seeded", "{what}");
                Vec::new()
            }
            Err(error) => codes(error),
        };
        let found: Vec<&str> = found.iter().map(|(code, _)| &**code).collect();
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn what_each_cluster_takes() {
    let deep = format!("registry.example.com/acme/team/os@{DIGEST}");
    let annotations = json!({ labels::PRE_BUILT_IMAGE: deep });
    let deep = with(os_config("worker"), "/metadata/annotations", annotations);
    let release =
        json!({ "kind": "ControllerConfig", "metadata": { "name": "machine-config-controller" } });
    for (what, cluster, objects, want) in [
        (
            "deep",
            Cluster::Kubernetes,
            vec![pool("worker"), deep.clone()],
            None,
        ),
        (
            "deep",
            Cluster::Openshift,
            vec![pool("worker"), deep],
            Some("pre-built-image-nested"),
        ),
        (
            "the release's pool",
            Cluster::Openshift,
            vec![os_config("worker")],
            None,
        ),
        (
            "the release's pool",
            Cluster::Kubernetes,
            vec![os_config("worker")],
            Some("unknown-pool"),
        ),
        (
            "all of a release",
            Cluster::Openshift,
            vec![os_config("worker"), release],
            Some("unknown-pool"),
        ),
    ] {
        let all = manifests(&[objects, vec![secret("push")]].concat());
        let found = check(&all, &asked(cluster))
            .err()
            .map(codes)
            .unwrap_or_default();
        assert_eq!(
            found.first().map(|(code, _)| &**code),
            want,
            "{what} {cluster:?}"
        );
    }
}

#[test]
fn without_a_registry_check_secrets_may_come_later() {
    let all = manifests(&[pool("worker"), os_config("worker")]);
    let asked = Asked {
        registries: false,
        ..asked(Cluster::Kubernetes)
    };
    let checked = check(&all, &asked).unwrap();
    assert!(checked.seeds[0].push_secret.is_none());
    assert_eq!(checked.notices[0].code, "missing-secret");
}

/// What a pool's objects are rendered to; nothing of them lies elsewhere.
fn rendered(request: &Request) -> Rendered {
    match render::render(request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => *rendered,
        other => panic!("{other:?}"),
    }
}

fn kubernetes(all: &Manifests) -> Result<kubernetes::Output, Error> {
    let checked = check(all, &asked(Cluster::Kubernetes))?;
    let configs = kubernetes::configs(all, &checked);
    let requests = kubernetes::requests(all, &checked, &configs)?;
    let pools = requests.iter().map(|request| kubernetes::RenderedPool {
        rendered: rendered(request),
        pins: request.pins.clone(),
    });
    kubernetes::output(all, &checked, &configs, &pools.collect::<Vec<_>>())
}

fn golden() -> (PathBuf, Vec<Value>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bootstrap/three-pools");
    let text = std::fs::read(folder.join("manifests.yaml")).unwrap();
    (folder, yaml::parse_all(&text, yaml::Limits::LIST).unwrap())
}

/// Compares every file whole; `make golden` writes them anew.
fn same_files(folder: &Path, files: &[File]) {
    for file in files {
        let path = folder.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        expect_test::expect_file![path].assert_eq(std::str::from_utf8(&file.bytes).unwrap());
    }
}

#[test]
fn golden_three_pools_of_kubernetes() {
    let (folder, objects) = golden();
    let all = manifests(&objects);
    let output = kubernetes(&all).unwrap();
    same_files(&folder.join("kubernetes"), &output.files);
    let paths: Vec<&str> = output.files.iter().map(|file| &*file.path).collect();
    let notices = output
        .notices
        .iter()
        .map(|it| format!("{}: {}", it.code, it.message));
    let told: Vec<String> = notices.collect();
    let list = [paths.join("\n"), told.join("\n")].join("\n\n") + "\n";
    expect_test::expect_file![folder.join("kubernetes.list")].assert_eq(&list);
    // Logins are nowhere but in machines' configs, and there only those that the machines need.
    for file in &output.files {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        assert!(!text.contains("hunter2"), "{}", file.path);
        assert_eq!(file.is_private, file.path.starts_with("ignition/"));
    }
}

#[test]
fn golden_three_pools_of_openshift() {
    let (folder, mut objects) = golden();
    // Its CRDs take no deeper repository.
    let infra = objects
        .iter_mut()
        .find(|it| it["kind"] == "MachineOSConfig" && it["metadata"]["name"] == "infra");
    let annotations = &mut infra.unwrap()["metadata"]["annotations"];
    annotations[labels::PRE_BUILT_IMAGE] =
        json!(format!("registry.example.com:5000/acme/infra@{DIGEST}"));
    for secret in objects.iter_mut().filter(|it| it["kind"] == "Secret") {
        secret["metadata"]["namespace"] = json!("openshift-machine-config-operator");
    }
    let all = manifests(&objects);
    let checked = check(&all, &asked(Cluster::Openshift)).unwrap();
    same_files(&folder.join("openshift"), &openshift::files(&all, &checked));
}

/// What the controller sees once the output is applied, it renders to the very same configs, and takes them for its own.
#[test]
fn what_is_applied_is_not_rendered_to_something_else() {
    let (_, objects) = golden();
    let output = kubernetes(&manifests(&objects)).unwrap();
    let applied = output
        .files
        .iter()
        .filter(|file| file.path.ends_with(".yaml"));
    let applied: Vec<Value> = applied
        .map(|file| yaml::parse_one(&file.bytes).unwrap())
        .collect();
    let again = manifests(&applied);
    assert_eq!(again.pools.len(), 3);
    let base = "quay.io/fedora/fedora-coreos@sha256:3333333333333333333333333333333333333333333333333333333333333333";
    for pool in &again.pools {
        let mut object = pool.object.clone();
        object.metadata.uid = Some("given-by-the-api-server".to_owned());
        let request = Request {
            pool: object.metadata.name.parse().unwrap(),
            pool_object: Some(object.clone()),
            controller_config: None,
            pool_settings: Vec::new(),
            os_image: Some(base.to_owned()),
            extensions_image: None,
            pins: Default::default(),
            configs: again.configs.clone(),
            explain: false,
        };
        let name = &object.spec.configuration.name;
        let made = rendered(&request);
        assert_eq!(made.config.name().as_str(), name);
        let there = again.configs.iter().find(|one| one.name() == name).unwrap();
        assert_eq!(json!(there.config.spec), made.object["spec"], "{name}");
        let sources: Vec<&str> = object
            .spec
            .configuration
            .source
            .iter()
            .map(|it| &*it.name)
            .collect();
        assert!(sources.is_sorted());
    }
}

/// The command reads what it wrote, and writes it again.
#[test]
fn its_own_output_comes_to_the_same() {
    let (_, objects) = golden();
    let first = kubernetes(&manifests(&objects)).unwrap();
    let written = first
        .files
        .iter()
        .filter(|file| file.path.ends_with(".yaml"));
    let mut again: Vec<Value> = written
        .map(|file| yaml::parse_one(&file.bytes).unwrap())
        .collect();
    let kept = |it: &&Value| it["kind"] == "Secret" || it["kind"] == "ImageDigestMirrorSet";
    again.extend(objects.iter().filter(kept).cloned());
    let second = kubernetes(&manifests(&again)).unwrap();
    assert_eq!(first.files, second.files);
}

#[test]
fn another_machine_config_may_not_take_the_image_away() {
    let other = format!("quay.io/other/os@{DIGEST}");
    let spec = json!({ "osImageURL": other });
    for (what, name, want) in [
        ("after the component", "99-image", Some("image-overridden")),
        ("before it", "05-image", None),
    ] {
        let all = manifests(&[
            pool("worker"),
            os_config("worker"),
            secret("push"),
            config(name, "worker", spec.clone()),
        ]);
        let found = kubernetes(&all).err().map(codes).unwrap_or_default();
        assert_eq!(found.first().map(|(code, _)| &**code), want, "{what}");
    }
}

#[test]
fn an_older_component_is_written_anew_in_one_spelling() {
    let spec = json!({ "osImageURL": format!("quay.io/other/os@{DIGEST}") });
    let all = manifests(&[
        pool("worker"),
        pool("infra"),
        os_config("worker"),
        secret("push"),
        config("10-prebuildimage-osimageurl-worker", "worker", spec.clone()),
        config("10-prebuildimage-osimageurl-infra", "infra", spec),
    ]);
    let checked = check(&all, &asked(Cluster::Kubernetes)).unwrap();
    let configs = kubernetes::configs(&all, &checked);
    let names: Vec<&str> = configs.all.iter().map(Component::name).collect();
    assert_eq!(
        names,
        [
            "10-prebuiltimage-osimageurl-infra",
            "10-prebuiltimage-osimageurl-worker"
        ]
    );
    assert_eq!(configs.notices[0].code, "component-replaced");
}

/// Every place in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| places(value, &format!("{at}/{}", escaped(key)), found)),
        Value::Array(items) => (0..items.len())
            .for_each(|at_item| places(&items[at_item], &format!("{at}/{at_item}"), found)),
        _ => {}
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 100, failure_persistence: None, ..Default::default() })]

    /// Whatever one value of an installation is instead: it is told or it is fine, and no login gets out.
    #[test]
    fn no_value_is_too_odd(which in 0..10_000usize, instead in 0..8usize) {
        let (_, mut objects) = golden();
        let all = json!(objects);
        let mut found = Vec::new();
        places(&all, "", &mut found);
        let place = &found[which % found.len()];
        let values = [
            Value::Null, json!({}), json!([]), json!(""), json!("../x"), json!(-1), json!("a\nb"), json!("x".repeat(300)),
        ];
        let mut all = all;
        *all.pointer_mut(place).unwrap() = values[instead].clone();
        if let Some(list) = all.as_array() {
            objects.clone_from(list);
        }
        let Some(all) = sorted(&objects) else {
            return Ok(());
        };
        for cluster in [Cluster::Openshift, Cluster::Kubernetes] {
            let Ok(checked) = check(&all, &asked(cluster)) else { continue };
            let files = match cluster {
                Cluster::Openshift => openshift::files(&all, &checked),
                Cluster::Kubernetes => {
                    let configs = kubernetes::configs(&all, &checked);
                    let Ok(requests) = kubernetes::requests(&all, &checked, &configs) else { continue };
                    let pools = requests.into_iter().map_while(|request| match render::render(&request, &Contents::new()) {
                        Ok(Outcome::Rendered(rendered)) => Some(kubernetes::RenderedPool { rendered: *rendered, pins: request.pins }),
                        _ => None,
                    });
                    match kubernetes::output(&all, &checked, &configs, &pools.collect::<Vec<_>>()) {
                        Ok(output) => output.files,
                        Err(_) => continue,
                    }
                }
            };
            for file in files {
                proptest::prop_assert!(!file.path.contains(".."), "{}", file.path);
                proptest::prop_assert!(!String::from_utf8(file.bytes).unwrap().contains("hunter2"));
            }
        }
    }
}
