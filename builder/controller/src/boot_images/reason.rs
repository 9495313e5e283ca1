//! The state of all boot images, for the log.

use std::fmt;

use super::plan::{BootImagePlan, Outcome};
use super::report::is_degraded;

/// A summary of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootImageReason {
    pub is_degraded: bool,
    is_on: bool,
    counts: [usize; 5],
}

impl BootImageReason {
    pub fn of(plan: &BootImagePlan) -> Self {
        let mut counts = [0; 5];
        for set in &plan.sets {
            let at = match set.outcome {
                Outcome::Current => 0,
                Outcome::Updating => 1,
                Outcome::Waiting(_) => 2,
                Outcome::Skipped { .. } => 3,
                Outcome::Failed(_) => 4,
            };
            counts[at] += 1;
        }
        Self { is_degraded: is_degraded(plan), is_on: plan.is_on, counts }
    }
}

impl fmt::Display for BootImageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_on && !self.is_degraded {
            return f.write_str("no machine sets are selected");
        }
        let [current, updating, waiting, skipped, failed] = self.counts;
        write!(
            f,
            "machine sets: {current} current, {updating} updating, {waiting} waiting, {skipped} skipped, {failed} failed"
        )
    }
}
