//! The changes that a decision makes.
//!
//! Most actions are a write to one object: create, patch, replace the status, delete. What is
//! written is complete here, so that a test sees it; the executor only sends it.

mod new_object;
mod patch;
mod pool_status_update;

use std::fmt;

use super::base_trees::BaseTreeKey;
use super::log_archive::ArchiveLogs;
use super::prepared_bases::{PreparedBase, PreparedBaseKey, PreparedUse};
use super::target::Target;
use crate::rollout::NodeLogin;
use crate::status::Event;
use crate::user_data::UserDataWrite;
use mosb_build::JobMethod;
use mosb_image::Digest;
use mosb_plan::api::{
    Condition, ImageBuilderType, MachineOsBuildStatus, MachineOsConfigStatus, Metadata,
};
use mosb_reconcile::kinds::Kind;

pub use new_object::NewObject;
pub use patch::Patch;
pub use pool_status_update::PoolStatusUpdate;

/// One change. Applying it twice has the result of applying it once. UID and resourceVersion of the
/// [`Target`] make the API server reject an action that was decided on an outdated view.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create(NewObject),
    Patch(Target, Patch),
    ReplaceStatus(Target, NewStatus),
    /// Delete an object with everything that it owns: MachineOSConfigs and MachineOSBuilds in the
    /// foreground, others in the background.
    Delete(Target),
    /// Create the suspended workload of a build, which needs its plan. If it exists already, the
    /// reconciler decides again.
    CreateWorkload(Attempt),
    /// Create the inputs of this workload, owned by it, which needs the plan. Existing inputs with
    /// this owner are not changed.
    CreateInputs(Attempt, Target),
    /// Archive the logs of a build's pod, replacing those of an earlier attempt. A failure is only
    /// logged.
    ArchiveLogs(Box<ArchiveLogs>),
    /// Record which image holds the tree of a base, in the ConfigMap `mosb-base-trees`.
    RecordBaseTree {
        key: BaseTreeKey,
        /// Manifest of the image with its tree.
        image: Digest,
    },
    /// Record a prepared base, in the ConfigMap `mosb-prepared-bases`.
    RecordPreparedBase {
        key: PreparedBaseKey,
        base: PreparedBase,
    },
    /// Create the Secret of a Job on a machine. An existing one with this owner is not changed.
    CreateNodeLogin(Box<NodeLogin>),
    /// Replace the Secret with the user data of a pool's new machines.
    WriteUserData(Box<UserDataWrite>),
    /// Evict this pod, obeying PodDisruptionBudgets. A missing pod counts as evicted. A refusal is
    /// no error: the next snapshot shows it.
    Evict {
        namespace: String,
        pod: String,
        uid: String,
        node: String,
    },
    /// Emit an event. An existing event of this name is not changed.
    Event(Event),
}

/// The new status, or the part of it that only we write.
#[derive(Debug, Clone, PartialEq)]
pub enum NewStatus {
    MachineOsConfig(Box<MachineOsConfigStatus>),
    MachineOsBuild(Box<MachineOsBuildStatus>),
    /// The conditions of a pool, in which only our entry changes: the API replaces the list as one.
    Conditions(Vec<Condition>),
    /// Counts, configuration and conditions of a pool that mosb rolls out.
    Pool(Box<PoolStatusUpdate>),
}

/// An attempt at a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub build: String,
    pub build_uid: String,
    /// From 1.
    pub number: u32,
    pub builder: ImageBuilderType,
    pub method: JobMethod,
    pub prepared: PreparedUse,
}

impl Action {
    pub fn patch(kind: Kind, metadata: &Metadata, patch: Patch) -> Self {
        Self::Patch(Target::of(kind, metadata), patch)
    }

    pub fn replace_conditions(pool: &Metadata, conditions: Vec<Condition>) -> Self {
        let target = Target::of(Kind::MachineConfigPool, pool);
        Self::ReplaceStatus(target, NewStatus::Conditions(conditions))
    }

    /// Deletes the object whatever has changed of it.
    pub fn delete(kind: Kind, metadata: &Metadata) -> Self {
        Self::Delete(Target::of(kind, metadata).any_version())
    }

    /// Whether it creates a build or its workload, or is followed by that in a later pass.
    pub fn makes_workloads(&self) -> bool {
        matches!(
            self,
            Self::Create(NewObject::MachineOsBuild(_))
                | Self::CreateWorkload(_)
                | Self::CreateInputs(..)
        )
    }
}

/// For the log.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(new) => write!(f, "creating {} {}", new.kind(), new.name()),
            Self::Patch(target, patch) if patch.spec.is_null() => {
                write!(f, "annotations of {target}")
            }
            Self::Patch(target, _) => write!(f, "updating {target}"),
            Self::ReplaceStatus(target, NewStatus::Conditions(_)) => {
                write!(f, "condition of {target}")
            }
            Self::ReplaceStatus(target, _) => write!(f, "status of {target}"),
            Self::Delete(target) => write!(f, "deleting {target}"),
            Self::CreateWorkload(attempt) => {
                let (kind, number) = (Kind::from(attempt.builder), attempt.number);
                write!(f, "creating {kind} {number} of machineosbuild {}", attempt.build)
            }
            Self::CreateInputs(_, workload) => {
                write!(f, "creating the inputs of {}", workload.name)
            }
            Self::ArchiveLogs(archive) => {
                write!(f, "archiving the logs of machineosbuild {}", archive.build)
            }
            Self::RecordBaseTree { key, .. } => write!(f, "recording the tree of {}", key.base()),
            Self::RecordPreparedBase { base, .. } => {
                write!(f, "recording the prepared base {}", base.image)
            }
            Self::CreateNodeLogin(login) => write!(f, "creating the login of {}", login.job),
            Self::WriteUserData(write) => write!(f, "writing secret {}", write.secret),
            Self::Evict { namespace, pod, node, .. } => {
                write!(f, "evicting pod {namespace}/{pod} from node {node}")
            }
            Self::Event(event) => write!(f, "event {}", event.name),
        }
    }
}
