//! Attempts that were recorded and that this process knows not to have been made: they don't count,
//! however much else of the set changed meanwhile. Pure.

use std::collections::BTreeSet;

use super::plan::SetPlan;
use super::write::{BootImageWrite, Recorded};
use mosb_reconcile::write::ApplyError;

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteEnd {
    Made,
    /// The API server answered that it was not made.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// The sets whose recorded attempt was not made.
#[derive(Debug, Clone, Default)]
pub(super) struct UnmadeAttempts(BTreeSet<String>);

impl WriteEnd {
    pub fn of(result: &Result<bool, ApplyError>) -> Self {
        match result {
            Ok(_) => Self::Made,
            Err(ApplyError::Conflict(_)) => Self::Refused,
            Err(ApplyError::Api(error)) => match error.status_code() {
                Some(400..500) => Self::Refused,
                _ => Self::Unknown,
            },
            // It was made, and has another value.
            Err(ApplyError::Problem(_)) => Self::Made,
        }
    }
}

impl UnmadeAttempts {
    /// Notes the write of a set. A process that begins knows of no attempt, so each one counts.
    pub fn note(&mut self, set: &str, write: &BootImageWrite, end: WriteEnd) {
        match (write, end) {
            (BootImageWrite::HistoryStatus { recorded: Recorded::Attempt, .. }, WriteEnd::Made) => {
                self.0.insert(set.to_owned());
            }
            (BootImageWrite::Patch { .. }, WriteEnd::Made | WriteEnd::Unknown) => {
                self.0.remove(set);
            }
            _ => {}
        }
    }

    /// Forgets the sets that are not among these.
    pub fn retain(&mut self, sets: &[SetPlan]) {
        let sets: BTreeSet<&str> = sets.iter().map(|set| &*set.set).collect();
        self.0.retain(|set| sets.contains(&**set));
    }

    /// By `namespace/kind.group/name`.
    pub fn sets(&self) -> BTreeSet<String> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_reconcile::error::Error;

    #[test]
    fn only_an_answer_says_that_a_write_was_not_made() {
        let api = |code: u16| {
            let status = serde_json::json!({ "code": code, "message": "", "reason": "" });
            let status = serde_json::from_value(status).unwrap();
            Err(ApplyError::Api(Error::api("x", "patch")(kube::Error::Api(status))))
        };
        for (what, result, want) in [
            ("made", Ok(true), WriteEnd::Made),
            ("a conflict", Err(ApplyError::Conflict("x".to_owned())), WriteEnd::Refused),
            ("a policy", api(403), WriteEnd::Refused),
            ("too many requests", api(429), WriteEnd::Refused),
            ("an internal error", api(500), WriteEnd::Unknown),
            ("a time-out", api(504), WriteEnd::Unknown),
        ] {
            assert_eq!(WriteEnd::of(&result), want, "{what}");
        }
    }
}
