//! Brings the image of a target to the machine, with its kernel arguments, so that the next reboot
//! boots it.

use mosb_api::rollout::{NodeTarget, NodeTool};
use mosb_image::PinnedRef;
use mosb_types::error_text;

use crate::desired_state::DesiredState;
use crate::error::Error;
use crate::host::Host;
use crate::host_root::HostRoot;
use crate::kernel_arguments::{
    KERNEL_ARGUMENTS_FOLDER, arguments_of_image, change_next, sets_arguments,
};
use crate::live::{self, LiveRecord};
use crate::machine_record::{MachineRecord, SetByMosb};
use crate::machine_state::{InstalledTools, MachineState, is_installed};
use crate::placed_login::{self, PlacedLogin};
use crate::pull_access::PullAccess;
use crate::record::record_if_complete;
use crate::rpm_ostree_daemon::{self, settle};
use crate::staging_unit::{StagingUnit, remove_leftover_login};
use crate::target_fit::TargetFit;
use crate::unstage::{remove_refused, unstage};
use crate::{
    adopt, boot_check, core_access, etc_merge, placed_settings, signature_policy, update_units,
};

/// What bootc runs, up to 1.11 after it has staged, and then before.
const PODMAN: &str = "podman";
/// How much of the tool's output an error has; a report has little space.
const LAST_CHARACTERS: usize = 500;

/// Stages the image of a target with its kernel arguments, unless they are staged. On a machine that
/// runs it so, removes another deployment that is staged, and records the target if the machine has all
/// of it. So the next reboot boots the target.
///
/// # Errors
/// It is not staged, or another image still is; or `core` can't get its keys or its password.
pub async fn stage(host: &Host, desired: &DesiredState<'_>) -> Result<(), Error> {
    remove_leftover_login(host).await?;
    adopt::arm(host).await?;
    let DesiredState { target, part, .. } = *desired;
    settle_staging(host, target).await?;
    let state = MachineState::read(host).await?;
    state.check_only_image()?;
    let record = MachineRecord::read(host.root())?;
    let set = record.known_of(state.booted_digest());
    let fit = TargetFit::read(host, target, part, &set, &state).await;
    if let Err(Error::NoKernelArguments { .. }) = fit
        && state.has_staged(target)
    {
        // Any reboot would boot it.
        remove_refused(host, &state).await;
    }
    let fit = fit?;
    if fit.booted {
        unstage(host, desired, &set).await?;
        return record_if_complete(host.root(), desired, &record, &state);
    }
    if is_left_to_stage(host.root(), desired, &set, &fit)? {
        bring(host, desired, &state).await?;
    } else {
        update_units::stop_until_reboot(host).await?;
    }
    check_merge(host, &target.image).await?;
    if !state.runs(&target.image) {
        boot_check::arm(host.root(), target.image.digest())?;
    }
    renew_live(host, target, &state).await
}

/// Checks that a reboot would boot what is staged. Otherwise it is removed, because finalizing it at any
/// reboot would fail.
async fn check_merge(host: &Host, image: &PinnedRef) -> Result<(), Error> {
    let checked = etc_merge::check(host.root(), image);
    if let Err(Error::NotMergeable { .. }) = checked {
        remove_refused(host, &MachineState::read(host).await?).await;
    }
    checked
}

/// Ends the staging of other targets, and waits for that of this one.
pub(crate) async fn settle_staging(host: &Host, target: &NodeTarget) -> Result<(), Error> {
    StagingUnit::settle(host, target).await?;
    if MachineState::without_tool(host)?.tool == Some(NodeTool::RpmOstree) {
        rpm_ostree_daemon::cancel_ours(host, Some(&StagingUnit::of(target))).await?;
    }
    Ok(())
}

/// Brings what another boot of the image before undid of a target whose files the machine has.
async fn renew_live(host: &Host, target: &NodeTarget, state: &MachineState) -> Result<(), Error> {
    let (image, boot_id) = (target.image.digest(), &*state.boot_id);
    let is_undone =
        |live: &LiveRecord| live.complete && live.image == image && !live.has_all(image, boot_id);
    // Of several images from which the target comes live, it need not name the one that runs here.
    if LiveRecord::of_booted(host.root())?.as_ref().is_some_and(is_undone) {
        live::bring(host, &target.image, boot_id).await?;
    }
    Ok(())
}

/// Whether there is something to stage on a machine that does not run the target.
fn is_left_to_stage(
    root: &HostRoot,
    desired: &DesiredState<'_>,
    set: &SetByMosb,
    fit: &TargetFit,
) -> Result<bool, Error> {
    // What apply would refuse, when the machine is drained and has its slot.
    core_access::missing(root, desired.part, set)?;
    Ok(!fit.staged)
}

/// Stages what is not staged: the image, then its kernel arguments.
pub(crate) async fn bring(
    host: &Host,
    desired: &DesiredState<'_>,
    state: &MachineState,
) -> Result<(), Error> {
    let target = desired.target;
    let record = MachineRecord::read(host.root())?;
    update_units::stop_until_reboot(host).await?;
    if state.runs(&target.image) {
        // A new deployment is a copy of the one that is next.
        unstage(host, desired, &record.known_of(state.booted_digest())).await?;
    } else if !state.has_staged(target) {
        bring_image(host, desired, state, &record).await?;
    }
    let brought = bring_arguments(host, desired, &record).await;
    if let Err(Error::NoKernelArguments { .. }) = brought {
        // Any reboot would boot it.
        remove_refused(host, &MachineState::read(host).await?).await;
    }
    brought
}

/// Removes what was staged before images had to be verified: any reboot would boot it, until the target is
/// staged, and for as long as it can't be pulled.
async fn remove_unverified(host: &Host, target: &NodeTarget) -> Result<(), Error> {
    if target.verify {
        let state = MachineState::read(host).await?;
        if state.deployments.staged.is_some() && !state.deployments.staged_is_verified {
            remove_refused(host, &state).await;
        }
    }
    Ok(())
}

/// Logs that kernel arguments of the booted image stay on the machine, because the staged one does not
/// have the folder by which bootc would remove them.
fn warn_of_arguments_that_stay(host: &Host, staged: &MachineState) -> Result<(), Error> {
    let Some(tree) = &staged.staged_tree else { return Ok(()) };
    let root = host.root();
    if staged.tool != Some(NodeTool::Bootc)
        || !sets_arguments(root, "")
        || sets_arguments(root, tree)
    {
        return Ok(());
    }
    if InstalledTools::of(root).rpm_ostree {
        tracing::warn!(
            "the kernel arguments in {KERNEL_ARGUMENTS_FOLDER} of the base stay on the machine, because the next image has no such folder; remove them with rpm-ostree kargs, or add the folder to the next base"
        );
        return Ok(());
    }
    let stay = arguments_of_image(root, "")?;
    if !stay.is_empty() {
        tracing::warn!(
            arguments = stay.join(" "),
            "these kernel arguments stay on the machine, because the image is not built for bootc by mosb; before you bring such an image, roll out a config without them"
        );
    }
    Ok(())
}

/// Gives what is staged the kernel arguments of the target, or stages the booted image with them.
async fn bring_arguments(
    host: &Host,
    desired: &DesiredState<'_>,
    record: &MachineRecord,
) -> Result<(), Error> {
    let DesiredState { target, part, .. } = *desired;
    let fit = |record: MachineRecord| async move {
        let state = MachineState::read(host).await?;
        let set = record.known_of(state.booted_digest());
        let fit = TargetFit::read(host, target, part, &set, &state).await?;
        Ok::<_, Error>((fit.change, set))
    };
    let (change, set) = fit(record.clone()).await?;
    if change.is_empty() {
        return Ok(());
    }
    // The record first: arguments that it does not have are others'.
    let begun = record.begun(target, part, &change.removed_of_others(&set));
    begun.write(host.root(), record)?;
    tracing::info!(image = %target.image, "staging its kernel arguments");
    let changed = change_next(host, &change).await;
    // Ignore the exit code; check what is staged.
    let (left, _) = fit(begun).await?;
    if left.is_empty() {
        return Ok(());
    }
    let mut cause = changed.err().map_or_else(|| "no error".to_owned(), |error| error_text(&error));
    if left.has_blanks() {
        cause += "; before v2023.4, rpm-ostree does not change an argument with a blank: keep it in the config until the machines run an image with a newer one";
    }
    Err(Error::ArgumentsNotStaged { image: target.image.to_string(), cause })
}

async fn bring_image(
    host: &Host,
    desired: &DesiredState<'_>,
    state: &MachineState,
    record: &MachineRecord,
) -> Result<(), Error> {
    let DesiredState { target, access, .. } = *desired;
    let tool = state.tool.ok_or(Error::NoTool)?;
    let unit = StagingUnit::of(target);
    let is_running = unit.is_running(host).await?;
    if !is_running {
        StagingUnit::stop_all(host).await?;
        remove_unverified(host, target).await?;
    }
    signature_policy::check(host, target, &access.settings).await?;
    if !is_running {
        if tool == NodeTool::RpmOstree {
            // One of this target, whose client was killed, goes on. What it staged does not have its
            // kernel arguments yet, and would be removed below.
            settle(host, Some(&unit)).await?;
            if MachineState::read(host).await?.has_staged(target) {
                return Ok(());
            }
            // The image would get the arguments and packages of what is next, and be locked as it.
            unstage(host, desired, &record.known_of(state.booted_digest())).await?;
        }
        start(host, &unit, tool, target, access).await?;
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
    if staged.runs(&target.image) || staged.has_staged(target) {
        return warn_of_arguments_that_stay(host, &staged);
    }
    let image = target.image.to_string();
    let output = access.redactor().redact(&unit.last_output(host).await);
    // The error begins with it, and tools repeat it.
    let mut last = last_characters(&output.replace(&image, "the image"));
    if signature_policy::is_refusal(&output) {
        let unit = unit.name().to_owned();
        return Err(Error::SignatureRefused { image, unit, last });
    }
    if tool == NodeTool::Bootc && !is_installed(host.root(), PODMAN) {
        last += "\nthis machine has no podman, which bootc needs; put it into the image";
    }
    Err(Error::NotStaged { image, unit: unit.name().to_owned(), last })
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
    access: &PullAccess,
) -> Result<(), Error> {
    if access.is_empty() {
        placed_login::remove(host.root())?;
        return unit.start(host, tool, target, Vec::new()).await;
    }
    let placed = PlacedLogin::new(host.root(), access)?;
    placed_settings::copy_containers(host, &access.settings).await?;
    match tool {
        NodeTool::Bootc => {}
        // Its daemon pulls, not the unit.
        NodeTool::RpmOstree => {
            if placed.show_to_daemon()? {
                rpm_ostree_daemon::restart(host).await?;
            }
        }
    }
    unit.start(host, tool, target, placed.unit_properties()).await?;
    placed.hand_over();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pull_access::PullAccess;
    use mosb_api::rollout::MachinePart;

    #[test]
    fn targets_with_impossible_keys_are_not_staged() {
        let key = MachinePart {
            ssh_authorized_keys: vec!["ssh-ed25519 AAAA".to_owned()],
            ..MachinePart::default()
        };
        let none = MachinePart::default();
        let core = "core:x:1000:1000::/var/home/core:/bin/sh\n";
        let image = format!("reg.example/os@{}", none.digest());
        let target = NodeTarget {
            image: image.parse().unwrap(),
            config: None,
            machine_part: None,
            live_from: None,
            verify: false,
        };
        let access = PullAccess::default();
        for (what, passwd, part, want) in [
            ("a key", core, Some(&key), true),
            ("a key, and no user", "", Some(&key), false),
            ("nothing, and no user", "", Some(&none), true),
            ("no part, and no user", "", None, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            root.write("/etc/passwd", passwd.as_bytes(), 0o644).unwrap();
            let desired = DesiredState { target: &target, access: &access, part };
            // Also the image of a build before, which had no keys, may be staged.
            for staged in [false, true] {
                let fit = TargetFit { staged, ..TargetFit::default() };
                match is_left_to_stage(&root, &desired, &SetByMosb::default(), &fit) {
                    Ok(is_left) => assert_eq!((want, is_left), (true, !staged), "{what}"),
                    Err(error) => {
                        assert!(matches!(error, Error::NoCore) && !want, "{what}: {error}")
                    }
                }
            }
        }
    }
}
