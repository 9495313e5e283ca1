//! What the controller of images does beside writes to one object.

pub mod new_object;

use std::fmt;

use super::base_trees::BaseTreeKey;
use super::log_archive::ArchiveLogs;
use super::prepared_bases::{PreparedBase, PreparedBaseKey, PreparedUse};
use mosb_api::ImageBuilderType;
use mosb_build::JobMethod;
use mosb_cluster::kinds;
use mosb_cluster::object::workload_kind;
use mosb_image::Digest;
use mosb_reconcile::write::Target;

pub type Action = mosb_reconcile::write::Action<BuildEffect>;

/// Applying one twice has the result of applying it once.
#[derive(Debug, Clone, PartialEq)]
pub enum BuildEffect {
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
    RecordPreparedBase { key: PreparedBaseKey, base: PreparedBase },
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

/// Whether an action creates a build or its workload, or is followed by that in a later pass.
pub fn makes_workloads(action: &Action) -> bool {
    match action {
        Action::Create(new) => new.kind == kinds::MACHINE_OS_BUILD,
        Action::Effect(effect) => {
            matches!(effect, BuildEffect::CreateWorkload(_) | BuildEffect::CreateInputs(..))
        }
        _ => false,
    }
}

impl From<BuildEffect> for Action {
    fn from(effect: BuildEffect) -> Self {
        Self::Effect(effect)
    }
}

/// For the log.
impl fmt::Display for BuildEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateWorkload(attempt) => {
                let (kind, number) = (workload_kind(attempt.builder), attempt.number);
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
        }
    }
}
