//! Removes a staged image from a machine that runs its target, and undoes a rollback that is queued
//! there: otherwise the next reboot, for whatever reason, boots another image.

use std::time::Duration;

use mosb_plan::api::rollout::NodeTool;

use crate::deployments::Deployments;
use crate::desired_state::DesiredState;
use crate::error::Error;
use crate::host::{Host, words};
use crate::machine_record::SetByMosb;
use crate::machine_state::MachineState;
use crate::staging_unit::StagingUnit;
use crate::target_fit::TargetFit;

/// How long it may take; a tool waits for another one that changes the deployments.
const UNSTAGE_LIMIT: Duration = Duration::from_secs(300);
/// What is removed at most: a staged image, and then a rollback, which is not next before.
const STEPS: usize = 2;
/// The mark of a staged deployment in the output of `ostree admin status`.
const STAGED: &str = "(staged)";

/// Removes what is staged on a machine that runs the image of `desired`, unless it is that image with
/// its kernel arguments, and undoes a rollback that is queued; `set` is what mosb set before.
///
/// # Errors
/// The next reboot still boots another image.
pub(crate) async fn unstage(
    host: &Host,
    desired: &DesiredState<'_>,
    set: &SetByMosb,
) -> Result<(), Error> {
    // What is being staged would be there a moment later.
    StagingUnit::stop_all(host).await?;
    let mut state = MachineState::read(host).await?;
    let mut removed = Ok(());
    for _ in 0..STEPS {
        if !has_obsolete(host, desired, set, &state).await? {
            return Ok(());
        }
        removed = remove_next(host, &state).await;
        // Whatever the exit code: what counts is what is there afterwards.
        state = MachineState::read(host).await?;
    }
    if !has_obsolete(host, desired, set, &state).await? {
        return Ok(());
    }
    let Deployments { staged, others, .. } = state.deployments;
    Err(Error::StillStaged {
        image: staged.or(others.into_iter().next()).map(|one| one.image).unwrap_or_default(),
        cause: removed.err().map_or_else(|| "no error".to_owned(), |error| error.to_string()),
    })
}

/// Removes what the next reboot boots in place of the booted deployment.
async fn remove_next(host: &Host, state: &MachineState) -> Result<(), Error> {
    let tool = state.tool.ok_or(Error::NoTool)?;
    tracing::info!(%tool, "removing what the next reboot would boot in place of the target");
    match tool {
        NodeTool::Bootc if state.deployments.rollback_queued => {
            host.run("bootc rollback", &words(["bootc", "rollback"]), UNSTAGE_LIMIT).await.map(drop)
        }
        // bootc has no command for it.
        NodeTool::Bootc => undeploy(host).await,
        NodeTool::RpmOstree => {
            let cleanup = words(["rpm-ostree", "cleanup", "--pending"]);
            host.run("rpm-ostree cleanup", &cleanup, UNSTAGE_LIMIT).await.map(drop)
        }
    }
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
    if !state.has_staged(&desired.target.image) {
        return Ok(state.boots_other_next(&desired.target.image));
    }
    let fit = TargetFit::read(host, desired.target, desired.part, set, state).await?;
    Ok(!fit.staged)
}

/// Removes the first deployment if it is the staged one. ostree itself refuses to remove the booted
/// one.
async fn undeploy(host: &Host) -> Result<(), Error> {
    let command = "ostree admin status";
    let status = host.run(command, &words(["ostree", "admin", "status"]), UNSTAGE_LIMIT).await?;
    if !is_first_staged(&status) {
        let cause = "the first deployment is not staged".to_owned();
        return Err(Error::BadStatus { command, cause });
    }
    let undeploy = words(["ostree", "admin", "undeploy", "0"]);
    host.run("ostree admin undeploy", &undeploy, UNSTAGE_LIMIT).await.map(drop)
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
    fn only_a_staged_deployment_in_the_first_place_is_removed() {
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
