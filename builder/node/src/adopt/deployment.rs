//! The deployment whose `/etc` the machine runs with.

use std::path::Path;

use super::FOLDER;
use crate::error::Error;
use crate::host_root::HostRoot;

/// Below it, ostree has `OS/deploy/CHECKSUM.SERIAL`.
const DEPLOYMENTS: &str = "/sysroot/ostree/deploy";

/// A deployment by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BootedDeployment {
    os: String,
    /// `CHECKSUM.SERIAL`.
    name: String,
}

impl BootedDeployment {
    /// The deployment whose directory `etc` is the machine's `/etc`.
    ///
    /// # Errors
    /// There is none, as where `/etc` is in memory.
    pub fn find(root: &HostRoot) -> Result<Self, Error> {
        let etc = root.identity("/etc").ok_or(Error::EtcNotOfDeployment)?;
        let found = all(root)?.into_iter().find(|one| root.identity(&one.etc()) == Some(etc));
        found.ok_or(Error::EtcNotOfDeployment)
    }

    /// Its `/etc`.
    pub fn etc(&self) -> String {
        format!("{DEPLOYMENTS}/{}/deploy/{}/etc", self.os, self.name)
    }

    /// What is adopted of it.
    pub fn folder(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }
}

/// All deployments of the machine.
pub(super) fn all(root: &HostRoot) -> Result<Vec<BootedDeployment>, Error> {
    let tree = root.tree(DEPLOYMENTS)?;
    let mut deployments = Vec::new();
    for os in plain_names(tree.names(Path::new(""))?) {
        let folder = Path::new(&os).join("deploy");
        if tree.entry(&folder)?.is_none() {
            continue;
        }
        for name in plain_names(tree.names(&folder)?) {
            if !name.ends_with(".origin") {
                deployments.push(BootedDeployment { os: os.clone(), name });
            }
        }
    }
    Ok(deployments)
}

/// Those that can be words of a unit file.
fn plain_names(names: Vec<std::ffi::OsString>) -> impl Iterator<Item = String> {
    let is_plain = |name: &String| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !name.starts_with('.') && name.bytes().all(plain)
    };
    names.into_iter().filter_map(|name| name.into_string().ok()).filter(is_plain)
}
