//! Object of the API → what a bundle has of it. Pure.
//!
//! A kind that is not listed here keeps its metadata and status only, so that a new field or kind
//! can't bring a secret along.

use serde_json::{Map, Value, json};

use mosb_api::cluster_settings::{CONFIG_KEY, CONFIG_MAP};
use mosb_api::{labels, yaml};
use mosb_commands::bundle::REDACTED;
use mosb_controller::cluster_names::{BASE_TREES, OPERATOR_IMAGES, OS_IMAGE_URL, PREPARED_BASES};

/// Replaces what may have a secret, and is not needed.
const LEFT_OUT: &str = "[left out]";
/// Fields of metadata that are kept.
const METADATA: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
];
/// Variables of mosb's own pods whose values are not secrets.
const OWN_VARIABLES: [&str; 4] = ["MOSB_BUILDER_IMAGE", "MOSB_JOB_UID", "NODE_NAME", "POD_NAME"];
/// Containers of mosb's own pods, whose arguments are not secrets.
const OWN_CONTAINERS: [&str; 8] = [
    "apply",
    "controller",
    "image-build",
    "image-fetch",
    "image-push",
    "report",
    "stage",
    "wait-for-done",
];
/// Fields of containers that may have secrets: arguments, and headers of probes.
const FIELDS_OF_OTHERS: [&str; 6] =
    ["args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
/// ConfigMaps that mosb or a release writes, without secrets.
const OPEN_CONFIG_MAPS: [&str; 4] = [BASE_TREES, OPERATOR_IMAGES, OS_IMAGE_URL, PREPARED_BASES];
/// Fields of a ControllerConfig that mosb reads. Others are logins and certificates.
const CONTROLLER_CONFIG: [&str; 5] = [
    "baseOSContainerImage",
    "baseOSExtensionsContainerImage",
    "osImageURL",
    "releaseImage",
    "platform",
];
/// Lists in the status of a Node that are long, and say nothing about images of machines.
const LONG_NODE_LISTS: [&str; 3] = ["images", "volumesAttached", "volumesInUse"];

/// What a bundle has of an object.
pub fn redacted(kind: &str, mut object: Value) -> Value {
    let Some(fields) = object.as_object_mut() else { return Value::Null };
    let meta = fields.remove("metadata").unwrap_or_default();
    let is_result = meta["labels"][labels::RESULT].is_string();
    let name = meta["name"].as_str().unwrap_or_default().to_owned();
    match kind {
        "Event" => {}
        "ConfigMap" => config_map(&name, is_result, fields),
        "Secret" => secret(fields),
        "MachineConfig" => replace(fields, "spec", machine_config),
        "MachineOSConfig" => replace(fields, "spec", |spec| {
            for file in spec["containerFile"].as_array_mut().into_iter().flatten() {
                file["content"] = json!(LEFT_OUT);
            }
        }),
        "ControllerConfig" => replace(fields, "spec", |spec| keep(spec, &CONTROLLER_CONFIG)),
        "Node" => replace(fields, "status", |status| {
            if let Some(status) = status.as_object_mut() {
                status.retain(|field, _| !LONG_NODE_LISTS.contains(&&**field));
            }
        }),
        "Pod" | "Job" | "Deployment" => replace(fields, "spec", variables),
        "MachineConfigPool"
        | "MachineOSBuild"
        | "Lease"
        | "ImageDigestMirrorSet"
        | "ImageTagMirrorSet"
        | "ImageContentSourcePolicy"
        | "Image" => {}
        _ => fields.retain(|field, _| field == "status"),
    }
    fields.insert("metadata".to_owned(), metadata(meta));
    object
}

fn replace(fields: &mut Map<String, Value>, field: &str, by: impl FnOnce(&mut Value)) {
    if let Some(value) = fields.get_mut(field) {
        by(value);
    }
}

fn keep(value: &mut Value, names: &[&str]) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|field, _| names.contains(&&**field));
    }
}

/// Annotations of others, such as kubectl's with the whole object, are left out.
fn metadata(mut meta: Value) -> Value {
    keep(&mut meta, &METADATA);
    if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        let is_ours =
            |name: &str| labels::ANNOTATION_PREFIXES.iter().any(|one| name.starts_with(one));
        annotations.retain(|name, _| is_ours(name));
    }
    meta
}

/// Replaces the literal values of variables, and what containers of others run, in pod templates
/// wherever they are.
fn variables(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str);
            let is_own = name.is_some_and(|name| OWN_CONTAINERS.contains(&name));
            for (field, value) in fields {
                match value {
                    Value::Array(list) if field == "env" => list.iter_mut().for_each(variable),
                    value if FIELDS_OF_OTHERS.contains(&&**field) && !is_own => {
                        *value = json!(LEFT_OUT);
                    }
                    value => variables(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(variables),
        _ => {}
    }
}

fn variable(variable: &mut Value) {
    let is_own = variable["name"].as_str().is_some_and(|name| OWN_VARIABLES.contains(&name));
    if !is_own && variable.get("value").is_some() {
        variable["value"] = json!(REDACTED);
    }
}

/// Name, type and keys: neither values nor their lengths.
fn secret(fields: &mut Map<String, Value>) {
    let keys = fields.get("data").and_then(Value::as_object);
    let keys: Vec<&String> = keys.into_iter().flat_map(Map::keys).collect();
    let keys = json!(keys);
    fields.retain(|field, _| field == "type");
    fields.insert("keys".to_owned(), keys);
}

fn config_map(name: &str, is_result: bool, fields: &mut Map<String, Value>) {
    fields.retain(|field, _| field == "data" || field == "binaryData");
    let is_open = is_result || OPEN_CONFIG_MAPS.contains(&name);
    for (field, values) in fields {
        for (key, value) in values.as_object_mut().into_iter().flatten() {
            if name == CONFIG_MAP && key == CONFIG_KEY {
                *value = json!(settings(value.as_str().unwrap_or_default()));
            } else if !is_open || field == "binaryData" {
                *value = json!(LEFT_OUT);
            }
        }
    }
}

/// The settings of the cluster, without values of variables.
fn settings(text: &str) -> String {
    match yaml::parse_one(text.as_bytes()) {
        Ok(mut settings) => {
            variables(&mut settings);
            yaml::to_text(&settings)
        }
        Err(_) => format!("{LEFT_OUT}: not valid YAML"),
    }
}

/// Paths, modes, names and targets: contents, digests of contents, logins and values of kernel
/// arguments may be secrets, or tell them.
fn machine_config(spec: &mut Value) {
    let config = spec["config"].take();
    let list = |section: &str, field: &str, names: &[&str]| -> Vec<Value> {
        let found = config[section][field].as_array().into_iter().flatten();
        let kept = found.map(|entry| {
            let mut entry = entry.clone();
            keep(&mut entry, names);
            entry
        });
        kept.collect()
    };
    let units = config["systemd"]["units"].as_array().into_iter().flatten().map(|unit| {
        let drop_ins = unit["dropins"].as_array().into_iter().flatten();
        let drop_ins: Vec<_> = drop_ins.map(|one| one["name"].clone()).collect();
        json!({ "name": unit["name"], "enabled": unit["enabled"], "mask": unit["mask"], "dropins": drop_ins })
    });
    let arguments = spec["kernelArguments"].as_array().into_iter().flatten();
    let arguments: Vec<String> = arguments
        .filter_map(Value::as_str)
        .map(|argument| match argument.split_once('=') {
            Some((name, _)) => format!("{name}={LEFT_OUT}"),
            None => argument.to_owned(),
        })
        .collect();
    *spec = json!({
        "osImageURL": spec["osImageURL"],
        "baseOSExtensionsContainerImage": spec["baseOSExtensionsContainerImage"],
        "kernelType": spec["kernelType"], "fips": spec["fips"], "extensions": spec["extensions"],
        "kernelArguments": arguments,
        "config": {
            "ignition": { "version": config["ignition"]["version"] },
            "storage": {
                "files": list("storage", "files", &["path", "mode", "overwrite", "user", "group"]),
                "directories": list("storage", "directories", &["path", "mode", "overwrite", "user", "group"]),
                "links": list("storage", "links", &["path", "target", "hard", "overwrite", "user", "group"]),
            },
            "systemd": { "units": units.collect::<Vec<_>>() },
            "passwd": { "users": list("passwd", "users", &["name"]) },
        },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What must not be in a bundle. As a key of a Secret it must.
    const CANARY: &str = "bundle-canary";

    fn object(kind: &str, rest: Value) -> Value {
        let meta = json!({ "name": "x", "managedFields": [CANARY], "generateName": CANARY,
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": CANARY, "mosb.dev/reason": "kept" } });
        let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": meta });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    }

    #[test]
    fn objects_keep_what_is_listed() {
        let pod = json!({ "containers": [
            { "name": "controller", "args": ["kept"] },
            { "name": "kept", "args": [CANARY], "livenessProbe": CANARY, "env": [{ "name": "TOKEN", "value": CANARY },
                { "name": "POD_NAME", "value": "kept" }, { "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "kept" } } }] }] });
        let config = json!({ "ignition": { "version": "3.5.0", "config": { "merge": [{ "source": CANARY }] } },
            "storage": { "files": [{ "path": "kept", "mode": 420, "contents": { "source": CANARY, "verification": { "hash": CANARY } } }],
                "luks": [CANARY], "links": [{ "path": "/a", "target": "kept" }] },
            "systemd": { "units": [{ "name": "kept", "contents": CANARY, "dropins": [{ "name": "a", "contents": CANARY }] }] },
            "passwd": { "users": [{ "name": "kept", "passwordHash": CANARY, "sshAuthorizedKeys": [CANARY] }] } });
        for (kind, rest, kept) in [
            (
                "Secret",
                json!({ "type": "kept", "data": { "kept": CANARY }, "stringData": { "a": CANARY } }),
                2,
            ),
            (
                "ConfigMap",
                json!({ "data": { "kept": CANARY }, "binaryData": { "kept": CANARY } }),
                2,
            ),
            ("Pod", json!({ "spec": pod, "status": { "phase": "kept" } }), 5),
            ("Job", json!({ "spec": { "template": { "spec": pod } } }), 4),
            ("Deployment", json!({ "spec": { "template": { "spec": pod } } }), 4),
            (
                "MachineConfig",
                json!({ "spec": { "config": config, "osImageURL": "kept", "kernelArguments": [format!("kept={CANARY}")], "other": CANARY } }),
                6,
            ),
            (
                "MachineOSConfig",
                json!({ "spec": { "containerFile": [{ "content": CANARY }], "renderedImagePushSpec": "kept" } }),
                1,
            ),
            (
                "ControllerConfig",
                json!({ "spec": { "internalRegistryPullSecret": CANARY, "osImageURL": "kept", "proxy": CANARY } }),
                1,
            ),
            (
                "Node",
                json!({ "status": { "images": [CANARY], "nodeInfo": { "osImage": "kept" } } }),
                1,
            ),
            ("Unknown", json!({ "spec": CANARY, "data": CANARY, "status": "kept" }), 1),
            ("KubeletConfig", json!({ "spec": CANARY, "status": "kept" }), 1),
            ("MachineConfigPool", json!({ "spec": { "paused": "kept" } }), 1),
            ("Event", json!({ "message": "kept" }), 1),
        ] {
            let text = redacted(kind, object(kind, rest)).to_string();
            assert!(!text.contains(CANARY), "{kind}: {text}");
            // One more is the annotation of mosb's own.
            assert_eq!(text.matches("kept").count(), kept + 1, "{kind}: {text}");
        }
    }

    #[test]
    fn settings_and_results_are_kept() {
        let text = format!("builderImage: kept\ncheck: {{env: [{{name: A, value: {CANARY}}}]}}\n");
        for (name, label, data, want) in [
            (CONFIG_MAP, json!({}), json!({ "config.yaml": text, "other": CANARY }), true),
            (CONFIG_MAP, json!({}), json!({ "config.yaml": format!(": [{CANARY}") }), false),
            (BASE_TREES, json!({}), json!({ "a": "kept" }), true),
            ("digest-x", json!({ "mosb.dev/result": "" }), json!({ "a": "kept" }), true),
            ("mc-x", json!({}), json!({ "a": "kept" }), false),
        ] {
            let map = json!({ "metadata": { "name": name, "labels": label }, "data": data });
            let text = redacted("ConfigMap", map).to_string();
            assert_eq!(text.contains("kept"), want, "{name}: {text}");
            assert!(!text.contains(CANARY), "{name}: {text}");
        }
    }
}
