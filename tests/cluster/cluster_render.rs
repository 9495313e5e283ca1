//! `mosb controller --render` on a real API server: pools get the rendered config of their
//! MachineConfigs.
//!
//! On a node of its own, as it looks at every pool there is.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{Daemon, Mosb, Node, lasting, programs, run, wait};

const API: &str = "machineconfiguration.openshift.io/v1";
const ROLE: &str = "machineconfiguration.openshift.io/role";
const NAMESPACE: &str = "mosb-system";
const BASE: &str = "registry.example.com/os@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// On a busy machine.
const SOON: Duration = Duration::from_secs(180);

struct RenderCluster {
    node: Node,
    controller: Option<Daemon>,
}

impl RenderCluster {
    fn new() -> Self {
        let node = Node::start(&programs()).unwrap();
        node.install_kinds();
        for name in [NAMESPACE, "openshift-machine-config-operator"] {
            node.make_namespace(name);
        }
        let cluster = Self { node, controller: None };
        cluster.settings(&json!({ "baseOSContainerImage": BASE }));
        for (pool, roles) in [("worker", json!(["worker"])), ("infra", json!(["worker", "infra"]))]
        {
            cluster.apply(json!({ "kind": "MachineConfigPool", "metadata": { "name": pool }, "spec": {
                "machineConfigSelector": { "matchExpressions": [{ "key": ROLE, "operator": "In", "values": roles }] } } }));
        }
        cluster.file("00-worker", "worker", "/etc/worker", "w");
        cluster.file("50-infra", "infra", "/etc/infra", "1");
        cluster
    }

    fn settings(&self, settings: &Value) {
        self.node.apply(
            &json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "mosb-config", "namespace": NAMESPACE },
            "data": { "config.yaml": settings.to_string() } })
            .to_string(),
        );
    }

    fn apply(&self, mut object: Value) {
        object["apiVersion"] = json!(API);
        self.node.apply(&object.to_string());
    }

    fn machine_config(&self, name: &str, role: &str, spec: Value) {
        self.apply(json!({ "kind": "MachineConfig", "metadata": { "name": name, "labels": { ROLE: role } }, "spec": spec }));
    }

    fn file(&self, name: &str, role: &str, path: &str, content: &str) {
        let file = json!({ "path": path, "contents": { "source": format!("data:,{content}") } });
        self.storage(name, role, json!({ "files": [file] }));
    }

    fn storage(&self, name: &str, role: &str, storage: Value) {
        let config = json!({ "ignition": { "version": "3.5.0" }, "storage": storage });
        self.machine_config(name, role, json!({ "config": config }));
    }

    fn delete(&self, name: &str) {
        self.node.kubectl(&["delete", "machineconfig", name]).ok();
    }

    fn start(&mut self) {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--render", "--verbose"])
            .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE])
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let listens = |line: &str| line.contains("listening on").then_some(());
        self.controller = Some(Daemon::start(command, listens).0);
        // A Lease that was not released expires after a minute.
        self.wait_for_log("the lease is held; reconciling");
    }

    fn stop(&mut self) {
        let controller = self.controller.take().expect("it was started");
        run("kill", ["-TERM", &controller.pid.to_string()]);
        wait("the controller's end", SOON, || controller.has_ended().then_some(()));
    }

    fn log(&self) -> String {
        self.controller.as_ref().map(Daemon::log).unwrap()
    }

    #[track_caller]
    fn wait_for_log(&self, text: &str) {
        wait(text, SOON, || self.log().contains(text).then_some(()));
    }

    fn pool(&self, name: &str) -> Value {
        self.node.get(&format!("machineconfigpool/{name}"))
    }

    fn rendered(&self, pool: &str) -> String {
        let name = &self.pool(pool)["spec"]["configuration"]["name"];
        name.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the pool has another rendered config.
    #[track_caller]
    fn other_than(&self, pool: &str, before: &str) -> String {
        let what = format!("machineconfigpool/{pool}");
        let is_other = |pool: &Value| {
            let name = pool["spec"]["configuration"]["name"].as_str();
            name.is_some_and(|name| !name.is_empty() && name != before)
        };
        let pool = self.node.wait(&what, SOON, is_other);
        let name = &pool["spec"]["configuration"]["name"];
        name.as_str().unwrap().to_owned()
    }

    /// Waits until the pool says that it is (or isn't) degraded; what it says.
    #[track_caller]
    fn degraded(&self, pool: &str, status: &str) -> Value {
        let found = self.node.wait(&format!("machineconfigpool/{pool}"), SOON, |pool| {
            condition(pool).is_some_and(|ours| ours["status"] == status)
        });
        condition(&found).unwrap().clone()
    }

    /// The name that `mosb render` prints for the same objects.
    fn by_hand(&self, pool: &str) -> String {
        let objects = json!({ "apiVersion": "v1", "kind": "List",
            "items": self.node.list("machineconfigpools,machineconfigs") });
        let arguments = ["render", "--pool", pool, "--os-image", BASE, "-o", "name", "-"];
        let output = Mosb::new().run_with(arguments, objects.to_string().as_bytes());
        output.ok().text().trim().to_owned()
    }

    /// Names of the rendered configs of a pool.
    fn all_rendered(&self, pool: &str) -> Vec<String> {
        let all = self.node.list("machineconfigs");
        let names = all.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with(&format!("rendered-{pool}-"))).collect()
    }
}

fn condition(pool: &Value) -> Option<&Value> {
    let conditions = pool["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == "RenderDegraded")
}

#[test]
#[ignore = "make test-all: it waits for time limits of a minute"]
fn hosts_that_hang_delay_only_their_pools() {
    // There are more pools than workers.
    const HANGING: usize = 20;
    let mut cluster = RenderCluster::new();
    cluster.start();
    let first = cluster.other_than("worker", "");
    // The kernel accepts the connections.
    let silent: Vec<TcpListener> =
        (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for number in 0..HANGING {
        let name = format!("slow-{number}");
        let host = silent[number % silent.len()].local_addr().unwrap();
        let file =
            json!({ "path": "/etc/slow", "contents": { "source": format!("http://{host}/") } });
        cluster.storage(&name, &name, json!({ "files": [file] }));
        cluster.apply(json!({ "kind": "MachineConfigPool", "metadata": { "name": name },
            "spec": { "machineConfigSelector": { "matchLabels": { ROLE: name } } } }));
    }
    for host in &silent {
        host.accept().unwrap();
    }
    let began = Instant::now();
    cluster.file("00-worker", "worker", "/etc/worker", "2");
    cluster.other_than("worker", &first);
    // One fetch may take a minute.
    assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
    let degraded = cluster.degraded(&format!("slow-{}", HANGING - 1), "True");
    let message = degraded["message"].as_str().unwrap();
    assert!(message.contains("127.0.0.1:"), "{message}");
}

#[test]
fn pools_are_rendered_in_the_cluster() {
    let mut cluster = RenderCluster::new();
    cluster.start();

    // Two roles: what `mosb render` makes of them.
    let worker = cluster.other_than("worker", "");
    let first = cluster.other_than("infra", "");
    assert_eq!(worker, cluster.by_hand("worker"));
    assert_eq!(first, cluster.by_hand("infra"));
    assert_eq!(cluster.degraded("infra", "False")["reason"], "");
    let pool = cluster.pool("infra");
    let reference =
        |name: &str| json!({ "apiVersion": API, "kind": "MachineConfig", "name": name });
    let mut configuration = reference(&first);
    configuration["source"] = json!([reference("00-worker"), reference("50-infra")]);
    assert_eq!(pool["spec"]["configuration"], configuration);
    let object = cluster.node.get(&format!("machineconfig/{first}"));
    let owner = json!([{ "apiVersion": API, "kind": "MachineConfigPool", "name": "infra", "uid": pool["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true }]);
    assert_eq!(object["metadata"]["ownerReferences"], owner);
    let by = json!({ "machineconfiguration.openshift.io/generated-by-controller-version": "mosb" });
    assert_eq!(object["metadata"]["annotations"], by);
    assert_eq!(object["spec"]["osImageURL"], BASE);
    let notes = wait("an event of each pool", SOON, || {
        let mut events = cluster.node.list("events.events.k8s.io");
        events.retain(|event| event["reason"] == "RenderedConfigGenerated");
        let notes = events.iter().map(|event| event["note"].as_str().unwrap().to_owned());
        let notes: Vec<_> = notes.collect();
        (notes.len() >= 2).then_some(notes)
    });
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.contains(&format!("{first} of 2 MachineConfigs")));

    // One of them changes: that pool alone moves.
    cluster.degraded("worker", "False");
    let still = cluster.pool("worker")["metadata"]["resourceVersion"].clone();
    let began = Instant::now();
    cluster.file("50-infra", "infra", "/etc/infra", "2");
    let second = cluster.other_than("infra", &first);
    println!("rendered after {} ms", began.elapsed().as_millis());
    assert_eq!(second, cluster.by_hand("infra"));
    assert_eq!(cluster.pool("worker")["metadata"]["resourceVersion"], still);

    // A broken one is reported, and the pool stays as it is, until it is mended or gone.
    cluster.machine_config("60-broken", "infra", json!({ "kernelType": "rt" }));
    let wrong = cluster.degraded("infra", "True");
    assert_eq!(wrong["reason"], "InvalidMachineConfigs");
    let message = wrong["message"].as_str().unwrap();
    assert!(message.contains("60-broken") && message.contains("\"rt\""), "{message}");
    assert_eq!(cluster.rendered("infra"), second);
    cluster.machine_config("60-broken", "infra", json!({ "kernelType": "realtime" }));
    cluster.degraded("infra", "False");
    let third = cluster.other_than("infra", &second);
    cluster.machine_config("60-broken", "infra", json!({ "kernelType": "rt" }));
    cluster.degraded("infra", "True");
    let uid =
        |name: &str| cluster.node.get(&format!("machineconfig/{name}"))["metadata"]["uid"].clone();
    let before = uid(&second);
    cluster.delete("60-broken");
    cluster.degraded("infra", "False");
    assert_eq!(cluster.other_than("infra", &third), second, "as it was before");
    assert_eq!(uid(&second), before, "it is not made anew");

    // What machines can't take without being installed anew is refused.
    let disk = json!({ "device": "/dev/sdb", "wipeTable": true });
    cluster.storage("61-disk", "infra", json!({ "disks": [disk] }));
    let wrong = cluster.degraded("infra", "True");
    assert_eq!(wrong["reason"], "NeedsReinstall", "{wrong}");
    assert!(wrong["message"].as_str().unwrap().contains("/dev/sdb"));
    cluster.delete("61-disk");
    cluster.degraded("infra", "False");

    // Nobody says which base.
    cluster.settings(&json!({}));
    assert_eq!(cluster.degraded("worker", "True")["reason"], "NoBaseImage");
    cluster.settings(&json!({ "baseOSContainerImage": BASE }));
    cluster.degraded("worker", "False");
    cluster.degraded("infra", "False");

    // A deleted rendered config is made again; an edited one is reported.
    cluster.delete(&second);
    let anew = format!("machineconfig/{second}");
    cluster.node.wait(&anew, SOON, |config| config["metadata"]["uid"] != before);
    let edit = json!({ "spec": { "fips": true } }).to_string();
    cluster.node.kubectl(&["patch", &anew, "--type=merge", "--patch", &edit]).ok();
    assert_eq!(cluster.degraded("infra", "True")["reason"], "NotOurs");
    cluster.delete(&second);
    cluster.degraded("infra", "False");

    // After a restart nothing is read or written.
    cluster.stop();
    let still = cluster.pool("infra")["metadata"]["resourceVersion"].clone();
    cluster.start();
    cluster.wait_for_log(&format!("pool infra: rendered: {second}"));
    cluster.wait_for_log("pool worker: rendered: ");
    assert_eq!(cluster.pool("infra")["metadata"]["resourceVersion"], still);
    assert!(!cluster.log().contains("rendered in"), "{}", cluster.log());

    // Where another renderer is used, nothing is done.
    let other = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "machine-config-controller", "namespace": "openshift-machine-config-operator" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "a", "image": "none.test/a", "imagePullPolicy": "Never" }] } } } });
    cluster.node.apply(&other.to_string());
    cluster.wait_for_log("not rendered by mosb: Deployment openshift-machine-config-operator/machine-config-controller");
    cluster.file("50-infra", "infra", "/etc/infra", "3");
    let scale = |replicas: &str| {
        let what = [
            "scale",
            "deployment/machine-config-controller",
            "--namespace=openshift-machine-config-operator",
        ];
        cluster.node.kubectl(&[&what[..], &[replicas]].concat()).ok();
    };
    assert_eq!(cluster.rendered("infra"), second);
    scale("--replicas=0");
    let mut now = cluster.other_than("infra", &second);

    // Old ones go, but for the newest and what a node has.
    let annotation = format!("machineconfiguration.openshift.io/currentConfig={first}");
    cluster.node.kubectl(&["annotate", "node", "node", &annotation]).ok();
    for content in ["4", "5", "6", "7"] {
        cluster.file("50-infra", "infra", "/etc/infra", content);
        now = cluster.other_than("infra", &now);
    }
    let left = wait("the others to go", SOON, || {
        let left = cluster.all_rendered("infra");
        (left.len() == 5).then_some(left)
    });
    assert!(left.contains(&first) && left.contains(&now), "{left:?}");
    assert_eq!(cluster.all_rendered("worker"), [worker], "another pool's");

    println!("{}", cluster.log());
}
