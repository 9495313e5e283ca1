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
use live_plan::{LivePlan, Planned};
pub(crate) use live_record::LiveRecord;

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

#[cfg(test)]
mod decision_tests {
    use super::*;
    use mosb_image::overlay::Meta;

    #[test]
    fn paths_follow_the_image_unless_edited() {
        let meta = Meta { mode: 0o644, uid: 0, gid: 0 };
        let file = |text: &str| Some(EntryState::File { meta, content: Some(text.into()) });
        let large = || Some(EntryState::File { meta, content: None });
        let folder = |mode| Some(EntryState::Directory { meta: Meta { mode, ..meta } });
        let link = || Some(EntryState::Link { uid: 0, gid: 0, target: b"a".to_vec() });
        let nothing = || None;
        let (live, none) = (fingerprint(file("live").as_ref()), "-".to_owned());
        for (what, booted, wanted, machine, want) in [
            ("as booted", file("a"), file("b"), file("a"), Decision::Bring),
            ("as wanted", file("a"), file("b"), file("b"), Decision::Done),
            ("by a person", file("a"), file("b"), file("c"), Decision::Keep),
            ("removed by a person", file("a"), file("b"), nothing(), Decision::Keep),
            ("written live", file("a"), file("b"), file("live"), Decision::Bring),
            ("written live, and back", file("a"), file("a"), file("live"), Decision::Bring),
            ("added", nothing(), file("b"), nothing(), Decision::Bring),
            ("a person had it first", nothing(), file("b"), file("c"), Decision::Keep),
            ("removed", file("a"), nothing(), file("a"), Decision::Bring),
            ("removed already", file("a"), nothing(), nothing(), Decision::Done),
            ("removed, and changed", file("a"), nothing(), file("c"), Decision::Keep),
            ("a link in its place", file("a"), file("b"), link(), Decision::Keep),
            ("becomes a link", file("a"), link(), file("a"), Decision::Bring),
            ("another mode", folder(0o755), folder(0o700), folder(0o755), Decision::Bring),
            (
                "a directory by a person",
                folder(0o755),
                folder(0o700),
                folder(0o711),
                Decision::Keep,
            ),
            ("becomes a directory", file("a"), folder(0o755), file("a"), Decision::Reboot),
            ("is a directory no more", folder(0o755), link(), folder(0o755), Decision::Reboot),
            ("too large", file("a"), large(), file("a"), Decision::Reboot),
            ("was too large", large(), file("a"), large(), Decision::Reboot),
            ("too large by a person", file("a"), file("b"), large(), Decision::Keep),
            ("a pipe", file("a"), Some(EntryState::Other), file("a"), Decision::Reboot),
        ] {
            let states = States {
                booted: booted.as_ref(),
                wanted: wanted.as_ref(),
                machine: machine.as_ref(),
            };
            assert_eq!(decide(states, std::slice::from_ref(&live), true), want, "{what}");
            let is_changed = [Decision::Bring, Decision::Reboot].contains(&want);
            let without = decide(states, std::slice::from_ref(&live), false);
            if want == Decision::Bring {
                assert_eq!(without, Decision::Keep, "{what}, without its directory");
            } else {
                assert!(without == want || is_changed, "{what}: {without:?}");
            }
        }
        // What was removed live, and an earlier image has.
        let (booted, wanted) = (file("a"), file("a"));
        let states = States { booted: booted.as_ref(), wanted: wanted.as_ref(), machine: None };
        assert_eq!(decide(states, std::slice::from_ref(&none), true), Decision::Bring);
        assert_eq!(decide(states, &[], true), Decision::Keep);
    }
}
