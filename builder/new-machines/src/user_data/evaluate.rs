//! Evaluates which user data a Secret should have. Pure.

use jiff::Timestamp;

use super::condition;
use super::content::MachineContent;
use super::join_tokens::ClusterInfo;
use super::served_config::ServingPlace;
use crate::effect::SecretWrite;
use crate::evaluation::{Evaluated, Evaluation, Joining, Reason, Refusal};
use crate::ignition_server::{authority_secret, server_secret};
use crate::snapshot::{Lookup, Snapshot, UserData};
use mosb_api::labels;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::target::of_new_machines;
use mosb_cluster::user_data_secret::{
    FoundSecret, MAX_SECRET_SIZE, SecretOwner, Unwritable, UserDataSecret,
};
use mosb_types::{Diagnostic as _, Secret};

/// Reason of the condition: what the config is made of can't be read.
const INPUTS_UNREADABLE: &str = "InputsUnreadable";

pub fn evaluate(snapshot: &Snapshot, user_data: &UserData, now: Timestamp) -> Evaluated {
    let config = &user_data.config;
    let Some(value) = config.metadata.annotations.get(labels::USER_DATA) else {
        return Ok(Evaluation::Read { writes: Vec::new(), reason: Reason::Off });
    };
    if let Some(who) = &user_data.other_controller {
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
    if !user_data.rivals.is_empty() {
        let message = format!(
            "more than one MachineOSConfig for pool {}: {}, {}; delete all but one",
            config.spec.machine_config_pool.name,
            config.metadata.name,
            user_data.rivals.join(", ")
        );
        return Err(Refusal::new("Rivals", message));
    }
    let found = of_new_machines(config, &user_data.builds)
        .map_err(|error| Refusal::new(error.reason, error.message))?;
    let Some((build, target)) = found else {
        let message = format!(
            "no image of pool {} is in service yet; it is written when the first one is built",
            config.spec.machine_config_pool.name
        );
        return Err(Refusal::new("NoImage", message));
    };
    if snapshot.is_checked
        && let Some(reason) = condition::current(config)
    {
        return Ok(Evaluation::Checked(reason));
    }
    let secrets = &snapshot.lookup_results.secrets;
    let there = match secrets.get(&secret) {
        None => return Ok(Evaluation::LookUp(Lookup::Secret(secret))),
        Some(found) => readable(&secret, found)?,
    };
    // A Secret that mosb may not write needs no other lookup.
    there.expose().check().map_err(|unwritable| describe(&secret, unwritable))?;
    check_owner(user_data, &secret, there.expose())?;
    let mut place = None;
    let endpoint = snapshot.endpoint.as_ref();
    let endpoint = endpoint.map_err(|message| Refusal::new(INPUTS_UNREADABLE, message))?;
    if let Some(endpoint) = endpoint {
        let (authority, server) = (authority_secret(&snapshot.namespace), server_secret());
        let missing = [authority, server].into_iter().find(|one| !secrets.contains_key(one));
        if let Some(missing) = missing {
            return Ok(Evaluation::LookUp(Lookup::Secret(missing)));
        }
        place = Some(ServingPlace::new(endpoint, secrets, &snapshot.namespace)?);
    }
    let content = match &snapshot.lookup_results.inputs {
        None => return Ok(Evaluation::LookUp(Lookup::Inputs(Box::new(target)))),
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
            return Ok(Evaluation::LookUp(Lookup::ClusterInfo));
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
    let mut message = condition::message(&secret, &found, &content, served.as_ref(), &ended);
    message += &condition::newer_in_service(config, &user_data.builds, &found).unwrap_or_default();
    let own = newer.map(|object| SecretWrite { secret, object: Secret::new(object) });
    let writes = served.and_then(|served| served.write).into_iter().chain(own).collect();
    Ok(Evaluation::Read { writes, reason: Reason::Current { joining, message } })
}

/// Another MachineOSConfig that names the Secret changes nothing for the one that has it.
fn check_owner(
    user_data: &UserData,
    secret: &SecretRef,
    there: &UserDataSecret,
) -> Result<(), Refusal> {
    let cause = match there.owner() {
        Some(owner) if owner.is(&user_data.config.metadata) => return Ok(()),
        Some(owner) => format!(
            "it has the user data of MachineOSConfig {}; name another one, or remove its annotation {} if that has ended",
            owner.name(),
            labels::USER_DATA_OWNER
        ),
        None if user_data.sharing.is_empty() => return Ok(()),
        None => format!(
            "MachineOSConfig {} names it too; give each pool a Secret of its own",
            user_data.sharing.join(", ")
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
