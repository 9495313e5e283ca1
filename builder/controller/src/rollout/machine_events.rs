//! The events of one machine in one pass, emitted on its Node.

use super::context::Context;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use crate::rollout::effect::Action;
use crate::status::EventReason;
use crate::status::{new_event, regarding_node};
use mosb_plan::api::labels;

/// The events of the changes that this pass makes to a machine. `is_changed`: its marks change.
pub(super) fn events(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    plan: &MachinePlan,
    is_changed: bool,
) -> Vec<Action> {
    let annotation = |key| state.machine.metadata.annotation(key);
    let event = |reason, edge: &str, text: String| {
        let on = regarding_node(&state.machine.metadata);
        Action::Event(new_event(on, reason, edge, text))
    };
    let mut events = Vec::new();
    let mut jobs = state.jobs();
    if let Some(job) = jobs.find(|job| state.has_staged(job))
        && let Some(target) = &job.target
    {
        let text = format!("{} has staged {}", state.name(), target.image);
        // Whatever else this pass changes, the next one may find the same Job.
        events.push(event(EventReason::NodeStaged, &job.uid, text));
    }
    let slot = annotation(labels::NODE_SLOT).unwrap_or_default();
    let of_slot = |reason, text: String| {
        // Cancelled and given again, the same slot is another one.
        let since = if plan.is_given { ctx.now.to_string() } else { String::new() };
        event(reason, &format!("{} {slot} {since} {text}", state.machine.boot_id), text)
    };
    events.extend(plan.event.clone().map(|(reason, text)| of_slot(reason, text)));
    if is_changed && let Some(text) = &plan.degraded {
        let old = annotation(labels::NODE_STATE);
        if !matches!(old, Some("Degraded" | "Unreconcilable")) {
            let text = format!("{}: {text}", state.name());
            events.push(of_slot(EventReason::NodeDegraded, text));
        }
    }
    events
}
