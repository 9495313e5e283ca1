//! The units that let the next deployment do without what is adopted. They are in memory, so each
//! command that stages or reboots makes them again, and a machine has no file of its own for them.

use std::time::Duration;

use super::list::{all_file, compose_file, remove_obsolete, write_all};
use crate::deployment_folder::{DeploymentFolder, FOLDER};
use crate::error::Error;
use crate::finalization::FINALIZE_UNIT;
use crate::host::{Host, words};
use crate::staging_unit::is_running;

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
