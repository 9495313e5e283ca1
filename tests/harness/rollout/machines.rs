//! Machines that are only Node objects, and a helper that answers as their kubelets and as
//! `mosb node`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::follower::{Followed, Follower};
use super::kubelet::{Kubelets, REBOOT};
use super::node_object::{
    CORDONED_BY_ADMINISTRATOR, NewMachine, excuse_reboot, register, report_status,
};
use crate::node::{Api, Node};

/// How often the helper acts.
const PAUSE: Duration = Duration::from_millis(50);

/// What a machine does when `mosb node apply` reboots it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reboot {
    /// It boots what is staged.
    #[default]
    Boots,
    /// What is staged is lost: exit code 43.
    LosesStaged,
    /// It is not back until [`SimulatedMachines::come_back`].
    StaysAway,
}

/// One machine.
#[derive(Debug, Clone, Default)]
pub struct SimulatedMachine {
    /// Digests of images.
    pub booted: String,
    pub staged: Option<String>,
    /// Images whose signature its policy does not accept. A STAND-IN for bootc and the policy: nothing is
    /// pulled and no signature is read here.
    pub refused_images: BTreeSet<String>,
    /// The image whose files it has: the booted one, or one that came without a reboot.
    pub files: String,
    /// From 1.
    pub boots: u32,
    /// How often its user space began anew in this boot. A STAND-IN for a soft reboot: no systemd, no
    /// ostree and no bootc run here.
    pub soft_boots: u32,
    /// Whether its bootc would report that it can boot an image and leave the kernel running.
    pub can_soft_reboot: bool,
    /// Images with another kernel than those before: bootc reports of them that it can't.
    pub other_kernels: BTreeSet<String>,
    pub architecture: &'static str,
    pub reboot: Reboot,
    /// Reboots that lose what is staged, before those that don't.
    pub lossy_reboots: u32,
    /// Images that it does not boot: exit code 42.
    pub broken_images: BTreeSet<String>,
    /// While it reboots or stays away.
    pub is_down: bool,
    /// The machine part that was brought last, and of which target.
    pub part: Value,
    pub applied: Option<Value>,
    /// Kernel arguments of the booted and of the staged deployment.
    pub arguments: Vec<String>,
    pub(super) staged_arguments: Vec<String>,
    /// The reboot that has begun leaves the kernel running.
    pub(super) is_soft: bool,
    /// What `apply --soft-reboot` reports of the reboot into what it runs.
    pub soft_reboot: Option<Value>,
    /// Of the last `apply`: target, attempt, and the exit code in the boot that follows.
    pub(super) record: Option<(Value, String, i32)>,
    /// When it is up again.
    pub(super) up_at: Option<Instant>,
}

/// What the helper and the tests share.
#[derive(Debug, Default)]
pub struct State {
    pub machines: BTreeMap<String, SimulatedMachine>,
    /// Pods on the machines, by UID.
    pub pods: BTreeMap<String, Value>,
    /// What no Job may show.
    pub wrong: Vec<String>,
    pub stopped: bool,
}

/// The machines, until this value is dropped.
#[derive(Debug)]
pub struct SimulatedMachines {
    api: Arc<Api>,
    state: Arc<Mutex<State>>,
    pods: Option<Follower>,
    helper: Option<JoinHandle<()>>,
}

impl SimulatedMachines {
    /// None at first.
    pub fn start(node: &Node) -> Self {
        let api = Arc::new(node.another_api());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let pods = Follower::start(Arc::clone(&api), "/api/v1/pods?", move |followed| {
            let mut state = lock(&shared);
            let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            match followed {
                Followed::All(all) => {
                    state.pods = all.into_iter().map(|pod| (uid(&pod), pod)).collect();
                }
                Followed::Is(pod) => drop(state.pods.insert(uid(&pod), pod)),
                Followed::Deleted(pod) => drop(state.pods.remove(&uid(&pod))),
            }
        });
        let mut kubelets = Kubelets::new(Arc::clone(&api), Arc::clone(&state));
        let shared = Arc::clone(&state);
        let helper = thread::spawn(move || {
            while !lock(&shared).stopped {
                kubelets.act();
                thread::sleep(PAUSE);
            }
        });
        Self { api, state, pods: Some(pods), helper: Some(helper) }
    }

    /// Adds a machine that is Ready.
    pub fn join(&self, machine: &NewMachine) {
        register(&self.api, machine);
        let added = SimulatedMachine {
            booted: machine.booted.clone(),
            files: machine.booted.clone(),
            boots: 1,
            architecture: machine.architecture,
            ..SimulatedMachine::default()
        };
        lock(&self.state).machines.insert(machine.name.clone(), added);
        report_status(&self.api, &machine.name, 1, machine.architecture, true);
    }

    /// A machine leaves: its Node object is deleted, and nothing answers for it any more.
    pub fn leave(&self, name: &str) {
        lock(&self.state).machines.remove(name);
        let (code, answer) = self.api.ask("DELETE", &format!("/api/v1/nodes/{name}"), None);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// What a machine is now.
    #[track_caller]
    pub fn get(&self, name: &str) -> SimulatedMachine {
        lock(&self.state).machines[name].clone()
    }

    /// Changes how a machine answers.
    #[track_caller]
    pub fn change(&self, name: &str, change: impl FnOnce(&mut SimulatedMachine)) {
        change(lock(&self.state).machines.get_mut(name).expect("a machine"));
    }

    /// A machine that stayed away is back, with the image that it rebooted into.
    pub fn come_back(&self, name: &str) {
        self.change(name, |machine| {
            machine.reboot = Reboot::Boots;
            machine.up_at = Some(Instant::now());
        });
    }

    /// Somebody else boots a machine into another image.
    pub fn boot_into(&self, name: &str, digest: &str) {
        let before = self.get(name);
        excuse_reboot(&self.api, name, before.boots);
        self.change(name, |machine| {
            digest.clone_into(&mut machine.booted);
            digest.clone_into(&mut machine.files);
            machine.staged = None;
            machine.boots += 1;
        });
        let after = self.get(name);
        report_status(&self.api, name, after.boots, after.architecture, true);
    }

    /// The power fails: what is staged is lost, and the machine boots what it ran.
    pub fn cut_power(&self, name: &str) {
        let before = self.get(name);
        excuse_reboot(&self.api, name, before.boots);
        self.change(name, |machine| {
            machine.staged = None;
            machine.is_soft = false;
            machine.is_down = true;
            machine.up_at = Some(Instant::now() + REBOOT);
        });
        report_status(&self.api, name, before.boots, before.architecture, false);
    }

    /// An administrator cordons a machine, or ends that.
    pub fn cordon(&self, name: &str, is_cordoned: bool) {
        let mark = is_cordoned.then_some("true");
        let patch = json!({ "spec": { "unschedulable": is_cordoned },
            "metadata": { "annotations": { CORDONED_BY_ADMINISTRATOR: mark } } });
        let (code, answer) = self.api.ask("PATCH", &format!("/api/v1/nodes/{name}"), Some(&patch));
        assert_eq!(code, 200, "{answer:#}");
    }

    /// What no Job may show.
    pub fn wrong(&self) -> Vec<String> {
        lock(&self.state).wrong.clone()
    }
}

impl Drop for SimulatedMachines {
    fn drop(&mut self) {
        lock(&self.state).stopped = true;
        drop(self.pods.take());
        let ended = self.helper.take().map(JoinHandle::join);
        if !thread::panicking() && matches!(ended, Some(Err(_))) {
            panic!("the helper that answers as machines panicked");
        }
    }
}

pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
