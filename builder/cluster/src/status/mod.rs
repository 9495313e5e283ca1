//! Builds statuses: conditions, the pool's condition and events.
//!
//! Input: the phase of a build, the old status and the time; output: the new status. Invariant: a
//! digest is reported only after a registry confirmed it, and a transition time changes only with
//! its status.

mod build;
mod config;
mod event;
mod message;
mod pool;
mod render;
mod rollout;
mod seed;

use jiff::Timestamp;

use mosb_api::Condition;

pub use build::{BuildPhase, WorkloadRef, build_status};
pub use config::{
    BLOCKED, ConditionUpdate, CurrentImage, IMAGE_CHECKED, IMAGE_IN_SERVICE, IMAGE_SIGNED,
    MIXED_PLATFORMS, USER_NAMESPACES, WARNINGS, config_status,
};
pub use event::{EventReason, new_event, regarding, regarding_node};
pub use message::failed_message;
pub use pool::{IMAGE_BUILD_DEGRADED, PoolBuild, blocking_conditions, pool_conditions};
pub use render::{RENDER_DEGRADED, render_conditions};
pub use rollout::{
    NOT_ENABLED, ROLLOUT_DEGRADED, ROLLOUT_NODES_DEGRADED, not_enabled_conditions, set_condition,
};
pub use seed::{PRE_BUILT_IMAGE_SEEDED, SEEDED, seeded_status};

/// Truncates to whole seconds, as other API clients do.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("earlier than a good time")
}

/// A code as the API spells a reason: `looks-secret` is `LooksSecret`.
pub fn camel_case(code: &str) -> String {
    let words = code.split('-').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
            first.to_uppercase() + rest
        })
        .collect()
}

/// A condition, with the old transition time unless its status changed.
fn condition_of(
    old: Option<&Condition>,
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Condition {
    let since =
        old.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(since.unwrap_or_else(|| whole(now).into())),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
    }
}
