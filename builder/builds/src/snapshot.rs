//! The input of a decision: observed objects and lookup results. It never contains credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::base_trees::BaseTrees;
use super::lookup::LookupResults;
use super::prepared_bases::PreparedBases;
use mosb_api::cluster_settings::SigningSettings;
use mosb_api::image_checks::ImageCheckSettings;
use mosb_api::{JobSettings, MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolName, labels};
use mosb_build::{JobMethod, JobResult};
use mosb_cluster::kinds;
use mosb_cluster::versions::Versions;
use mosb_image::{Digest, PinnedRef, Platform};
use mosb_reconcile::EarlierProblem;
use mosb_reconcile::write::Target;
use mosb_workload::{BuildNodes, InputKind, MachineRole, Workload};

/// Everything observed for one MachineOSConfig.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Name of the MachineOSConfig, which may have been deleted.
    pub name: String,
    /// `None` if there is no MachineOSConfig (any more).
    pub config: Option<MachineOsConfig>,
    /// Names of other MachineOSConfigs for the same pool.
    pub rivals: Vec<String>,
    /// The pool that the MachineOSConfig names; without one, the pool of this name.
    pub pool: Option<MachineConfigPool>,
    /// The ConfigMaps for the pool's label `layering-enabled`; `None` without the label.
    pub label: Option<LabelOptIn>,
    /// All MachineOSBuilds of the MachineOSConfig, regardless of their creator.
    pub builds: Vec<MachineOsBuild>,
    /// All workloads with the label of the MachineOSConfig or owned by one of the builds.
    pub workloads: Vec<SeenWorkload>,
    /// The Jobs of own checks, by the same rule.
    pub check_jobs: Vec<SeenWorkload>,
    /// All ephemeral objects with the label of the MachineOSConfig.
    pub inputs: Vec<SeenInput>,
    /// Contents of the ConfigMaps `digest-<build>`, by build. The decision, not the observer,
    /// checks which workload a result belongs to.
    pub results: BTreeMap<String, JobResult>,
    /// The component MachineConfigs of the pool, and those that were claimed for this
    /// MachineOSConfig.
    pub components: Vec<SeenComponent>,
    /// Images of component MachineConfigs (of any pool) that the pool's config was rendered from.
    pub prebuilt: BTreeSet<String>,
    /// Deleted component MachineConfigs (of any pool) that the pool's config was rendered from.
    pub lost_components: Vec<String>,
    /// The pool's nodes by platform; without their names if all have the same one, and empty without
    /// a node.
    pub pool_platforms: BTreeMap<Platform, BTreeSet<String>>,
    /// Where the pool's images may be built.
    pub build_nodes: BuildNodes,
    /// The role of the pool's machines.
    pub machine_role: MachineRole,
    pub cluster: Cluster,
    /// A watch that failed lately, and why: what the snapshot lacks may exist.
    pub broken_watch: Option<String>,
    /// resourceVersions of the objects that lookups read.
    pub versions: Versions,
    pub lookup_results: LookupResults,
    /// The problem that the last reconcile reported, if its inputs are unchanged.
    pub earlier_problem: Option<EarlierProblem>,
}

impl Snapshot {
    /// Whether nothing is left of the MachineOSConfig.
    pub fn is_empty(&self) -> bool {
        self.seen_versions().next().is_none()
    }

    /// UIDs and resourceVersions of the objects that mosb writes or creates.
    pub fn seen_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        let builds = self.builds.iter().map(|build| &build.metadata);
        let config = self.config.iter().map(|config| &config.metadata);
        let pool = self.pool.iter().map(|pool| &pool.metadata);
        let metas = builds.chain(config).chain(pool);
        let workloads = self.workloads.iter().chain(&self.check_jobs).map(|seen| {
            let version = seen.workload.metadata().resource_version.as_deref();
            (seen.workload.uid(), version.unwrap_or_default())
        });
        metas
            .map(|meta| (meta.uid(), meta.resource_version()))
            .chain(workloads)
            .chain(self.components.iter().map(|one| (&*one.uid, &*one.resource_version)))
            // Inputs are created and deleted, never changed.
            .chain(self.inputs.iter().map(|input| (&*input.uid, "")))
    }
}

/// A workload and its pods.
#[derive(Debug, Clone)]
pub struct SeenWorkload {
    pub workload: Workload,
    pub pods: Vec<Pod>,
    /// Time since the last watch event for the workload and its pods; zero while their watches fail.
    pub quiet: Duration,
}

impl SeenWorkload {
    /// The pods that it controls, or the Pod itself.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        let itself = match &self.workload {
            Workload::Pod(pod) => Some(&**pod),
            Workload::Job(_) | Workload::Build(_) => None,
        };
        self.pods.iter().chain(itself)
    }
}

/// An object that a build pod needs, reduced to what decisions use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenInput {
    pub kind: InputKind,
    pub name: String,
    pub uid: String,
    /// UID of the owning workload; empty without one.
    pub workload_uid: String,
    /// The annotation `machine-os-build`, else the label, in which a long name is shortened.
    pub build: String,
    pub deleting: bool,
}

/// An input is deleted in whatever version.
impl From<&SeenInput> for Target {
    fn from(input: &SeenInput) -> Self {
        Self {
            kind: input.kind.into(),
            name: input.name.clone(),
            uid: input.uid.clone(),
            version: None,
        }
    }
}

/// A MachineConfig that sets a pool's pre-built image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenComponent {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    /// The pool that its name contains.
    pub pool: PoolName,
    /// Value of its image annotation, not parsed.
    pub image: String,
    /// The MachineOSConfig that claimed it.
    pub claim: Option<String>,
    /// Whether the claiming MachineOSConfig exists and names the pool.
    pub is_claim_good: bool,
    /// Whether any MachineOSConfig names the pool.
    pub is_wanted: bool,
    pub deleting: bool,
}

impl SeenComponent {
    /// Whether it sets this image, with or without a tag beside the digest.
    pub fn brings(&self, image: &PinnedRef) -> bool {
        self.image.parse::<PinnedRef>().as_ref() == Ok(image)
    }
}

impl From<&SeenComponent> for Target {
    fn from(component: &SeenComponent) -> Self {
        Self {
            kind: kinds::MACHINE_CONFIG,
            name: component.name.clone(),
            uid: component.uid.clone(),
            version: Some(component.resource_version.clone()),
        }
    }
}

/// Contents of the ConfigMaps `on-cluster-build-config` and `on-cluster-build-custom-dockerfile`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelOptIn {
    /// The data of `on-cluster-build-config`; none without the ConfigMap.
    pub settings: Option<BTreeMap<String, String>>,
    /// The key of the pool in `on-cluster-build-custom-dockerfile`.
    pub containerfile: Option<String>,
}

/// Cluster-wide facts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Description of another active builder.
    pub other_builder: Option<String>,
    /// Whether a Machine Config Operator manages MachineOSConfigs.
    pub machine_config_operator: bool,
    /// Whether machines apply rendered configs themselves, so that not every config needs an image.
    pub machine_config_daemon: bool,
    /// Whether pods can have user namespaces.
    pub user_namespaces: Support,
    /// Whether SecurityContextConstraints say which user a pod runs as.
    pub security_context_constraints: bool,
    /// The release's own base image, used instead of a pre-built one.
    pub stock_base: Option<String>,
    /// How often a failed `RUN` line is retried.
    pub run_retries: u32,
    /// Trees that builds pushed (ConfigMap `mosb-base-trees`).
    pub base_trees: BaseTrees,
    /// Prepared bases that builds pushed (ConfigMap `mosb-prepared-bases`).
    pub prepared_bases: PreparedBases,
    /// How images are checked; none if the settings are not valid.
    pub checks: Option<ImageCheckSettings>,
    /// How images are signed; none if the settings are not valid.
    pub signing: Option<SigningSettings>,
    /// A fingerprint of the signature policy of the settings, if they have one.
    pub signature_policy: Option<Digest>,
    /// The settings of pods of builds; the defaults if the settings are not valid.
    pub job: JobSettings,
    /// Name of the Secret for pulling images.
    pub global_pull_secret: String,
    /// Namespace of Jobs, ConfigMaps and Secrets.
    pub namespace: String,
    /// Whether the controller brings images to machines (`--rollout`).
    pub rolling_out: bool,
    /// Whether the cluster's CRDs refuse a digest in a repository with more than one component
    /// before its name.
    pub nested_digests_refused: bool,
}

/// Whether a cluster has a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Support {
    Yes,
    No,
    /// Disabled in the settings.
    Forbidden,
    /// Not checked yet.
    #[default]
    Unknown,
}

/// The prepared base that a build was made on, if it was.
pub fn prepared_base_of(build: &MachineOsBuild) -> Option<Digest> {
    build.metadata.annotation(labels::PREPARED)?.parse().ok()
}

/// What the layer of a build with an image is on; `None` if that is not known, or if its Containerfile
/// was run as a whole.
pub fn made_on(build: &MachineOsBuild) -> Option<Digest> {
    let is_direct = build.metadata.annotation(labels::METHOD) == Some(JobMethod::Direct.as_str());
    prepared_base_of(build).or_else(|| base_of(build).filter(|_| is_direct))
}

/// The base manifest that a build was planned on, if it has a plan.
pub fn base_of(build: &MachineOsBuild) -> Option<Digest> {
    let base = build.metadata.annotation(labels::BASE)?;
    base.parse().ok().map(|base: PinnedRef| base.digest())
}
