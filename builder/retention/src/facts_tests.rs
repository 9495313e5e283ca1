//! Whatever names a digest in the cluster keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::facts::{Hold, built_images, deleting, digests_in, hold, retention_facts};
use crate::judge::RetentionFacts;
use mosb_api::cluster_settings::Retention;
use mosb_api::{MachineOsBuild, MachineOsConfig, Metadata, labels};
use mosb_cluster::cluster_cache::{ClusterCache, SeenMachine};
use mosb_cluster::cluster_names::PREPARED_BASES;
use mosb_image::Digest;

const REPOSITORY: &str = "registry.example/os/worker";

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn image(name: &str) -> String {
    format!("{REPOSITORY}@{}", digest(name))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config(annotations: &Value) -> MachineOsConfig {
    read(json!({
        "metadata": { "name": "worker", "uid": "u", "annotations": annotations },
        "spec": { "machineConfigPool": { "name": "worker" },
            "renderedImagePushSpec": format!("{REPOSITORY}:latest") },
        "status": { "currentImagePullSpec": image("service") },
    }))
}

fn build(name: &str, annotations: &Value) -> MachineOsBuild {
    let mut all = json!({ labels::INPUTS: "0" });
    let more = annotations.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(more);
    read(json!({
        "metadata": { "name": format!("worker-{name}"), "annotations": all,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "kind": "MachineOSConfig", "name": "worker", "uid": "u", "controller": true }] },
        "spec": { "machineConfig": { "name": format!("rendered-worker-{name}") } },
        "status": { "conditions": [{ "type": "Succeeded", "status": "True" }],
            "builder": { "imageBuilderType": "Job" }, "digestedImagePushSpec": image(name) },
    }))
}

fn machine(annotations: &[(&str, String)]) -> SeenMachine {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    SeenMachine {
        metadata: Metadata {
            name: "n".to_owned(),
            labels: [("worker".to_owned(), String::new())].into(),
            annotations: annotations.collect(),
            ..Metadata::default()
        },
        ..SeenMachine::default()
    }
}

fn cluster(config: MachineOsConfig, builds: Vec<MachineOsBuild>) -> ClusterCache {
    let cache = ClusterCache::empty("mosb");
    cache.configs.replace([("worker".to_owned(), config)]);
    cache.builds.replace(builds.into_iter().map(|one| (one.metadata.name.clone(), one)));
    let pool = json!({ "metadata": { "name": "worker" },
        "spec": { "nodeSelector": { "matchLabels": { "worker": "" } } } });
    cache.pools.replace([("worker".to_owned(), read(pool))]);
    cache
}

fn facts(cache: &ClusterCache) -> RetentionFacts {
    let config = cache.configs.get("worker").unwrap();
    retention_facts(cache, &config, Retention::default(), &[])
}

#[test]
fn all_places_that_name_an_image_are_read() {
    let history = json!([{ "build": "b", "image": image("history"), "since": "2026-01-01T00:00:00Z",
        "config": format!("rendered-worker-{}", "0".repeat(32)) }]);
    let annotations = json!({
        labels::HISTORY: history.to_string(),
        labels::ROLLOUT_BUILD: format!("worker-x@{}", digest("pin")),
        labels::ROLLOUT_ONCE: format!("worker-x@{}", digest("once")),
        labels::PRE_BUILT_IMAGE: image("seed"),
        labels::CURRENT_MACHINE_OS_BUILD: "worker-current",
        "mosb.dev/unknown": format!("text {} text", image("unknown")),
    });
    let foreign = |name: &str| -> MachineOsBuild {
        let mut build = build(name, &json!({ "mosb.dev/prepared": digest("its base") }));
        build.metadata.owner_references.clear();
        build
    };
    let builds = vec![build("current", &json!({})), foreign("foreign")];
    let cache = cluster(config(&annotations), builds);
    let report = json!({ "bootID": "b", "booted": { "digest": digest("booted") },
        "staged": { "digest": digest("staged") }, "rollback": { "digest": digest("rollback") } });
    let on_node = [
        (labels::NODE_REPORT, report.to_string()),
        (labels::NODE_SLOT, json!({ "target": { "image": image("slot") } }).to_string()),
        (labels::NODE_CURRENT_IMAGE, image("mco")),
    ];
    cache.machines.replace([("n".to_owned(), machine(&on_node))]);
    let map = ConfigMap {
        data: Some(BTreeMap::from([(
            "a".repeat(64),
            json!({ "image": digest("base") }).to_string(),
        )])),
        ..ConfigMap::default()
    };
    cache.settings[PREPARED_BASES].replace([(PREPARED_BASES.to_owned(), map)]);
    let facts = facts(&cache);
    for (name, why) in [
        ("service", "in service of worker"),
        ("history", "in the history of worker"),
        ("pin", "worker is pinned to it"),
        ("once", "worker is pinned to it"),
        ("seed", "machineosconfig worker names it"),
        ("unknown", "machineosconfig worker names it"),
        ("current", "in service of worker"),
        ("foreign", "machineosbuild worker-foreign names it"),
        ("its base", "machineosbuild worker-foreign names it"),
        ("booted", "node n booted it"),
        ("staged", "node n has staged it"),
        ("rollback", "node n can go back to it"),
        ("slot", "node n names it"),
        ("mco", "node n names it"),
        ("base", "configmap mosb-prepared-bases names it"),
    ] {
        let reasons = facts.needed.get(&digest(name)).unwrap_or_else(|| panic!("{name}"));
        assert!(reasons.iter().any(|reason| reason.to_string() == why), "{name}: {reasons:?}");
    }
}

#[test]
fn only_images_of_own_workloads_are_made_here() {
    let adopted = json!({ labels::ADOPTED_FROM: "worker-a" });
    let mut without_workload = build("reused", &json!({}));
    without_workload.status.builder = None;
    let mut elsewhere = build("elsewhere", &json!({}));
    elsewhere.status.digested_image_push_spec = format!("other.example/os@{}", digest("x"));
    let deleted = json!({ labels::IMAGE_DELETED: "2026-01-02T03:04:05Z" });
    let now: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
    let going = json!({ labels::IMAGE_DELETED: deleting(now) });
    let builds = vec![
        build("own", &json!({})),
        build("adopted", &adopted),
        without_workload,
        elsewhere,
        build("deleted", &deleted),
        build("going", &going),
    ];
    let cache = cluster(config(&json!({})), builds);
    let config = cache.configs.get("worker").unwrap();
    let mut found: Vec<_> = built_images(&cache, &config)
        .into_iter()
        .map(|one| (one.build, one.is_made_here, one.deleting_since))
        .collect();
    found.sort();
    let want = [
        ("worker-adopted", false, None),
        ("worker-going", true, Some(now)),
        ("worker-own", true, None),
        ("worker-reused", false, None),
    ];
    assert_eq!(found, want.map(|(name, made, since)| (name.to_owned(), made, since)));
}

#[test]
fn machine_without_a_report_holds_everything() {
    let cache = cluster(config(&json!({})), Vec::new());
    let config = cache.configs.get("worker").unwrap();
    assert_eq!(hold(&cache, &config), None, "a pool without machines");
    let report = |report: Value| vec![(labels::NODE_REPORT, report.to_string())];
    let booted = json!({ "bootID": "b", "booted": { "image": "x" } });
    for (annotations, is_held) in [
        (vec![], true),
        (vec![(labels::NODE_REPORT, "no report".to_owned())], true),
        (report(json!({ "bootID": "b" })), true),
        (report(booted), false),
        (vec![(labels::NODE_CURRENT_IMAGE, image("a"))], false),
    ] {
        cache.machines.replace([("n".to_owned(), machine(&annotations))]);
        let unknown = Hold::UnknownMachines { nodes: vec!["n".to_owned()] };
        assert_eq!(hold(&cache, &config), is_held.then_some(unknown), "{annotations:?}");
    }
}

#[test]
fn user_data_that_is_not_current_holds_everything() {
    let mut config = config(&json!({ labels::USER_DATA: "machines/worker" }));
    let cache = cluster(config.clone(), Vec::new());
    assert_eq!(hold(&cache, &config), Some(Hold::UserData));
    config.status.conditions = read(json!([{ "type": "UserData", "status": "True" }]));
    assert_eq!(hold(&cache, &config), None);
}

#[test]
fn digests_are_found_anywhere_in_a_text() {
    let text = format!("{0}{1}x sha256:12 {2}sha256:", digest("a"), digest("b"), digest("c"));
    let found: Vec<_> = digests_in(&text).collect();
    assert_eq!(found, [digest("a"), digest("b"), digest("c")]);
    assert_eq!(digests_in("sha256:äöü").count(), 0);
}
