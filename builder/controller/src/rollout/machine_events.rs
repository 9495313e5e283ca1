//! The events of one machine in one pass, emitted on its pool.

use super::context::Context;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use crate::action::Action;
use crate::status::{Event, EventReason, Regarding};
use mosb_plan::api::labels;

/// The events of the changes that this pass makes to a machine. `is_changed`: its marks change.
pub(super) fn events(
    cx: &Context<'_>,
    state: &MachineState<'_>,
    plan: &MachinePlan,
    is_changed: bool,
) -> Vec<Action> {
    let mut found: Vec<(EventReason, String)> = plan.event.clone().into_iter().collect();
    let annotation = |key| state.machine.metadata.annotation(key);
    if is_changed && let Some(text) = &plan.degraded {
        let old = annotation(labels::NODE_STATE);
        if !matches!(old, Some("Degraded" | "Unreconcilable")) {
            found.push((EventReason::NodeDegraded, format!("{}: {text}", state.name())));
        }
    }
    let mut jobs = state.jobs();
    if let Some(job) = jobs.find(|job| state.has_staged(job))
        && let Some(target) = &job.target
    {
        let text = format!("{} has staged {}", state.name(), target.image);
        found.push((EventReason::NodeStaged, text));
    }
    let slot = annotation(labels::NODE_SLOT).unwrap_or_default();
    let edge = |text: &str| {
        let machine = state.machine;
        // Cancelled and given again, the same slot is another one.
        let since = if plan.is_given { cx.now.to_string() } else { String::new() };
        format!("{} {} {slot} {since} {text}", machine.metadata.uid(), machine.boot_id)
    };
    let on = || Regarding::new("MachineConfigPool", &cx.snapshot.pool.metadata);
    let events = found.into_iter();
    events
        .map(|(reason, text)| Action::Event(Event::new(on(), reason, &edge(&text), text)))
        .collect()
}
