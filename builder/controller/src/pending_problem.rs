//! The problem that the last reconcile of a key reported: what the next one compares with.

use std::time::Instant;

use super::lookup::Problem;
use super::snapshot::EarlierProblem;
use mosb_image::Digest;

/// A problem, and the inputs that it came of.
#[derive(Debug, Clone)]
pub struct PendingProblem {
    inputs: Digest,
    cause: String,
    since: Instant,
}

impl PendingProblem {
    /// A problem that was just met; it lasts since it was first met with these inputs.
    pub fn new(before: Option<&Self>, inputs: Digest, problem: &Problem) -> Self {
        let before = before.filter(|before| before.is_of(&inputs));
        Self {
            inputs,
            cause: problem.cause(),
            since: before.map_or_else(Instant::now, |before| before.since),
        }
    }

    /// Whether these are the inputs that it came of.
    pub fn is_of(&self, inputs: &Digest) -> bool {
        self.inputs == *inputs
    }

    /// As a decision sees it.
    pub fn earlier(&self) -> EarlierProblem {
        EarlierProblem { cause: self.cause.clone(), lasted: self.since.elapsed() }
    }
}
