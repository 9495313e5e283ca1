//! A fake cluster of machines: what users do. What snapshots and lookups show of it is in
//! `observed`, Jobs and boots in `machine`, writes and what is checked of each in `server`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::machine::{FakeJob, FakeNode};
use crate::seen_times::SeenTimes;
use crate::*;
use mosb_api::rollout::PinnedBuild;
use mosb_api::*;
use mosb_image::{Digest, PinnedRef};
use mosb_types::ErrorClass;

pub const STOCK_IMAGE: u32 = 0;

/// The image of a build by number.
pub fn image(number: u32) -> PinnedRef {
    let repository = if number == STOCK_IMAGE { "base" } else { "os" };
    format!("reg.example/{repository}@{}", Digest::of(&number.to_be_bytes())).parse().unwrap()
}

pub fn pin(number: u32) -> PinnedBuild {
    let name = if number == STOCK_IMAGE { "stock".to_owned() } else { format!("build-{number}") };
    PinnedBuild { name, digest: image(number).digest() }
}

pub fn rendered(number: u32) -> String {
    format!("rendered-worker-{number:032x}")
}

/// A machine part with these kernel arguments and keys, each a number.
pub fn part(arguments: u32, keys: u32) -> Digest {
    format!("sha256:{arguments:032x}{keys:032x}").parse().unwrap()
}

/// The keys of a part; 0 are none.
pub fn keys_of(part: Option<Digest>) -> u32 {
    part.map_or(0, |part| u32::from_str_radix(&part.hex()[32..], 16).unwrap())
}

/// The kernel arguments of a part; 0 are none.
pub fn arguments_of(part: Digest) -> u32 {
    u32::from_str_radix(&part.hex()[..32], 16).unwrap()
}

pub fn problem(message: &str) -> mosb_reconcile::Problem {
    mosb_reconcile::Problem {
        class: ErrorClass::Transient,
        reason: "x".to_owned(),
        message: message.to_owned(),
    }
}

/// A fake cluster. Tests may change its public fields as users would.
#[derive(Clone)]
pub struct Fleet {
    pub now: Timestamp,
    /// How far the clock of the control plane is ahead.
    pub skew: SignedDuration,
    /// By pool; forgotten with the process.
    pub times: BTreeMap<String, SeenTimes>,
    pub pools: BTreeMap<String, MachineConfigPool>,
    /// By pool.
    pub configs: BTreeMap<String, MachineOsConfig>,
    pub builds: Vec<MachineOsBuild>,
    /// The machine parts of rendered configs.
    pub parts: BTreeMap<String, Digest>,
    pub nodes: BTreeMap<String, FakeNode>,
    pub jobs: BTreeMap<String, FakeJob>,
    /// By pool.
    pub drains: BTreeMap<String, DrainRecords>,
    /// Accepted evictions by the name of the pod.
    pub evictions: BTreeMap<String, usize>,
    /// Pods can't be listed.
    pub is_pod_list_failing: bool,
    /// Somebody uncordons machines again and again.
    pub is_uncordoned_again: bool,
    /// Evictions of this pass by node.
    pub evicted: BTreeMap<String, NodeEvictions>,
    pub is_registry_down: bool,
    /// The login that pulls is one that pushes.
    pub is_login_refused: bool,
    /// The registry accepts connections and answers nothing.
    pub is_registry_silent: bool,
    /// The stock image can't be looked up.
    pub is_stock_unknown: bool,
    /// The cache does not show `apply` Jobs.
    pub hides_apply_jobs: bool,
    /// Nodes that the cache shows without slot and cordon.
    pub hidden_slots: BTreeSet<String>,
    pub broken_watch: Option<String>,
    /// Nodes that other custom pools select too.
    pub shared_nodes: BTreeMap<String, Vec<String>>,
    pub unhealthy: Option<String>,
    pub is_etcd_external: bool,
    pub settings: RolloutSettings,
    /// By pool.
    pub policies: BTreeMap<String, PoolPolicy>,
    /// Alerts that fire, or why that is not known.
    pub alerts: Result<BTreeSet<String>, mosb_reconcile::Problem>,
    /// Prometheus accepts connections and answers nothing.
    pub is_prometheus_silent: bool,
    /// What checks found lately, of all pools.
    pub checked_pods: BTreeMap<(String, cluster_settings::PodsCheck), CheckedPods>,
    pub own_node: Option<String>,
    pub own_image: String,
    pub asked: Vec<RolloutLookup>,
    pub events: Vec<(String, String)>,
    /// Kind and name of the object of each event, and its reason.
    pub regarding: Vec<((String, String), String)>,
    /// Phases of machines that writes ended.
    pub ended: Vec<EndedPhase>,
    pub event_names: BTreeSet<String>,
    pub version: u64,
    /// Reboots by `apply`: node UID, target, attempt and time of the slot.
    pub reboots: BTreeMap<String, usize>,
    /// Writes of nodes, for the count of a whole roll-out.
    pub node_writes: usize,
}

impl Fleet {
    /// A pool `worker` that runs build 1, with this many machines.
    pub fn new(machines: usize) -> Self {
        let mut fleet = Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            skew: SignedDuration::ZERO,
            times: BTreeMap::new(),
            pools: BTreeMap::new(),
            configs: BTreeMap::new(),
            builds: Vec::new(),
            parts: BTreeMap::new(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            drains: BTreeMap::new(),
            evictions: BTreeMap::new(),
            is_pod_list_failing: false,
            is_uncordoned_again: false,
            evicted: BTreeMap::new(),
            is_registry_down: false,
            is_login_refused: false,
            is_registry_silent: false,
            is_stock_unknown: false,
            hides_apply_jobs: false,
            hidden_slots: BTreeSet::new(),
            broken_watch: None,
            shared_nodes: BTreeMap::new(),
            unhealthy: None,
            is_etcd_external: false,
            settings: RolloutSettings::default(),
            policies: BTreeMap::new(),
            checked_pods: BTreeMap::new(),
            alerts: Ok(BTreeSet::new()),
            is_prometheus_silent: false,
            own_node: None,
            own_image: format!("reg.example/mosb@{}", Digest::of(b"mosb")),
            asked: Vec::new(),
            events: Vec::new(),
            regarding: Vec::new(),
            ended: Vec::new(),
            event_names: BTreeSet::new(),
            version: 0,
            reboots: BTreeMap::new(),
            node_writes: 0,
        };
        fleet.add_pool("worker");
        for number in 0..machines {
            fleet.add_node(&format!("w{number}"), "worker", 1);
        }
        // Somewhere else for pods to run.
        fleet.add_node("elsewhere", "other", 1);
        fleet
    }

    pub fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub fn metadata(&mut self, name: &str) -> Metadata {
        let version = self.next_version();
        Metadata {
            name: name.to_owned(),
            uid: Some(format!("uid-{version}")),
            resource_version: Some(version),
            generation: Some(1),
            creation_timestamp: Some(Time(self.now)),
            ..Metadata::default()
        }
    }

    pub fn add_pool(&mut self, name: &str) {
        let mut pool =
            MachineConfigPool { metadata: self.metadata(name), ..MachineConfigPool::default() };
        pool.spec.configuration.name = rendered(1);
        self.pools.insert(name.to_owned(), pool);
        let mut config =
            MachineOsConfig { metadata: self.metadata(name), ..MachineOsConfig::default() };
        config.spec.machine_config_pool.name = name.to_owned();
        config.spec.rendered_image_push_spec = "reg.example/os:latest".to_owned();
        self.configs.insert(name.to_owned(), config);
        self.serve(name, 1);
    }

    pub fn add_node(&mut self, name: &str, pool: &str, runs: u32) {
        let mut metadata = self.metadata(name);
        metadata.labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        metadata.labels.insert("kubernetes.io/arch".to_owned(), "amd64".to_owned());
        self.nodes.insert(name.to_owned(), FakeNode::new(metadata, pool, image(runs).digest()));
    }

    pub fn make_control_plane(&mut self, name: &str) {
        self.give_role(name, "control-plane");
    }

    pub fn give_role(&mut self, name: &str, role: &str) {
        let label = format!("node-role.kubernetes.io/{role}");
        self.node(name).machine.metadata.labels.insert(label, String::new());
    }

    pub fn node(&mut self, name: &str) -> &mut FakeNode {
        self.nodes.get_mut(name).unwrap()
    }

    pub fn pool(&mut self) -> &mut MachineConfigPool {
        self.pool_of("worker")
    }

    pub fn pool_of(&mut self, name: &str) -> &mut MachineConfigPool {
        self.pools.get_mut(name).unwrap()
    }

    pub fn max_unavailable(&mut self, value: IntOrString) {
        self.pool().spec.max_unavailable = Some(value);
    }

    /// A build succeeded, and its image is in service.
    pub fn serve(&mut self, pool: &str, number: u32) {
        self.serve_build(pool, number, number, None);
    }

    /// A build with the image of another one succeeded, and is in service. Its config has this part.
    pub fn serve_part(&mut self, pool: &str, number: u32, of: u32, part: Digest) {
        self.parts.insert(rendered(number), part);
        self.serve_build(pool, number, of, Some(&part.to_string()));
    }

    /// A build succeeded whose image differs from that of build `from` only in files that come without
    /// a reboot, and is in service.
    pub fn serve_live(&mut self, pool: &str, number: u32, from: u32) {
        self.serve(pool, number);
        let name = pin(number).name;
        let owner = self.configs[pool].metadata.uid().to_owned();
        for build in self.builds.iter_mut().filter(|build| build.metadata.name == name) {
            if build.metadata.is_controlled_by(&owner) {
                let from = image(from).digest().to_string();
                build.metadata.annotations.entry(labels::LIVE_FROM.to_owned()).or_insert(from);
            }
        }
    }

    /// As [`serve_part`](Self::serve_part); a build of another builder has no record of a part.
    pub fn serve_build(&mut self, pool: &str, number: u32, of: u32, part: Option<&str>) {
        let name = pin(number).name;
        let owner = self.configs[pool].metadata.uid().to_owned();
        let is_of_it = |one: &MachineOsBuild| {
            one.metadata.name == name && one.metadata.is_controlled_by(&owner)
        };
        if !self.builds.iter().any(is_of_it) {
            let mut metadata = self.metadata(&name);
            metadata.owner_references = vec![OwnerReference {
                uid: owner,
                controller: Some(true),
                ..OwnerReference::default()
            }];
            let mut build = MachineOsBuild { metadata, ..MachineOsBuild::default() };
            build.spec.machine_config.name = rendered(number);
            build.status.digested_image_push_spec = image(of).to_string();
            let annotations = &mut build.metadata.annotations;
            // It was in service, so no gate keeps machines from it.
            annotations.insert(labels::STAGE.to_owned(), "replaced".to_owned());
            if of != number {
                annotations.insert(labels::ADOPTED_FROM.to_owned(), pin(of).name);
            }
            if let Some(part) = part {
                annotations.insert(labels::MACHINE_PART.to_owned(), part.to_owned());
            }
            build.status.conditions = vec![Condition {
                kind: "Succeeded".to_owned(),
                status: "True".to_owned(),
                ..Condition::default()
            }];
            self.builds.push(build);
        }
        let version = self.next_version();
        let config = self.configs.get_mut(pool).unwrap();
        config.metadata.resource_version = Some(version);
        config.status.current_image_pull_spec = image(of).to_string();
        let reference = json!({ "name": name });
        config.status.machine_os_build = serde_json::from_value(reference).unwrap();
        let pool = self.pools.get_mut(pool).unwrap();
        pool.spec.configuration.name = rendered(number);
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.annotate_of("worker", key, value);
    }

    /// The same of the MachineOSConfig of another pool.
    pub fn annotate_of(&mut self, pool: &str, key: &str, value: &str) {
        let version = self.next_version();
        let metadata = &mut self.configs.get_mut(pool).unwrap().metadata;
        metadata.annotations.insert(key.to_owned(), value.to_owned());
        metadata.resource_version = Some(version);
    }

    /// The time of the control plane.
    pub fn dated(&self) -> Timestamp {
        self.now + self.skew
    }

    /// What the nodes' conditions have about now. Called before anything is observed later.
    pub fn record_readiness(&mut self) {
        let dated = self.dated();
        for node in self.nodes.values_mut().filter(|node| node.was_ready != node.machine.ready) {
            node.was_ready = node.machine.ready;
            node.machine.ready_since = Some(Time(dated));
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.record_readiness();
        // Events show at once what happened.
        for pool in self.times.keys().cloned().collect::<Vec<_>>() {
            let (mut snapshot, now) = (self.snapshot(&pool), self.now);
            self.times.entry(pool).or_default().fill(&mut snapshot, now);
        }
        self.now += jiff::SignedDuration::try_from(time).unwrap();
    }
}
