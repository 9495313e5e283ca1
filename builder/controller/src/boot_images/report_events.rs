//! Events about the conditions: when a problem begins and when it is over. Pure.

use super::report::DEGRADED;
use super::write::ObjectRef;
use crate::cluster_cache::BootImageKind;
use crate::status::{Event, EventReason, Regarding};
use mosb_plan::api::{Condition, condition};

/// The events of a change of the conditions of this object.
pub(super) fn events(object: &ObjectRef, before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let state = |list| condition(list, DEGRADED).map(|one| one.status.clone());
    let (was, is) = (state(before), state(after));
    if was == is || (was.is_none() && is.as_deref() == Some("False")) {
        return Vec::new();
    }
    let Some(now) = condition(after, DEGRADED) else { return Vec::new() };
    let reason = if now.is_true() {
        EventReason::BootImageUpdateFailed
    } else {
        EventReason::BootImageUpdateRecovered
    };
    let on = Regarding {
        api_version: match object.kind {
            BootImageKind::MachineConfiguration => "operator.openshift.io/v1",
            _ => "mosb.dev/v1alpha1",
        },
        kind: object.kind.as_str(),
        name: object.name.clone(),
        uid: object.uid.clone(),
    };
    let since = now.last_transition_time.as_ref();
    let edge = since.map(|time| time.0.to_string()).unwrap_or_default();
    vec![Event::new(on, reason, &edge, now.message.clone())]
}
