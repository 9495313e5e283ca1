//! Seeding on a real API server, by a controller that is killed after each of its writes, before it
//! learns what became of it.
//!
//! On a node of its own, as a controller that renders looks at every pool there is.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fault_stories::story::{without_chance, without_hashes};
use mosb_tests::{ApiFault, ApiProxy, Daemon, Node, Write, base_image, lasting, programs, wait};

pub const API: &str = "machineconfiguration.openshift.io/v1";
pub const M: &str = "machineconfiguration.openshift.io";
pub const NAMESPACE: &str = "mosb-system";
/// On a busy machine.
pub const SOON: Duration = Duration::from_secs(120);
/// More writes than seeding has.
const MOST: usize = 40;

pub struct SeedCluster {
    pub node: Node,
    proxy: ApiProxy,
    folder: TempDir,
}

impl SeedCluster {
    pub fn new() -> Self {
        let node = Node::start(&programs()).unwrap();
        node.install_kinds();
        let proxy = ApiProxy::start(&node);
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = proxy.kubeconfig().to_string();
        fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let registry = node.registry();
        let settings = json!({ "baseOSContainerImage": stock(&node),
            "imageRegistryBundles": { &registry.host_port: registry.ca_pem } });
        let secret = |name: &str| {
            json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "stringData": { ".dockerconfigjson": registry.docker_config().to_string() } })
        };
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config", "namespace": NAMESPACE },
                "data": { "config.yaml": settings.to_string() } }),
            secret("push"),
            secret("global-pull-secret-copy"),
        ] {
            node.apply(&object.to_string());
        }
        for name in ["golden", "base"] {
            registry.push(&base_image().reference("base"), &format!("acme/{name}:v1"));
        }
        Self { node, proxy, folder }
    }

    pub fn controller(&self) -> Daemon {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--render", "--verbose"])
            .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE])
            .arg("--kubeconfig")
            .arg(self.folder.path().join("kubeconfig"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let listens = |line: &str| line.contains("listening on").then_some(());
        Daemon::start(command, listens).0
    }

    /// A pool, and the request that it begins with an image.
    pub fn apply(&self, pool: &str, image: &str) {
        let role = json!({ format!("{M}/role"): pool });
        for mut object in [
            machine_config(pool, "00"),
            json!({ "kind": "MachineConfigPool", "metadata": { "name": pool },
                "spec": { "machineConfigSelector": { "matchLabels": role } } }),
            json!({ "kind": "MachineOSConfig",
                "metadata": { "name": pool, "annotations": { format!("{M}/pre-built-image"): image } },
                "spec": { "machineConfigPool": { "name": pool }, "imageBuilder": { "imageBuilderType": "Job" },
                    "renderedImagePushSecret": { "name": "push" },
                    "renderedImagePushSpec": self.node.registry().repository("acme/os:latest") } }),
        ] {
            object["apiVersion"] = json!(API);
            self.node.apply(&object.to_string());
        }
    }

    /// A controller after the other, each of which makes one write to a pool, until one has nothing
    /// to write. What they wrote.
    fn kill_by_kill(&self, pool: &str, done: impl Fn() -> bool) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            assert!(all.len() < MOST, "it never ends: {all:#?}");
            self.proxy.follow(pool, &[(Write::Next, ApiFault::Die)]);
            let controller = self.controller();
            let end = Instant::now() + SOON;
            while !self.proxy.is_hit(pool) {
                if done() {
                    // It may be about to write.
                    thread::sleep(Duration::from_millis(500));
                    break;
                }
                let log = controller.log();
                assert!(Instant::now() < end, "after {all:#?} nothing: {log}");
                thread::sleep(Duration::from_millis(100));
            }
            // Without a word to it; and the next one need not wait for the end of its Lease.
            drop(controller);
            self.forget_lease();
            match self.proxy.written(pool).pop() {
                Some(write) => all.push(write),
                None => break,
            }
        }
        self.proxy.follow(pool, &[]);
        all
    }

    fn forget_lease(&self) {
        let delete = ["delete", "lease", "mosb-controller", "--ignore-not-found"];
        let place = ["--namespace", NAMESPACE];
        self.node.kubectl(&[&delete[..], &place].concat()).ok();
    }

    pub fn is_seeded(&self, pool: &str) -> bool {
        let config = self.node.get(&format!("machineosconfig/{pool}"));
        let annotations = &config["metadata"]["annotations"];
        annotations[format!("{M}/pre-built-image")].is_null()
    }

    /// All that there is of a pool, without what differs from one to the other.
    fn end(&self, pool: &str) -> String {
        let named = self.node.get(&format!("machineconfigpool/{pool}"));
        let named = named["spec"]["configuration"]["name"].clone();
        let mut found = Vec::new();
        for kinds in ["machineosconfigs", "machineosbuilds", "machineconfigs", "machineconfigpools"]
        {
            for object in self.node.list(kinds) {
                let metadata = &object["metadata"];
                let name = metadata["name"].as_str().unwrap();
                // Whether the pool was rendered before the image was there is chance.
                let is_older = name.starts_with("rendered-") && named != name;
                if !name.contains(pool) || is_older {
                    continue;
                }
                let owners = metadata["ownerReferences"].as_array();
                let owners = owners.into_iter().flatten().map(|owner| &owner["name"]);
                found.push(json!({ "name": name, "labels": metadata["labels"], "annotations": metadata["annotations"],
                    "owners": owners.collect::<Vec<_>>(), "spec": object["spec"], "status": object["status"] }));
            }
        }
        let found = without_chance(json!(found)).to_string();
        without_hashes(&found.replace(pool, "POOL"))
    }
}

/// How many events report that a pool was seeded.
fn seeded_events(node: &Node, pool: &str) -> usize {
    let events = node.list("events");
    let seeded = |event: &&Value| {
        event["reason"] == "PreBuiltImageSeeded" && event["involvedObject"]["name"] == pool
    };
    events.iter().filter(seeded).count()
}

/// A file in a pool's configuration.
pub fn machine_config(pool: &str, number: &str) -> Value {
    let file = json!({ "path": format!("/etc/{number}"), "contents": { "source": "data:,x" } });
    json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": format!("{number}-{pool}"), "labels": { format!("{M}/role"): pool } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } } })
}

fn golden(node: &Node) -> String {
    let image = format!("acme/golden@{}", base_image().digest("base"));
    node.registry().repository(&image)
}

pub fn stock(node: &Node) -> String {
    let image = format!("acme/base@{}", base_image().digest("base"));
    node.registry().repository(&image)
}

#[test]
#[ignore = "make test-all: each write of a seeded pool"]
fn killed_after_each_write_it_ends_the_same() {
    let cluster = SeedCluster::new();
    let image = golden(&cluster.node);
    cluster.apply("undisturbed", &image);
    let undisturbed = cluster.controller();
    wait("the end of the undisturbed build", SOON, || {
        cluster.is_seeded("undisturbed").then_some(())
    });
    drop(undisturbed);
    cluster.forget_lease();

    cluster.apply("killed", &image);
    let written = cluster.kill_by_kill("killed", || cluster.is_seeded("killed"));
    let component = "10-prebuiltimage-osimageurl-killed";
    for write in [
        "POST machineconfigs".to_owned(),
        "POST machineosbuilds".to_owned(),
        "PATCH machineosconfigs/killed".to_owned(),
        "PUT machineosconfigs/killed/status".to_owned(),
        "PATCH machineconfigpools/killed/status".to_owned(),
    ] {
        assert!(written.contains(&write), "{write} is missing: {written:#?}");
    }
    assert_eq!(cluster.end("killed"), cluster.end("undisturbed"), "{written:#?}");
    // An event that follows a write which is not answered is lost; it is never reported twice.
    assert_eq!(seeded_events(&cluster.node, "undisturbed"), 1);
    assert!(seeded_events(&cluster.node, "killed") <= 1);
    assert_eq!(cluster.node.list("machineosbuilds").len(), 2);
    assert_eq!(cluster.node.list("jobs"), Vec::<Value>::new());

    // And out again.
    let delete = ["delete", "machineosconfig", "killed", "--wait=false"];
    cluster.node.kubectl(&delete).ok();
    let is_out = || {
        let pool = cluster.node.get("machineconfigpool/killed");
        let sources = pool["spec"]["configuration"]["source"].to_string();
        let annotations = &pool["metadata"]["annotations"];
        !sources.contains(component)
            && annotations[format!("{M}/newestImageEquivalentConfig")].is_null()
    };
    let written = cluster.kill_by_kill("killed", is_out);
    let delete = format!("DELETE machineconfigs/{component}");
    assert!(written.contains(&delete), "{written:#?}");
    let found = cluster.node.find(&format!("machineconfig/{component}"));
    assert!(found.is_none());
    let pool = cluster.node.get("machineconfigpool/killed");
    let rendered = pool["spec"]["configuration"]["name"].as_str().unwrap();
    let rendered = cluster.node.get(&format!("machineconfig/{rendered}"));
    assert_eq!(rendered["spec"]["osImageURL"], stock(&cluster.node));
}
