//! Where the tools of the machine read mirrors, CAs, proxy and the policy of signatures while an image
//! is staged.
//!
//! skopeo, which pulls for both tools, runs as a user without rights and without a `HOME`, so it reads
//! only `/etc/containers`. What pulls sees a copy of that directory there with the mirrors and CAs
//! beside what the machine has: the mirrors are a drop-in of `registries.conf`, a host has our CAs
//! beside the machine's own certificates, and files about signatures replace those of the same name.
//! Nothing below `/etc` changes. The copy is in a directory for root, but skopeo reads it where it is
//! mounted; the proxy, whose address may have a password, is in a file for root.

use std::time::Duration;

use mosb_build::{COPY_CONTAINERS, PullSettings};

use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;

/// Mirrors, CAs and files about signatures, before the copy is made. Below the directory of the login,
/// with which all of it is removed.
const GIVEN: &str = "/run/mosb-rollout/given";
/// The script that makes the copy.
const SCRIPT: &str = "/run/mosb-rollout/copy-containers";
/// The machine's settings with ours, for the tools.
const CONTAINERS: &str = "/run/mosb-rollout/containers";
/// The environment file with the proxy.
const ENVIRONMENT: &str = "/run/mosb-rollout/environment";
/// How long the copy may take: it is small.
const COPY_LIMIT: Duration = Duration::from_secs(60);

/// The properties of a unit that sees the settings.
pub(crate) fn properties(settings: &PullSettings) -> Vec<String> {
    let containers = settings.has_containers();
    let containers = containers.then(|| format!("BindReadOnlyPaths={CONTAINERS}:/etc/containers"));
    let environment = settings.environment().map(|_| format!("EnvironmentFile={ENVIRONMENT}"));
    containers.into_iter().chain(environment).collect()
}

/// Writes the files. Their directory exists.
pub(crate) fn place(root: &HostRoot, settings: &PullSettings) -> Result<(), Error> {
    if let Some(text) = settings.registries_conf() {
        // The last one by its name.
        let file = format!("{GIVEN}/registries.conf.d/zz-mosb-rollout.conf");
        root.write(&file, text.as_bytes(), 0o644)?;
    }
    for (host, pem) in settings.authorities() {
        let file = format!("{GIVEN}/certs.d/{host}/mosb-rollout.crt");
        root.write(&file, pem.as_bytes(), 0o644)?;
    }
    for (name, text) in settings.signatures().files() {
        root.write(&format!("{GIVEN}/{name}"), text.as_bytes(), 0o644)?;
    }
    if settings.has_containers() {
        root.write(SCRIPT, COPY_CONTAINERS.as_bytes(), 0o700)?;
    }
    if let Some(text) = settings.environment() {
        root.write(ENVIRONMENT, text.expose().as_bytes(), 0o600)?;
    }
    Ok(())
}

/// Makes the copy of `/etc/containers`, once the files are placed.
pub(crate) async fn copy_containers(host: &Host, settings: &PullSettings) -> Result<(), Error> {
    if !settings.has_containers() {
        return Ok(());
    }
    let command = words(["sh", SCRIPT, "/etc", GIVEN, CONTAINERS]);
    host.run("sh", &command, COPY_LIMIT).await.map(drop)
}
