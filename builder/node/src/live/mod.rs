//! Brings files of a staged image to the machine while it runs an earlier one: those that say how
//! images are pulled and whom the machine trusts ([`mosb_plan::plan::live`]).
//!
//! Input: the trees of the booted deployment and of the staged one, `/etc`, and what was written this
//! way before. Output: the files, and a reload of CRI-O if it has read one of them. Invariants: if the
//! images differ in anything else, nothing is written; what a person changed stays; a command that is
//! killed anywhere is run again and ends the same.
//!
//! ostree takes such a file for a change of the machine. The next image that is finalized is the one
//! with the same file, or another one; in both cases the unit of [`adopt`](crate::adopt) removes the
//! file from the changes that the next image gets.
//!
//! | file | holds |
//! | --- | --- |
//! | `tree_difference` | what differs between two deployments |
//! | `pull_secret` | the same for the pull secret, below `/var` |
//! | `etc_writer` | writing single entries of `/etc` |
//! | `live_record` | what was written |
//! | `live_plan` | all of it, decided before anything is written |

mod etc_writer;
mod live_plan;
mod live_record;
mod pull_secret;
mod tree_difference;

#[cfg(test)]
mod tests;

use std::time::Duration;

use mosb_image::PinnedRef;

use crate::error::Error;
use crate::file_tree::{EntryState, fingerprint};
use crate::host::{Host, words};
use crate::staging_unit::is_running;
pub(crate) use live_plan::staged_deployment;
use live_plan::{LivePlan, Planned};
pub(crate) use live_record::LiveRecord;
pub(crate) use tree_difference::{Stop, tree_difference};

/// What reads registries and the signature policy once.
const CRIO: &str = "crio.service";
/// How long a reload may take.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);

/// Brings what the staged image has to the machine.
///
/// # Errors
/// Only a reboot does that, and nothing is written; or a file can't be written.
pub(crate) async fn bring(host: &Host, image: &PinnedRef, boot_id: &str) -> Result<(), Error> {
    match LivePlan::to_staged(host.root(), image.digest(), boot_id)? {
        Planned::Live(plan) => carry_out(host, &plan).await,
        Planned::Reboot(cause) => Err(Error::NeedsReboot { image: image.to_string(), cause }),
    }
}

/// Brings the machine back to the files of the image that it booted. Returns whether others had been
/// written.
///
/// # Errors
/// A file can't be written.
pub(crate) async fn restore(host: &Host, image: &PinnedRef, boot_id: &str) -> Result<bool, Error> {
    match LivePlan::to_booted(host.root(), image.digest(), boot_id)? {
        None => Ok(false),
        Some(Planned::Live(plan)) => carry_out(host, &plan).await.map(|()| true),
        Some(Planned::Reboot(cause)) => Err(Error::NeedsReboot { image: image.to_string(), cause }),
    }
}

async fn carry_out(host: &Host, plan: &LivePlan) -> Result<(), Error> {
    if !plan.is_needed() {
        return Ok(());
    }
    for step in plan.steps() {
        plan.carry_out(host.root(), &step)?;
    }
    if plan.reloads_crio() && is_running(host, CRIO).await? {
        let reload = words(["systemctl", "reload", CRIO]);
        host.run("systemctl reload", &reload, RELOAD_LIMIT).await?;
    }
    plan.complete(host.root())
}

/// What becomes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The machine has it as the image that it is brought to.
    Done,
    /// It gets what that image has.
    Bring,
    /// A person changed it, so it stays, as at a reboot.
    Keep,
    /// Only a reboot brings it.
    Reboot,
}

/// What a path is in the three trees; none where nothing is.
#[derive(Debug, Clone, Copy)]
pub(super) struct States<'a> {
    /// In the booted image.
    pub booted: Option<&'a EntryState>,
    /// In the image that the machine is brought to.
    pub wanted: Option<&'a EntryState>,
    /// On the machine.
    pub machine: Option<&'a EntryState>,
}

/// What becomes of a path. `written`: the fingerprints of what was written there live.
/// `has_folder`: whether the machine has, or gets, the directory that it is in.
pub(super) fn decide(states: States<'_>, written: &[String], has_folder: bool) -> Decision {
    let States { booted, wanted, machine } = states;
    let is_readable = |state: Option<&EntryState>| {
        !matches!(state, Some(EntryState::Other | EntryState::File { content: None, .. }))
    };
    if !is_readable(booted) || !is_readable(wanted) {
        return Decision::Reboot;
    }
    if machine == wanted {
        return Decision::Done;
    }
    let is_written = || written.contains(&fingerprint(machine));
    if !is_readable(machine) || (machine != booted && !is_written()) || !has_folder {
        return Decision::Keep;
    }
    // What is below a directory was not compared with what takes its place.
    let is_folder = |state: Option<&EntryState>| {
        state.map(|state| matches!(state, EntryState::Directory { .. }))
    };
    match (is_folder(machine), is_folder(wanted)) {
        (Some(one), Some(other)) if one != other => Decision::Reboot,
        _ => Decision::Bring,
    }
}
