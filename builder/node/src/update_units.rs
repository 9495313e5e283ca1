//! Stops what would bring another OS to the machine by itself: as soon as something is staged, such a
//! unit may reboot the machine into it, without a drain.

use std::time::Duration;

use mosb_plan::plan::UPDATE_UNITS;

use crate::error::Error;
use crate::host::{Host, words};
use crate::staging_unit::running;

/// How long stopping them may take; one may be about to change the deployments.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// Masks and stops those of the units that run, until the next boot.
///
/// # Errors
/// One still runs.
pub(crate) async fn stop_until_reboot(host: &Host) -> Result<(), Error> {
    let all = with_services();
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let found = running(host, &names).await?;
    if found.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        units = found.join(" "),
        "stopped until the next boot, because it updates this machine by itself; mask it in a MachineConfig of the pool"
    );
    // Stopped after it is masked, a timer would count as failed.
    let units = to_mask(&found);
    let of = |command: Vec<String>| command.into_iter().chain(units.clone()).collect::<Vec<_>>();
    let stop = of(words(["systemctl", "stop", "--"]));
    let mask = of(words(["systemctl", "mask", "--runtime", "--"]));
    let stopped = host.run("systemctl stop", &stop, STOP_LIMIT).await;
    let masked = host.run("systemctl mask", &mask, STOP_LIMIT).await;
    let left = running(host, &names).await?;
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::UpdateUnitRuns {
        units: left.join(" "),
        cause: stopped
            .and(masked)
            .err()
            .map_or_else(|| "no error".to_owned(), |error| error.to_string()),
    })
}

/// The units, and the services that their timers start.
fn with_services() -> Vec<String> {
    let units: Vec<String> = UPDATE_UNITS.iter().map(|unit| (*unit).to_owned()).collect();
    to_mask(&units)
}

/// These units, and the services of timers: a timer that has elapsed may be about to start its own.
fn to_mask(units: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for unit in units {
        let service = unit.strip_suffix(".timer").map(|name| format!("{name}.service"));
        for name in std::iter::once(unit.clone()).chain(service) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_masked_with_its_service() {
        let units = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(to_mask(&units("a.timer")), units("a.timer a.service"));
        assert_eq!(to_mask(&units("a.timer a.service")), units("a.timer a.service"));
        assert_eq!(to_mask(&units("z.service")), units("z.service"));
        assert!(with_services().contains(&"bootc-fetch-apply-updates.service".to_owned()));
    }
}
