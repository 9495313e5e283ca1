//! Starts rpm-ostree's daemon anew, so that it runs with the drop-ins that there are. What it does
//! for somebody else is not cut off.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::host::{Host, words};
use crate::machine_state::{RPM_OSTREE_STATUS, read_rpm_ostree};
use crate::rpm_ostree_status::has_transaction;

/// How long systemd may take to read its units and to start the daemon.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);
/// How long a transaction of somebody else may take.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(5 * 60);
/// How often it is looked at.
const POLL: Duration = Duration::from_secs(2);

/// Starts the daemon anew once it has no transaction, if it runs.
///
/// # Errors
/// It is busy for longer than a limit, or was not restarted.
pub(crate) async fn restart(host: &Host) -> Result<(), Error> {
    let begun = Instant::now();
    while is_busy(host).await? {
        if begun.elapsed() > TRANSACTION_LIMIT {
            return Err(Error::DaemonBusy { seconds: TRANSACTION_LIMIT.as_secs() });
        }
        tokio::time::sleep(POLL).await;
    }
    for command in [
        words(["systemctl", "daemon-reload"]),
        words(["systemctl", "try-restart", "rpm-ostreed.service"]),
    ] {
        host.run("systemctl", &command, RELOAD_LIMIT).await?;
    }
    Ok(())
}

async fn is_busy(host: &Host) -> Result<bool, Error> {
    let text = read_rpm_ostree(host).await?;
    has_transaction(&text).map_err(|cause| Error::BadStatus { command: RPM_OSTREE_STATUS, cause })
}
