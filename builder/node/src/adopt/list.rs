//! The list of adopted paths of a deployment, which `compose.sh` reads, and the units that let the
//! next deployment do without them. The units are in memory, so each command that stages or reboots
//! makes them again, and a machine has no file of its own for them.

use std::path::Path;
use std::time::Duration;

use crate::deployment_folder::{self, DeploymentFolder, FOLDER};
use crate::error::Error;
use crate::file_tree::{EntryState, fingerprint};
use crate::finalization::FINALIZE_UNIT;
use crate::host::{Host, words};
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::staging_unit::is_running;

pub(super) const COMPOSE: &str = include_str!("compose.sh");
/// The most bytes of a list.
const LIMIT: u64 = 64 * 1024 * 1024;

/// A path that is adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AdoptedEntry {
    /// Below `/etc`, without control characters.
    pub path: String,
    /// What the machine has; what was changed since then stays.
    pub state: Option<EntryState>,
}

/// The list of a deployment.
pub(super) fn list_file(deployment: &DeploymentFolder) -> String {
    format!("{}/list", deployment.folder())
}

/// What the program reads: the list, and what was written while the deployment ran.
pub(super) fn all_file(deployment: &DeploymentFolder) -> String {
    format!("{}/all", deployment.folder())
}

/// The program that reads it.
pub(super) fn compose_file(deployment: &DeploymentFolder) -> String {
    format!("{}/compose.sh", deployment.folder())
}

/// Writes the list of a deployment, in place of an earlier one. Without
/// adopted files no list is written.
pub(super) fn write(
    root: &HostRoot,
    deployment: &DeploymentFolder,
    entries: &[AdoptedEntry],
) -> Result<(), Error> {
    if entries.is_empty() {
        return root.remove_written(&list_file(deployment));
    }
    root.make_private_folder(FOLDER)?;
    root.make_private_folder(&deployment.folder())?;
    root.write(&list_file(deployment), text(entries).as_bytes(), 0o600)
}

/// Whether what a deployment has at a path is on its list, or was written for another image. A list that
/// can't be read has nothing.
pub(super) fn has(
    root: &HostRoot,
    deployment: &DeploymentFolder,
    path: &Path,
    state: Option<&EntryState>,
) -> bool {
    let Some(path) = path.to_str() else { return false };
    let live = LiveRecord::read(root, deployment).ok().flatten();
    if live.is_some_and(|live| live.has_written(path, state)) {
        return true;
    }
    let list = root.read(&list_file(deployment), LIMIT).ok().flatten().unwrap_or_default();
    let lines: Vec<&[u8]> = list.split(|byte| *byte == b'\n').collect();
    let entry = [fingerprint(state).into_bytes(), path.as_bytes().to_vec()];
    lines.chunks_exact(2).any(|pair| pair[0] == entry[0] && pair[1] == entry[1])
}

/// Writes what is left out of what the next image gets: what is adopted, and what was written for an
/// image that was not booted. Returns whether there is any.
pub(super) fn write_all(root: &HostRoot, deployment: &DeploymentFolder) -> Result<bool, Error> {
    let mut all = root.read(&list_file(deployment), LIMIT)?.unwrap_or_default();
    let live = LiveRecord::read(root, deployment)?.map(|live| live.files).unwrap_or_default();
    for (path, states) in &live {
        // The one that the machine does not have changes nothing.
        all.extend(states.iter().flat_map(|state| format!("{state}\n{path}\n").into_bytes()));
    }
    if all.is_empty() {
        root.remove_written(&all_file(deployment))?;
        return Ok(false);
    }
    root.write(&compose_file(deployment), COMPOSE.as_bytes(), 0o600)?;
    root.write(&all_file(deployment), &all, 0o600)?;
    Ok(true)
}

pub(super) fn text(entries: &[AdoptedEntry]) -> String {
    let lines = entries
        .iter()
        .map(|AdoptedEntry { path, state }| format!("{}\n{path}\n", fingerprint(state.as_ref())));
    lines.collect()
}

/// Removes the lists of deployments that the machine has not any more.
pub(super) fn remove_obsolete(root: &HostRoot) -> Result<(), Error> {
    let deployments = deployment_folder::all(root)?;
    let needed: Vec<String> = deployments.iter().map(DeploymentFolder::folder).collect();
    for name in root.tree(FOLDER)?.names(Path::new(""))? {
        let folder = format!("{FOLDER}/{}", name.to_string_lossy());
        if !needed.contains(&folder) {
            for file in ["list", "all", "live.json", "compose.sh"] {
                root.remove_written(&format!("{folder}/{file}"))?;
            }
            root.remove_folder(&folder)?;
        }
    }
    Ok(())
}

const UNIT: &str = "mosb-adopt.service";
const UNITS: &str = "/run/systemd/system";
/// The copy of `/etc` that `compose.sh` makes.
const COMPOSED: &str = "/run/mosb-adopt/etc";
/// How long systemd may take to read its units again.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);

/// Makes and starts the units, if something of the booted deployment is adopted, or was written for an image
/// that it did not boot.
///
/// # Errors
/// A file can't be written, or systemd does not take them.
pub(crate) async fn arm(host: &Host) -> Result<(), Error> {
    let root = host.root();
    if !root.exists(FOLDER) {
        return Ok(());
    }
    remove_obsolete(root)?;
    let deployment = DeploymentFolder::booted(root)?;
    if !write_all(root, &deployment)? {
        return Ok(());
    }
    let unit_file = format!("{UNITS}/{UNIT}");
    let drop_in = format!("{UNITS}/{FINALIZE_UNIT}.d/mosb-adopt.conf");
    root.write(&unit_file, unit(&deployment).as_bytes(), 0o644)?;
    root.write(&drop_in, bind(&deployment).as_bytes(), 0o644)?;
    let reload = words(["systemctl", "daemon-reload"]);
    host.run("systemctl daemon-reload", &reload, RELOAD_LIMIT).await?;
    if !is_running(host, UNIT).await? {
        let start = words(["systemctl", "start", UNIT]);
        host.run("systemctl start", &start, RELOAD_LIMIT).await?;
    }
    Ok(())
}

/// Units stop in the reverse of the order in which they start, so this one stops when all that
/// writes files has stopped, and before the deployment is finalized.
fn unit(deployment: &DeploymentFolder) -> String {
    format!(
        "[Unit]\n\
         Description=Leave adopted files out of what the next image gets of /etc\n\
         DefaultDependencies=no\n\
         RequiresMountsFor=/var/lib/mosb /sysroot\n\
         After={FINALIZE_UNIT}\n\
         Before=basic.target final.target\n\
         Conflicts=final.target\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStop=/bin/sh {} {} {}\n\
         TimeoutStopSec=2min\n",
        compose_file(deployment),
        deployment.etc(),
        all_file(deployment),
    )
}

/// Where the copy is, finalizing sees it in place of the deployment's own; without it, nothing
/// changes.
fn bind(deployment: &DeploymentFolder) -> String {
    format!("[Service]\nBindPaths=-{COMPOSED}:{}\n", deployment.etc())
}
