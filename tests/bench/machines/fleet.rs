//! Machines that are only Node objects, and a stand-in for their kubelets, for `mosb node`, for the
//! Job controller and for the garbage collector, none of which run.
//!
//! Input: the Jobs and Secrets in the namespace of the roll-out, as watches show them. Output: the
//! pods and the ends of the Jobs, boots of the Nodes, and the removal of what a deleted Job owned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::pools::site::{AT_ONCE, Site, send};

/// Where the Jobs on machines are.
pub const ROLLOUT_NAMESPACE: &str = "mosb-rollout";
/// How long a machine is not Ready when it reboots.
const REBOOT: Duration = Duration::from_millis(500);
/// How long a Job takes on a machine.
const WORK: Duration = Duration::from_millis(200);

/// What one machine runs.
#[derive(Debug, Clone)]
struct Machine {
    booted: String,
    staged: Option<String>,
    /// The target that was completed here, from the machine's record.
    applied: Option<Value>,
    /// From 1.
    boots: u32,
}

/// Jobs, Secrets and machines, by name.
#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    jobs: BTreeMap<String, Job>,
    secrets: BTreeSet<String>,
    /// UIDs of the Jobs that have a pod.
    started: BTreeSet<String>,
}

/// The machines, until this value is dropped.
pub struct Fleet<'s> {
    site: &'s Site,
    names: Vec<String>,
    state: Arc<Mutex<State>>,
    watch: JoinHandle<()>,
}

impl<'s> Fleet<'s> {
    /// Creates machines that run the image of this digest. On each there is a pod of a DaemonSet and
    /// one that a drain evicts.
    pub fn start(site: &'s Site, count: usize, digest: &str) -> Self {
        let names: Vec<String> = (0..count).map(|number| format!("machine-{number:04}")).collect();
        let machine = Machine { booted: digest.to_owned(), staged: None, applied: None, boots: 1 };
        let state = State {
            machines: names.iter().map(|name| (name.clone(), machine.clone())).collect(),
            ..State::default()
        };
        let nodes = names.iter().map(|name| ("/api/v1/nodes".to_owned(), node(name)));
        site.create(nodes.collect());
        let pods = names.iter().flat_map(|name| [pod(name, true), pod(name, false)]);
        site.create(pods.map(|pod| ("/api/v1/namespaces/default/pods".to_owned(), pod)).collect());
        let state = Arc::new(Mutex::new(state));
        let watch = site.runtime.spawn(run(site.client.clone(), Arc::clone(&state)));
        Self { site, names, state, watch }
    }

    pub fn machines(&self) -> usize {
        self.names.len()
    }

    /// The number of machines that have staged this image or run it.
    pub fn staged(&self, digest: &str) -> usize {
        let has = |one: &&Machine| one.staged.as_deref() == Some(digest) || one.booted == digest;
        self.state.lock().unwrap().machines.values().filter(has).count()
    }

    /// The number of machines that run this image after one reboot.
    pub fn rebooted(&self, digest: &str) -> usize {
        let machines = &self.state.lock().unwrap().machines;
        machines.values().filter(|one| one.booted == digest && one.boots == 2).count()
    }

    /// The Jobs that are left.
    pub fn jobs(&self) -> usize {
        self.state.lock().unwrap().jobs.len()
    }

    /// Reports the status of some machines again, as kubelets do every five minutes.
    pub fn heartbeat(&self, part: usize) {
        let names = self.names.iter().skip(part).step_by(HEARTBEAT_PARTS);
        let beats = names.map(|name| {
            let boots = self.state.lock().unwrap().machines[name].boots;
            let status = json!({ "status": status(name, boots, true) });
            async move { patch(&self.site.client, &node_status(name), &status).await }
        });
        let beats: Vec<_> = beats.collect();
        let all = stream::iter(beats).buffer_unordered(AT_ONCE).collect::<Vec<()>>();
        self.site.runtime.block_on(all);
    }

    /// Removes all machines and everything on them.
    pub fn clear(self) {
        self.watch.abort();
        for target in [
            format!("/apis/batch/v1/namespaces/{ROLLOUT_NAMESPACE}/jobs"),
            format!("/api/v1/namespaces/{ROLLOUT_NAMESPACE}/pods?gracePeriodSeconds=0"),
            format!("/api/v1/namespaces/{ROLLOUT_NAMESPACE}/secrets"),
            "/api/v1/namespaces/default/pods?gracePeriodSeconds=0".to_owned(),
            "/api/v1/nodes".to_owned(),
        ] {
            self.site.delete_all(&target);
        }
    }
}

/// A kubelet reports its status every five minutes: one of so many parts of all machines is due
/// every ten seconds.
pub const HEARTBEAT_PARTS: usize = 30;

fn node(name: &str) -> Value {
    let labels = json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name });
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        "status": status(name, 1, true) })
}

fn boot_id(name: &str, boots: u32) -> String {
    format!("{name}-boot-{boots}")
}

fn seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The status that a kubelet reports. It also has the names of 50 images.
fn status(name: &str, boots: u32, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "Bench", "message": "of the benchmark",
            "lastHeartbeatTime": seconds(), "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let images: Vec<Value> = (0..50)
        .map(|image| {
            let name = format!("registry.example.com/images/{image}@sha256:{image:064}");
            json!({ "names": [name], "sizeBytes": 100_000_000 })
        })
        .collect();
    let capacity =
        json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "1Ti", "pods": "100" });
    json!({
        "allocatable": capacity, "capacity": capacity, "images": images,
        "nodeInfo": { "bootID": boot_id(name, boots), "architecture": "amd64", "operatingSystem": "linux",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "kubeletVersion": "", "machineID": name, "osImage": "", "systemUUID": name },
        "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
            condition("PIDPressure", "False"), condition("Ready", ready)],
    })
}

fn node_status(name: &str) -> String {
    format!("/api/v1/nodes/{name}/status")
}

/// A pod on a machine. Without a grace period the API server deletes it as soon as it is evicted.
fn pod(node: &str, is_of_daemon_set: bool) -> Value {
    let name = format!("{node}-{}", if is_of_daemon_set { "daemon" } else { "app" });
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "a", "image": "a" }] } });
    if is_of_daemon_set {
        pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "name": "daemon", "uid": "1", "controller": true }]);
    }
    pod
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Seen {
    Job(Event<Job>),
    Secret(Event<PartialObjectMeta<Secret>>),
}

async fn run(client: Client, state: Arc<Mutex<State>>) {
    let jobs: Api<Job> = Api::namespaced(client.clone(), ROLLOUT_NAMESPACE);
    let secrets: Api<PartialObjectMeta<Secret>> =
        Api::namespaced(client.clone(), ROLLOUT_NAMESPACE);
    // The watches restart by themselves after an error.
    let jobs = watcher(jobs, Config::default()).filter_map(async |seen| seen.ok().map(Seen::Job));
    let secrets =
        watcher(secrets, Config::default()).filter_map(async |seen| seen.ok().map(Seen::Secret));
    let mut all = std::pin::pin!(stream::select(jobs, secrets));
    while let Some(seen) = all.next().await {
        let due = {
            let mut state = state.lock().unwrap();
            match seen {
                Seen::Job(Event::Apply(job) | Event::InitApply(job)) => {
                    state.jobs.insert(job.name_any(), job);
                }
                Seen::Job(Event::Delete(job)) => {
                    state.jobs.remove(&job.name_any());
                    tokio::spawn(collect_garbage(client.clone(), job.name_any()));
                }
                Seen::Secret(Event::Apply(secret) | Event::InitApply(secret)) => {
                    state.secrets.insert(secret.name_any());
                }
                Seen::Secret(Event::Delete(secret)) => {
                    state.secrets.remove(&secret.name_any());
                }
                Seen::Job(Event::Init | Event::InitDone)
                | Seen::Secret(Event::Init | Event::InitDone) => {}
            }
            due(&mut state)
        };
        for job in due {
            tokio::spawn(run_job(client.clone(), Arc::clone(&state), job));
        }
    }
}

/// Jobs whose pods can start now: those that need a login have it.
fn due(state: &mut State) -> Vec<Job> {
    let State { jobs, secrets, started, .. } = state;
    let can_start = |job: &&Job| verb(job) == "report" || secrets.contains(&job.name_any());
    let due = jobs.values().filter(can_start).filter(|job| started.insert(job.uid().unwrap()));
    due.cloned().collect()
}

fn verb(job: &Job) -> &str {
    &job.labels()["mosb.dev/node-job"]
}

/// Deletes what a deleted Job owned.
async fn collect_garbage(client: Client, job: String) {
    let inside = format!("/api/v1/namespaces/{ROLLOUT_NAMESPACE}");
    for target in [
        format!("{inside}/pods/{job}-1?gracePeriodSeconds=0"),
        format!("{inside}/pods/{job}-2?gracePeriodSeconds=0"),
        format!("{inside}/secrets/{job}"),
    ] {
        // Only a Job that rebooted its machine has two pods, and a report has no Secret.
        let _ = send(&client, "DELETE", &target, Vec::new()).await;
    }
}

/// Does on the machine what the Job is for, and ends it.
async fn run_job(client: Client, state: Arc<Mutex<State>>, job: Job) {
    let node = job.owner_references()[0].name.clone();
    let spec = job.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let command = spec.containers[0].command.as_ref().unwrap();
    let target: Option<Value> = command
        .iter()
        .position(|word| word == "--target")
        .map(|at| serde_json::from_str(&command[at + 1]).unwrap());
    let wanted = target.as_ref().map(|target| {
        let image = target["image"].as_str().unwrap();
        image.rsplit_once('@').unwrap().1.to_owned()
    });
    let first = start_pod(&client, &job, &node, 1).await;
    tokio::time::sleep(WORK).await;
    let (machine, is_reboot) = {
        let mut state = state.lock().unwrap();
        let machine = state.machines.get_mut(&node).unwrap();
        let mut is_reboot = false;
        match (verb(&job), wanted) {
            ("stage", Some(wanted)) if machine.booted != wanted => machine.staged = Some(wanted),
            ("apply", Some(wanted)) if machine.booted != wanted => {
                assert_eq!(machine.staged.take().as_ref(), Some(&wanted), "{node} has staged it");
                machine.booted = wanted;
                machine.applied = target;
                machine.boots += 1;
                is_reboot = true;
            }
            _ => {}
        }
        (machine.clone(), is_reboot)
    };
    let mut last = first;
    if is_reboot {
        let down = json!({ "status": status(&node, machine.boots - 1, false) });
        patch(&client, &node_status(&node), &down).await;
        end_pod(&client, &last, verb(&job), 255, "").await;
        tokio::time::sleep(REBOOT).await;
        let up = json!({ "status": status(&node, machine.boots, true) });
        patch(&client, &node_status(&node), &up).await;
        last = start_pod(&client, &job, &node, 2).await;
    }
    let deployment = |digest: &str| json!({ "image": "registry/os", "digest": digest });
    let mut report = json!({ "bootID": boot_id(&node, machine.boots), "tool": "bootc",
        "booted": deployment(&machine.booted) });
    if let Some(staged) = &machine.staged {
        report["staged"] = deployment(staged);
    }
    if let Some(applied) = &machine.applied {
        report["applied"] = applied.clone();
    }
    end_pod(&client, &last, verb(&job), 0, &report.to_string()).await;
    let at = seconds();
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
            "lastProbeTime": at, "lastTransitionTime": at })
    };
    let end = json!({ "status": { "startTime": at, "completionTime": at, "succeeded": 1,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")] } });
    let name = job.name_any();
    let target = format!("/apis/batch/v1/namespaces/{ROLLOUT_NAMESPACE}/jobs/{name}/status");
    patch(&client, &target, &end).await;
}

/// Creates a pod of the Job on its machine, and returns its path.
async fn start_pod(client: &Client, job: &Job, node: &str, number: u32) -> String {
    let template = serde_json::to_value(&job.spec.as_ref().unwrap().template).unwrap();
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"],
        "spec": template["spec"] });
    pod["metadata"]["name"] = json!(format!("{}-{number}", job.name_any()));
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "batch/v1", "kind": "Job",
        "name": job.name_any(), "uid": job.uid().unwrap(), "controller": true }]);
    pod["spec"]["nodeName"] = json!(node);
    let pods = format!("/api/v1/namespaces/{ROLLOUT_NAMESPACE}/pods");
    let body = pod.to_string().into_bytes();
    send(client, "POST", &pods, body).await.unwrap_or_else(|why| panic!("{pods}: {why}"));
    format!("{pods}/{}-{number}", job.name_any())
}

async fn end_pod(client: &Client, pod: &str, container: &str, code: i32, message: &str) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let at = seconds();
    let end = json!({ "exitCode": code, "message": message, "finishedAt": at, "startedAt": at });
    let status = json!({ "phase": phase, "containerStatuses": [{ "name": container, "image": "",
        "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": end } }] });
    patch(client, &format!("{pod}/status"), &json!({ "status": status })).await;
}

async fn patch(client: &Client, target: &str, change: &Value) {
    let body = change.to_string().into_bytes();
    send(client, "PATCH", target, body).await.unwrap_or_else(|why| panic!("{target}: {why}"));
}
