//! The report of the machine.

use std::time::Duration;

use mosb_api::rollout::{AttemptedTarget, NodeReport, NodeTarget};

use crate::core_access::missing;
use crate::error::Error;
use crate::host::Host;
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::machine_record::MachineRecord;
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};
use crate::staging_unit::{remove_leftover_login, show};
use crate::target_fit::TargetFit;
use crate::{adopt, boot_check, boot_space};

/// How long a report waits for the checks of a boot; its Job has 300 s.
const CHECK_LIMIT: Duration = Duration::from_secs(180);

/// What each start of a user space reaches anew, also after a soft reboot; systemd's own time of that is
/// not the last one in each version.
const USER_SPACE: &str = "basic.target";

/// What the machine runs, and why that can't be changed or is not known. The report has what could
/// be observed, also with an error. While the checks of the boot run, it waits for them. An attempt that
/// rebooted the machine into its target is recorded as ended, as its `apply` may not run again, if the
/// machine has all of the target. A login that a killed command left is removed.
///
/// `confirms`: the machine does not leave what it runs by itself, once the checks of its boot succeeded.
pub async fn report(host: &Host, confirms: bool) -> (NodeReport, Option<Error>) {
    // What the machine runs must be known also if this fails; the next command tries it again.
    if let Err(error) = remove_leftover_login(host).await {
        tracing::error!("{error}");
    }
    let boot_id = host.boot_id().unwrap_or_default();
    let user_space_since = user_space_since(host).await;
    let mut report = NodeReport { boot_id, user_space_since, ..NodeReport::default() };
    let state = match MachineState::read(host).await {
        Ok(state) => state,
        Err(error) => {
            if !matches!(error, Error::NotImageBased) {
                // What it booted is known all the same.
                let known = MachineState::without_tool(host).unwrap_or_default();
                report = with_state(report, known);
            }
            return (report, Some(error));
        }
    };
    let root = host.root();
    let records = Record::read(root).and_then(|record| Ok((record, MachineRecord::read(root)?)));
    match records {
        Ok((record, machine)) => {
            let record = match &record {
                Some(old) => Some(end(host, old, &machine, &state).await.unwrap_or(old.clone())),
                None => None,
            };
            let machine = MachineRecord::read(root).unwrap_or(machine);
            let applied = record.as_ref().filter(|record| record.phase == Phase::Applied);
            report.soft_reboot = applied.and_then(|record| record.soft_reboot.clone());
            (report.applied, report.attempted) = last_targets(record, machine);
            let applied = report.applied.as_ref();
            report.live_incomplete = match is_live_incomplete(root, applied, &report.boot_id) {
                Ok(is_incomplete) => is_incomplete,
                Err(error) => return (with_state(report, state), Some(error)),
            };
        }
        Err(error) => return (with_state(report, state), Some(error)),
    }
    let local = state.check_only_image().err();
    let unchecked = boot_check::wait(root, CHECK_LIMIT).await.err();
    report.unchecked = unchecked.is_some();
    let confirmed = match state.booted_digest() {
        Some(booted) if confirms && !report.unchecked => boot_check::confirm(root, booted),
        Some(_) | None => Ok(()),
    };
    report.unconfirmed = boot_check::is_guarded(root, state.booted_digest());
    report.went_back = match boot_check::went_back(root) {
        Ok(went_back) => went_back,
        Err(error) => return (with_state(report, state), Some(error)),
    };
    report = with_state(report, state);
    report.etc = adopt::etc_report(host.root());
    report.boot_full = report.staged.is_some() && is_boot_full(root);
    let error =
        report.tool.is_none().then_some(Error::NoTool).or(unchecked).or(confirmed.err()).or(local);
    (report, error)
}

/// When systemd reached [`USER_SPACE`], in microseconds since the kernel booted; 0 if that is not known.
async fn user_space_since(host: &Host) -> u64 {
    let shown = show(host, USER_SPACE, "ActiveEnterTimestampMonotonic").await;
    shown.map(|text| text.parse().unwrap_or_default()).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        0
    })
}

/// Whether the kernel of the staged image does not fit into `/boot`; false if that is not known.
fn is_boot_full(root: &HostRoot) -> bool {
    boot_space::lacks_space(root).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        false
    })
}

/// Records the end of an attempt that rebooted the machine into its target; none if it did not. The
/// machine is where it should be: a full disk must not change the report.
async fn end(
    host: &Host,
    record: &Record,
    machine: &MachineRecord,
    state: &MachineState,
) -> Option<Record> {
    let ended = record.ended(state)?;
    let completed = match completed(host, &record.target, machine, state).await {
        Ok(completed) => completed?,
        Err(error) => {
            tracing::error!("{error}");
            return None;
        }
    };
    let written = completed.write(host.root(), machine).and_then(|()| ended.write(host.root()));
    if let Err(error) = written {
        tracing::error!("{error}");
    }
    Some(ended)
}

/// The record of a machine that has all of a target; none if it lacks something.
async fn completed(
    host: &Host,
    target: &NodeTarget,
    machine: &MachineRecord,
    state: &MachineState,
) -> Result<Option<MachineRecord>, Error> {
    let part = machine.pending_for(target).and_then(|pending| pending.part.as_ref());
    if part.is_none() && target.machine_part.is_some() {
        return Ok(None);
    }
    let set = machine.known_of(state.booted_digest());
    let fit = TargetFit::read(host, target, part, &set, state).await?;
    let has_all = fit.booted && missing(host.root(), part, &machine.set)?.is_empty();
    Ok(has_all.then(|| machine.completed(target, part)))
}

/// The target that was completed last, and the attempt that rebooted the machine last if it was not.
/// The record of attempts comes first, because it is written first.
fn last_targets(
    record: Option<Record>,
    machine: MachineRecord,
) -> (Option<NodeTarget>, Option<AttemptedTarget>) {
    match record {
        Some(Record { target, phase: Phase::Applied, .. }) => (Some(target), None),
        Some(Record { target, attempt, phase: Phase::Rebooting, .. }) => {
            (machine.target, Some(AttemptedTarget { target, attempt }))
        }
        None => (machine.target, None),
    }
}

/// Whether the machine has files that came without a reboot, and not all of those of the target that was
/// applied last.
pub(crate) fn is_live_incomplete(
    root: &HostRoot,
    applied: Option<&NodeTarget>,
    boot_id: &str,
) -> Result<bool, Error> {
    let has_all = |live: &LiveRecord| {
        applied.is_some_and(|applied| live.has_all(applied.image.digest(), boot_id))
    };
    Ok(LiveRecord::of_booted(root)?.is_some_and(|live| !has_all(&live)))
}

fn with_state(report: NodeReport, state: MachineState) -> NodeReport {
    let deployments = state.deployments;
    NodeReport {
        tool: state.tool,
        booted: deployments.booted,
        staged: deployments.staged,
        rollback: deployments.others.into_iter().next(),
        rollback_queued: deployments.rollback_queued,
        ..report
    }
}
