//! The report of the machine.

use mosb_plan::api::rollout::{AttemptedTarget, NodeReport};

use crate::error::Error;
use crate::host::Host;
use crate::leftover_login::remove_leftover_login;
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};

/// What the machine runs, and why that can't be changed or is not known. The report has what could
/// be observed, also with an error. An attempt that rebooted the machine into its target is recorded
/// as ended, as its `apply` may not run again. A login that a killed command left is removed.
pub async fn report(host: &Host) -> (NodeReport, Option<Error>) {
    // What the machine runs must be known also if this fails; the next command tries it again.
    if let Err(error) = remove_leftover_login(host).await {
        tracing::error!("{error}");
    }
    let boot_id = host.boot_id().unwrap_or_default();
    let mut report = NodeReport { boot_id, ..NodeReport::default() };
    let state = match MachineState::read(host).await {
        Ok(state) => state,
        Err(error) => return (report, Some(error)),
    };
    match Record::read(host.root()) {
        Ok(record) => {
            let ended = record.as_ref().and_then(|record| record.ended(&state));
            // The machine is where it should be: a full disk is no reason to report something else.
            if let Some(Err(error)) = ended.as_ref().map(|ended| ended.write(host.root())) {
                tracing::error!("{error}");
            }
            if let Some(Record { target, attempt, phase, .. }) = ended.or(record) {
                match phase {
                    Phase::Applied => report.applied = Some(target),
                    Phase::Rebooting => {
                        report.attempted = Some(AttemptedTarget { target, attempt })
                    }
                }
            }
        }
        Err(error) => return (with_state(report, state), Some(error)),
    }
    report = with_state(report, state);
    let error = report.tool.is_none().then_some(Error::NoTool);
    (report, error)
}

fn with_state(report: NodeReport, state: MachineState) -> NodeReport {
    let deployments = state.deployments;
    NodeReport {
        tool: state.tool,
        booted: deployments.booted,
        staged: deployments.staged,
        rollback: deployments.others.into_iter().next(),
        ..report
    }
}
