//! Brings the image of a target to the machine, so that the next reboot boots it.

use mosb_build::Redactor;
use mosb_plan::api::rollout::{NodeTarget, NodeTool};

use crate::error::Error;
use crate::host::Host;
use crate::leftover_login::remove_leftover_login;
use crate::login::Login;
use crate::machine_state::MachineState;
use crate::placed_login::{self, PlacedLogin};
use crate::rpm_ostree_daemon;
use crate::staging_unit::StagingUnit;
use crate::unstage::unstage;

/// How much of the tool's output an error has; a report has little space.
const LAST_CHARACTERS: usize = 500;

/// Stages the image of `target`, unless it is staged. On a machine that runs it, removes another
/// image that is staged. So the next reboot boots the target.
///
/// # Errors
/// It is not staged, or another image still is.
pub async fn stage(host: &Host, target: &NodeTarget, login: Option<&Login>) -> Result<(), Error> {
    remove_leftover_login(host).await?;
    let state = MachineState::read(host).await?;
    if state.runs(&target.image) {
        return unstage(host, target).await;
    }
    if state.has_staged(&target.image) {
        return Ok(());
    }
    bring(host, target, login, &state).await
}

/// Stages an image that is not staged.
pub(crate) async fn bring(
    host: &Host,
    target: &NodeTarget,
    login: Option<&Login>,
    state: &MachineState,
) -> Result<(), Error> {
    let tool = state.tool.ok_or(Error::NoTool)?;
    let unit = StagingUnit::of(target);
    if !unit.is_running(host).await? {
        StagingUnit::stop_all(host).await?;
        start(host, &unit, tool, target, login).await?;
    }
    tracing::info!(image = %target.image, unit = unit.name(), "staging");
    // The unit removes the drop-in when it ends.
    let is_shown_to_daemon = placed_login::is_shown_to_daemon(host.root());
    let ended = unit.wait(host, target).await;
    placed_login::remove(host.root())?;
    ended?;
    if is_shown_to_daemon {
        // It ends by itself when it is idle, and sees the login until then.
        if let Err(error) = rpm_ostree_daemon::restart(host).await {
            tracing::warn!("{error}");
        }
    }
    // Whatever the tool's exit code: some fail after the image is staged.
    let staged = MachineState::read(host).await?;
    if staged.runs(&target.image) || staged.has_staged(&target.image) {
        return Ok(());
    }
    let last = unit.last_output(host).await;
    let redactor = Redactor::from_logins(login.map(|login| login.to_bytes().expose().clone()));
    Err(Error::NotStaged {
        image: target.image.to_string(),
        unit: unit.name().to_owned(),
        last: last_characters(&redactor.redact(&last)),
    })
}

/// The end of a text: the cause of a failure is in its last lines.
fn last_characters(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(LAST_CHARACTERS);
    text.chars().skip(skipped).collect()
}

async fn start(
    host: &Host,
    unit: &StagingUnit,
    tool: NodeTool,
    target: &NodeTarget,
    login: Option<&Login>,
) -> Result<(), Error> {
    let Some(login) = login else {
        placed_login::remove(host.root())?;
        return unit.start(host, tool, target, None).await;
    };
    let placed = PlacedLogin::new(host.root(), login)?;
    match tool {
        NodeTool::Bootc => {}
        // Its daemon pulls, not the unit.
        NodeTool::RpmOstree => {
            if placed.show_to_daemon()? {
                rpm_ostree_daemon::restart(host).await?;
            }
        }
    }
    unit.start(host, tool, target, placed.unit_property()).await?;
    placed.hand_over();
    Ok(())
}
