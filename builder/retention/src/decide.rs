//! Decides when the old images of a pool are deleted, and what its condition says. Pure.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;

use crate::judge::{ImageKind, RetentionFacts, Tags, judge};
use crate::reconciler::PruneEffect;
use mosb_api::{MachineOsConfig, condition};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{ConditionUpdate, camel_case, config_status};
use mosb_image::Digest;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::waits::{
    IMAGE_RETENTION, IMAGE_RETENTION_FAILED, IMAGE_RETENTION_HELD, IMAGE_RETENTION_NEXT,
};
use mosb_reconcile::write::Action;
use mosb_types::ErrorClass;

/// Condition type of a MachineOSConfig: whether its old images are deleted.
pub const IMAGE_RETENTION_CONDITION: &str = "ImageRetention";
/// The API takes 32,768; a message may quote a registry.
const MAX_MESSAGE_CHARS: usize = 4096;

pub type RetentionDecision = Decision<std::convert::Infallible, RetentionState, PruneEffect>;

/// Everything observed for a MachineOSConfig.
#[derive(Debug, Clone)]
pub struct RetentionSnapshot {
    pub config: MachineOsConfig,
    /// From the cache: too few reasons to keep an image, and no tags. None without `retention` in the
    /// settings.
    pub facts: Option<RetentionFacts>,
    /// The last pass of this process.
    pub last: Option<LastPass>,
}

/// A pass that listed cluster and registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPass {
    pub at: Timestamp,
    /// What the cache showed as deletable.
    pub candidates: BTreeSet<Digest>,
    pub outcome: PassOutcome,
    /// Failures in a row.
    pub failures: u32,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassOutcome {
    /// Whether there is more to delete than one pass deletes.
    Done {
        deleted: usize,
        has_more: bool,
    },
    /// Nothing may be deleted.
    Held(String),
    /// The registry deletes nothing.
    Refused {
        repository: String,
        answer: String,
    },
    Failed(Problem),
}

/// What becomes of the old images of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionState {
    /// No `retention` in the settings.
    Off,
    /// No image is old enough, and not needed.
    Nothing,
    Pruning,
    Waiting(PassOutcome),
}

impl fmt::Display for RetentionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("old images stay"),
            Self::Nothing => f.write_str("no old image is to be deleted"),
            Self::Pruning => f.write_str("looking for images that nothing needs"),
            Self::Waiting(PassOutcome::Done { deleted, .. }) => {
                write!(f, "{deleted} old images were deleted")
            }
            Self::Waiting(PassOutcome::Held(why)) => write!(f, "no image is deleted: {why}"),
            Self::Waiting(PassOutcome::Refused { repository, answer }) => write!(
                f,
                "{repository} refuses deletion ({answer}); allow it there, or let the registry delete old images: mosb images prune --print-policy"
            ),
            Self::Waiting(PassOutcome::Failed(problem)) => f.write_str(&problem.message),
        }
    }
}

impl LastPass {
    /// When the same images are looked at again.
    fn next(&self) -> std::time::Duration {
        match &self.outcome {
            PassOutcome::Done { has_more: true, .. } => IMAGE_RETENTION_NEXT,
            PassOutcome::Done { has_more: false, .. } | PassOutcome::Refused { .. } => {
                IMAGE_RETENTION
            }
            PassOutcome::Held(_) => IMAGE_RETENTION_HELD,
            PassOutcome::Failed(_) => IMAGE_RETENTION_FAILED.wait(self.failures),
        }
    }
}

impl RetentionSnapshot {
    /// The images that may be deletable, as far as the cache shows.
    pub fn candidates(&self, now: Timestamp) -> BTreeSet<Digest> {
        let judged = self.facts.iter().flat_map(|facts| judge(facts, &Tags::new(), now));
        // Only the registry shows whether a prepared base is there: it goes with an image.
        judged
            .filter(|image| image.kind == ImageKind::Machines && !image.is_kept())
            .map(|image| image.digest)
            .collect()
    }
}

pub fn decide(snapshot: &RetentionSnapshot, now: Timestamp) -> RetentionDecision {
    if snapshot.facts.is_none() {
        return RetentionDecision::of(RetentionState::Off, remove_condition(&snapshot.config));
    }
    let candidates = snapshot.candidates(now);
    if candidates.is_empty() {
        let actions = report(&snapshot.config, &RetentionState::Nothing, now);
        let decision = RetentionDecision::of(RetentionState::Nothing, actions);
        return RetentionDecision { requeue_after: Some(IMAGE_RETENTION), ..decision };
    }
    let last = snapshot.last.as_ref().filter(|last| {
        // One that failed is not repeated for another image.
        candidates.is_subset(&last.candidates) || matches!(last.outcome, PassOutcome::Failed(_))
    });
    let left = last.and_then(|last| {
        let since = now.duration_since(last.at).unsigned_abs();
        last.next().checked_sub(since).map(|left| (last, left))
    });
    match left {
        Some((last, left)) => {
            let state = RetentionState::Waiting(last.outcome.clone());
            let actions = report(&snapshot.config, &state, now);
            RetentionDecision { requeue_after: Some(left), ..RetentionDecision::of(state, actions) }
        }
        None => {
            let pool = snapshot.config.spec.machine_config_pool.name.clone();
            let config = snapshot.config.metadata.name.clone();
            let effect = Action::Effect(PruneEffect { pool, config, candidates });
            RetentionDecision {
                requeue_after: Some(std::time::Duration::ZERO),
                ..RetentionDecision::of(RetentionState::Pruning, vec![effect])
            }
        }
    }
}

/// The condition. A registry or an API server that does not answer for a moment changes nothing.
fn report(
    config: &MachineOsConfig,
    state: &RetentionState,
    now: Timestamp,
) -> Vec<Action<PruneEffect>> {
    let (status, reason) = match state {
        RetentionState::Off | RetentionState::Pruning => return Vec::new(),
        RetentionState::Waiting(PassOutcome::Failed(problem))
            if problem.class == ErrorClass::Transient =>
        {
            return Vec::new();
        }
        RetentionState::Nothing | RetentionState::Waiting(PassOutcome::Done { .. }) => {
            ("True", "Current".to_owned())
        }
        RetentionState::Waiting(PassOutcome::Held(_)) => ("False", "Held".to_owned()),
        RetentionState::Waiting(PassOutcome::Refused { .. }) => ("False", "Refused".to_owned()),
        RetentionState::Waiting(PassOutcome::Failed(problem)) => {
            ("False", camel_case(&problem.reason))
        }
    };
    let message = match status {
        "True" => "images that nothing needs are deleted from the registry".to_owned(),
        _ => without_digests(&state.to_string()).chars().take(MAX_MESSAGE_CHARS).collect(),
    };
    let kind = IMAGE_RETENTION_CONDITION;
    let update = ConditionUpdate { kind, status, reason: &reason, message: &message };
    let status = config_status(config, None, &[update], now);
    let write =
        |status| object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, &status);
    status.map(write).into_iter().collect()
}

/// A digest in a MachineOSConfig keeps its image, and a message must not.
fn without_digests(message: &str) -> String {
    message.replace("sha256:", "")
}

fn remove_condition(config: &MachineOsConfig) -> Vec<Action<PruneEffect>> {
    if condition(&config.status.conditions, IMAGE_RETENTION_CONDITION).is_none() {
        return Vec::new();
    }
    let mut status = config.status.clone();
    status.conditions.retain(|one| one.kind != IMAGE_RETENTION_CONDITION);
    vec![object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, &status)]
}
