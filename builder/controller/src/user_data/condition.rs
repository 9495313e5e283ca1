//! The condition `UserData` of a MachineOSConfig. Pure.

use jiff::Timestamp;

use super::reason::UserDataReason;
use crate::object;
use crate::status::{ConditionUpdate, config_status};
use crate::user_data::Action;
use mosb_plan::api::{MachineOsConfig, MachineOsConfigStatus, condition};
use mosb_reconcile::kinds::Kind;

/// Condition type: whether the Secret with the user data has the config of the current image.
pub const USER_DATA: &str = "UserData";
/// Reason of the condition: new machines join the cluster.
const CURRENT: &str = "Current";
/// Reason of the condition: nothing joins new machines to the cluster.
const DOES_NOT_JOIN: &str = "DoesNotJoin";
/// The API takes 32,768; a message may quote what somebody wrote.
const MAX_MESSAGE_CHARS: usize = 4096;

/// The write of the condition; none if it is there already.
pub(super) fn report(
    config: &MachineOsConfig,
    reason: &UserDataReason,
    now: Timestamp,
) -> Option<Action> {
    let (is, word, message) = match reason {
        UserDataReason::Off => return remove(config),
        UserDataReason::LookingUp => return None,
        UserDataReason::Current { joins: true, message } => ("True", CURRENT, message),
        UserDataReason::Current { joins: false, message } => ("True", DOES_NOT_JOIN, message),
        UserDataReason::Refused(refusal) => ("False", refusal.reason, &refusal.message),
    };
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let update = ConditionUpdate { kind: USER_DATA, status: is, reason: word, message: &message };
    let status = config_status(config, None, &[update], now)?;
    Some(write(config, &status))
}

/// What the condition shows: that the Secret is as it should be.
pub(super) fn current(config: &MachineOsConfig) -> Option<UserDataReason> {
    let condition = condition(&config.status.conditions, USER_DATA)?;
    let message = condition.message.clone();
    let joins = condition.reason == CURRENT;
    condition.is_true().then_some(UserDataReason::Current { joins, message })
}

fn remove(config: &MachineOsConfig) -> Option<Action> {
    condition(&config.status.conditions, USER_DATA)?;
    let mut status = config.status.clone();
    status.conditions.retain(|condition| condition.kind != USER_DATA);
    Some(write(config, &status))
}

fn write(config: &MachineOsConfig, status: &MachineOsConfigStatus) -> Action {
    object::replace_status(Kind::MachineOsConfig, &config.metadata, status)
}
