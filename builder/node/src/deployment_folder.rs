//! Where the deployments of the machine are, and what is recorded of each.

use std::path::Path;

use crate::error::Error;
use crate::host_root::HostRoot;

/// What is recorded of deployments, in a folder for each. For root alone, as in `/etc`.
pub(crate) const FOLDER: &str = "/var/lib/mosb/adopt";
/// Below it, ostree has `OS/deploy/CHECKSUM.SERIAL`.
const DEPLOYMENTS: &str = "/sysroot/ostree/deploy";

/// A deployment by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeploymentFolder {
    os: String,
    /// `CHECKSUM.SERIAL`.
    name: String,
}

impl DeploymentFolder {
    /// None unless the name is `CHECKSUM.SERIAL`, and the stateroot the name of a directory.
    pub fn new(os: &str, name: &str) -> Option<Self> {
        let (checksum, serial) = name.split_once('.')?;
        let is_valid = is_plain(os)
            && checksum.len() == 64
            && checksum.bytes().all(|b| b.is_ascii_hexdigit())
            && !serial.is_empty()
            && serial.bytes().all(|b| b.is_ascii_digit());
        is_valid.then(|| Self { os: os.to_owned(), name: name.to_owned() })
    }

    /// The deployment whose directory `etc` is the machine's `/etc`.
    ///
    /// # Errors
    /// There is none, as where `/etc` is in memory.
    pub fn booted(root: &HostRoot) -> Result<Self, Error> {
        let etc = root.identity("/etc").ok_or(Error::EtcNotOfDeployment)?;
        let found = all(root)?.into_iter().find(|one| root.identity(&one.etc()) == Some(etc));
        found.ok_or(Error::EtcNotOfDeployment)
    }

    /// Its root.
    pub fn root(&self) -> String {
        format!("{DEPLOYMENTS}/{}/deploy/{}", self.os, self.name)
    }

    /// Its `/etc`.
    pub fn etc(&self) -> String {
        format!("{}/etc", self.root())
    }

    /// The file that names its image.
    pub fn origin(&self) -> String {
        format!("{}.origin", self.root())
    }

    /// Identifies its tree; several deployments may have one.
    pub fn checksum(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// What is recorded of it.
    pub fn folder(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }
}

/// The root of the deployment with this name, `CHECKSUM.SERIAL`; none if there is none.
///
/// # Errors
/// The deployments can't be listed.
pub(crate) fn named(root: &HostRoot, name: &str) -> Result<Option<String>, Error> {
    let found = all(root)?.into_iter().find(|one| one.name == name);
    Ok(found.map(|one| one.root()))
}

/// All deployments of the machine.
pub(crate) fn all(root: &HostRoot) -> Result<Vec<DeploymentFolder>, Error> {
    let tree = root.tree(DEPLOYMENTS)?;
    let mut deployments = Vec::new();
    for os in plain_names(tree.names(Path::new(""))?) {
        let folder = Path::new(&os).join("deploy");
        if tree.entry(&folder)?.is_none() {
            continue;
        }
        for name in plain_names(tree.names(&folder)?) {
            if !name.ends_with(".origin") {
                deployments.push(DeploymentFolder { os: os.clone(), name });
            }
        }
    }
    Ok(deployments)
}

/// Those that can be words of a unit file.
fn plain_names(names: Vec<std::ffi::OsString>) -> impl Iterator<Item = String> {
    names.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| is_plain(name))
}

fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}
