//! Reports on the pool that its MachineOSConfig asks for a roll-out, and the controller runs without
//! `--rollout`.

use jiff::Timestamp;
use serde_json::json;

use super::Decision;
use crate::action::Action;
use crate::snapshot::Snapshot;
use mosb_api::labels;
use mosb_api::rollout::RolloutMode;
use mosb_cluster::object;
use mosb_cluster::status::not_enabled_conditions;
use mosb_reconcile::write::NewStatus;

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
    let written = decision.actions.iter_mut().find_map(|action| {
        let conditions = object::conditions_in(action)?;
        Some((action, conditions))
    });
    let old = written.as_ref().map_or(&pool.status.conditions, |(_, conditions)| conditions);
    let Some(new) = not_enabled_conditions(old, is_wanted, now) else {
        return;
    };
    match written {
        Some((Action::ReplaceStatus(_, status), _)) => {
            *status = NewStatus::Fields(json!({ "conditions": new }));
        }
        _ => decision.actions.push(object::replace_conditions(&pool.metadata, &new)),
    }
}
