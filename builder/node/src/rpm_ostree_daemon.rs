//! What rpm-ostree's daemon does at the moment, and starting it anew, so that it runs with the drop-ins
//! that there are. It goes on when its client ends, so what a unit of ours began is cancelled once it is
//! obsolete. What it does for somebody else is waited for.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::host::{Host, words};
use crate::machine_state::{RPM_OSTREE_STATUS, read_rpm_ostree};
use crate::rpm_ostree_status::has_transaction;
use crate::staging_unit::{STAGING_LIMIT, StagingUnit};

/// How long systemd may take to read its units and to start the daemon.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);
/// How long a transaction of somebody else may take.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(5 * 60);
/// How long an answer about it may take, and its cancellation.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How often it is looked at.
const POLL: Duration = Duration::from_secs(2);

/// Who began a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Initiator {
    /// A unit of ours, by its name.
    Unit(String),
    /// Somebody else, or not known.
    Other,
}

/// Waits until the daemon has no transaction; returns whether it had one. One that another unit of ours
/// than `staging` began is cancelled.
///
/// # Errors
/// It is busy for longer than a limit.
pub(crate) async fn settle(host: &Host, staging: Option<&StagingUnit>) -> Result<bool, Error> {
    let begun = Instant::now();
    let mut had_one = false;
    while let Some(initiator) = transaction(host).await? {
        let is_of = |name: &str| staging.is_some_and(|staging| staging.name() == name);
        let limit = match &initiator {
            Initiator::Unit(name) if is_of(name) => STAGING_LIMIT,
            Initiator::Unit(name) => {
                cancel(host, name).await?;
                TRANSACTION_LIMIT
            }
            Initiator::Other => TRANSACTION_LIMIT,
        };
        if !had_one {
            tracing::info!(?initiator, "waiting for the transaction of rpm-ostree to end");
        }
        had_one = true;
        if begun.elapsed() > limit {
            return Err(Error::DaemonBusy { seconds: limit.as_secs() });
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(had_one)
}

/// Cancels the transaction of another unit of ours than `staging`, if there is one; returns whether there
/// was.
pub(crate) async fn cancel_ours(host: &Host, staging: Option<&StagingUnit>) -> Result<bool, Error> {
    let is_of = |name: &str| staging.is_some_and(|staging| staging.name() == name);
    match transaction(host).await? {
        Some(Initiator::Unit(name)) if !is_of(&name) => settle(host, staging).await,
        Some(Initiator::Unit(_) | Initiator::Other) | None => Ok(false),
    }
}

/// Starts the daemon anew, if it runs, once it has no transaction. One that a unit of ours began is
/// cancelled.
///
/// # Errors
/// It is busy for longer than a limit, or was not restarted.
pub(crate) async fn restart(host: &Host) -> Result<(), Error> {
    settle(host, None).await?;
    for command in [
        words(["systemctl", "daemon-reload"]),
        words(["systemctl", "try-restart", "rpm-ostreed.service"]),
    ] {
        host.run("systemctl", &command, RELOAD_LIMIT).await?;
    }
    Ok(())
}

async fn cancel(host: &Host, unit: &str) -> Result<(), Error> {
    tracing::info!(unit, "cancelling what it began");
    let command = "rpm-ostree cancel";
    host.run(command, &words(["rpm-ostree", "cancel"]), ANSWER_LIMIT).await.map(drop)
}

/// What the daemon changes at the moment.
async fn transaction(host: &Host) -> Result<Option<Initiator>, Error> {
    let text = read_rpm_ostree(host).await?;
    let is_busy = has_transaction(&text)
        .map_err(|cause| Error::BadStatus { command: RPM_OSTREE_STATUS, cause })?;
    if !is_busy {
        return Ok(None);
    }
    // Only the status for people names the unit of the client.
    let text = host.run(RPM_OSTREE_STATUS, &words(["rpm-ostree", "status"]), ANSWER_LIMIT).await?;
    Ok(Some(initiator(&text)))
}

/// Who began the transaction of a status for people:
/// `Initiator: client(id:cli dbus:1.14 unit:session-3.scope uid:0)`.
fn initiator(status: &str) -> Initiator {
    let line = status.lines().find_map(|line| line.trim().strip_prefix("Initiator:"));
    let words = line.into_iter().flat_map(|line| line.split([' ', '(', ')']));
    let mut units = words.filter_map(|word| word.strip_prefix("unit:"));
    let unit = units.find(|unit| StagingUnit::is_name(unit));
    unit.map_or(Initiator::Other, |unit| Initiator::Unit(unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_transactions_are_known_by_their_unit() {
        let status = |initiator: &str| {
            format!(
                "State: busy\nTransaction: rebase --bypass-driver 'ostree-unverified-registry:reg.example/os' \n{initiator}Deployments:\n* ostree-unverified-registry:reg.example/os:1\n"
            )
        };
        let ours = "mosb-stage-0a1b2c3d4e5f.service";
        for (what, line, want) in [
            (
                "ours",
                format!("  Initiator: client(id:cli dbus:1.14 unit:{ours} uid:0)\n"),
                Initiator::Unit(ours.to_owned()),
            ),
            (
                "a person's",
                "  Initiator: client(id:cli dbus:1.15 unit:session-3.scope uid:0)\n".to_owned(),
                Initiator::Other,
            ),
            (
                "without a unit",
                "  Initiator: client(id:cli dbus:1.15)\n".to_owned(),
                Initiator::Other,
            ),
            ("not named", String::new(), Initiator::Other),
        ] {
            assert_eq!(initiator(&status(&line)), want, "{what}");
        }
    }
}
