//! The kernel arguments that the booted and the staged deployment have in their boot entries, read
//! and changed by rpm-ostree.

use std::time::Duration;

use mosb_plan::plan::{KERNEL_ARGUMENTS_FILE, parse_kargs_file, split_arguments};

use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;
use crate::kernel_arguments::ArgumentChange;
use crate::machine_state::{RPM_OSTREE_STATUS, SMALL_FILE, read_rpm_ostree};
use crate::rpm_ostree_daemon::settle;
use crate::rpm_ostree_status::{Place, places};

/// How long reading may take.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// How long a change may take: it makes a deployment.
const CHANGE_LIMIT: Duration = Duration::from_secs(15 * 60);
const KARGS: &str = "rpm-ostree kargs";

/// The arguments of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BootArguments {
    pub list: Vec<String>,
    /// Whether the image has them in a file, for bootc.
    pub come_with_image: bool,
}

/// Of the booted deployment and of the staged one, if there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AllBootArguments {
    pub booted: Option<BootArguments>,
    pub staged: Option<BootArguments>,
}

impl AllBootArguments {
    /// Asks rpm-ostree.
    pub async fn read(host: &Host) -> Result<Self, Error> {
        let text = read_rpm_ostree(host).await?;
        let bad = |cause| Error::BadStatus { command: RPM_OSTREE_STATUS, cause };
        let places = places(&text).map_err(bad)?;
        Ok(Self {
            booted: of_place(host, places.booted.as_ref()).await?,
            staged: of_place(host, places.staged.as_ref()).await?,
        })
    }
}

async fn of_place(host: &Host, place: Option<&Place>) -> Result<Option<BootArguments>, Error> {
    let Some(place) = place else { return Ok(None) };
    let index = format!("--deploy-index={}", place.index);
    let text = host.run(KARGS, &words(["rpm-ostree", "kargs", &index]), READ_LIMIT).await?;
    let come_with_image = place.tree.as_ref().is_some_and(|tree| brings_arguments(host, tree));
    let list = split_arguments(&text).map(str::to_owned).collect();
    Ok(Some(BootArguments { list, come_with_image }))
}

/// Whether a deployment has the file with which bootc sets the arguments of its config. The empty
/// path is the booted one.
pub(crate) fn brings_arguments(host: &Host, tree: &str) -> bool {
    host.root().exists(&format!("{tree}{KERNEL_ARGUMENTS_FILE}"))
}

/// The arguments that a deployment of an image for bootc has from that image. The empty path is the
/// booted one.
pub(crate) fn arguments_of_image(root: &HostRoot, tree: &str) -> Result<Vec<String>, Error> {
    let text = root.text(&format!("{tree}{KERNEL_ARGUMENTS_FILE}"), SMALL_FILE)?;
    Ok(text.map(|text| parse_kargs_file(&text)).unwrap_or_default())
}

/// Changes the arguments of what the machine boots next: of the staged deployment, or of a new one
/// of the booted image. It needs no registry.
pub(crate) async fn change_next(host: &Host, change: &ArgumentChange) -> Result<(), Error> {
    settle(host, None).await?;
    let mut command = words(["rpm-ostree", "kargs"]);
    command.extend(change.words());
    host.run(KARGS, &command, CHANGE_LIMIT).await.map(drop)
}
