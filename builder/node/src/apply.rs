//! Reboots the machine into the image of a target, once an attempt.

use std::time::Duration;

use mosb_plan::api::rollout::NodeTarget;

use crate::error::{Error, image_text};
use crate::finalization::FINALIZE_UNIT;
use crate::host::{Host, words};
use crate::journal;
use crate::login::Login;
use crate::machine_state::MachineState;
use crate::next_step::{Facts, NextStep, next_step};
use crate::record::{Phase, Record};
use crate::stage::bring;
use crate::staging_unit::{is_running, show};

/// Steps before a reboot: read the journal, stage. More mean that others change the machine too.
const STEPS: usize = 4;
/// The unit that reboots the machine.
const REBOOT_UNIT: &str = "mosb-reboot.service";
/// How long systemd may take to begin.
const REBOOT_START_LIMIT: Duration = Duration::from_secs(120);
/// How long the machine may take to shut down.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Ends well if the machine runs `target`. Otherwise stages it if it is not staged, reboots the
/// machine, and does not return before that. The same attempt in the next boot reports what became
/// of it.
///
/// # Errors
/// The machine rebooted for this attempt and runs another image; or it can't be rebooted.
pub async fn apply(
    host: &Host,
    target: &NodeTarget,
    attempt: u32,
    login: Option<&Login>,
) -> Result<(), Error> {
    let image = || target.image.to_string();
    let mut finalization = None;
    for _ in 0..STEPS {
        let state = MachineState::read(host).await?;
        let record = Record::read(host.root())?;
        let booted = || image_text(state.booted_digest());
        let facts = Facts {
            target,
            attempt,
            state: &state,
            record: record.as_ref(),
            finalization: finalization.as_ref(),
        };
        match next_step(&facts) {
            NextStep::Done => {
                write_applied(host, target, attempt, &state, record.as_ref());
                return Ok(());
            }
            NextStep::ReadJournal { boot_id } => {
                finalization = Some(journal::finalization_of(host, &boot_id).await);
            }
            NextStep::Stage => bring(host, target, login, &state).await?,
            NextStep::Reboot => {
                // The record first: a reboot without it would not count.
                new_record(target, attempt, &state, Phase::Rebooting).write(host.root())?;
                return Err(reboot(host).await);
            }
            NextStep::WrongImage { cause } => {
                return Err(Error::WrongImage { booted: booted(), image: image(), cause });
            }
            NextStep::OtherImage => {
                return Err(Error::OtherImage { booted: booted(), image: image() });
            }
            NextStep::NotFinalized => {
                return Err(Error::NotFinalized { booted: booted(), image: image() });
            }
        }
    }
    Err(Error::UnstagedByOthers { image: image() })
}

fn new_record(target: &NodeTarget, attempt: u32, state: &MachineState, phase: Phase) -> Record {
    Record {
        target: target.clone(),
        attempt,
        boot_id: state.boot_id.clone(),
        phase,
        had_image: state.deployments.has_other(target.image.digest()),
        booted: state.booted_digest(),
    }
}

/// Records that the machine runs the target, so that a later attempt of an earlier target is not
/// taken for one that had its reboot.
fn write_applied(
    host: &Host,
    target: &NodeTarget,
    attempt: u32,
    state: &MachineState,
    old: Option<&Record>,
) {
    if old.is_some_and(|old| old.phase == Phase::Applied && old.target == *target) {
        return;
    }
    // The machine is where it should be: a full disk is no reason to keep it out of service.
    if let Err(error) = new_record(target, attempt, state, Phase::Applied).write(host.root()) {
        tracing::error!("{error}");
    }
}

/// Reboots the machine, which ends this process. Returns why that did not happen.
async fn reboot(host: &Host) -> Error {
    match start_reboot(host).await {
        Ok(()) => {
            tracing::info!("the machine reboots");
            tokio::time::sleep(SHUTDOWN_LIMIT).await;
            Error::NotRebooted { seconds: SHUTDOWN_LIMIT.as_secs() }
        }
        Err(error) => error,
    }
}

async fn start_reboot(host: &Host) -> Result<(), Error> {
    if is_running(host, REBOOT_UNIT).await? {
        return Ok(());
    }
    let finalizes = show(host, FINALIZE_UNIT, "LoadState").await? == "loaded";
    host.run("systemd-run", &reboot_command(finalizes), REBOOT_START_LIMIT).await.map(drop)
}

/// The reboot waits for the unit that finalizes when it is stopped, so that it is active: it is
/// started by a path unit, which may be late.
fn reboot_command(finalizes: bool) -> Vec<String> {
    let mut command = words(["systemd-run", "--quiet", "--collect"]);
    command.push(format!("--unit={REBOOT_UNIT}"));
    if finalizes {
        command.push(format!("--property=Requires={FINALIZE_UNIT}"));
        command.push(format!("--property=After={FINALIZE_UNIT}"));
    }
    command.extend(words(["--", "systemctl", "reboot"]));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reboot_waits_for_what_finalizes() {
        assert_eq!(
            reboot_command(true).join(" "),
            "systemd-run --quiet --collect --unit=mosb-reboot.service --property=Requires=ostree-finalize-staged.service --property=After=ostree-finalize-staged.service -- systemctl reboot"
        );
        assert_eq!(
            reboot_command(false).join(" "),
            "systemd-run --quiet --collect --unit=mosb-reboot.service -- systemctl reboot"
        );
    }
}
