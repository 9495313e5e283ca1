//! The list of adopted paths of a deployment, which `compose.sh` reads.

use std::path::Path;

use super::FOLDER;
use super::deployment::{self, BootedDeployment};
use super::entry_state::EntryState;
use crate::error::Error;
use crate::host_root::HostRoot;

pub(super) const COMPOSE: &str = include_str!("compose.sh");

/// A path that is adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AdoptedEntry {
    /// Below `/etc`, without control characters.
    pub path: String,
    /// What the machine has; what was changed since then stays.
    pub state: Option<EntryState>,
}

/// The list of a deployment.
pub(super) fn list_file(deployment: &BootedDeployment) -> String {
    format!("{}/list", deployment.folder())
}

/// The program that reads it.
pub(super) fn compose_file(deployment: &BootedDeployment) -> String {
    format!("{}/compose.sh", deployment.folder())
}

/// Writes the list of a deployment, in place of an earlier one. Nothing adopted is no list.
pub(super) fn write(
    root: &HostRoot,
    deployment: &BootedDeployment,
    entries: &[AdoptedEntry],
) -> Result<(), Error> {
    if entries.is_empty() {
        return root.remove_written(&list_file(deployment));
    }
    root.make_private_folder(FOLDER)?;
    root.make_private_folder(&deployment.folder())?;
    root.write(&compose_file(deployment), COMPOSE.as_bytes(), 0o600)?;
    root.write(&list_file(deployment), text(entries).as_bytes(), 0o600)
}

pub(super) fn text(entries: &[AdoptedEntry]) -> String {
    let lines = entries.iter().map(|AdoptedEntry { path, state }| {
        let fingerprint = state.as_ref().map_or_else(|| "-".to_owned(), EntryState::fingerprint);
        format!("{fingerprint}\n{path}\n")
    });
    lines.collect()
}

/// Removes the lists of deployments that the machine has not any more.
pub(super) fn remove_obsolete(root: &HostRoot) -> Result<(), Error> {
    let deployments = deployment::all(root)?;
    let needed: Vec<String> = deployments.iter().map(BootedDeployment::folder).collect();
    for name in root.tree(FOLDER)?.names(Path::new(""))? {
        let folder = format!("{FOLDER}/{}", name.to_string_lossy());
        if !needed.contains(&folder) {
            for file in ["list", "compose.sh"] {
                root.remove_written(&format!("{folder}/{file}"))?;
            }
            root.remove_folder(&folder)?;
        }
    }
    Ok(())
}
