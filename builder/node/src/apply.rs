//! Brings the machine to a target: reboots it into the image with its kernel arguments, once an
//! attempt, and gives `core` its keys and its password.

use std::time::Duration;

use mosb_api::rollout::{NodeTarget, SoftReboot};

use crate::desired_state::DesiredState;
use crate::error::{Error, image_text};
use crate::finalization::{FINALIZE_UNIT, finalization_of};
use crate::host::{Host, words};
use crate::machine_record::MachineRecord;
use crate::machine_state::MachineState;
use crate::next_step::{Facts, NextStep, next_step};
use crate::record::{Phase, Record, write_applied, write_completed};
use crate::stage::{bring, settle_staging};
use crate::staging_unit::{is_running, show};
use crate::target_fit::TargetFit;
use crate::unstage::unstage;
use crate::{adopt, boot_check, core_access, live, soft_reboot};

/// Steps before a reboot: read the journal, stage. More mean that others change the machine too.
const STEPS: usize = 4;
/// The unit that reboots the machine.
const REBOOT_UNIT: &str = "mosb-reboot.service";
/// How long systemd may take to begin or to refuse.
const REBOOT_START_LIMIT: Duration = Duration::from_secs(120);
/// How long the checks of a boot may take that the image brings; they have 10 minutes by default.
const CHECK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long the machine may take to shut down.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Whether an apply may reboot the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootPolicy {
    Allowed {
        /// Whether the image brings what the machine's first config wrote, from this reboot on.
        adopts: bool,
        /// Whether the machine may keep its kernel running.
        may_be_soft: bool,
    },
    /// A target that needs it is an error, and nothing is changed.
    Forbidden,
}

/// Ends well if the machine runs the image of the target with its kernel arguments, and `core` has
/// its keys and its password. Otherwise stages what is not staged, sets keys and password, reboots
/// the machine, and does not return before that. The same attempt in the next boot reports what
/// became of it.
///
/// # Errors
/// The machine rebooted for this attempt and runs something else; or it can't be rebooted.
pub async fn apply(
    host: &Host,
    desired: &DesiredState<'_>,
    attempt: u32,
    policy: RebootPolicy,
) -> Result<(), Error> {
    let DesiredState { target, part, .. } = *desired;
    let image = || target.image.to_string();
    let mut finalization = None;
    if policy != RebootPolicy::Forbidden {
        settle_staging(host, target).await?;
    }
    for _ in 0..STEPS {
        let state = MachineState::read(host).await?;
        state.check_only_image()?;
        let machine = MachineRecord::read(host.root())?;
        let set = machine.known_of(state.booted_digest());
        let fit = TargetFit::read(host, target, part, &set, &state).await?;
        if policy == RebootPolicy::Forbidden && !fit.booted {
            check_live(host, desired, &machine, &state, &fit).await?;
            live::bring(host, &target.image, &state.boot_id).await?;
            adopt::arm(host).await?;
            let begun = bring_access(host, desired, &machine).await?;
            write_completed(host.root(), desired, &begun);
            let record = Record::read(host.root())?;
            write_applied(host.root(), target, attempt, &state, record.as_ref());
            return Ok(());
        }
        let record = Record::read(host.root())?;
        let booted = || image_text(state.booted_digest());
        let facts = Facts {
            target,
            attempt,
            state: &state,
            fit: &fit,
            record: record.as_ref(),
            finalization: finalization.as_ref(),
        };
        match next_step(&facts) {
            NextStep::Done => {
                boot_check::wait(host.root(), CHECK_LIMIT).await?;
                let is_unfit = state.has_staged(target) && !fit.staged;
                if is_unfit || state.deployments.rollback_queued {
                    // The report can't show what has the digest of the target.
                    unstage(host, desired, &set).await?;
                }
                if live::restore(host, &target.image, &state.boot_id).await? {
                    adopt::arm(host).await?;
                }
                let begun = bring_access(host, desired, &machine).await?;
                write_completed(host.root(), desired, &begun);
                write_applied(host.root(), target, attempt, &state, record.as_ref());
                return Ok(());
            }
            NextStep::ReadJournal { boot_id } => {
                finalization = Some(finalization_of(host, &boot_id).await);
            }
            NextStep::Stage => bring(host, desired, &state).await?,
            NextStep::Reboot => {
                let begun = bring_access(host, desired, &machine).await?;
                // A report after the reboot completes it.
                begun.begun(target, part, &[]).write(host.root(), &begun)?;
                if matches!(policy, RebootPolicy::Allowed { adopts: true, .. }) {
                    adopt::adopt_by_record(host).await;
                }
                adopt::arm(host).await?;
                if !state.runs(&target.image) {
                    boot_check::arm(host.root(), target.image.digest())?;
                }
                let may_be_soft = matches!(policy, RebootPolicy::Allowed { may_be_soft: true, .. });
                let soft_reboot = may_be_soft.then(|| {
                    soft_reboot::decide(host.root(), &state, target, attempt, record.as_ref())
                });
                let begun = Record::new(target, attempt, &state, Phase::Rebooting);
                return Err(reboot(host, Record { soft_reboot, ..begun }).await);
            }
            NextStep::WrongImage { cause } => {
                let own = boot_check::went_back(host.root())?;
                let own = own.filter(|own| own.image == target.image.digest());
                let cause = match own {
                    Some(own) => format!("the machine went back by itself: {}", own.cause),
                    None => cause,
                };
                return Err(Error::WrongImage { booted: booted(), image: image(), cause });
            }
            NextStep::OtherImage => {
                return Err(Error::OtherImage { booted: booted(), image: image() });
            }
            NextStep::ArgumentsMissing => {
                return Err(Error::ArgumentsMissing { image: image() });
            }
            NextStep::NotFinalized => {
                return Err(Error::NotFinalized { booted: booted(), image: image() });
            }
        }
    }
    Err(Error::UnstagedByOthers { image: image() })
}

/// Whether a target that the machine did not boot may be brought to it without a reboot: the target
/// names the booted image, its own is staged, and no kernel argument is missing.
async fn check_live(
    host: &Host,
    desired: &DesiredState<'_>,
    machine: &MachineRecord,
    state: &MachineState,
    fit: &TargetFit,
) -> Result<(), Error> {
    let DesiredState { target, part, .. } = *desired;
    let needs_reboot = |cause: &str| {
        Err(Error::NeedsReboot { image: target.image.to_string(), cause: cause.to_owned() })
    };
    let Some(from) = target.live_from.filter(|from| state.booted_digest() == Some(*from)) else {
        return needs_reboot("for its image or its kernel arguments");
    };
    if !fit.staged {
        return needs_reboot("it is not staged");
    }
    let running = NodeTarget { image: target.image.repo().pinned(from), ..target.clone() };
    let set = machine.known_of(state.booted_digest());
    if !TargetFit::read(host, &running, part, &set, state).await?.booted {
        return needs_reboot("for its kernel arguments");
    }
    Ok(())
}

/// Gives `core` the keys and the password of the target. Returns the record as it is then.
async fn bring_access(
    host: &Host,
    desired: &DesiredState<'_>,
    machine: &MachineRecord,
) -> Result<MachineRecord, Error> {
    let DesiredState { target, part, .. } = *desired;
    let steps = core_access::missing(host.root(), part, &machine.set)?;
    if steps.is_empty() {
        return Ok(machine.clone());
    }
    // The record first: what it does not have is others'.
    let begun = machine.begun(target, part, &[]);
    begun.write(host.root(), machine)?;
    for step in &steps {
        tracing::info!(?step, "the user core");
        core_access::carry_out(host, step).await?;
    }
    Ok(begun)
}

/// Reboots the machine as the record has it, which ends this process. Returns why that did not happen.
async fn reboot(host: &Host, record: Record) -> Error {
    match start_reboot(host, record).await {
        Ok(()) => {
            tracing::info!("the machine reboots");
            tokio::time::sleep(SHUTDOWN_LIMIT).await;
            Error::NotRebooted { seconds: SHUTDOWN_LIMIT.as_secs() }
        }
        Err(error) => error,
    }
}

async fn start_reboot(host: &Host, mut record: Record) -> Result<(), Error> {
    // The record first: a reboot without it would not count.
    record.write(host.root())?;
    if is_running(host, REBOOT_UNIT).await? {
        return Ok(());
    }
    if record.soft_reboot.as_ref().is_some_and(|soft| soft.used)
        && let Err(cause) = soft_reboot::prepare(host).await
    {
        record.soft_reboot = Some(SoftReboot::not_used(&cause));
        record.write(host.root())?;
    }
    let is_soft = match &record.soft_reboot {
        Some(SoftReboot { used: true, .. }) => true,
        Some(kernel_boots) => {
            tracing::warn!("{kernel_boots}");
            false
        }
        None => false,
    };
    let finalizes = show(host, FINALIZE_UNIT, "LoadState").await? == "loaded";
    let command = reboot_command(finalizes, is_soft);
    match host.run("systemd-run", &command, REBOOT_START_LIMIT).await {
        // The shutdown ends whoever waits for the unit, too.
        Err(_) if is_stopping(host).await => Ok(()),
        ended => ended.map(drop),
    }
}

/// Whether the machine is shutting down.
async fn is_stopping(host: &Host) -> bool {
    let show = words(["systemctl", "show", "--property=SystemState", "--value"]);
    let state = host.run("systemctl show", &show, REBOOT_START_LIMIT).await;
    state.is_ok_and(|state| state.trim() == "stopping")
}

/// Ends with what systemctl says: it refuses a reboot that an inhibitor blocks, also of root, and one
/// whose target is masked. The unit that finalizes a deployment does that when it is stopped, so it
/// must be active before: a path unit starts it, which may be late. `systemctl reboot` alone would be a
/// soft one if somebody had prepared that.
fn reboot_command(finalizes: bool, is_soft: bool) -> Vec<String> {
    let mut command = words(["systemd-run", "--quiet", "--collect", "--wait", "--pipe"]);
    command.push(format!("--unit={REBOOT_UNIT}"));
    if finalizes {
        command.push(format!("--property=Requires={FINALIZE_UNIT}"));
        command.push(format!("--property=After={FINALIZE_UNIT}"));
    }
    if !is_soft {
        command.push("--setenv=SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1".to_owned());
    }
    command.extend(words(["--", "systemctl", if is_soft { "soft-reboot" } else { "reboot" }]));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reboot_waits_for_what_finalizes() {
        assert_eq!(
            reboot_command(true, false).join(" "),
            "systemd-run --quiet --collect --wait --pipe --unit=mosb-reboot.service --property=Requires=ostree-finalize-staged.service --property=After=ostree-finalize-staged.service --setenv=SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1 -- systemctl reboot"
        );
        assert_eq!(
            reboot_command(false, true).join(" "),
            "systemd-run --quiet --collect --wait --pipe --unit=mosb-reboot.service -- systemctl soft-reboot"
        );
    }
}
