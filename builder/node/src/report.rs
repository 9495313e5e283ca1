//! The report of the machine.

use mosb_plan::api::rollout::{AttemptedTarget, NodeReport};

use crate::error::Error;
use crate::host::Host;
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};

/// What the machine runs, and why that can't be changed or is not known. The report has what could
/// be observed, also with an error.
pub async fn report(host: &Host) -> (NodeReport, Option<Error>) {
    let boot_id = host.boot_id().unwrap_or_default();
    let mut report = NodeReport { boot_id, ..NodeReport::default() };
    let state = match MachineState::read(host).await {
        Ok(state) => state,
        Err(error) => return (report, Some(error)),
    };
    report.tool = state.tool;
    report.booted = state.deployments.booted;
    report.staged = state.deployments.staged;
    report.rollback = state.deployments.others.into_iter().next();
    match Record::read(host.root()) {
        Ok(None) => {}
        Ok(Some(Record { target, attempt, phase, .. })) => match phase {
            Phase::Applied => report.applied = Some(target),
            Phase::Rebooting => report.attempted = Some(AttemptedTarget { target, attempt }),
        },
        Err(error) => return (report, Some(error)),
    }
    let error = report.tool.is_none().then_some(Error::NoTool);
    (report, error)
}
