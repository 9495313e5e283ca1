//! The condition `UserData` of a MachineOSConfig. Pure.

use jiff::Timestamp;

use super::content::MachineContent;
use super::join_tokens::JoinToken;
use super::served_config::ServedConfig;
use crate::effect::Action;
use crate::evaluation::{Joining, Reason};
use mosb_api::{MachineOsBuild, MachineOsConfig, MachineOsConfigStatus, condition, labels};
use mosb_cluster::kinds;
use mosb_cluster::name_list::name_list;
use mosb_cluster::object;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::status::{ConditionUpdate, config_status};
use mosb_cluster::target::{Found, in_service};
use mosb_ignition_server::STUB_VERSION;

/// Condition type: whether the Secret with the user data has the config of the current image.
pub const USER_DATA: &str = "UserData";
/// The most paths that a condition names.
const MAX_PATHS: usize = 20;
/// The most tokens that a condition names.
const MAX_TOKENS: usize = 5;
/// The API takes 32,768; a message may quote what somebody wrote.
const MAX_MESSAGE_CHARS: usize = 4096;

/// The write of the condition; none if it is there already.
pub fn report(config: &MachineOsConfig, reason: &Reason, now: Timestamp) -> Option<Action> {
    let (is, word, message) = match reason {
        Reason::Off => return remove(config),
        Reason::LookingUp | Reason::NothingServed | Reason::Served(_) => return None,
        Reason::Current { joining, message } => ("True", joining.reason(), message),
        Reason::Refused(refusal) => ("False", refusal.reason, &refusal.message),
    };
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let update = ConditionUpdate { kind: USER_DATA, status: is, reason: word, message: &message };
    let status = config_status(config, None, &[update], now)?;
    Some(write(config, &status))
}

/// What the condition shows: that the Secret is as it should be.
pub(super) fn current(config: &MachineOsConfig) -> Option<Reason> {
    let condition = condition(&config.status.conditions, USER_DATA)?;
    let message = condition.message.clone();
    let joining = Joining::ALL.into_iter().find(|joining| joining.reason() == condition.reason)?;
    condition.is_true().then_some(Reason::Current { joining, message })
}

/// The message of the condition.
pub(super) fn message(
    secret: &SecretRef,
    (build, target): &Found,
    content: &MachineContent,
    served: Option<&ServedConfig>,
    ended: &[&JoinToken],
) -> String {
    let config = format!(
        "the Ignition config (spec {}) of build {}, {}",
        content.version(),
        build.name,
        target.image
    );
    let mut message = match served {
        None => format!("secret {secret} has {config}"),
        Some(served) => format!(
            "secret {secret} has a stub (spec {STUB_VERSION}, which boot images with an older Ignition refuse) that fetches {config} from {}",
            served.url
        ),
    };
    match &content.join {
        None => {
            message += "; its machines boot and do not join the cluster: name the Secret that joins them in userData.joinSecret of ConfigMap mosb-config";
        }
        Some(join) if !ended.is_empty() => {
            let causes: Vec<String> = ended.iter().map(|token| token.describe_end()).collect();
            let is_certain = ended.iter().any(|token| token.other_remedy().is_none());
            message += &format!(
                "; its machines boot and {} not join the cluster: {}; put a new token into {} (userData.joinSecret), and the user data follows{}",
                if is_certain { "do" } else { "may" },
                name_list(&causes, MAX_TOKENS),
                join.origin,
                ended.iter().find_map(|token| token.other_remedy()).unwrap_or_default()
            );
        }
        Some(_) => {}
    }
    let paths = &content.secret_paths;
    if !paths.is_empty() {
        message += &format!(
            "; whoever can read user data can read files that look like secrets: {}",
            name_list(paths, MAX_PATHS)
        );
    }
    let policy = content.findings.iter().find(|one| one.code == "first-boot-policy");
    message += &policy.map(|one| format!("; {}", one.message)).unwrap_or_default();
    message
}

/// What the message has beside that if the image in service is another one, which no machine has run well
/// yet.
pub(super) fn newer_in_service(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    (build, _): &Found,
) -> Option<String> {
    let is_pinned = config.metadata.annotations.contains_key(labels::ROLLOUT_BUILD);
    let (served, target) = in_service(config, builds).ok()??;
    (served != *build && !is_pinned).then(|| {
        format!(
            "; {} of build {} is in service, and no machine of the pool has run it well yet",
            target.image, served.name
        )
    })
}

fn remove(config: &MachineOsConfig) -> Option<Action> {
    condition(&config.status.conditions, USER_DATA)?;
    let mut status = config.status.clone();
    status.conditions.retain(|condition| condition.kind != USER_DATA);
    Some(write(config, &status))
}

fn write(config: &MachineOsConfig, status: &MachineOsConfigStatus) -> Action {
    object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, status)
}
