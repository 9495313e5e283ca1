//! Reports on the pool that its MachineOSConfig asks for a roll-out, and the controller runs without
//! `--rollout`.

use jiff::Timestamp;

use super::Decision;
use crate::action::{Action, NewStatus};
use crate::snapshot::Snapshot;
use crate::status::not_enabled_conditions;
use mosb_plan::api::labels;
use mosb_plan::api::rollout::RolloutMode;
use mosb_reconcile::kinds::Kind;

/// Adds the condition to the decision: to its write of the pool's conditions, if it has one.
pub(super) fn report(snapshot: &Snapshot, now: Timestamp, decision: &mut Decision) {
    let cluster = &snapshot.cluster;
    // An operator brings images to its machines itself.
    let is_others = cluster.other_builder.is_some() || cluster.machine_config_operator;
    let Some(pool) = snapshot.pool.as_ref().filter(|_| !is_others && !cluster.rolling_out) else {
        return;
    };
    if !decision.lookups.is_empty() {
        return;
    }
    let is_wanted = snapshot.config.as_ref().is_some_and(|config| {
        let metadata = &config.metadata;
        let is_on = RolloutMode::of(metadata) != Ok(RolloutMode::None);
        !metadata.is_being_deleted()
            && (is_on || metadata.annotation(labels::ROLLOUT_ONCE).is_some())
    });
    let written = decision.actions.iter_mut().find_map(|action| match action {
        Action::ReplaceStatus(target, NewStatus::Conditions(conditions))
            if target.kind == Kind::MachineConfigPool =>
        {
            Some(conditions)
        }
        _ => None,
    });
    if let Some(conditions) = written {
        if let Some(new) = not_enabled_conditions(conditions, is_wanted, now) {
            *conditions = new;
        }
    } else if let Some(new) = not_enabled_conditions(&pool.status.conditions, is_wanted, now) {
        decision.actions.push(Action::replace_conditions(&pool.metadata, new));
    }
}
