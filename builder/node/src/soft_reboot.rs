//! Whether a machine reboots its user space alone, and preparing that: systemd then starts the user
//! space of the staged deployment, and the kernel runs on.
//!
//! bootc compares kernel, initramfs, kernel arguments and SELinux policy (`softRebootCapable`, from
//! 1.7 on, with ostree 2025.3 and systemd 254). It does not see what the kernel took on from the image
//! and keeps, such as the value of a parameter, so the trees are compared here.
//!
//! ostree prepares it and not `bootc switch --soft-reboot`: for an image that is staged, that returns
//! early and prepares nothing, and `bootc upgrade` asks the registry first.

use std::time::Duration;

use mosb_api::rollout::{NodeTarget, NodeTool, SoftReboot};
use mosb_plan::plan::is_kept_by_kernel;
use mosb_types::error_text;
use rustix::fd::OwnedFd;

use crate::deployment_folder::DeploymentFolder;
use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;
use crate::live::{Stop, tree_difference};
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};
use crate::unstage::check_first_staged;

/// How long ostree may take to mount what is staged.
const PREPARE_LIMIT: Duration = Duration::from_secs(120);

/// Decides how an attempt reboots the machine, of which `record` is.
pub(crate) fn decide(
    root: &HostRoot,
    state: &MachineState,
    target: &NodeTarget,
    attempt: u32,
    record: Option<&Record>,
) -> SoftReboot {
    let obstacle = obstacle(state, target, attempt, record).or_else(|| {
        // bootc names what is staged.
        let staged = state.staged_tree.as_deref()?;
        match DeploymentFolder::booted(root) {
            // Not the running root, in which other file systems are mounted.
            Ok(booted) => kernel_state_obstacle(root, &booted.root(), staged),
            Err(error) => Some(error_text(&error)),
        }
    });
    obstacle.map_or(SoftReboot::USED, |cause| SoftReboot::not_used(&cause))
}

/// Why the kernel must boot, as far as the status of the machine and its record show it.
fn obstacle(
    state: &MachineState,
    target: &NodeTarget,
    attempt: u32,
    record: Option<&Record>,
) -> Option<String> {
    let was_tried = record.is_some_and(|record| {
        record.phase == Phase::Rebooting
            && (&record.target, record.attempt) == (target, attempt)
            && record.boot_id == state.boot_id
            && record.soft_reboot.as_ref().is_some_and(|soft| soft.used)
    });
    if was_tried {
        return Some("one was begun in this attempt, and the image was not booted".to_owned());
    }
    let cause = match (state.tool, state.soft_reboot_capable) {
        (Some(NodeTool::RpmOstree) | None, _) => "this machine takes images without bootc",
        (Some(NodeTool::Bootc), None) => {
            "bootc does not report whether it can (before 1.7); put a newer one into the image"
        }
        (Some(NodeTool::Bootc), Some(false)) => {
            "bootc reports that what is staged is not capable of it: its kernel, initramfs, kernel arguments or SELinux policy differ, or ostree or systemd are too old"
        }
        (Some(NodeTool::Bootc), Some(true)) if state.staged_tree.is_none() => {
            "the files of what is staged were not found"
        }
        (Some(NodeTool::Bootc), Some(true)) => return None,
    };
    Some(cause.to_owned())
}

/// Why the kernel must boot by the files of both images: it keeps what came from the ones that differ.
fn kernel_state_obstacle(root: &HostRoot, booted: &str, staged: &str) -> Option<String> {
    let folder = |path: &str| -> Result<OwnedFd, String> {
        root.folder(path).map_err(|error| format!("{path} is not readable: {error}"))
    };
    let (before, after) = match (folder(booted), folder(staged)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(cause), _) | (_, Err(cause)) => return Some(cause),
    };
    match tree_difference(&before, &after, &|path| !is_kept_by_kernel(path)) {
        Ok(_) => None,
        Err(Stop::Differs(path)) => Some(format!(
            "the images differ in /{}, which the kernel keeps until it boots",
            path.escape_debug()
        )),
        Err(Stop::TooMuch(cause)) => Some(cause.to_owned()),
        Err(Stop::Unreadable { path, source }) => {
            Some(format!("/{} is not readable: {source}", path.escape_debug()))
        }
    }
}

/// Mounts what is staged as the next root of systemd.
///
/// # Errors
/// ostree refuses, and leaves nothing; the cause is in the text.
pub(crate) async fn prepare(host: &Host) -> Result<(), String> {
    let prepared = async {
        check_first_staged(host).await?;
        let command = words(["ostree", "admin", "prepare-soft-reboot", "0"]);
        host.run("ostree admin prepare-soft-reboot", &command, PREPARE_LIMIT).await?;
        Ok::<_, Error>(())
    };
    prepared.await.map_err(|error| error_text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(image: &str) -> NodeTarget {
        let digest = mosb_image::Digest::of(image.as_bytes());
        serde_json::from_value(serde_json::json!({ "image": format!("reg.example/os@{digest}") }))
            .unwrap()
    }

    #[test]
    fn bootc_and_the_record_decide() {
        use NodeTool::{Bootc, RpmOstree};
        let state = |tool, soft_reboot_capable| MachineState {
            boot_id: "now".to_owned(),
            tool,
            staged_tree: Some("/staged".to_owned()),
            soft_reboot_capable,
            ..MachineState::default()
        };
        let record = |of: &str, attempt, boot_id: &str, soft_reboot| Record {
            boot_id: boot_id.to_owned(),
            soft_reboot,
            ..Record::new(&target(of), attempt, &MachineState::default(), Phase::Rebooting)
        };
        let used = || Some(SoftReboot::USED);
        let can = || state(Some(Bootc), Some(true));
        for (what, state, record, want) in [
            ("it can", can(), None, None),
            ("another tool", state(Some(RpmOstree), None), None, Some("without bootc")),
            ("no tool", state(None, None), None, Some("without bootc")),
            ("an old bootc", state(Some(Bootc), None), None, Some("before 1.7")),
            ("another kernel", state(Some(Bootc), Some(false)), None, Some("not capable")),
            ("no tree", MachineState { staged_tree: None, ..can() }, None, Some("were not found")),
            ("begun before", can(), Some(record("new", 1, "now", used())), Some("was begun")),
            ("of an earlier boot", can(), Some(record("new", 1, "then", used())), None),
            ("of an earlier attempt", can(), Some(record("new", 2, "now", used())), None),
            ("of another target", can(), Some(record("old", 1, "now", used())), None),
            ("not soft", can(), Some(record("new", 1, "now", None)), None),
        ] {
            let found = obstacle(&state, &target("new"), 1, record.as_ref());
            match want {
                None => assert_eq!(found, None, "{what}"),
                Some(part) => assert!(found.unwrap().contains(part), "{what}"),
            }
        }
    }

    #[test]
    fn files_that_the_kernel_keeps_need_its_boot() {
        for (what, path, want) in [
            ("a file of the config", "usr/etc/motd", None),
            ("a parameter", "usr/etc/sysctl.d/a.conf", Some("/usr/etc/sysctl.d")),
            ("options of modules", "usr/lib/modprobe.d/a.conf", Some("/usr/lib/modprobe.d")),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for folder in ["booted/usr/etc", "booted/usr/lib", "staged/usr/etc", "staged/usr/lib"] {
                std::fs::create_dir_all(dir.path().join(folder)).unwrap();
            }
            let file = dir.path().join("staged").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "a").unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            let found = kernel_state_obstacle(&root, "/booted", "/staged");
            match want {
                None => assert_eq!(found, None, "{what}"),
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{what}: {found:?}")
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        assert!(kernel_state_obstacle(&root, "/", "/missing").unwrap().contains("/missing"));
    }
}
