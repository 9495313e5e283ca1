//! Why a pool is or isn't building: what `mosb status` prints.

use std::fmt;

use mosb_cluster::gate::Gate;
use mosb_reconcile::Problem;
use mosb_types::ErrorClass;

/// Reason of the condition `Blocked` for [`PoolReason::Unreconcilable`].
pub const UNRECONCILABLE: &str = "Unreconcilable";
/// Reason of the condition `Blocked` if a lookup or a write was rejected. A user must change that; it
/// is repeated.
pub const REJECTED: &str = "Rejected";
/// The same if something is missing or can't be used.
pub const INVALID_INPUT: &str = "InvalidInput";

/// Why a pool is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolReason {
    /// Images are not requested for this pool.
    NotOptedIn,
    /// The pool's label requests images, and its ConfigMaps are incomplete.
    LabelIncomplete(String),
    /// The pool's label requests images, and its MachineOSConfig is being created or changed.
    OptingIn,
    /// Images are no longer requested, and what was built is being cleaned up.
    OptingOut,
    /// Another builder runs in this cluster.
    OtherBuilder(String),
    /// Several MachineOSConfigs are for the same pool.
    Rivals(Vec<String>),
    /// The MachineOSConfig is invalid.
    BadConfig(String),
    /// The pool does not exist.
    NoPool(String),
    /// The pool has no rendered config yet.
    NotRendered,
    /// The cluster's CRDs reject digests of the push repository.
    NestedRepository(String),
    /// The pool's nodes have several platforms, and none of them most often.
    MixedPlatforms(Vec<String>),
    /// The Containerfile depends on the platform, and the pool has no node.
    NoNode,
    /// No control-plane node takes the pod of a build for control-plane machines.
    NoControlPlaneNode {
        build: String,
        /// The scheduler's message; none if the cluster has no such node.
        why: Option<String>,
    },
    /// The pool's machines can't take on the rendered config without a reinstallation: what of it, and
    /// what to do.
    Unreconcilable(String),
    /// The pool is degraded for reasons that a new image does not fix.
    PoolDegraded(Vec<String>),
    /// The build is being planned.
    Planning,
    /// A lookup failed, or the build is impossible.
    Problem(Problem),
    /// The MachineConfig that brings the pool its pre-built image is being created.
    SeedComponent(String),
    /// The pool's rendered config does not name its pre-built image yet.
    SeedNotRendered {
        /// The MachineConfig that brings the image.
        component: String,
        image: String,
    },
    /// The pool's rendered config was made with a MachineConfig of a pre-built image that no longer
    /// exists.
    SeedGone(String),
    /// The pre-built image is being put in service.
    Seeding(String),
    /// The image in service is the desired one.
    UpToDate(String),
    /// The image in service remains, because the machines apply the difference themselves.
    Adopting(String),
    /// The pre-built image in service equals the one that would be built.
    Recognised(String),
    /// The registry has the image that would be built.
    Found(String),
    /// An earlier image is the desired one again.
    Reusing(String),
    /// A new build is created.
    Creating(String),
    /// An object of the same name must be deleted first.
    Replacing(String),
    /// Its workload, or what its pod needs, is being created.
    Preparing(String),
    /// Its pod does not run yet.
    Pending {
        build: String,
        /// The scheduler's or kubelet's message.
        why: Option<String>,
    },
    /// Its pod runs.
    Building { build: String, attempt: u32 },
    /// The image was pushed, and the registry is being asked for it.
    Confirming(String),
    /// The image is being signed.
    Signing(String),
    /// The checks of the image are made.
    Checking(String),
    /// The next attempt waits.
    Waiting {
        build: String,
        attempt: u32,
        /// Until the next attempt.
        seconds: u64,
        /// Why the last attempt failed.
        why: String,
    },
    /// It failed, and is not retried until something changes.
    Failed { build: String, message: String },
    /// The image is built and kept out of service: by what, and what to do.
    NotInService { gate: Gate, message: String },
}

impl PoolReason {
    /// The code for scripts; `docs/builds.md` lists them all.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotOptedIn => "not-opted-in",
            Self::LabelIncomplete(_) => "label-incomplete",
            Self::OptingIn => "opting-in",
            Self::OptingOut => "opting-out",
            Self::OtherBuilder(_) => "other-builder",
            Self::Rivals(_) => "rivals",
            Self::BadConfig(_) => "bad-machine-os-config",
            Self::NoPool(_) => "no-pool",
            Self::NotRendered => "not-rendered",
            Self::NestedRepository(_) => "nested-repository",
            Self::MixedPlatforms(_) => "mixed-platforms",
            Self::NoNode => "no-node",
            Self::NoControlPlaneNode { .. } => "no-control-plane-node",
            Self::Unreconcilable(_) => "unreconcilable",
            Self::PoolDegraded(_) => "pool-degraded",
            Self::Planning => "planning",
            Self::Problem(_) => "problem",
            Self::SeedComponent(_) => "seed-component",
            Self::SeedNotRendered { .. } => "seed-not-rendered",
            Self::SeedGone(_) => "seed-gone",
            Self::Seeding(_) => "seeding",
            Self::UpToDate(_) => "up-to-date",
            Self::Adopting(_) => "adopting",
            Self::Recognised(_) => "recognised",
            Self::Found(_) => "found",
            Self::Reusing(_) => "reusing",
            Self::Creating(_) => "creating",
            Self::Replacing(_) => "replacing",
            Self::Preparing(_) => "preparing",
            Self::Pending { .. } => "pending",
            Self::Building { .. } => "building",
            Self::Confirming(_) => "confirming",
            Self::Signing(_) => "signing",
            Self::Checking(_) => "checking",
            Self::Waiting { .. } => "waiting",
            Self::Failed { .. } => "failed",
            Self::NotInService { gate, .. } => gate.word(),
        }
    }
}

impl PoolReason {
    /// The reason of the condition `Blocked`: the code in CamelCase.
    pub(super) fn condition_reason(&self) -> &'static str {
        match self {
            Self::Rivals(_) => "Rivals",
            Self::BadConfig(_) => "BadMachineOSConfig",
            Self::NoPool(_) => "NoPool",
            Self::NestedRepository(_) => "NestedRepository",
            Self::MixedPlatforms(_) => "MixedPlatforms",
            Self::NoNode => "NoNode",
            Self::NoControlPlaneNode { .. } => "NoControlPlaneNode",
            Self::Unreconcilable(_) => UNRECONCILABLE,
            Self::PoolDegraded(_) => "PoolDegraded",
            Self::Problem(problem) if problem.class == ErrorClass::Rejected => REJECTED,
            Self::Problem(problem) if problem.class == ErrorClass::InvalidInput => INVALID_INPUT,
            Self::NotOptedIn
            | Self::LabelIncomplete(_)
            | Self::OptingIn
            | Self::OptingOut
            | Self::OtherBuilder(_)
            | Self::NotRendered
            | Self::Planning
            | Self::Problem(_)
            | Self::SeedComponent(_)
            | Self::SeedNotRendered { .. }
            | Self::SeedGone(_)
            | Self::Seeding(_)
            | Self::UpToDate(_)
            | Self::Adopting(_)
            | Self::Recognised(_)
            | Self::Found(_)
            | Self::Reusing(_)
            | Self::Creating(_)
            | Self::Replacing(_)
            | Self::Preparing(_)
            | Self::Pending { .. }
            | Self::Building { .. }
            | Self::Confirming(_)
            | Self::Signing(_)
            | Self::Checking(_)
            | Self::Waiting { .. }
            | Self::Failed { .. }
            | Self::NotInService { .. } => "Problem",
        }
    }
}

impl fmt::Display for PoolReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOptedIn => {
                write!(f, "images are not requested: create a MachineOSConfig with the pool's name")
            }
            Self::LabelIncomplete(what) => {
                write!(f, "the pool has the label layering-enabled, but {what}")
            }
            Self::OptingIn => write!(
                f,
                "the pool has the label layering-enabled: its MachineOSConfig follows the ConfigMaps"
            ),
            Self::OptingOut => write!(f, "images are no longer requested: cleaning up"),
            Self::OtherBuilder(who) => write!(
                f,
                "{who} builds images in this cluster, so mosb writes nothing; stop it to let mosb build"
            ),
            Self::Rivals(names) => write!(
                f,
                "several MachineOSConfigs are for this pool ({}); keep the one with the pool's name",
                names.join(", ")
            ),
            Self::BadConfig(why) => write!(f, "the MachineOSConfig can't be built: {why}"),
            Self::NoPool(pool) => write!(
                f,
                "there is no MachineConfigPool {pool}; create it, or delete the MachineOSConfig"
            ),
            Self::NotRendered => write!(f, "waiting for the pool's first rendered MachineConfig"),
            Self::NestedRepository(repo) => write!(
                f,
                "{repo}: this cluster's MachineOSBuilds take at most one path component before an image's name; push to a flatter repository"
            ),
            Self::MixedPlatforms(platforms) => write!(
                f,
                "the pool's nodes have several platforms ({}), none of them more often than the others, and an image has one; create a pool for each",
                platforms.join(", ")
            ),
            Self::NoNode => write!(
                f,
                "the Containerfiles are for single architectures, and the pool has no node yet to take the architecture from"
            ),
            Self::NoControlPlaneNode { build, why } => write!(
                f,
                "{build} waits for a control-plane node, because it is for control-plane machines: {}; free resources on one, or name other nodes in job.controlPlane of ConfigMap mosb-config",
                why.as_deref().unwrap_or("the pool's node selector selects none")
            ),
            Self::Unreconcilable(why) => write!(f, "{why}"),
            Self::NotInService { message, .. } => write!(f, "{message}"),
            Self::PoolDegraded(kinds) => write!(
                f,
                "no new build while the pool is degraded ({}); see its conditions",
                kinds.join(", ")
            ),
            Self::Planning => write!(f, "planning the build"),
            Self::Problem(problem) => write!(f, "{}", problem.message),
            Self::SeedComponent(component) => {
                write!(f, "creating machineconfig {component}, which brings the pre-built image")
            }
            Self::SeedNotRendered { component, image } => write!(
                f,
                "waiting for the pool's next rendered config, which takes {image} from machineconfig {component}; if no controller renders pools, run mosb controller --render; if another MachineConfig sets an OS image, remove it"
            ),
            Self::SeedGone(component) => write!(
                f,
                "waiting for the pool's next rendered config, because machineconfig {component} was deleted; if no controller renders pools, run mosb controller --render"
            ),
            Self::Seeding(image) => {
                write!(f, "{image} was built elsewhere and is being put in service")
            }
            Self::UpToDate(image) => write!(f, "{image} is up to date"),
            Self::Adopting(image) => write!(
                f,
                "{image} is kept: the machines apply the difference of the configs themselves"
            ),
            Self::Recognised(image) => {
                write!(f, "{image} is kept: it was built from the same configuration")
            }
            Self::Found(image) => {
                write!(f, "{image} is taken: the registry has it, and it is what would be built")
            }
            Self::Reusing(image) => write!(f, "{image} was built before and is used again"),
            Self::Creating(build) => write!(f, "{build} is being created"),
            Self::Replacing(build) => {
                write!(f, "{build} waits until an object with its name is deleted")
            }
            Self::Preparing(build) => write!(f, "{build} is being prepared"),
            Self::Pending { build, why: None } => write!(f, "{build}: its pod is about to start"),
            Self::Pending { build, why: Some(why) } => {
                write!(f, "{build}: its pod does not start: {why}")
            }
            Self::Building { build, attempt: 1 } => write!(f, "{build} is being built"),
            Self::Building { build, attempt } => {
                write!(f, "{build} is being built, attempt {attempt}")
            }
            Self::Confirming(build) => {
                write!(f, "{build} was pushed; checking the registry for it")
            }
            Self::Signing(image) => write!(f, "{image} is pushed, and being signed"),
            Self::Checking(image) => write!(f, "{image} is built, and being checked"),
            Self::Waiting { build, attempt, seconds, why } => {
                write!(f, "{build}: attempt {attempt} in {seconds} s: {why}")
            }
            Self::Failed { build, message } => {
                write!(f, "{build} failed and is not retried until something changes: {message}")
            }
        }
    }
}
