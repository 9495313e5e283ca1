//! The events of a pool in one pass: what changes of its conditions. Those of its machines are on
//! their Nodes.

use super::context::Context;
use super::effect::Action;
use super::pool_status_update::PoolStatusUpdate;
use crate::status::{EventReason, ROLLOUT_DEGRADED};
use crate::status::{new_event, regarding};
use mosb_plan::api::{Condition, condition};

/// The events of this write of the pool's status. They follow it, so that a write that is rejected
/// or repeated causes none.
pub(super) fn events(ctx: &Context<'_>, update: Option<&PoolStatusUpdate>) -> Vec<Action> {
    let Some(update) = update else {
        return Vec::new();
    };
    let metadata = &ctx.snapshot.pool.metadata;
    let old = |kind: &str| condition(&ctx.snapshot.pool.status.conditions, kind);
    let new = |kind: &str| condition(&update.conditions, kind);
    let is_true = |one: Option<&Condition>| one.is_some_and(Condition::is_true);
    let begins = |kind: &str| new(kind).filter(|one| one.is_true() && !is_true(old(kind)));
    let message = |one: &Condition| one.message.clone();
    let mut found: Vec<(EventReason, String)> = Vec::new();
    let blocked = (old(ROLLOUT_DEGRADED), new(ROLLOUT_DEGRADED));
    match blocked {
        (old, Some(new)) if new.is_true() => {
            let is_same = old.is_some_and(|old| old.is_true() && old.reason == new.reason);
            if !is_same {
                let note = format!("{}: {}", new.reason, new.message);
                found.push((EventReason::RolloutBlocked, note));
            }
        }
        (old, _) if is_true(old) => {
            let reason = old.map(|old| old.reason.clone()).unwrap_or_default();
            let note = format!("no longer {reason}");
            found.push((EventReason::RolloutUnblocked, note));
        }
        _ => {}
    }
    found.extend(begins("Updating").map(|one| (EventReason::RolloutStarted, message(one))));
    found.extend(begins("Updated").map(|one| (EventReason::RolloutCompleted, message(one))));
    let on = || regarding("MachineConfigPool", metadata);
    // The same change may come again, which is another event.
    let edge = |text: &str| format!("{} {text}", ctx.now);
    let events = found.into_iter();
    events
        .map(|(reason, text)| Action::Event(new_event(on(), reason, &edge(&text), text)))
        .collect()
}
