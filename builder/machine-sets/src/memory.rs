//! What the next passes need to know of the writes and reads of this process. All of it may be lost:
//! a process that begins tries each write, and counts each recorded attempt. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::effect::{Action, BootImageWrite, Recorded};
use super::obstacle::{Failure, Obstacle};
use super::stub_expiry::expiry;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_reconcile::waits::{
    BOOT_IMAGE_FAILED, BOOT_IMAGE_REFUSED, BOOT_IMAGE_UNDONE, STUB_EXPIRY,
};
use mosb_reconcile::write::ApplyError;
use mosb_types::ErrorClass;

#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Writes that failed, by what they do: sets may share one.
    pub failed: BTreeMap<String, FailedWrite>,
    /// The UIDs of sets whose attempt was recorded and, as far as is known, not made: it does not
    /// count, however much else of the set changed meanwhile.
    unmade: BTreeSet<String>,
    /// When the CAs of stubs expire, and when each was read.
    stubs: BTreeMap<SecretRef, (Option<i64>, Timestamp)>,
}

/// A write that the API server refused, or that another writer undid.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedWrite {
    /// What is reported until the write is made.
    pub why: Obstacle,
    at: Timestamp,
    wait: Duration,
}

impl FailedWrite {
    /// Whether it is tried again.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_over(self.at, self.wait, now)
    }
}

impl Memory {
    /// Records how a write of a set ended. Returns why it failed, if the cause is this write, rather
    /// than our view or the API server.
    pub fn record(
        &mut self,
        write: &BootImageWrite,
        result: &Result<(), ApplyError>,
        now: Timestamp,
    ) -> Option<Obstacle> {
        self.record_attempt(write, result);
        let (why, wait) = match result {
            Ok(()) => match write.if_undone() {
                Some(undone) => (undone.into(), BOOT_IMAGE_UNDONE),
                None => {
                    self.failed.remove(&write.fingerprint());
                    return None;
                }
            },
            Err(ApplyError::Conflict(_)) => return None,
            Err(error) if is_general(error) => return None,
            Err(error) => refusal(write, error),
        };
        let failed = FailedWrite { why: why.clone(), at: now, wait };
        self.failed.insert(write.fingerprint(), failed);
        result.is_err().then_some(why)
    }

    fn record_attempt(&mut self, write: &BootImageWrite, result: &Result<(), ApplyError>) {
        match write {
            BootImageWrite::Status { recorded: Recorded::Attempt(set), .. }
                if end_of(result) == WriteEnd::Made =>
            {
                self.unmade.insert(set.clone());
            }
            BootImageWrite::Patch { target, .. } if end_of(result) != WriteEnd::Refused => {
                self.unmade.remove(&target.uid);
            }
            _ => {}
        }
    }

    /// Whether the recorded attempt of the set with this UID was not made.
    pub fn is_unmade(&self, set: &str) -> bool {
        self.unmade.contains(set)
    }

    /// Forgets failures of writes that are due and that no set needs any more.
    pub fn forget_unneeded(&mut self, needed: &[Action], now: Timestamp) {
        let needed = needed.iter().filter_map(|action| match action {
            Action::Effect(effect) => Some(effect.write.fingerprint()),
            _ => None,
        });
        let needed: BTreeSet<String> = needed.collect();
        self.failed.retain(|what, failed| !failed.is_due(now) || needed.contains(what));
    }

    /// How long until the first write is tried again that failed.
    pub fn next_retry(&self, now: Timestamp) -> Option<Duration> {
        let waiting = self.failed.values().filter(|failed| !failed.is_due(now));
        let left = |failed: &FailedWrite| {
            failed.wait.saturating_sub(now.duration_since(failed.at).unsigned_abs())
        };
        waiting.map(left).min()
    }

    /// Records the stubs that were read.
    pub fn record_stubs(&mut self, read: &BTreeMap<SecretRef, FoundSecret>, now: Timestamp) {
        let read = read.iter().map(|(secret, found)| (secret.clone(), (expiry(found), now)));
        self.stubs.extend(read);
    }

    /// When the CA of a stub expires that was read lately; `Some(None)` if no CA of it is known.
    pub fn stub_expiry(&self, secret: &SecretRef, now: Timestamp) -> Option<Option<i64>> {
        let (expiry, read) = self.stubs.get(secret)?;
        (!is_over(*read, STUB_EXPIRY, now)).then_some(*expiry)
    }

    /// When a stub was read last.
    pub fn last_read(&self, secret: &SecretRef) -> Option<Timestamp> {
        Some(self.stubs.get(secret)?.1)
    }
}

/// Whether a wait is over; also if the clock was set back.
fn is_over(since: Timestamp, wait: Duration, now: Timestamp) -> bool {
    let passed = now.duration_since(since);
    passed.is_negative() || passed.unsigned_abs() >= wait
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteEnd {
    Made,
    /// The API server answered that it was not made.
    Refused,
    Unknown,
}

fn end_of(result: &Result<(), ApplyError>) -> WriteEnd {
    match result {
        // Of an error after the answer: it was made, and has another value.
        Ok(()) | Err(ApplyError::Problem(_)) => WriteEnd::Made,
        Err(ApplyError::Conflict(_)) => WriteEnd::Refused,
        Err(ApplyError::Api(error)) => match error.status_code() {
            Some(400..500) => WriteEnd::Refused,
            _ => WriteEnd::Unknown,
        },
    }
}

/// What is reported of a refused write, and when it is tried again.
fn refusal(write: &BootImageWrite, error: &ApplyError) -> (Obstacle, Duration) {
    let is_forbidden = matches!(error, ApplyError::Api(error) if error.status_code() == Some(403));
    let is_transient = !is_forbidden && error.class() == Some(ErrorClass::Transient);
    let wait = if is_transient { BOOT_IMAGE_FAILED } else { BOOT_IMAGE_REFUSED };
    let why = match write {
        BootImageWrite::Stub(_) if is_forbidden => Obstacle::NoRight(format!(
            "{error}; `mosb boot-images rbac` prints the Role that it needs"
        )),
        _ => Failure::new(error.code(), error.to_string()).into(),
    };
    (why, wait)
}

/// Whether the Lease is lost, or the API server is away: no other write is possible.
pub(super) fn is_general(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Api(error) if matches!(error.status_code(), None | Some(401)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_server::refused;

    #[test]
    fn only_an_answer_says_that_a_write_was_not_made() {
        for (what, result, want) in [
            ("made", Ok(()), WriteEnd::Made),
            ("a conflict", Err(ApplyError::Conflict("x".to_owned())), WriteEnd::Refused),
            ("a policy", Err(refused(403)), WriteEnd::Refused),
            ("too many requests", Err(refused(429)), WriteEnd::Refused),
            ("an internal error", Err(refused(500)), WriteEnd::Unknown),
            ("a time-out", Err(refused(504)), WriteEnd::Unknown),
        ] {
            assert_eq!(end_of(&result), want, "{what}");
        }
    }

    #[test]
    fn the_first_retry_is_waited_for() {
        let now = Timestamp::UNIX_EPOCH;
        let after = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let mut memory = Memory::default();
        assert_eq!(memory.next_retry(now), None);
        for (name, code) in [("a", 500), ("b", 403)] {
            let write = BootImageWrite::Create {
                kind: mosb_cluster::cluster_cache::BootImageKind::BootImageHistory,
                namespace: "machines".to_owned(),
                name: name.to_owned(),
                body: serde_json::Value::Null,
                also: None,
            };
            assert!(memory.record(&write, &Err(refused(code)), now).is_some());
        }
        for (what, passed, want) in [
            ("the first", 0, Some(30)),
            ("later", 20, Some(10)),
            ("it is due", 40, Some(260)),
            ("all are due", 300, None),
            ("the clock was set back", -1, None),
        ] {
            let left = memory.next_retry(after(passed)).map(|left| left.as_secs());
            assert_eq!(left, want, "{what}");
        }
        memory.forget_unneeded(&[], after(40));
        assert_eq!(memory.failed.len(), 1, "what is due and not needed");
    }
}
