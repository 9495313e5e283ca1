//! A pool whose keys, password and kernel arguments change, on a real API server. A helper answers as
//! the machines: what `mosb node` does with a machine part is tested elsewhere, on real machines.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mosb_tests::{NewMachine, RolloutCluster, RolloutPool, annotation, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(420);
const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
const FIRST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPartStoryKeyOne";
const SECOND_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPartStoryKeyTwo";
const HASH: &str = "$y$j9T$partStorySalt$partStoryHashOfAPassword";
/// Parts of these texts that no object may have but those that are for them.
const CANARIES: [&str; 3] = ["PartStoryKeyOne", "PartStoryKeyTwo", "partStoryHashOfAPassword"];

/// Keys and a password come without a build, a slot or a reboot; kernel arguments with an image and a
/// reboot; a revert brings the ones from before. Nothing but the MachineConfigs and the Secrets of
/// Jobs has them.
pub fn keys_and_arguments(cluster: &RolloutCluster) {
    let mut pool = RolloutPool::new(cluster, "keyed", 2);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1]);

    set_login(&pool, FIRST_KEY, &[]);
    wait_keys(&pool, FIRST_KEY);
    let found = pool.wait_updated(&first);
    let rendered = &found["spec"]["configuration"]["name"];
    for name in &pool.machines {
        let node = cluster.node.get(&format!("node/{name}"));
        assert_eq!(annotation(&node, CURRENT_CONFIG), rendered.as_str().unwrap());
        assert_eq!(cluster.machines.get(name).part["passwordHash"], HASH);
        assert_eq!(cluster.observer.observed().slots[name], 1, "none for the keys");
    }
    let builds = builds(&pool);
    let adopted = builds.iter().find(|build| is_adopted(build)).expect("an adopted build");
    assert_eq!((builds.len(), pool.boots()), (2, vec![1, 1]));
    assert!(annotation(adopted, "mosb.dev/machine-part").starts_with("sha256:"), "{adopted:#}");
    let with_first_key = pool.pin();

    set_login(&pool, SECOND_KEY, &[]);
    wait_keys(&pool, SECOND_KEY);
    pool.wait_updated(&first);
    pool.annotate("mosb.dev/rollout-build", Some(&with_first_key));
    wait_keys(&pool, FIRST_KEY);
    pool.annotate("mosb.dev/rollout-build", None);
    wait_keys(&pool, SECOND_KEY);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1], "reverted and brought again without a reboot");

    set_login(&pool, SECOND_KEY, &["nosmt"]);
    let second = pool.image_after(&first);
    pool.wait_updated(&second);
    assert_eq!(pool.boots(), [2, 2]);
    for name in &pool.machines {
        assert_eq!(cluster.machines.get(name).arguments, ["nosmt"]);
    }

    // A machine that has the image and not the arguments.
    let late = "keyed-late".to_owned();
    cluster.machines.join(&NewMachine::new(&late, &pool.name, &second));
    pool.machines.push(late.clone());
    pool.wait_updated(&second);
    assert_eq!(
        (pool.boots(), cluster.machines.get(&late).arguments),
        (vec![2, 2, 1], vec!["nosmt".to_owned()])
    );
    search_canaries(cluster);
}

/// Writes the MachineConfig with keys, password and kernel arguments.
fn set_login(pool: &RolloutPool<'_>, key: &str, arguments: &[&str]) {
    let user = json!({ "name": "core", "sshAuthorizedKeys": [key], "passwordHash": HASH });
    let role = json!({ "machineconfiguration.openshift.io/role": pool.name });
    let config = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": format!("60-{}", pool.name), "labels": role },
        "spec": { "kernelArguments": arguments,
            "config": { "ignition": { "version": "3.5.0" }, "passwd": { "users": [user] } } } });
    pool.cluster.node.apply(&config.to_string());
}

fn wait_keys(pool: &RolloutPool<'_>, key: &str) {
    wait(&format!("the key {key} on all machines of {}", pool.name), LIMIT, || {
        let has = |name: &String| {
            pool.cluster.machines.get(name).part["sshAuthorizedKeys"] == json!([key])
        };
        pool.machines.iter().all(has).then_some(())
    });
}

fn builds(pool: &RolloutPool<'_>) -> Vec<Value> {
    let label =
        format!("machineconfiguration.openshift.io/target-machine-config-pool={}", pool.name);
    pool.cluster.node.api().list(None, "machineosbuilds", &label)
}

fn is_adopted(build: &Value) -> bool {
    !annotation(build, "mosb.dev/adopted-from").is_empty()
}

/// No object but MachineConfigs has a key or the hash, in plain text or base64, and no log of mosb.
fn search_canaries(cluster: &RolloutCluster) {
    let node = &cluster.node;
    let kinds = node.kubectl(&["api-resources", "--verbs=list", "--output=name"]).ok().text();
    let kinds: Vec<&str> = kinds
        .lines()
        .filter(|kind| *kind != "machineconfigs.machineconfiguration.openshift.io")
        .collect();
    assert!(kinds.len() > 30 && kinds.contains(&"secrets"), "{kinds:?}");
    // The Jobs of other stories go on, and Secrets of this one are deleted with its Jobs.
    wait("the Secrets of the Jobs to be deleted", LIMIT, || {
        let left = node.api().list(Some(mosb_tests::ROLLOUT_NAMESPACE), "jobs", "");
        let is_ours = |job: &Value| job.to_string().contains("keyed");
        (!left.iter().any(is_ours)).then_some(())
    });
    let words =
        ["get", &kinds.join(","), "--all-namespaces", "--show-managed-fields", "--output=json"];
    let all = node.kubectl(&words).ok().text();
    assert!(all.contains("MachineOSBuild") && all.contains("mosb.dev/machine-part"));
    let logs = cluster.logs().concat();
    let configs = node.kubectl(&["get", "machineconfigs", "--output=json"]).ok().text();
    for canary in CANARIES {
        assert!(configs.contains(canary), "{canary}: the search can find it");
        for text in in_base64(canary).into_iter().chain([canary.to_owned()]) {
            assert!(!all.contains(&text), "an object has {canary}");
            assert!(!logs.contains(&text), "the log has {canary}");
        }
    }
}

/// The parts of a text's base64 that are the same wherever it begins in what is encoded.
fn in_base64(text: &str) -> [String; 3] {
    [0, 1, 2].map(|skipped| {
        let rest = &text[skipped..];
        STANDARD_NO_PAD.encode(&rest[..rest.len() / 3 * 3])
    })
}
