//! Everything that a decision is made of: what was observed, and what was answered. No credential is ever in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::inputs::Versions;
use super::lookup::LookupResults;
use crate::workload::InputKind;
use crate::workload::Workload;
use mosb_build::JobResult;
use mosb_image::{Digest, PinnedRef, Platform};
use mosb_plan::api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolName, labels};

/// What was observed of one MachineOSConfig and of everything that serves it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Name of the MachineOSConfig, which may be gone.
    pub name: String,
    /// The MachineOSConfig; none where nobody opted in, or any more.
    pub config: Option<MachineOsConfig>,
    /// Names of other MachineOSConfigs for the same pool.
    pub rivals: Vec<String>,
    /// The pool that the MachineOSConfig names; without one, the pool of this name.
    pub pool: Option<MachineConfigPool>,
    /// What the ConfigMaps say that go with the pool's label `layering-enabled`; none without the label.
    pub label: Option<LabelOptIn>,
    /// All MachineOSBuilds that name the MachineOSConfig, whoever made them.
    pub builds: Vec<MachineOsBuild>,
    /// All that runs builds, with the label of the MachineOSConfig or owned by one of the builds.
    pub workloads: Vec<SeenWorkload>,
    /// All ephemeral objects with the label of the MachineOSConfig.
    pub inputs: Vec<SeenInput>,
    /// What the ConfigMaps `digest-<build>` say, by build. Whose workload says it is checked here, not by the observer.
    pub results: BTreeMap<String, JobResult>,
    /// The component MachineConfigs of the pool, and those that were claimed for this MachineOSConfig.
    pub components: Vec<SeenComponent>,
    /// The images of component MachineConfigs, of whichever pool, that the pool's config was rendered from.
    pub prebuilt: BTreeSet<String>,
    /// Component MachineConfigs, of whichever pool, that the pool's config was rendered from and that are gone.
    pub lost_components: Vec<String>,
    /// The platforms of the pool's nodes; empty without a node.
    pub pool_platforms: BTreeSet<Platform>,
    /// Where the pool's images may be built.
    pub build_nodes: BuildNodes,
    /// What holds for all pools.
    pub cluster: Cluster,
    /// The versions of what lookups read.
    pub versions: Versions,
    /// What this reconcile was answered so far.
    pub lookup_results: LookupResults,
    /// The problem that the last reconcile reported, if nothing changed since that it depends on.
    pub earlier_problem: Option<EarlierProblem>,
}

/// A problem that was met before with the same inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierProblem {
    /// As [`Problem::cause`](super::lookup::Problem::cause) names it.
    pub cause: String,
    /// For how long there have been problems with these inputs.
    pub lasted: Duration,
}

/// What runs a build, and its pods.
#[derive(Debug, Clone)]
pub struct SeenWorkload {
    /// The Job, or what stands in its place.
    pub workload: Workload,
    /// Pods that it controls.
    pub pods: Vec<Pod>,
    /// For how long no watch told anything new of it and its pods.
    pub quiet: Duration,
}

impl SeenWorkload {
    /// The pods that build: those that it controls, or itself.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        let itself = match &self.workload {
            Workload::Pod(pod) => Some(&**pod),
            Workload::Job(_) | Workload::Build(_) => None,
        };
        self.pods.iter().chain(itself)
    }
}

/// An object that a build pod needs, as far as it matters whether it is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenInput {
    /// What it is.
    pub kind: InputKind,
    /// Its name.
    pub name: String,
    /// Given by the API server.
    pub uid: String,
    /// UID of the workload that owns it; empty without one.
    pub workload_uid: String,
    /// Its annotation `machine-os-build`, else its label, which is cut where a name is too long.
    pub build: String,
    /// Whether its deletion was asked for.
    pub deleting: bool,
}

/// A MachineConfig that brings a pool its pre-built image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenComponent {
    /// Its name.
    pub name: String,
    /// Given by the API server.
    pub uid: String,
    /// As it was seen.
    pub resource_version: String,
    /// The pool in its name.
    pub pool: PoolName,
    /// The image that it is annotated with, as it stands.
    pub image: String,
    /// The MachineOSConfig that claimed it.
    pub claim: Option<String>,
    /// Whether that MachineOSConfig is there and names the pool.
    pub is_claim_good: bool,
    /// Whether any MachineOSConfig names the pool.
    pub is_wanted: bool,
    /// Whether its deletion was asked for.
    pub deleting: bool,
}

impl SeenComponent {
    /// Whether it brings this image, with or without a tag beside the digest.
    pub fn brings(&self, image: &PinnedRef) -> bool {
        self.image.parse::<PinnedRef>().as_ref() == Ok(image)
    }
}

/// What the ConfigMaps `on-cluster-build-config` and `on-cluster-build-custom-dockerfile` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelOptIn {
    /// The data of `on-cluster-build-config`; none without the ConfigMap.
    pub settings: Option<BTreeMap<String, String>>,
    /// The key of the pool in `on-cluster-build-custom-dockerfile`.
    pub containerfile: Option<String>,
}

/// Where the images of a pool may be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildNodes {
    /// On any node, or on those that the settings name.
    #[default]
    Any,
    /// On control-plane nodes of the pool.
    ControlPlane {
        /// Whether the cluster has one.
        exists: bool,
    },
}

/// What holds for all pools of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Another builder that is at work: what it is, for a person.
    pub other_builder: Option<String>,
    /// Whether a Machine Config Operator runs, which makes and keeps MachineOSConfigs by its own rules.
    pub machine_config_operator: bool,
    /// Whether machines apply rendered configs themselves, so that not every config needs an image.
    pub machine_config_daemon: bool,
    /// Whether pods can have user namespaces.
    pub user_namespaces: Support,
    /// The release's own base image: instead of a pre-built one.
    pub stock_base: Option<String>,
    /// How often a `RUN` line that failed is tried again.
    pub run_retries: u32,
    /// The trees that builds pushed: base manifest to image (ConfigMap `mosb-base-trees`).
    pub base_trees: BTreeMap<Digest, Digest>,
    /// Where Jobs, ConfigMaps and Secrets are.
    pub namespace: String,
    /// Whether the cluster's CRDs refuse a digest in a repository with more than one component before its name.
    pub nested_digests_refused: bool,
}

/// Whether a cluster has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Support {
    /// It has.
    Yes,
    /// It has not.
    No,
    /// The settings say that it is not to be used.
    Forbidden,
    /// Not found out yet.
    #[default]
    Unknown,
}

/// The manifest of the base that a build is planned on, where it was made by a plan.
pub fn base_of(build: &MachineOsBuild) -> Option<Digest> {
    let base = build.metadata.annotation(labels::BASE)?;
    base.parse().ok().map(|base: PinnedRef| base.digest())
}
