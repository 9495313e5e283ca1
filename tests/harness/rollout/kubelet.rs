//! What the kubelets of all machines do: they run pods, end those that are deleted, renew their
//! Leases and come back from reboots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::machines::{Reboot, SimulatedMachine, State, lock};
use super::node_job::{Answer, answer, check_part, pulls};
use super::node_object::{renew_lease, report_status, seconds};
use crate::node::Api;

/// How often a kubelet renews its Lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a reboot takes.
pub const REBOOT: Duration = Duration::from_millis(500);
/// When a pod is handled again that waits for its Secret, or whose change is not seen yet.
const AGAIN: Duration = Duration::from_millis(300);
const ROLLOUT_NAMESPACE: &str = "mosb-rollout";

/// The kubelets.
#[derive(Debug)]
pub struct Kubelets {
    api: Arc<Api>,
    state: Arc<Mutex<State>>,
    renewed: Instant,
    /// When pods were handled last, by UID and version.
    handled: BTreeMap<String, Instant>,
}

impl Kubelets {
    pub fn new(api: Arc<Api>, state: Arc<Mutex<State>>) -> Self {
        Self { api, state, renewed: Instant::now(), handled: BTreeMap::new() }
    }

    /// Does what is due.
    pub fn act(&mut self) {
        if self.renewed.elapsed() > RENEWAL {
            self.renewed = Instant::now();
            let names: Vec<String> = lock(&self.state).machines.keys().cloned().collect();
            names.iter().for_each(|name| renew_lease(&self.api, name));
        }
        self.start_machines();
        self.handled.retain(|_, at| at.elapsed() < AGAIN);
        for (name, pod) in self.due() {
            let metadata = &pod["metadata"];
            let key = format!("{}{}", metadata["uid"], metadata["resourceVersion"]);
            if self.handled.contains_key(&key) {
                continue;
            }
            self.run(&name, &pod);
            self.handled.insert(key, Instant::now());
        }
    }

    /// Pods on machines that are up, for which there is something to do.
    fn due(&self) -> Vec<(String, Value)> {
        let state = lock(&self.state);
        let due = state.pods.values().filter_map(|pod| {
            let name = pod["spec"]["nodeName"].as_str()?;
            let is_up = state.machines.get(name).is_some_and(|machine| !machine.is_down);
            let is_due = is_deleted(pod) || pod["status"]["phase"] == "Pending";
            (is_up && is_due).then(|| (name.to_owned(), pod.clone()))
        });
        due.collect()
    }

    /// Machines whose reboot is over are Ready.
    fn start_machines(&self) {
        let mut state = lock(&self.state);
        let is_up =
            |machine: &SimulatedMachine| machine.up_at.is_some_and(|at| at <= Instant::now());
        let up: Vec<(String, SimulatedMachine)> = state
            .machines
            .iter_mut()
            .filter(|(_, machine)| is_up(machine))
            .map(|(name, machine)| {
                machine.up_at = None;
                machine.is_down = false;
                if std::mem::take(&mut machine.is_soft) {
                    machine.soft_boots += 1;
                } else {
                    (machine.boots, machine.soft_boots) = (machine.boots + 1, 0);
                }
                (name.clone(), machine.clone())
            })
            .collect();
        drop(state);
        for (name, machine) in up {
            report_status(&self.api, &name, machine.boots, machine.architecture, true);
        }
    }

    fn run(&self, name: &str, pod: &Value) {
        let metadata = &pod["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let target = format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"));
        if is_deleted(pod) {
            let now =
                json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": metadata["uid"] } });
            self.api.ask("DELETE", &target, Some(&now));
        } else if text("namespace") == ROLLOUT_NAMESPACE {
            self.run_job(name, pod, &target);
        } else {
            let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
            self.api.ask("PATCH", &format!("{target}/status"), Some(&json!({ "status": status })));
        }
    }

    fn run_job(&self, name: &str, pod: &Value, target: &str) {
        let mut part = None;
        if let Some(secret) = pod["spec"]["volumes"][0]["secret"]["secretName"].as_str() {
            let secret = format!("/api/v1/namespaces/{ROLLOUT_NAMESPACE}/secrets/{secret}");
            let (code, secret) = self.api.ask("GET", &secret, None);
            if code == 404 {
                // A kubelet waits for it.
                return;
            }
            let has_login = secret["data"]["auth.json"].as_str().is_some_and(|it| !it.is_empty());
            if has_login != pulls(pod) {
                lock(&self.state)
                    .wrong
                    .push(format!("a Secret with a login, or without: {secret}"));
            }
            part = secret["data"]["machine-part.json"].as_str().map(decoded);
            if let Err(why) = check_part(pod, part.as_deref()) {
                lock(&self.state).wrong.push(why);
            }
        }
        let (machine, answer) = {
            let mut state = lock(&self.state);
            let Some(machine) = state.machines.get_mut(name) else {
                return;
            };
            let answer = answer(name, machine, pod, part.as_deref());
            if answer == Answer::Reboots {
                machine.is_down = true;
                machine.up_at =
                    (machine.reboot != Reboot::StaysAway).then(|| Instant::now() + REBOOT);
            }
            (machine.clone(), answer)
        };
        let container = &pod["spec"]["containers"][0]["name"];
        match answer {
            Answer::Reboots => {
                // A soft reboot may take less time than a Node needs to be not Ready.
                let (boots, ready) = (machine.boots, machine.is_soft);
                report_status(&self.api, name, boots, machine.architecture, ready);
                self.end(target, container, 255, "");
            }
            Answer::Ends { code, report } => self.end(target, container, code, &report),
        }
    }

    fn end(&self, pod: &str, container: &Value, code: i32, message: &str) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let at = seconds();
        let end =
            json!({ "exitCode": code, "message": message, "finishedAt": at, "startedAt": at });
        let status = json!({ "phase": phase, "containerStatuses": [{ "name": container,
            "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": end } }] });
        self.api.ask("PATCH", &format!("{pod}/status"), Some(&json!({ "status": status })));
    }
}

fn decoded(data: &str) -> Vec<u8> {
    STANDARD.decode(data).expect("data of a Secret is base64")
}

fn is_deleted(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}
