//! What the machine runs, has staged and may go back to, by its own tools, and which of them changes
//! its image.

use std::pin::pin;
use std::time::Duration;

use mosb_api::rollout::{Deployment, NodeTarget, NodeTool};
use mosb_build::exec;
use mosb_image::{Digest, PinnedRef};

use crate::deployment_folder::{self, DeploymentFolder};
use crate::deployments::{Deployments, boot_link, is_changed_by_rpm_ostree, linked, parse_origin};
use crate::error::Error;
use crate::host::{Host, PATH, words};
use crate::host_root::HostRoot;
use crate::{bootc_status, rpm_ostree_status};

/// Where a machine that booted an ostree deployment has a file.
pub(crate) const BOOTED_OSTREE: &str = "/run/ostree-booted";
/// How long a status may take. bootc waits for whoever changes the deployments, without an end from
/// version 1.7 on; a Job that reports has 300 s.
const STATUS_LIMIT: Duration = Duration::from_secs(240);
/// After how long it is logged that bootc waits.
const QUIET: Duration = Duration::from_secs(3);
/// The name of the command in errors.
pub(crate) const RPM_OSTREE_STATUS: &str = "rpm-ostree status";
/// The arguments that the kernel booted with.
pub(crate) const COMMAND_LINE: &str = "/proc/cmdline";
/// The most bytes of the kernel's arguments and of an origin file.
pub(crate) const SMALL_FILE: u64 = 64 * 1024;

/// The state of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MachineState {
    pub boot_id: String,
    /// None if the machine has neither.
    pub tool: Option<NodeTool>,
    pub deployments: Deployments,
    /// The root of the staged deployment, where bootc staged it.
    pub staged_tree: Option<String>,
    /// Whether bootc can boot what is staged and leave the kernel running; none if it does not say.
    pub soft_reboot_capable: Option<bool>,
}

impl MachineState {
    /// Asks the tool that changes what the machine booted. Another answer is not taken in its place:
    /// only this tool knows what is staged.
    ///
    /// # Errors
    /// The machine is not image-based, or its deployments can't be read or changed.
    pub async fn read(host: &Host) -> Result<Self, Error> {
        let boot_id = host.boot_id()?;
        if !host.root().exists(BOOTED_OSTREE) {
            return Err(Error::NotImageBased);
        }
        let mut state = Self { boot_id, ..Self::without_tool(host)? };
        match state.tool {
            Some(NodeTool::Bootc) => {
                let status = bootc(host).await?;
                if status.read_only {
                    return Err(Error::ReadOnlyMachine);
                }
                state.deployments = status.deployments;
                state.soft_reboot_capable = status.soft_reboot_capable;
                state.staged_tree = match status.staged_name {
                    Some(name) => deployment_folder::named(host.root(), &name)?,
                    None => None,
                };
            }
            Some(NodeTool::RpmOstree) => state.deployments = rpm_ostree(host).await?,
            None => {}
        }
        Ok(state)
    }

    /// The tool and the booted deployment by the files of ostree, for a report without an answer of
    /// the tool. They don't show what is staged.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn without_tool(host: &Host) -> Result<Self, Error> {
        let root = host.root();
        let origin = match booted(root)? {
            Some(booted) => root.text(&booted.origin(), SMALL_FILE)?,
            None => None,
        };
        let is_changed = origin.as_deref().is_some_and(is_changed_by_rpm_ostree);
        let booted = origin.map(|text| {
            let booted = parse_origin(&text);
            // It is not the image alone.
            Deployment { digest: booted.digest.filter(|_| !is_changed), ..booted }
        });
        Ok(Self {
            tool: InstalledTools::of(root).tool(is_changed),
            deployments: Deployments { booted, ..Deployments::default() },
            ..Self::default()
        })
    }

    pub fn runs(&self, image: &PinnedRef) -> bool {
        self.deployments.booted_digest() == Some(image.digest())
    }

    /// Whether the image of this target is staged, and was verified if it must be. A copy of what the
    /// machine runs, as with other kernel arguments, was not pulled for it.
    pub fn has_staged(&self, target: &NodeTarget) -> bool {
        let may_be_booted =
            self.deployments.staged_is_verified || !target.verify || self.runs(&target.image);
        may_be_booted && self.deployments.staged_digest() == Some(target.image.digest())
    }

    /// What the booted deployment has beside its image would come along with each other image.
    ///
    /// # Errors
    /// It has packages or other changes of its own; the error lists them.
    pub fn check_only_image(&self) -> Result<(), Error> {
        let changes = &self.deployments.local_changes;
        if changes.is_empty() {
            return Ok(());
        }
        Err(Error::LocallyChanged { changes: changes.join(", ") })
    }

    /// Whether the next reboot of a machine that runs this target boots something else.
    pub fn boots_other_next(&self, target: &NodeTarget) -> bool {
        let is_other_staged = self.deployments.staged.is_some() && !self.has_staged(target);
        is_other_staged || self.deployments.rollback_queued
    }

    pub fn booted_digest(&self) -> Option<Digest> {
        self.deployments.booted_digest()
    }
}

/// What booted. Where `/etc` is in memory, it is found only until another deployment is written.
fn booted(root: &HostRoot) -> Result<Option<DeploymentFolder>, Error> {
    if let Ok(booted) = DeploymentFolder::booted(root) {
        return Ok(Some(booted));
    }
    let arguments = root.text(COMMAND_LINE, SMALL_FILE)?.unwrap_or_default();
    let link = boot_link(&arguments).and_then(|link| root.link(link));
    Ok(link.as_deref().and_then(linked))
}

async fn bootc(host: &Host) -> Result<bootc_status::BootcStatus, Error> {
    let command = "bootc status";
    let words = words(["bootc", "status", "--json"]);
    let mut answer = pin!(host.run(command, &words, STATUS_LIMIT));
    let answer = match tokio::time::timeout(QUIET, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::info!(
                "{command} waits, as while another program changes the image of this machine"
            );
            answer.await
        }
    };
    match answer {
        Ok(text) => bootc_status::parse(&text).map_err(|cause| Error::BadStatus { command, cause }),
        Err(Error::Program { source: exec::Error::TimedOut { .. }, .. }) => {
            Err(Error::DeploymentsBusy { command, seconds: STATUS_LIMIT.as_secs() })
        }
        Err(error) => Err(error),
    }
}

async fn rpm_ostree(host: &Host) -> Result<Deployments, Error> {
    let text = read_rpm_ostree(host).await?;
    rpm_ostree_status::parse(&text)
        .map_err(|cause| Error::BadStatus { command: RPM_OSTREE_STATUS, cause })
}

/// The output of `rpm-ostree status --json`.
pub(crate) async fn read_rpm_ostree(host: &Host) -> Result<String, Error> {
    let command = words(["rpm-ostree", "status", "--json"]);
    host.run(RPM_OSTREE_STATUS, &command, STATUS_LIMIT).await
}

/// Which of the programs the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstalledTools {
    pub bootc: bool,
    pub rpm_ostree: bool,
}

impl InstalledTools {
    pub fn of(root: &HostRoot) -> Self {
        let has = |name: &str| is_installed(root, name);
        Self { bootc: has("bootc"), rpm_ostree: has("rpm-ostree") }
    }

    /// The one that changes what the machine booted: what rpm-ostree changed, bootc refuses to update.
    pub fn tool(self, is_changed_by_rpm_ostree: bool) -> Option<NodeTool> {
        match (self.bootc, self.rpm_ostree) {
            (true, true) if is_changed_by_rpm_ostree => Some(NodeTool::RpmOstree),
            (true, _) => Some(NodeTool::Bootc),
            (false, true) => Some(NodeTool::RpmOstree),
            (false, false) => None,
        }
    }
}

/// Whether a program is where the machine's are.
pub(crate) fn is_installed(root: &HostRoot, name: &str) -> bool {
    PATH.split(':').any(|folder| root.exists(&format!("{folder}/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_pulled_image_must_be_verified() {
        let image = |name: &str| format!("reg.example/os@{}", Digest::of(name.as_bytes()));
        let deployment = |name: &str| {
            let digest = Some(Digest::of(name.as_bytes()));
            Some(Deployment { image: "reg.example/os".to_owned(), digest })
        };
        for (booted, staged, is_verified, verify, want) in [
            ("old", "new", false, false, true),
            ("old", "new", true, true, true),
            ("old", "new", false, true, false),
            ("old", "other", true, true, false),
            // With other kernel arguments.
            ("new", "new", false, true, true),
        ] {
            let state = MachineState {
                deployments: Deployments {
                    booted: deployment(booted),
                    staged: deployment(staged),
                    staged_is_verified: is_verified,
                    ..Deployments::default()
                },
                ..MachineState::default()
            };
            let target = json!({ "image": image("new"), "verify": verify });
            let target: NodeTarget = serde_json::from_value(target).unwrap();
            let what = format!("{booted} {staged} {is_verified} {verify}");
            assert_eq!(state.has_staged(&target), want, "{what}");
            assert_eq!(state.boots_other_next(&target), !want, "{what}");
        }
    }

    #[test]
    fn tools_are_found_on_the_machines_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let tools = |bootc, rpm_ostree| InstalledTools { bootc, rpm_ostree };
        assert_eq!(InstalledTools::of(&root), tools(false, false));
        for (path, want) in [
            ("/usr/bin/rpm-ostree", tools(false, true)),
            ("/usr/local/bin/bootc", tools(true, true)),
        ] {
            root.write(path, b"", 0o755).unwrap();
            assert_eq!(InstalledTools::of(&root), want, "{path}");
        }
    }

    #[test]
    fn what_rpm_ostree_changed_is_changed_by_it() {
        use NodeTool::{Bootc, RpmOstree};
        for (bootc, rpm_ostree, is_changed, want) in [
            (true, true, false, Some(Bootc)),
            (true, true, true, Some(RpmOstree)),
            (true, false, true, Some(Bootc)),
            (false, true, false, Some(RpmOstree)),
            (false, false, false, None),
        ] {
            let found = InstalledTools { bootc, rpm_ostree }.tool(is_changed);
            assert_eq!(found, want, "{bootc} {rpm_ostree} {is_changed}");
        }
    }
}
