//! The input of a decision about the roll-out of a pool: the pool, its image, its machines and the
//! Jobs on them.
//!
//! All state is in API objects and in what the reconciler remembers of drains and refused writes,
//! which the next try finds again. A machine's state is derived from this alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::drain::DrainRecord;
use super::elapsed::elapsed;
use super::job_request::NodeVerb;
use super::lookup::RolloutLookupResults;
use super::other_places::OtherPlaces;
use super::policy::PoolPolicy;
use mosb_api::rollout::{NodeReport, NodeTarget};
use mosb_api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, Metadata};
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_reconcile::driver::InputsHash;

/// How much older than its deadline a Job may get: its pod gets time to end.
const OVERDUE_MARGIN: Duration = Duration::from_secs(60);

/// A pool, its image and its machines.
#[derive(Debug, Clone, Default)]
pub struct RolloutSnapshot {
    /// Only its name if there is no such pool.
    pub pool: MachineConfigPool,
    /// The pool does not exist, or the machines are of no pool.
    pub is_pool_missing: bool,
    /// The MachineOSConfig of the pool, which may be being deleted.
    pub config: Option<MachineOsConfig>,
    /// All MachineOSConfigs for the pool if there is more than one: then there is no target.
    pub rivals: Vec<Metadata>,
    /// MachineOSConfigs for the pool that are being deleted, while the pool does not exist, is being
    /// deleted too, or has another MachineOSConfig.
    pub leaving: Vec<Metadata>,
    /// All MachineOSBuilds of the MachineOSConfig, regardless of their creator.
    pub builds: Vec<MachineOsBuild>,
    /// Another controller that brings images to machines: then mosb writes nothing.
    pub other_controller: Option<String>,
    /// The nodes of the pool, by name.
    pub machines: Vec<Machine>,
    /// Nodes that this pool and other custom pools select, with the names of all these pools. They
    /// are of no pool.
    pub shared_nodes: BTreeMap<String, Vec<String>>,
    pub cluster: ClusterMachines,
    pub settings: RolloutSettings,
    pub policy: PoolPolicy,
    /// What the API server refused in the last pass.
    pub refused_writes: RefusedWrites,
    pub lookup_results: RolloutLookupResults,
}

impl RolloutSnapshot {
    /// A hash of everything that a pass depends on. What mosb itself writes, and versions that change
    /// with each write, are left out. A lookup ends early if it changes.
    pub(super) fn inputs(&self) -> InputsHash {
        let deleted = |metadata: &Metadata| metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let pool = &self.pool;
        let config = self.config.as_ref().map(|config| {
            let metadata = &config.metadata;
            let image = &config.status.current_image_pull_spec;
            (&metadata.uid, &metadata.annotations, deleted(metadata), &config.spec, image)
        });
        let builds = self.builds.iter().map(|build| (&build.metadata.uid, build.status.image()));
        let builds: Vec<_> = builds.collect();
        let machines = self.machines.iter().map(|machine| {
            let jobs = machine.jobs.iter();
            let jobs = jobs.map(|job| (&job.uid, job.phase == JobPhase::Running, job.has_login));
            let metadata = &machine.node.metadata;
            (
                (&metadata.uid, &metadata.labels, deleted(metadata)),
                (
                    &machine.node.boot_id,
                    machine.node.ready,
                    machine.node.disk_pressure,
                    machine.node.network_unavailable,
                    &machine.node.conditions,
                ),
                jobs.collect::<Vec<_>>(),
            )
        });
        let machines: Vec<_> = machines.collect();
        InputsHash::of(&(
            (&pool.metadata.uid, &pool.spec),
            (config, builds, machines),
            (&self.rivals, &self.leaving, self.is_pool_missing),
            (&self.other_controller, &self.shared_nodes, &self.settings, &self.policy),
        ))
    }
}

/// A node of the pool, and the Jobs on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Its `ready_since` is by the clock of this process.
    pub node: SeenMachine,
    /// All Jobs of the roll-out that name this node, also those for an earlier node of this name.
    pub jobs: Vec<MachineJob>,
    /// How its drain went in earlier passes.
    pub drain: Option<DrainRecord>,
}

impl Machine {
    pub fn name(&self) -> &str {
        &self.node.metadata.name
    }
}

/// A Job on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineJob {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub verb: NodeVerb,
    /// UID of the Node object that it was created for.
    pub node_uid: String,
    /// None for [`NodeVerb::Report`].
    pub target: Option<NodeTarget>,
    /// The attempt of `apply`, or the try of another verb, from 1.
    pub number: u32,
    /// Whether it may pull the image.
    pub pulls: bool,
    /// Whether the Secret with its login exists; true if it needs none.
    pub has_login: bool,
    pub created: Option<Time>,
    /// Since when this process knows it, and when it ended, by its own clock.
    pub seen_created: Option<Timestamp>,
    pub seen_ended: Option<Timestamp>,
    /// `spec.activeDeadlineSeconds`
    pub deadline: Option<Duration>,
    pub phase: JobPhase,
    /// It ended, and the end of its last pod is not seen: how long the phase is still `Running` if
    /// no watch event shows it.
    pub awaits_pod: Option<Duration>,
    /// Why its newest pod does not start.
    pub waiting: Option<String>,
    pub deleting: bool,
}

impl MachineJob {
    /// When it began, by the clock of this process where that is known.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.seen_created.or(self.created.as_ref().map(|created| created.0))
    }

    /// When it ended, by the clock of this process where that is known; none while it runs. A Job
    /// whose end has no time counts from its creation.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        let reported = match &self.phase {
            JobPhase::Running => return None,
            JobPhase::Succeeded(_) => None,
            JobPhase::Failed { at, .. } => at.as_ref(),
        };
        self.seen_ended.or(reported.or(self.created.as_ref()).map(|time| time.0))
    }

    /// Whether it runs, and takes one of the places of a limit. A Job on a machine that is away never
    /// ends, because its pod does not, and one that is older than it may get is in the same state.
    pub(super) fn takes_place(&self, is_ready: bool, now: Timestamp) -> bool {
        self.phase == JobPhase::Running && is_ready && !self.is_overdue(now)
    }

    /// Whether it should have ended.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        let limit = self.deadline.map(|deadline| deadline + OVERDUE_MARGIN);
        let age = self.began().map(|began| elapsed(began, now));
        self.phase == JobPhase::Running && age.zip(limit).is_some_and(|(age, limit)| age > limit)
    }
}

/// How far a Job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    Running,
    /// Its last pod ended well and left this report. Without a readable report, the Job counts as
    /// failed.
    Succeeded(Box<NodeReport>),
    Failed {
        /// Exit code of the last pod's container, if it has one.
        exit_code: Option<i32>,
        /// The report of the last pod, if it can be read.
        report: Option<Box<NodeReport>>,
        /// Why it failed, for people.
        message: String,
        at: Option<Time>,
    },
}

/// Why writes of a pass were refused: object, cause and remedy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedWrites {
    /// Of a write that is not for one machine: then no machine gets anything.
    pub pool: Option<String>,
    /// By machine.
    pub machines: BTreeMap<String, String>,
    /// Machines whose object, or a Job on them, changed before it was written: the object, and in how
    /// many passes in a row.
    pub conflicts: BTreeMap<String, (String, u32)>,
}

/// Conflicts in a row that a machine may have: a kubelet writes its Node now and then.
const USUAL_CONFLICTS: u32 = 5;

impl RefusedWrites {
    /// Machines, and why nothing is written to them.
    pub fn of_machines(&self) -> BTreeMap<&str, String> {
        let refused = self.machines.iter().map(|(name, text)| (name.as_str(), text.clone()));
        let lasting = self.conflicts.iter().filter(|(_, (_, count))| *count > USUAL_CONFLICTS);
        let conflicts = lasting.map(|(name, (object, _))| {
            let text = format!(
                "{object}: changed again each time before mosb wrote it; find out what writes it all the time, and stop that"
            );
            (name.as_str(), text)
        });
        conflicts.chain(refused).collect()
    }
}

/// What the machines of all pools decide together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterMachines {
    /// The node that the controller runs on.
    pub own_node: Option<String>,
    /// The image of the controller, by digest: that of all Jobs.
    pub own_image: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Where the controller could run while its node is away.
    pub other_places: OtherPlaces,
    /// The annotation `mosb.dev/slot` of each node that has one, of whatever pool.
    pub slots: BTreeMap<String, String>,
    /// A watch that failed lately, and why: nodes, Jobs on them, pools or their images may have come
    /// or changed unseen.
    pub broken_watch: Option<String>,
    /// All control-plane nodes, and all that run etcd, of whatever pool.
    pub control_plane: Vec<ControlPlaneNode>,
    /// `report` and `stage` Jobs of other pools that run on machines that are Ready.
    pub jobs_elsewhere: Vec<MachineJob>,
    /// Other pools that bring their target to machines now, by their status: the node of the
    /// controller waits for them.
    pub updating_elsewhere: Vec<String>,
}

/// A control-plane node of any pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlPlaneNode {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub ready: bool,
    /// Whether it has the annotation `mosb.dev/slot`, readable or not.
    pub has_slot: bool,
}

/// Limits from the cluster's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RolloutSettings {
    /// Machines that stage at once from one registry host, over all pools.
    pub staging_per_registry: usize,
    /// How long a machine may take from the start of `apply` until it is Ready with the target.
    pub node_timeout: Duration,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self { staging_per_registry: 3, node_timeout: Duration::from_secs(30 * 60) }
    }
}
