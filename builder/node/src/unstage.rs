//! Takes the next boot from an image that is not the target, staged or put first by a rollback:
//! otherwise any reboot boots it, and what rpm-ostree stages gets its kernel arguments and packages.

use std::time::Duration;

use mosb_api::rollout::NodeTool;
use mosb_types::error_text;

use crate::deployments::Deployments;
use crate::desired_state::DesiredState;
use crate::error::Error;
use crate::host::{Host, words};
use crate::machine_record::SetByMosb;
use crate::machine_state::MachineState;
use crate::rpm_ostree_daemon::{cancel_ours, settle};
use crate::staging_unit::StagingUnit;
use crate::target_fit::TargetFit;

/// How long it may take; a tool waits for another one that changes the deployments.
const UNSTAGE_LIMIT: Duration = Duration::from_secs(300);
/// What somebody stages meanwhile, and behind it one that a rollback put first and that is pinned.
const MOST_CHANGES: usize = 3;
/// The mark of a staged deployment in the output of `ostree admin status`.
const STAGED: &str = "(staged)";

/// Makes the booted deployment the next one again, unless the image of `desired` is staged with its
/// kernel arguments; `set` is what mosb set before.
///
/// # Errors
/// Another one is still next.
pub(crate) async fn unstage(
    host: &Host,
    desired: &DesiredState<'_>,
    set: &SetByMosb,
) -> Result<(), Error> {
    // What is being staged would be there a moment later.
    StagingUnit::stop_all(host).await?;
    let mut state = MachineState::read(host).await?;
    if state.tool == Some(NodeTool::RpmOstree) && cancel_ours(host, None).await? {
        state = MachineState::read(host).await?;
    }
    let mut cause = "no error".to_owned();
    for _ in 0..MOST_CHANGES {
        if !has_obsolete(host, desired, set, &state).await? {
            return Ok(());
        }
        // Ignore the exit code; check what is next.
        if let Err(error) = remove_next(host, &state).await {
            cause = error_text(&error);
        }
        state = MachineState::read(host).await?;
    }
    if !has_obsolete(host, desired, set, &state).await? {
        return Ok(());
    }
    let Deployments { staged, others, .. } = state.deployments;
    let next = staged.or(others.into_iter().next());
    Err(Error::StillStaged { image: next.map(|one| one.image).unwrap_or_default(), cause })
}

/// Takes the next boot from the deployment that has it.
async fn remove_next(host: &Host, state: &MachineState) -> Result<(), Error> {
    let is_queued = state.deployments.rollback_queued;
    let tool = state.tool.ok_or(Error::NoTool)?;
    tracing::info!(%tool, "removing what the next reboot would boot in place of the target");
    let (name, command) = match tool {
        // bootc has no command for what is staged.
        NodeTool::Bootc if !is_queued => return undeploy(host).await,
        // Both undo a rollback. What was queued stays a way back.
        NodeTool::Bootc => ("bootc rollback", words(["bootc", "rollback"])),
        NodeTool::RpmOstree => {
            settle(host, None).await?;
            if is_queued {
                ("rpm-ostree rollback", words(["rpm-ostree", "rollback"]))
            } else {
                ("rpm-ostree cleanup", words(["rpm-ostree", "cleanup", "--pending"]))
            }
        }
    };
    host.run(name, &command, UNSTAGE_LIMIT).await.map(drop)
}

/// Removes a staged image that this machine must not boot. It stays if that fails.
pub(crate) async fn remove_refused(host: &Host, state: &MachineState) {
    if let Err(error) = remove_next(host, state).await {
        tracing::error!("{error}");
    }
}

async fn has_obsolete(
    host: &Host,
    desired: &DesiredState<'_>,
    set: &SetByMosb,
    state: &MachineState,
) -> Result<bool, Error> {
    if state.boots_other_next(desired.target) {
        return Ok(true);
    }
    if !state.has_staged(desired.target) {
        return Ok(false);
    }
    let fit = TargetFit::read(host, desired.target, desired.part, set, state).await?;
    Ok(!fit.staged)
}

/// Removes the first deployment if it is the staged one. ostree itself refuses to remove the booted
/// one.
async fn undeploy(host: &Host) -> Result<(), Error> {
    check_first_staged(host).await?;
    let undeploy = words(["ostree", "admin", "undeploy", "0"]);
    host.run("ostree admin undeploy", &undeploy, UNSTAGE_LIMIT).await.map(drop)
}

/// # Errors
/// The first deployment, number 0 for ostree, is not the staged one, or that is not known.
pub(crate) async fn check_first_staged(host: &Host) -> Result<(), Error> {
    let command = "ostree admin status";
    let status = host.run(command, &words(["ostree", "admin", "status"]), UNSTAGE_LIMIT).await?;
    if is_first_staged(&status) {
        return Ok(());
    }
    let cause = "the first deployment is not staged".to_owned();
    Err(Error::BadStatus { command, cause })
}

/// Whether the first deployment is the staged one, by the output of `ostree admin status`: a star or
/// a space, a space, and the deployment. Lines with more about it are indented further.
fn is_first_staged(status: &str) -> bool {
    let deployments = status.lines().filter_map(|line| {
        let text = line.strip_prefix("  ").or_else(|| line.strip_prefix("* "))?;
        text.starts_with(|first: char| !first.is_whitespace()).then_some(text)
    });
    let first = deployments.map(str::split_whitespace).next();
    first.is_some_and(|mut words| words.any(|word| word == STAGED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_staged_first_deployment_is_removed() {
        let more = "    Version: 42.20260801.3.0\n    origin: <unknown origin type>\n";
        let staged = format!("  lab 0a1b.0 (staged)\n{more}");
        let booted = format!("* lab 2c3d.0\n{more}");
        let pending = format!("  lab 4e5f.1 (pending)\n{more}");
        let rollback = format!("  lab 6a7b.0 (rollback)\n{more}");
        for (what, status, want) in [
            ("staged", format!("{staged}{booted}{rollback}"), true),
            ("after a message", format!("bootfs is mounted\n{staged}{booted}"), true),
            ("nothing staged", format!("{booted}{rollback}"), false),
            ("a way back that is next", format!("{pending}{booted}"), false),
            ("staged in the second place", format!("{pending}{staged}{booted}"), false),
            ("only in what is about it", format!("{booted}    Note: (staged)\n"), false),
            ("no deployment", "No deployments.\n".to_owned(), false),
            ("nothing", String::new(), false),
        ] {
            assert_eq!(is_first_staged(&status), want, "{what}");
        }
    }
}
