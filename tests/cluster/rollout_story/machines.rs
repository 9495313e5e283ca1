//! Machines that are only Node objects, and a helper that answers as their kubelets and as
//! `mosb node`: it runs no program, but reports what a machine would.
//!
//! API server, scheduler, Job controller, evictions and PodDisruptionBudgets are real. What a
//! machine does by itself is tested on the machines of the program `rollout`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use mosb_tests::{Api, Node};

/// Of a pool's node selector in `objects.rs`.
const ROLE: &str = "node-role.kubernetes.io/worker";
const JOBS: &str = "/api/v1/namespaces/mosb-rollout/pods";
/// How often the helper looks.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a kubelet renews its Lease.
const RENEWAL: Duration = Duration::from_secs(5);

/// What one machine runs.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub booted: String,
    pub staged: Option<String>,
    /// From 1.
    pub boots: u32,
    /// Pods that were evicted from it.
    pub evicted: u32,
}

/// All machines, by name, and what was observed of them.
#[derive(Debug, Default)]
pub struct State {
    pub machines: BTreeMap<String, Machine>,
    /// The most machines that were cordoned or not Ready at once.
    pub most_unavailable: usize,
    /// What no Job and no Node may show.
    pub wrong: Vec<String>,
    stopped: bool,
}

/// The machines, until this value is dropped.
pub struct Machines {
    state: Arc<Mutex<State>>,
    helper: Option<JoinHandle<()>>,
}

impl Machines {
    /// Machines of the pool `worker` that run the image of this digest.
    pub fn start(node: &Node, names: &[&str], digest: &str) -> Self {
        let api = node.another_api();
        let mut state = State::default();
        for name in names {
            register(&api, name);
            let machine = Machine { booted: digest.to_owned(), boots: 1, ..Machine::default() };
            report_boot(&api, name, 1, true);
            state.machines.insert((*name).to_owned(), machine);
        }
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let helper = thread::spawn(move || answer(&api, &shared));
        Self { state, helper: Some(helper) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.state().stopped = true;
        // A panic of the helper is reported by what the test waits for.
        let _ = self.helper.take().map(JoinHandle::join);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn register(api: &Api, name: &str) {
    let labels = json!({ ROLE: "", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name });
    // Builds run on the real node.
    let taint = json!({ "key": "example.com/played", "effect": "NoSchedule" });
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels }, "spec": { "taints": [taint] } });
    let (code, answer) = api.ask("POST", "/api/v1/nodes", Some(&node));
    assert_eq!(code, 201, "{answer:#}");
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": "kube-node-lease" },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now() } });
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let (code, answer) = api.ask("POST", leases, Some(&lease));
    assert_eq!(code, 201, "{answer:#}");
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn boot_id(name: &str, boots: u32) -> String {
    format!("{name}-boot-{boots}")
}

/// The status that a kubelet reports.
fn report_boot(api: &Api, name: &str, boots: u32, ready: bool) {
    let capacity =
        json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "1Ti", "pods": "100" });
    let ready = if ready { "True" } else { "False" };
    let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let info = json!({ "bootID": boot_id(name, boots), "architecture": "amd64", "operatingSystem": "linux",
        "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
        "kubeletVersion": "", "machineID": name, "osImage": "", "systemUUID": name });
    let status = json!({ "status": { "allocatable": capacity, "capacity": capacity, "nodeInfo": info,
        "conditions": [{ "type": "Ready", "status": ready, "reason": "Test", "message": "",
            "lastHeartbeatTime": at, "lastTransitionTime": at }] } });
    let (code, answer) = api.ask("PATCH", &format!("/api/v1/nodes/{name}/status"), Some(&status));
    assert_eq!(code, 200, "{answer:#}");
}

fn answer(api: &Api, state: &Mutex<State>) {
    let mut renewed = Instant::now();
    while !lock(state).stopped {
        if renewed.elapsed() > RENEWAL {
            renewed = Instant::now();
            let names: Vec<String> = lock(state).machines.keys().cloned().collect();
            for name in names {
                let lease = format!(
                    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
                );
                api.ask("PATCH", &lease, Some(&json!({ "spec": { "renewTime": now() } })));
            }
        }
        observe(api, state);
        for pod in list(api, "/api/v1/pods") {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            if lock(state).machines.contains_key(&node) {
                run_pod(api, state, &node, &pod);
            }
        }
        thread::sleep(PAUSE);
    }
}

fn list(api: &Api, target: &str) -> Vec<Value> {
    let (_, list) = api.ask("GET", target, None);
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Counts what is unavailable at this moment.
fn observe(api: &Api, state: &Mutex<State>) {
    let nodes = list(api, &format!("/api/v1/nodes?labelSelector={ROLE}"));
    let is_unavailable = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        let ready = conditions.is_some_and(|all| all.iter().any(is_ready));
        node["spec"]["unschedulable"] == true || !ready
    };
    let unavailable = nodes.iter().filter(is_unavailable).count();
    let mut state = lock(state);
    state.most_unavailable = state.most_unavailable.max(unavailable);
}

fn run_pod(api: &Api, state: &Mutex<State>, node: &str, pod: &Value) {
    let metadata = &pod["metadata"];
    let (namespace, name) =
        (metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap());
    let target = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    if !metadata["deletionTimestamp"].is_null() {
        let now = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": metadata["uid"] } });
        if api.ask("DELETE", &target, Some(&now)).0 == 200 && namespace != "mosb-rollout" {
            lock(state).machines.get_mut(node).unwrap().evicted += 1;
        }
        return;
    }
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    if namespace == "mosb-rollout" {
        if phase == "Pending" {
            run_job(api, state, node, pod, &format!("{JOBS}/{name}"));
        }
    } else if phase == "Pending" {
        let running =
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        api.ask("PATCH", &format!("{target}/status"), Some(&json!({ "status": running })));
    }
}

/// Answers as `mosb node`.
fn run_job(api: &Api, state: &Mutex<State>, node: &str, pod: &Value, target: &str) {
    let container = &pod["spec"]["containers"][0];
    let command: Vec<&str> =
        container["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let verb = command[2];
    if let Some(secret) = pod["spec"]["volumes"][0]["secret"]["secretName"].as_str() {
        // A kubelet waits for it.
        let secret = format!("/api/v1/namespaces/mosb-rollout/secrets/{secret}");
        let (code, secret) = api.ask("GET", &secret, None);
        if code == 404 {
            return;
        }
        if secret["data"]["auth.json"].as_str().is_none_or(str::is_empty) {
            lock(state).wrong.push(format!("a Secret without a login: {secret}"));
        }
    }
    let wanted = command.get(4).map(|text| {
        let target: Value = serde_json::from_str(text).unwrap();
        let image = target["image"].as_str().unwrap();
        image.rsplit_once('@').unwrap().1.to_owned()
    });
    let (machine, is_reboot) = {
        let mut state = lock(state);
        let machine = state.machines.get_mut(node).unwrap();
        let mut is_reboot = false;
        match (verb, wanted) {
            ("stage", Some(wanted)) if machine.booted != wanted => machine.staged = Some(wanted),
            ("apply", Some(wanted)) if machine.booted != wanted => {
                is_reboot = true;
                machine.booted = machine.staged.take().unwrap_or(wanted);
                machine.boots += 1;
            }
            _ => {}
        }
        (machine.clone(), is_reboot)
    };
    if is_reboot {
        report_boot(api, node, machine.boots - 1, false);
        finish(api, target, verb, 255, "");
        thread::sleep(PAUSE * 5);
        report_boot(api, node, machine.boots, true);
    } else {
        let deployment = |digest: &str| json!({ "image": "registry/os", "digest": digest });
        let mut report = json!({ "bootID": boot_id(node, machine.boots), "tool": "bootc",
            "booted": deployment(&machine.booted) });
        if let Some(staged) = &machine.staged {
            report["staged"] = deployment(staged);
        }
        finish(api, target, verb, 0, &report.to_string());
    }
}

fn finish(api: &Api, pod: &str, container: &str, code: i32, message: &str) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let end = json!({ "exitCode": code, "message": message, "finishedAt": at, "startedAt": at });
    let status = json!({ "phase": phase, "containerStatuses": [{ "name": container, "image": "",
        "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": end } }] });
    api.ask("PATCH", &format!("{pod}/status"), Some(&json!({ "status": status })));
}
