//! Decides what to write into the Secrets. Pure: a snapshot gives the actions.

use jiff::Timestamp;

use crate::effect::{Action, SecretWrite};
use crate::evaluation::{Evaluation, Reason, Refusal};
use crate::snapshot::{Lookup, Snapshot, Subject};
use crate::{ignition_server, user_data};
use mosb_reconcile::driver;
use mosb_reconcile::waits::{SECRET_RECHECK, SECRET_REFUSED};

/// What to do about the Secrets of a key.
pub type Decision = driver::Decision<Lookup, Reason, SecretWrite>;

pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let evaluated = match &snapshot.subject {
        Subject::UserData(user_data) => user_data::evaluate(snapshot, user_data, now),
        Subject::Server(server) => ignition_server::evaluate(snapshot, server, now),
    };
    match evaluated {
        Ok(Evaluation::LookUp(lookup)) => Decision::looking_up(lookup, Reason::LookingUp),
        Ok(Evaluation::Checked(reason)) => {
            Decision { requeue_after: Some(SECRET_RECHECK), ..Decision::unchanged(reason) }
        }
        Ok(Evaluation::Read { writes, reason }) => {
            let again = (reason != Reason::Off).then_some(SECRET_RECHECK);
            let decision = report(snapshot, writes, reason, now);
            Decision { requeue_after: again, checked_for: again, ..decision }
        }
        Err(refusal) => refuse(snapshot, refusal, now),
    }
}

/// The decision that leaves the Secrets as they are, and reports why.
pub fn refuse(snapshot: &Snapshot, refusal: Refusal, now: Timestamp) -> Decision {
    let decision = report(snapshot, Vec::new(), Reason::Refused(refusal), now);
    Decision { requeue_after: Some(SECRET_REFUSED), ..decision }
}

/// The condition comes last: it describes what was written.
fn report(
    snapshot: &Snapshot,
    writes: Vec<SecretWrite>,
    reason: Reason,
    now: Timestamp,
) -> Decision {
    let config = snapshot.config();
    let report = config.and_then(|config| user_data::report(config, &reason, now));
    let actions = writes.into_iter().map(Action::Effect).chain(report).collect();
    Decision::of(reason, actions)
}
