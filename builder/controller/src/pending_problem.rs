//! The problem that the last reconcile of a key reported, for the next one to compare with.

use std::time::Instant;

use super::lookup::Problem;
use super::snapshot::EarlierProblem;
use mosb_image::Digest;

/// A problem, and the inputs that caused it.
#[derive(Debug, Clone)]
pub struct PendingProblem {
    inputs: Digest,
    cause: String,
    since: Instant,
}

impl PendingProblem {
    /// A problem that was just found. It keeps the start time of an earlier problem with the same
    /// inputs.
    pub fn new(before: Option<&Self>, inputs: Digest, problem: &Problem) -> Self {
        let before = before.filter(|before| before.is_of(&inputs));
        Self {
            inputs,
            cause: problem.cause(),
            since: before.map_or_else(Instant::now, |before| before.since),
        }
    }

    /// Whether it was caused by these inputs.
    pub fn is_of(&self, inputs: &Digest) -> bool {
        self.inputs == *inputs
    }

    /// The part that a decision needs.
    pub fn earlier(&self) -> EarlierProblem {
        EarlierProblem { cause: self.cause.clone(), lasted: self.since.elapsed() }
    }
}
