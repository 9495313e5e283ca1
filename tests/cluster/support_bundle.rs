//! `mosb support-bundle` of a pool in service: as an administrator, with few rights, and with none.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, process::Command};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{Finished, finish, limited, wait};

/// What no file of a bundle has, in plain text or base64.
const CANARY: &str = "bundle-canary-0123456789ab";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The files of a bundle, without the folder that all are below.
fn unpack(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(bytes));
    let members = archive.entries().unwrap().map(|member| {
        let mut member = member.unwrap();
        let path = member.path().unwrap().display().to_string();
        let (folder, path) = path.split_once('/').unwrap();
        assert!(folder.starts_with("mosb-support-bundle-2"), "{folder}");
        let mut text = String::new();
        member.read_to_string(&mut text).unwrap();
        (path.to_owned(), text)
    });
    members.collect()
}

/// A secret in plain text, and as base64 has it wherever it begins in the encoded text.
fn forms(secret: &str) -> Vec<String> {
    let encoded = (0..3_usize).map(|before| {
        let encoded = STANDARD.encode([vec![b'-'; before], secret.as_bytes().to_vec()].concat());
        // The first and the last group depend on what is around the secret.
        let (from, to) = ((before * 8).div_ceil(6), (before + secret.len()) * 8 / 6);
        encoded[from..to].to_owned()
    });
    encoded.chain([secret.to_owned()]).collect()
}

/// The files that have one of these secrets in any form.
fn leaks<'f>(files: &'f BTreeMap<String, String>, secrets: &[&str]) -> Vec<&'f str> {
    let forms: Vec<String> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    let leaking = files.iter().filter(|(_, text)| forms.iter().any(|form| text.contains(form)));
    leaking.map(|(path, _)| &**path).collect()
}

#[test]
fn canary_finds_secrets_in_any_form() {
    for before in ["", "a", "ab", "abc"] {
        let plain = format!("{before}{CANARY}xy");
        let files = [
            ("plain", plain.clone()),
            ("encoded", STANDARD.encode(&plain)),
            ("redacted", plain.replace(CANARY, "[secret]")),
            ("encoded redacted", STANDARD.encode(plain.replace(CANARY, "[secret]"))),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text)).into();
        assert_eq!(leaks(&files, &[CANARY]), ["encoded", "plain"], "{before}");
    }
}

fn index(files: &BTreeMap<String, String>) -> Value {
    serde_json::from_str(&files["index.json"]).unwrap()
}

/// Puts the canary where secrets may be.
fn plant(cluster: &Cluster) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "planted" },
        "stringData": { "token": CANARY } });
    cluster.namespace.apply(&secret.to_string());
    cluster.config_map("planted", &json!({ "key": CANARY }));
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "planted", "annotations": { "example.com/token": CANARY } },
        "spec": { "schedulingGates": [{ "name": "example.com/never" }], "containers": [{ "name": "a",
            "image": "example.com/a", "args": [format!("--token={CANARY}")], "env": [{ "name": "TOKEN", "value": CANARY }] }] } });
    cluster.namespace.apply(&pod.to_string());
    cluster.patch(
        &format!("machineosconfig/{}", cluster.pool),
        &json!({ "metadata": { "annotations": { "example.com/token": CANARY } } }),
    );
    let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "planted" }, "type": "Warning",
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "name": "planted", "namespace": cluster.namespace.name },
        "reason": "Planted", "message": format!("got {CANARY} from https://user:{CANARY}@example.com") });
    cluster.namespace.apply(&event.to_string());
}

/// Runs the command as an account of the test's namespace.
fn as_account(cluster: &Cluster, account: &str, folder: &Path) -> Finished {
    let object =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account } });
    cluster.namespace.apply(&object.to_string());
    let token = cluster.namespace.kubectl(&["create", "token", account]).ok().text();
    let text = fs::read_to_string(cluster.node.kubeconfig()).unwrap();
    let mut config = mosb_api::yaml::parse_one(text.as_bytes()).unwrap();
    config["users"][0]["user"] = json!({ "token": token.trim() });
    let file = folder.join(account);
    fs::write(&file, config.to_string()).unwrap();
    let mut command: Command = limited(mosb_tests::program());
    command.args(["support-bundle", "-o", "-", "--format", "json", "--kubeconfig"]).arg(&file);
    command.args(["--namespace", &cluster.namespace.name]);
    finish(command.env_clear().env("PATH", "/usr/bin:/bin"), &[])
}

/// Runs the command as an account that may read pools and pods only.
fn with_few_rights(cluster: &Cluster, folder: &Path) -> Finished {
    let name = &cluster.pool;
    let object = |kind: &str, rest: Value| {
        let mut object = json!({ "apiVersion": RBAC, "kind": kind, "metadata": { "name": name } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        cluster.node.apply(&object.to_string());
    };
    object(
        "ClusterRole",
        json!({ "rules": [{ "apiGroups": ["machineconfiguration.openshift.io", ""],
        "resources": ["machineconfigpools", "pods"], "verbs": ["get", "list"] }] }),
    );
    object(
        "ClusterRoleBinding",
        json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": "few", "namespace": cluster.namespace.name }] }),
    );
    let finished = as_account(cluster, "few", folder);
    for kind in ["clusterrole", "clusterrolebinding"] {
        cluster.node.kubectl(&["delete", kind, name]).ok();
    }
    finished
}

#[test]
fn a_bundle_has_objects_and_no_secret() {
    let mut cluster = Cluster::new("bundle");
    let (pool, namespace) = (cluster.pool.clone(), cluster.namespace.name.clone());
    let rendered = cluster.render(CANARY);
    cluster.start();
    cluster.opt_in(None);
    let image = cluster.image_after("");
    // The log of a pod that is deleted while the bundle is made is missing in it.
    let has_no_pod = || cluster.namespace.list("pods").is_empty().then_some(());
    wait("the pods of the build to be deleted", SOON, has_no_pod);
    plant(&cluster);
    let password = cluster.node.registry().password.clone();
    let secrets = [CANARY, password.as_str()];
    // The canary is where it was planted, so a bundle that redacts nothing would be found out.
    let planted: BTreeMap<String, String> = [
        "secret/planted",
        "configmap/planted",
        "pod/planted",
        "event/planted",
        &*format!("machineosconfig/{pool}"),
        &*format!("machineconfig/{rendered}"),
    ]
    .map(|object| {
        let found = cluster.namespace.kubectl(&["get", object, "-o", "json"]).ok();
        (object.to_owned(), found.text())
    })
    .into();
    assert_eq!(leaks(&planted, &secrets).len(), planted.len(), "{:?}", leaks(&planted, &secrets));
    let folder = tempfile::tempdir().unwrap();

    let file = folder.path().join("bundle.tar.gz");
    let finished = cluster.mosb(&["support-bundle", &pool, "-o", file.to_str().unwrap()]).ok();
    assert!(finished.stderr.contains(file.to_str().unwrap()), "{}", finished.stderr);
    assert_eq!(finished.text(), "");
    let files = unpack(&fs::read(&file).unwrap());
    let build = cluster.current()["metadata"]["name"].as_str().unwrap().to_owned();
    for (path, part) in [
        (format!("machineconfigpools/{pool}.yaml"), &*rendered),
        (format!("machineosconfigs/{pool}.yaml"), &image),
        (format!("machineosbuilds/{build}.yaml"), "Succeeded"),
        (format!("machineconfigs/{rendered}.yaml"), "/etc/story"),
        (format!("configmaps/{namespace}/mosb-config.yaml"), "imageRegistryBundles"),
        (format!("secrets/{namespace}/planted.yaml"), "token"),
        (format!("secrets/{namespace}/push.yaml"), ".dockerconfigjson"),
        (format!("pods/{namespace}/planted.yaml"), "[left out]"),
        (
            format!("events/{namespace}/planted.yaml"),
            "got [secret] from https://[secret]@example.com",
        ),
        ("views/status.json".to_owned(), &build),
        ("views/builds.json".to_owned(), &image),
        ("views/rollout-status.json".to_owned(), "RolloutStatus"),
        ("views/nodes.json".to_owned(), "NodeList"),
        ("registries.json".to_owned(), &image),
        ("versions.json".to_owned(), "machineosbuilds"),
        ("README.txt".to_owned(), "planted.yaml"),
    ] {
        let found = files.get(&path).unwrap_or_else(|| panic!("{path}: {:#?}", files.keys()));
        assert!(found.contains(part), "{path} has no {part}: {found}");
    }
    assert_eq!(index(&files)["missing"], json!([]));
    assert_eq!(leaks(&files, &secrets), [""; 0]);

    let finished = with_few_rights(&cluster, folder.path()).ok();
    assert!(finished.stderr.contains("could not be read"), "{}", finished.stderr);
    let files = unpack(&finished.stdout);
    assert!(files.contains_key(&format!("machineconfigpools/{pool}.yaml")), "{:?}", files.keys());
    assert_eq!(leaks(&files, &secrets), [""; 0]);
    let index = index(&files);
    let missing: Vec<&str> = index["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| gap["what"].as_str().unwrap())
        .collect();
    for what in ["machineosconfigs", "nodes", "secrets"] {
        assert!(missing.contains(&what), "{what}: {missing:?}");
    }
    assert!(index["missing"].to_string().contains("forbidden"), "{index:#}");

    // With none.
    let finished = as_account(&cluster, "none", folder.path());
    let (code, error) = (finished.code(), finished.json());
    assert_eq!((code, &error["code"]), (Some(3), &json!("nothing-read")), "{}", finished.stderr);
}

/// Objects of a pool: its config with many files, its MachineOSConfig, builds and nodes.
fn objects_of_pool(name: &str) -> Vec<Value> {
    let api = "machineconfiguration.openshift.io/v1";
    let files: Vec<Value> = (0..200)
        .map(|file| {
            json!({ "path": format!("/etc/many/file-{file}"), "mode": 420,
            "contents": { "source": format!("data:,{}", "x".repeat(500)) } })
        })
        .collect();
    let rendered = format!("rendered-{name}-{}", "0".repeat(32));
    let image = format!("registry.invalid/os/{name}@sha256:{}", "0".repeat(64));
    let mut objects = vec![
        json!({ "apiVersion": api, "kind": "MachineConfig", "metadata": { "name": rendered },
            "spec": { "osImageURL": image, "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } } }),
        json!({ "apiVersion": api, "kind": "MachineConfigPool", "metadata": { "name": name },
            "spec": { "configuration": { "name": rendered }, "nodeSelector": { "matchLabels": { name: "" } } } }),
        json!({ "apiVersion": api, "kind": "MachineOSConfig", "metadata": { "name": name },
            "spec": { "machineConfigPool": { "name": name }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": format!("registry.invalid/os/{name}:latest"),
                "containerFile": [] } }),
    ];
    let report = json!({ "bootID": "b", "booted": { "image": image } }).to_string();
    objects.extend((0..3).map(|node| {
        json!({ "apiVersion": "v1", "kind": "Node", "spec": { "unschedulable": true },
            "metadata": { "name": format!("{name}-{node}"), "labels": { name: "" },
                "annotations": { "mosb.dev/node-report": report } } })
    }));
    objects
}

#[test]
#[ignore = "make test-all: time and size of a bundle, which only many objects show"]
fn bundle_of_hundred_pools_is_small_and_soon() {
    let cluster = Cluster::new("bundle-pools");
    let pools: Vec<String> = (0..100).map(|pool| format!("{}-{pool}", cluster.pool)).collect();
    let of_pools = pools.iter().map(|pool| objects_of_pool(pool));
    for objects in of_pools.collect::<Vec<_>>().chunks(10) {
        let items = objects.concat();
        cluster
            .node
            .apply(&json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar.gz");
    let begun = Instant::now();
    cluster.mosb(&["support-bundle", "-o", file.to_str().unwrap()]).ok();
    let took = begun.elapsed();
    let packed = fs::read(&file).unwrap();
    let files = unpack(&packed);
    let size: usize = files.values().map(String::len).sum();
    println!("{took:?}, {} files, {size} bytes, {} packed", files.len(), packed.len());
    let begun = Instant::now();
    let few = unpack(&with_few_rights(&cluster, folder.path()).ok().stdout);
    let few_took = begun.elapsed();
    println!("with few rights: {few_took:?}, {} files", few.len());
    let has_pool = |pool: &&String| few.contains_key(&format!("machineconfigpools/{pool}.yaml"));
    assert_eq!(pools.iter().filter(has_pool).count(), pools.len());
    for pool in &pools {
        assert!(files.contains_key(&format!("machineosconfigs/{pool}.yaml")), "{pool}");
        cluster.node.kubectl(&["delete", "machineconfigpool,machineosconfig", pool]).ok();
        for node in 0..3 {
            cluster.node.kubectl(&["delete", "node", &format!("{pool}-{node}")]).ok();
        }
    }
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(few_took < Duration::from_secs(10), "{few_took:?}");
    assert!(size < 20_000_000, "{size}");
}
