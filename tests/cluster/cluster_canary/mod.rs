//! Searches everything that builds leave behind for a registry's password. Only the Secrets for
//! that purpose may contain it.

mod evidence;
mod watcher;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};

use crate::test_cluster::{BUILD, Cluster};
use evidence::Evidence;
use mosb_tests::MOSB_IMAGE;
use watcher::{Watcher, entries};

const RUNS: &str = "FROM configs AS final\nRUN sleep 3; echo ran > /etc/ran\n";
const FAILS: &str = "FROM configs AS final\nRUN env; cat /proc/mounts; exit 7\n";

/// Runs each kind of build and collects evidence.
fn builds(cluster: &mut Cluster, evidence: &Evidence) {
    let rendered = cluster.render("one");
    cluster.start();
    cluster.opt_in(None);
    let first = cluster.image_after("");
    cluster.opt_in(Some(RUNS));
    cluster.building();
    evidence.objects(cluster, "during");
    cluster.image_after(&first);
    cluster.opt_in(Some(FAILS));
    cluster.wait_for_pool_condition("BuildFailed");
    evidence.objects(cluster, "failed");
    by_hand(cluster, &rendered);
    evidence.objects(cluster, "after");
    evidence.put("controller", cluster.log());
    let audit: Vec<_> = cluster.node.audit().iter().map(Value::to_string).collect();
    evidence.put("audit", audit.join("\n"));
    for component in ["api-server", "controller-manager", "scheduler", "kubelet", "containerd"] {
        evidence.put(component, cluster.node.logs(component));
    }
}

fn by_hand(cluster: &Cluster, rendered: &str) {
    let config = cluster.node.get(&format!("machineconfig/{rendered}"));
    cluster.config_map("machine-config", &json!({ "machineconfig.yaml": config.to_string() }));
    cluster.config_map("registry-ca", &json!({ "ca.crt": cluster.node.registry().ca_pem }));
    cluster.secret("registry-login", &cluster.node.registry().docker_config());
    let job = mosb_tests::repository().join("job-templates/by-hand.yaml");
    let job = fs::read_to_string(job).unwrap();
    let job = job.replace("registry.example/mosb:latest", MOSB_IMAGE);
    let job = job.replace("registry.example/os/images", &cluster.push);
    let job = job.replace("generateName: mosb-build-", "name: by-hand");
    cluster.namespace.apply(&job);
    cluster.namespace.wait_for_condition("job/by-hand", "Complete", BUILD);
}

#[test]
fn the_push_password_is_only_in_its_secrets() {
    let mut cluster = Cluster::new("canary");
    let evidence = Evidence::new(&cluster);
    let [node, ..] = cluster.node.traces();
    let namespace = cluster.namespace.name.clone();
    let mut watcher = Watcher {
        node: Path::new(&node),
        namespace: &namespace,
        to: evidence.path("pods"),
        lines: BTreeSet::new(),
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                watcher.poll();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            builds(&mut cluster, &evidence)
        }));
        done.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        built.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
    let lines: Vec<_> = watcher.lines.into_iter().collect();
    evidence.put("processes", lines.join("\n"));
    evidence.blobs(&cluster);

    // The evidence contains what it must contain.
    let processes = fs::read_to_string(evidence.path("processes")).unwrap();
    for program in [
        "job build --",
        "job push --",
        "job wait-for-done --",
        "buildah",
        "mosb build /run/mosb/machine-config",
    ] {
        assert!(processes.contains(program), "{program} was not seen");
    }
    let files: Vec<_> =
        entries(&evidence.path("pods")).iter().map(|path| path.display().to_string()).collect();
    for container in ["wait-for-done", "image-build", "image-push", "!build!"] {
        for part in ["log!pods", "lib!kubelet"] {
            assert!(
                files.iter().any(|file| file.contains(part) && file.contains(container)),
                "{part} {container}: {files:#?}"
            );
        }
    }
    let logs = fs::read(evidence.path("objects/after-logs")).unwrap();
    let logs = String::from_utf8_lossy(&logs);
    assert!(logs.contains("/proc/mounts"), "{logs}");
    assert_eq!(evidence.hits(), Vec::<String>::new());

    // A planted password is found in an object, in a layer, and in a Secret that must not have it.
    let registry = cluster.node.registry();
    let hidden = json!({ "a": STANDARD_NO_PAD.encode(registry.docker_config().to_string()) });
    cluster.config_map("planted", &hidden);
    cluster.secret("base-planted", &registry.docker_config());
    evidence.objects(&cluster, "planted");
    evidence.put("blobs/planted", format!("a tar with {} in it", registry.password));
    let mut hits = evidence.hits();
    hits.sort();
    assert_eq!(hits, ["./blobs/planted", "./objects/planted", "./objects/planted-secrets"]);
    for planted in ["configmap/planted", "secret/base-planted"] {
        cluster.namespace.kubectl(&["delete", planted]).ok();
    }
    assert!(cluster.namespace.find("configmap/planted").is_none());
}
