//! The result of a decision: the outcome of each set, and its next write.

use std::collections::BTreeMap;

use super::effect::BootImageWrite;
use super::judge::Judgement;
use super::machine_set::MachineSet;
use super::obstacle::{Failure, Obstacle};
use mosb_api::boot_images::ManagedKind;
use mosb_boot_image::Verdict;
use mosb_cluster::secret_ref::SecretRef;

/// What happens to all machine sets that are selected.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BootImagePlan {
    /// Whether sets of any kind are selected.
    pub is_on: bool,
    /// Sorted by kind, namespace and name.
    pub sets: Vec<SetPlan>,
    /// Errors that are not of one set.
    pub errors: Vec<Failure>,
    /// Secrets with stubs to read.
    pub lookups: Vec<SecretRef>,
    /// When the CAs of the stubs in use expire, as far as they are known: Unix times.
    pub stub_expiries: BTreeMap<SecretRef, i64>,
}

/// What happens to one set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetPlan {
    /// `namespace/kind.group/name`.
    pub set: String,
    pub namespace: String,
    pub name: String,
    pub kind: ManagedKind,
    pub outcome: Outcome,
    /// The image that it has, if that is known; also of a set that is left alone.
    pub image: Option<String>,
    /// The image that it should have.
    pub wanted: Option<String>,
    pub write: Option<BootImageWrite>,
}

/// The state of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has the image.
    Current,
    /// It gets the image, in this pass or the next ones.
    Updating,
    /// It gets the image when this is over.
    Waiting(String),
    /// It keeps its image, on purpose.
    Skipped {
        code: String,
        reason: String,
        /// Whether its image may be old.
        blocks_skew: bool,
    },
    Failed(Failure),
}

impl SetPlan {
    pub(super) fn new(set: MachineSet<'_>) -> Self {
        Self {
            set: set.to_string(),
            namespace: set.object.namespace.clone(),
            name: set.object.name.clone(),
            kind: set.kind,
            outcome: Outcome::Updating,
            image: None,
            wanted: None,
            write: None,
        }
    }

    /// Adds the image that it should have.
    pub(super) fn fill(&mut self, judgement: &Judgement<'_>) {
        self.wanted = match &judgement.verdict {
            Verdict::Current(image) => Some(image.to_string()),
            Verdict::Change(change) => Some(change.to.to_string()),
            Verdict::Skip(_) => None,
        };
    }
}

impl From<Obstacle> for Outcome {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Skip(skip) => Self::Skipped {
                code: skip.code().to_owned(),
                reason: skip.to_string(),
                blocks_skew: skip.blocks_skew(),
            },
            Obstacle::NoRight(reason) => {
                Self::Skipped { code: "no-right".to_owned(), reason, blocks_skew: true }
            }
            Obstacle::Wait(reason) => Self::Waiting(reason),
            Obstacle::Fail(failure) => Self::Failed(failure),
        }
    }
}

impl Outcome {
    /// Whether the set may start machines from an old image that no other set is counted for.
    pub fn blocks_skew(&self) -> bool {
        match self {
            Self::Current | Self::Updating | Self::Waiting(_) | Self::Failed(_) => true,
            Self::Skipped { blocks_skew, .. } => *blocks_skew,
        }
    }

    /// One word for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Current => "current",
            Self::Updating => "updating",
            Self::Waiting(_) => "waiting",
            Self::Skipped { code, .. } => code,
            Self::Failed(failure) => &failure.code,
        }
    }

    /// `current`, `updating`, `waiting`, `skipped`, `failed`.
    pub fn result(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Updating => "updating",
            Self::Waiting(_) => "waiting",
            Self::Skipped { .. } => "skipped",
            Self::Failed(_) => "failed",
        }
    }

    /// Why the set does not have its image; empty if it has it, or gets it.
    pub fn reason(&self) -> &str {
        match self {
            Self::Current | Self::Updating => "",
            Self::Waiting(reason) | Self::Skipped { reason, .. } => reason,
            Self::Failed(failure) => &failure.message,
        }
    }
}
