//! What was written to `/etc` of a deployment while it ran, for an image that it did not boot. ostree
//! takes such files for changes of the machine, so what stages, reports and adopts must know them.
//!
//! It is written before the files, and again when all of them are there, in the folder of the
//! deployment: the deployment before may be booted again, and has them then.

use std::collections::BTreeMap;

use mosb_image::Digest;
use serde::{Deserialize, Serialize};

use crate::deployment_folder::{DeploymentFolder, FOLDER};
use crate::error::Error;
use crate::file_tree::{EntryState, fingerprint};
use crate::host_root::HostRoot;

/// The most bytes that are read.
const LIMIT: u64 = 4 * 1024 * 1024;

/// What was written live for a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LiveRecord {
    /// The image whose files these are.
    pub image: Digest,
    /// Whether all is written and read by what uses it.
    pub complete: bool,
    /// The boot in which it was completed, if another boot of the deployment undoes a part of it: its
    /// image brings its own pull secret.
    #[serde(rename = "onlyInBoot", skip_serializing_if = "Option::is_none", default)]
    pub only_in_boot: Option<String>,
    /// Paths below `/etc`, with the fingerprints of what may have been written there; `-` for nothing.
    pub files: BTreeMap<String, Vec<String>>,
}

impl LiveRecord {
    /// The record of a deployment; none if nothing was written, or if it can't be parsed.
    pub fn read(root: &HostRoot, deployment: &DeploymentFolder) -> Result<Option<Self>, Error> {
        let file = file(deployment);
        let Some(text) = root.read(&file, LIMIT)? else { return Ok(None) };
        let record = serde_json::from_slice(&text);
        Ok(record.inspect_err(|error| tracing::warn!("{file}: no record: {error}")).ok())
    }

    /// The record of the deployment that runs; none if `/etc` is not that of a deployment.
    pub fn of_booted(root: &HostRoot) -> Result<Option<Self>, Error> {
        match DeploymentFolder::booted(root) {
            Ok(deployment) => Self::read(root, &deployment),
            Err(Error::EtcNotOfDeployment) => Ok(None),
            // As without ostree.
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub fn write(&self, root: &HostRoot, deployment: &DeploymentFolder) -> Result<(), Error> {
        root.make_private_folder(FOLDER)?;
        root.make_private_folder(&deployment.folder())?;
        let text = serde_json::to_vec(self).expect("a record is JSON");
        root.write(&file(deployment), &text, 0o600)
    }

    pub fn remove(root: &HostRoot, deployment: &DeploymentFolder) -> Result<(), Error> {
        root.remove_written(&file(deployment))
    }

    /// Whether the machine has all of an image that can be written while it runs.
    pub fn has_all(&self, image: Digest, boot_id: &str) -> bool {
        self.complete
            && self.image == image
            && self.only_in_boot.as_deref().is_none_or(|boot| boot == boot_id)
    }

    /// Whether a path is as it was written.
    pub fn has_written(&self, path: &str, state: Option<&EntryState>) -> bool {
        self.files.get(path).is_some_and(|known| known.contains(&fingerprint(state)))
    }
}

/// The record of a deployment.
fn file(deployment: &DeploymentFolder) -> String {
    format!("{}/live.json", deployment.folder())
}
