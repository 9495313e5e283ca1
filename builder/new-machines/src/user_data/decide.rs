//! Decides what to write into the Secret. Pure: a snapshot gives the actions.

use jiff::Timestamp;

use super::content::MachineContent;
use super::join_tokens::ClusterInfo;
use super::reason::{Joining, Refusal, UserDataReason};
use super::served_config::ServingPlace;
use super::snapshot::UserDataSnapshot;
use super::{condition, target};
use crate::ignition_server::{authority_secret, server_secret};
use crate::user_data::{Action, UserDataWrite};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{
    FoundSecret, MAX_SECRET_SIZE, SecretOwner, Unwritable, UserDataSecret,
};
use mosb_plan::api::labels;
use mosb_plan::api::rollout::NodeTarget;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::waits::{SECRET_RECHECK, SECRET_REFUSED};
use mosb_types::{Diagnostic as _, Secret};

/// What to do about the user data.
pub type UserDataDecision = Decision<UserDataLookup, UserDataReason, UserDataWrite>;

/// A fact that the watches don't show.
#[derive(Debug, Clone, PartialEq)]
pub enum UserDataLookup {
    /// A Secret. Result: its entry in `secrets` of the results.
    Secret(SecretRef),
    /// What the config of machines with this image is made of. Result: `inputs` of the results.
    Inputs(Box<NodeTarget>),
    /// The bootstrap tokens that are alive. Result: `cluster_info` of the results.
    ClusterInfo,
}

/// Reason of the condition: what the config is made of can't be read.
const INPUTS_UNREADABLE: &str = "InputsUnreadable";

pub fn decide(snapshot: &UserDataSnapshot, now: Timestamp) -> UserDataDecision {
    let config = &snapshot.config;
    match evaluate(snapshot, now) {
        Ok(Evaluation::LookUp(lookup)) => {
            UserDataDecision::looking_up(lookup, UserDataReason::LookingUp)
        }
        Ok(Evaluation::Off) => {
            let reason = UserDataReason::Off;
            let report = condition::report(config, &reason, now);
            UserDataDecision::of(reason, report.into_iter().collect())
        }
        Ok(Evaluation::Checked(reason)) => UserDataDecision {
            requeue_after: Some(SECRET_RECHECK),
            ..UserDataDecision::unchanged(reason)
        },
        Ok(Evaluation::Current { writes, joining, message }) => {
            let reason = UserDataReason::Current { joining, message };
            let writes = writes.into_iter().map(Action::Effect);
            // The condition comes last: it describes what was written.
            let actions = writes.chain(condition::report(config, &reason, now));
            UserDataDecision {
                requeue_after: Some(SECRET_RECHECK),
                ..UserDataDecision::of(reason, actions.collect())
            }
        }
        Err(refusal) => refuse(snapshot, refusal, now),
    }
}

/// The decision that leaves the Secret as it is, and reports why.
pub(super) fn refuse(
    snapshot: &UserDataSnapshot,
    refusal: Refusal,
    now: Timestamp,
) -> UserDataDecision {
    let reason = UserDataReason::Refused(refusal);
    let report = condition::report(&snapshot.config, &reason, now);
    UserDataDecision {
        requeue_after: Some(SECRET_REFUSED),
        ..UserDataDecision::of(reason, report.into_iter().collect())
    }
}

enum Evaluation {
    Off,
    LookUp(UserDataLookup),
    /// Nothing changed since the Secret was read.
    Checked(UserDataReason),
    Current {
        /// What machines fetch is there before the stub that fetches it.
        writes: Vec<UserDataWrite>,
        joining: Joining,
        message: String,
    },
}

fn evaluate(snapshot: &UserDataSnapshot, now: Timestamp) -> Result<Evaluation, Refusal> {
    let config = &snapshot.config;
    let Some(value) = config.metadata.annotations.get(labels::USER_DATA) else {
        return Ok(Evaluation::Off);
    };
    if let Some(who) = &snapshot.other_controller {
        let message = format!(
            "{who} makes the user data of machines here, so mosb does not; remove the annotation {}, or scale the other one to 0",
            labels::USER_DATA
        );
        return Err(Refusal::new("OtherController", message));
    }
    let secret: SecretRef = value.parse().map_err(|cause| {
        let shown: String = value.chars().take(100).collect();
        let message = format!(
            "annotation {}: {shown:?}: {cause}; set NAMESPACE/NAME of a Secret",
            labels::USER_DATA
        );
        Refusal::new("BadAnnotation", message)
    })?;
    if secret == server_secret() || secret == authority_secret(&snapshot.namespace) {
        let message = format!(
            "annotation {}: secret {secret} is one of mosb serve-ignition; name one for machines",
            labels::USER_DATA
        );
        return Err(Refusal::new("BadAnnotation", message));
    }
    if !snapshot.rivals.is_empty() {
        let message = format!(
            "more than one MachineOSConfig for pool {}: {}, {}; delete all but one",
            config.spec.machine_config_pool.name,
            config.metadata.name,
            snapshot.rivals.join(", ")
        );
        return Err(Refusal::new("Rivals", message));
    }
    let found = target::current(config, &snapshot.builds)
        .map_err(|error| Refusal::new(error.reason, error.message))?;
    let Some((build, target)) = found else {
        let message = format!(
            "no image of pool {} is in service yet; it is written when the first one is built",
            config.spec.machine_config_pool.name
        );
        return Err(Refusal::new("NoImage", message));
    };
    if snapshot.is_current
        && let Some(reason) = condition::current(config)
    {
        return Ok(Evaluation::Checked(reason));
    }
    let secrets = &snapshot.lookup_results.secrets;
    let there = match secrets.get(&secret) {
        None => return Ok(Evaluation::LookUp(UserDataLookup::Secret(secret))),
        Some(found) => readable(&secret, found)?,
    };
    // A Secret that mosb may not write needs no other lookup.
    there.expose().check().map_err(|unwritable| describe(&secret, unwritable))?;
    check_owner(snapshot, &secret, there.expose())?;
    let mut place = None;
    let endpoint = snapshot.endpoint.as_ref();
    let endpoint = endpoint.map_err(|message| Refusal::new(INPUTS_UNREADABLE, message))?;
    if let Some(endpoint) = endpoint {
        let (authority, server) = (authority_secret(&snapshot.namespace), server_secret());
        let missing = [authority, server].into_iter().find(|one| !secrets.contains_key(one));
        if let Some(missing) = missing {
            return Ok(Evaluation::LookUp(UserDataLookup::Secret(missing)));
        }
        place = Some(ServingPlace::new(endpoint, secrets, &snapshot.namespace)?);
    }
    let content = match &snapshot.lookup_results.inputs {
        None => return Ok(Evaluation::LookUp(UserDataLookup::Inputs(Box::new(target)))),
        Some(Err(problem)) => return Err(Refusal::new(INPUTS_UNREADABLE, &*problem.message)),
        Some(Ok(inputs)) => MachineContent::new(inputs, None).map_err(|error| {
            let reason = match error.code() {
                "push-login" => "PushLogin",
                "bad-own-config" => "BadJoinConfig",
                _ => "BadConfig",
            };
            Refusal::new(reason, error.to_string())
        })?,
    };
    let info = match &snapshot.lookup_results.cluster_info {
        None if content.needs_cluster_info() => {
            return Ok(Evaluation::LookUp(UserDataLookup::ClusterInfo));
        }
        found => found.as_ref().unwrap_or(&ClusterInfo::Unknown),
    };
    let ended = content.ended_tokens(info, now);
    let joining = match &content.join {
        None => Joining::DoesNotJoin,
        Some(_) if ended.is_empty() => Joining::Joins,
        Some(_) => Joining::TokenExpired,
    };
    let whole = content.to_bytes();
    let pool = &config.spec.machine_config_pool.name;
    let served = place.map(|place| place.serve(pool, &whole, now)).transpose()?;
    let given = served.as_ref().map_or(&whole, |served| &served.stub);
    let newer = there.expose().with(given, &SecretOwner::of(&config.metadata));
    let newer = newer.map_err(|unwritable| describe(&secret, unwritable))?;
    let found = (build, target);
    let message = condition::message(&secret, &found, &content, served.as_ref(), &ended);
    let own = newer.map(|object| UserDataWrite { secret, object: Secret::new(object) });
    let writes = served.and_then(|served| served.write).into_iter().chain(own).collect();
    Ok(Evaluation::Current { writes, joining, message })
}

/// Another MachineOSConfig that names the Secret changes nothing for the one that has it.
fn check_owner(
    snapshot: &UserDataSnapshot,
    secret: &SecretRef,
    there: &UserDataSecret,
) -> Result<(), Refusal> {
    let cause = match there.owner() {
        Some(owner) if owner.is(&snapshot.config.metadata) => return Ok(()),
        Some(owner) => format!(
            "it has the user data of MachineOSConfig {}; name another one, or remove its annotation {} if that has ended",
            owner.name(),
            labels::USER_DATA_OWNER
        ),
        None if snapshot.sharing.is_empty() => return Ok(()),
        None => format!(
            "MachineOSConfig {} names it too; give each pool a Secret of its own",
            snapshot.sharing.join(", ")
        ),
    };
    Err(Refusal::new("SecretShared", format!("secret {secret}: {cause}")))
}

fn readable<'s>(
    secret: &SecretRef,
    found: &'s FoundSecret,
) -> Result<&'s Secret<UserDataSecret>, Refusal> {
    match found {
        FoundSecret::Found(there) => Ok(there),
        FoundSecret::Missing => {
            let message = format!(
                "secret {secret}: there is none; create it without data and with the label {}",
                labels::USER_DATA
            );
            Err(Refusal::new("NoSecret", message))
        }
        FoundSecret::Forbidden(cause) => {
            let message = format!(
                "secret {secret}: {cause}: it needs the verbs get and update for this name, as in deploy/user-data"
            );
            Err(Refusal::new("Forbidden", message))
        }
    }
}

fn describe(secret: &SecretRef, unwritable: Unwritable) -> Refusal {
    match unwritable {
        Unwritable::NotLabelled => {
            let message = format!(
                "secret {secret}: it has no label {}, so mosb does not write it; label it if it is for user data, or correct the annotation",
                labels::USER_DATA
            );
            Refusal::new("NotLabelled", message)
        }
        Unwritable::Immutable => {
            let message = format!("secret {secret}: it is immutable; delete it and create it anew");
            Refusal::new("Immutable", message)
        }
        Unwritable::Deleting => {
            let message = format!("secret {secret}: it is being deleted; create it anew");
            Refusal::new("NoSecret", message)
        }
        Unwritable::TooLarge(size) => {
            let message = format!(
                "secret {secret}: its values would have {size} bytes, and a Secret takes {MAX_SECRET_SIZE} (the config is in it twice); move large files out of the pool's MachineConfigs, or give machines what `mosb ignition` prints"
            );
            Refusal::new("TooLarge", message)
        }
    }
}
