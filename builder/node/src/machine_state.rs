//! What the machine runs, has staged and may go back to, by its own tools.

use std::time::Duration;

use mosb_image::{Digest, PinnedRef};
use mosb_plan::api::rollout::NodeTool;

use crate::bootc_status;
use crate::deployments::Deployments;
use crate::error::Error;
use crate::host::{Host, words};
use crate::origin;
use crate::rpm_ostree_status;
use crate::tool::InstalledTools;

/// Where a machine that booted an ostree deployment has a file.
pub(crate) const BOOTED_OSTREE: &str = "/run/ostree-booted";
/// How long a status may take; a tool waits for another one that changes the deployments.
const STATUS_LIMIT: Duration = Duration::from_secs(120);
/// The name of the command in errors.
pub(crate) const RPM_OSTREE_STATUS: &str = "rpm-ostree status";
/// The most bytes of the kernel's arguments and of an origin file.
const SMALL_FILE: u64 = 64 * 1024;

/// The state of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineState {
    pub boot_id: String,
    /// None if the machine has neither.
    pub tool: Option<NodeTool>,
    pub deployments: Deployments,
}

impl MachineState {
    /// Asks the machine's tools.
    ///
    /// # Errors
    /// The machine is not image-based, or its deployments can't be read.
    pub async fn read(host: &Host) -> Result<Self, Error> {
        let boot_id = host.boot_id()?;
        if !host.root().exists(BOOTED_OSTREE) {
            return Err(Error::NotImageBased);
        }
        let installed = InstalledTools::of(host.root());
        let mut failure = None;
        if installed.bootc {
            match bootc(host).await {
                // What rpm-ostree changed on this machine, bootc refuses to update.
                Ok(status) if !(status.incompatible && installed.rpm_ostree) => {
                    let (tool, deployments) = (Some(NodeTool::Bootc), status.deployments);
                    return Ok(Self { boot_id, tool, deployments });
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        if installed.rpm_ostree {
            match rpm_ostree(host).await {
                Ok(deployments) => {
                    return Ok(Self { boot_id, tool: Some(NodeTool::RpmOstree), deployments });
                }
                Err(error) => failure = Some(error),
            }
        }
        let tool = match (installed.bootc, installed.rpm_ostree) {
            (true, _) => Some(NodeTool::Bootc),
            (false, true) => Some(NodeTool::RpmOstree),
            (false, false) => None,
        };
        let deployments = by_origin(host)?;
        match failure {
            Some(error) if deployments.booted.is_none() => Err(error),
            Some(error) => {
                tracing::warn!("{error}");
                Ok(Self { boot_id, tool, deployments })
            }
            None => Ok(Self { boot_id, tool, deployments }),
        }
    }

    pub fn runs(&self, image: &PinnedRef) -> bool {
        self.deployments.booted_digest() == Some(image.digest())
    }

    pub fn has_staged(&self, image: &PinnedRef) -> bool {
        self.deployments.staged_digest() == Some(image.digest())
    }

    /// Whether the next reboot boots what was not staged for this image.
    pub fn boots_other_next(&self, image: &PinnedRef) -> bool {
        let Deployments { staged, pending, .. } = &self.deployments;
        pending.is_some() || staged.is_some() && !self.has_staged(image)
    }

    /// What the booted deployment has beside its image would come along with each other image.
    ///
    /// # Errors
    /// It has something.
    pub fn check_only_image(&self) -> Result<(), Error> {
        let changes = &self.deployments.local_changes;
        if changes.is_empty() {
            return Ok(());
        }
        Err(Error::LocallyChanged { changes: changes.join(", ") })
    }

    pub fn booted_digest(&self) -> Option<Digest> {
        self.deployments.booted_digest()
    }
}

async fn bootc(host: &Host) -> Result<bootc_status::BootcStatus, Error> {
    let command = "bootc status";
    let text = host.run(command, &words(["bootc", "status", "--json"]), STATUS_LIMIT).await?;
    bootc_status::parse(&text).map_err(|cause| Error::BadStatus { command, cause })
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

/// The booted deployment by the files of ostree, which don't show what is staged.
fn by_origin(host: &Host) -> Result<Deployments, Error> {
    let root = host.root();
    let arguments = root.text("/proc/cmdline", SMALL_FILE)?.unwrap_or_default();
    let link = origin::boot_link(&arguments).and_then(|link| root.link(link));
    let origin = match link.as_deref().and_then(origin::origin_file) {
        Some(file) => root.text(&file, SMALL_FILE)?,
        None => None,
    };
    let booted = origin.map(|text| origin::parse(&text));
    Ok(Deployments { booted, ..Deployments::default() })
}
