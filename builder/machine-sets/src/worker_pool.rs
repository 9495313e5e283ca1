//! The condition on the pool `worker`: whether new machines get current images. Pure.

use jiff::Timestamp;

use super::effect::Action;
use super::plan::BootImagePlan;
use super::report::{DEGRADED, error_message, is_degraded};
use super::snapshot::BootImageSnapshot;
use mosb_api::condition;
use mosb_cluster::object;
use mosb_cluster::status::set_condition;

/// Reasons of the condition.
const FAILED: &str = "BootImageUpdateFailed";
const AS_EXPECTED: &str = "AsExpected";
/// The most characters of the message: the pool has many conditions.
const MAX_MESSAGE: usize = 4096;

/// The write of the condition; none without a change, and where another controller writes pools.
pub(super) fn worker_condition(
    plan: &BootImagePlan,
    snapshot: &BootImageSnapshot,
    now: Timestamp,
) -> Option<Action> {
    let pool = snapshot.worker_pool.as_ref()?;
    if snapshot.other_controller.is_some() || pool.metadata.is_being_deleted() {
        return None;
    }
    let was_reported = condition(&pool.status.conditions, DEGRADED).is_some();
    let is_degraded = is_degraded(plan);
    if !is_degraded && !was_reported {
        return None;
    }
    let message: String = error_message(plan).chars().take(MAX_MESSAGE).collect();
    let update = if is_degraded { ("True", FAILED, &*message) } else { ("False", AS_EXPECTED, "") };
    let mut conditions = pool.status.conditions.clone();
    set_condition(&mut conditions, DEGRADED, update, now);
    (conditions != pool.status.conditions)
        .then(|| object::replace_conditions(&pool.metadata, &conditions))
}
