//! `mosb controller --rollout` with the rights and under the policies of `deploy/rollout`: real
//! builds, real API server, scheduler, Job controller and evictions; the machines are a helper that
//! answers as them.
//!
//! On a node of its own, as it looks at every pool there is.

mod machines;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use machines::Machines;
use mosb_tests::{Daemon, Node, base_image, lasting, mosb_image, programs, wait};

use crate::rbac::objects::{NAMESPACE, change, objects, os_config};

const ACCOUNT: &str = "system:serviceaccount:mosb-system:mosb-controller";
const NAMES: [&str; 3] = ["machine-0", "machine-1", "machine-2"];
const POOL: &str = "machineconfigpool/worker";
const CONFIG: &str = "machineosconfig/worker";
/// On a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

struct RolloutCluster {
    node: Node,
    machines: Machines,
    image: String,
    controller: Option<Daemon>,
}

impl RolloutCluster {
    fn new() -> Self {
        let node = Node::start(&programs()).unwrap();
        let registry = node.registry();
        registry.push(&base_image().reference("base"), "acme/base:v1");
        registry.push(&format!("oci-archive:{}", mosb_image().display()), "acme/mosb:dev");
        node.install_kinds();
        let overlay = mosb_tests::repository().join("deploy/rollout");
        let text = node.kubectl(&["kustomize", overlay.to_str().unwrap()]).ok().text();
        for object in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(object).unwrap();
            // The controller runs beside the cluster, with the same rights.
            if object["kind"] != "Deployment" {
                node.apply(&object.to_string());
            }
        }
        let base = format!("acme/base@{}", base_image().digest("base"));
        let base = registry.repository(&base);
        for mut object in objects(&node, &base) {
            if object["kind"] == "ConfigMap" {
                // The image of build pods is in the registry.
                let text = object["data"]["config.yaml"].as_str().unwrap();
                let mut settings: Value = serde_json::from_str(text).unwrap();
                settings["job"] = json!({ "imagePullSecrets": ["global-pull-secret-copy"] });
                object["data"]["config.yaml"] = json!(settings.to_string());
            }
            node.apply(&object.to_string());
        }
        node.apply(&os_config(&node).to_string());
        let stock = base_image().digest("base").to_string();
        let machines = Machines::start(&node, &NAMES, &stock);
        let image = digest(&node, "acme/mosb", "dev");
        let image = registry.repository(&format!("acme/mosb@{image}"));
        let mut cluster = Self { node, machines, image, controller: None };
        cluster.start();
        cluster
    }

    /// With the token of the account that the overlay gives the rights.
    fn start(&mut self) {
        let words = ["create", "token", "mosb-controller", "--namespace", NAMESPACE];
        let token = self.node.kubectl(&words).ok().text();
        let admin = std::fs::read_to_string(self.node.kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({ "token": token.trim() });
        let file = self.node.kubeconfig().with_file_name("rollout-controller");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--render", "--rollout", "--verbose"])
            .args(["--builder-image", &self.image])
            .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE, "--kubeconfig"])
            .arg(file)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            // The next process goes on with the Lease at once.
            .env("POD_NAME", "rollout-controller");
        let listens = |line: &str| line.contains("listening on").then_some(());
        self.controller = Some(Daemon::start(command, listens).0);
    }

    /// Kills the controller and starts another one.
    fn restart(&mut self) {
        println!("{}", self.log());
        self.controller = None;
        self.start();
    }

    fn log(&self) -> String {
        self.controller.as_ref().map(Daemon::log).unwrap_or_default()
    }

    fn annotate(&self, what: &str, annotation: &str) {
        self.node.kubectl(&["annotate", what, annotation, "--overwrite"]).ok();
    }

    fn patch(&self, what: &str, spec: Value) {
        let change = json!({ "spec": spec }).to_string();
        self.node.kubectl(&["patch", what, "--type=merge", "--patch", &change]).ok();
    }

    /// The digest of the pool's image, once it is another one.
    fn image(&self, before: &str) -> String {
        let is_other = |config: &Value| {
            let image = config["status"]["currentImagePullSpec"].as_str();
            image.is_some_and(|image| !image.is_empty() && !image.ends_with(before))
        };
        let config = self.wait(CONFIG, is_other);
        let image = config["status"]["currentImagePullSpec"].as_str().unwrap();
        image.rsplit_once('@').unwrap().1.to_owned()
    }

    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let log = Printed(self);
        let found = self.node.wait(what, LIMIT, fits);
        std::mem::forget(log);
        found
    }

    /// Waits until all machines run the image, and the pool reports it.
    fn wait_updated(&self, digest: &str) -> Value {
        let pool = self.wait(POOL, |pool| {
            let status = &pool["status"];
            condition(pool, "Updated") == "True"
                && status["updatedMachineCount"] == 3
                && self.machines.state().machines.values().all(|one| one.booted == digest)
        });
        let status = &pool["status"];
        for (field, want) in [
            ("machineCount", 3),
            ("readyMachineCount", 3),
            ("unavailableMachineCount", 0),
            ("degradedMachineCount", 0),
        ] {
            assert_eq!(status[field], want, "{field}: {status:#}");
        }
        assert_eq!(condition(&pool, "Updating"), "False");
        let config = &status["configuration"]["name"];
        for name in NAMES {
            let node = self.node.get(&format!("node/{name}"));
            assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node:#}");
            let is = |key: &str| mark(&node, key);
            assert!(is("machineconfiguration.openshift.io/currentImage").ends_with(digest));
            assert_eq!(*config, is("machineconfiguration.openshift.io/currentConfig"));
            assert_eq!(is("machineconfiguration.openshift.io/state"), "Done");
            assert_eq!((is("mosb.dev/slot"), is("mosb.dev/staged")), ("", ""));
        }
        pool
    }

    fn boots(&self) -> Vec<u32> {
        self.machines.state().machines.values().map(|one| one.boots).collect()
    }

    /// What the controller was refused, and which rights of the overlay it has not used.
    fn audit(&self) -> (Vec<Value>, BTreeSet<String>) {
        let (mut refused, mut used) = (Vec::new(), BTreeSet::new());
        for event in self.node.audit() {
            let object = &event["objectRef"];
            if event["user"]["username"] != ACCOUNT || object["apiGroup"] == "build.openshift.io" {
                continue;
            }
            let code = &event["responseStatus"]["code"];
            if event["annotations"]["authorization.k8s.io/decision"] != "allow" || *code == 403 {
                refused.push(event);
                continue;
            }
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let kind = [word(&object["resource"]), word(&object["subresource"])].join("/");
            let kind = kind.trim_end_matches('/');
            used.insert(format!("{} {kind} {}", word(&object["namespace"]), word(&event["verb"])));
        }
        (refused, used)
    }
}

/// Prints the controller's log if a wait panics.
struct Printed<'c>(&'c RolloutCluster);

impl Drop for Printed<'_> {
    fn drop(&mut self) {
        println!("{}\n{:#?}", self.0.log(), self.0.machines.state());
    }
}

fn mark<'n>(object: &'n Value, key: &str) -> &'n str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

fn condition<'p>(pool: &'p Value, kind: &str) -> &'p str {
    let conditions = pool["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

fn digest(node: &Node, repository: &str, tag: &str) -> String {
    let image = node.registry().repository(&format!("{repository}:{tag}"));
    let mut command = mosb_tests::limited("skopeo");
    command
        .args(["inspect", "--format", "{{.Digest}}", "--authfile"])
        .arg(node.registry().authfile())
        .arg("--cert-dir")
        .arg(node.registry().certificates())
        .arg(format!("docker://{image}"));
    mosb_tests::finish(&mut command, &[]).ok().text().trim().to_owned()
}

#[test]
fn an_image_is_staged_rolled_out_and_taken_back_with_the_rights_of_the_overlay() {
    let mut cluster = RolloutCluster::new();
    let first = cluster.image("none");
    let stock = base_image().digest("base").to_string();

    // Without the annotation nothing is brought to machines.
    assert_eq!(condition(&cluster.node.get(POOL), "Updated"), "");

    // Staged, and nothing reboots.
    cluster.annotate(CONFIG, "mosb.dev/rollout=stage");
    for name in NAMES {
        cluster
            .wait(&format!("node/{name}"), |node| mark(node, "mosb.dev/staged").contains(&first));
    }
    assert_eq!(cluster.boots(), [1, 1, 1]);
    assert_eq!(cluster.machines.state().most_unavailable, 0);
    let config = cluster.node.get(CONFIG);
    let build = mark(&config, "machineconfiguration.openshift.io/current-machine-os-build");
    let build = build.to_owned();

    // A PodDisruptionBudget holds the drain of one machine, and is then loosened.
    let guarded = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "guarded", "namespace": "default", "labels": { "app": "guarded" } },
        "spec": { "nodeName": NAMES[1], "containers": [{ "name": "a", "image": "a" }] } });
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "budget", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } } });
    cluster.node.apply(&budget.to_string());
    cluster.node.apply(&guarded.to_string());
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    let held = format!("node/{}", NAMES[1]);
    let reason = "machineconfiguration.openshift.io/reason";
    let node = cluster.wait(&held, |node| mark(node, reason).contains("budget"));
    assert!(mark(&node, reason).contains("default/guarded"), "{}", mark(&node, reason));
    assert_eq!(node["spec"]["unschedulable"], true);
    cluster.restart();
    cluster.node.kubectl(&["delete", "poddisruptionbudget/budget", "--namespace=default"]).ok();
    cluster.wait_updated(&first);
    assert_eq!(cluster.boots(), [2, 2, 2], "one reboot each");
    assert_eq!(cluster.machines.state().machines[NAMES[1]].evicted, 1);
    assert_eq!(cluster.machines.state().most_unavailable, 1);

    // A second image, two machines at once, with the controller killed again and again.
    cluster.patch(POOL, json!({ "maxUnavailable": 2 }));
    cluster.node.apply(&change().to_string());
    let old = cluster.node.get(POOL)["status"]["configuration"]["name"].clone();
    let second = cluster.image(&first);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(1));
        cluster.restart();
    }
    let pool = cluster.wait_updated(&second);
    assert_eq!(pool["status"]["configuration"]["name"], pool["spec"]["configuration"]["name"]);
    assert_eq!(cluster.boots(), [3, 3, 3], "one reboot each");
    assert!(cluster.machines.state().most_unavailable <= 2);

    // Back to the first one, which is not the newest any more.
    cluster.annotate(CONFIG, &format!("mosb.dev/rollout-build={build}@{first}"));
    let pool = cluster.wait_updated(&first);
    assert_eq!(pool["status"]["configuration"]["name"], old, "the config of its image");
    assert_eq!(cluster.boots(), [4, 4, 4], "one reboot each");

    // A paused pool goes nowhere.
    cluster.patch(POOL, json!({ "paused": true }));
    cluster.annotate(CONFIG, "mosb.dev/rollout-build-");
    cluster.wait(POOL, |pool| condition(pool, "Updated") == "False");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(cluster.boots(), [4, 4, 4]);
    cluster.patch(POOL, json!({ "paused": false }));
    cluster.wait_updated(&second);

    // Back to the image of the release.
    cluster.annotate(CONFIG, &format!("mosb.dev/rollout-build=stock@{stock}"));
    cluster
        .wait(POOL, |_| cluster.machines.state().machines.values().all(|one| one.booted == stock));

    // Jobs go once their results are on the nodes, and their Secrets with them.
    wait("the Jobs and their Secrets to be deleted", LIMIT, || {
        let left = cluster.node.api().list(Some("mosb-rollout"), "jobs,secrets", "");
        left.is_empty().then_some(())
    });
    assert_eq!(cluster.machines.state().wrong, Vec::<String>::new());
    let (refused, used) = cluster.audit();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    for right in [
        " nodes patch",
        " pods list",
        "default pods/eviction create",
        "mosb-rollout jobs create",
        "mosb-rollout jobs delete",
        "mosb-rollout jobs list",
        "mosb-rollout jobs watch",
        "mosb-rollout pods list",
        "mosb-rollout pods watch",
        "mosb-rollout secrets create",
        "mosb-rollout secrets list",
        "mosb-rollout secrets watch",
    ] {
        assert!(used.contains(right), "{right} is granted and not used: {used:#?}");
    }
    println!("{}", cluster.log());
}
