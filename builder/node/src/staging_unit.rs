//! The transient unit in which the tool stages an image. It is the machine's own, so a container
//! that is killed doesn't cut it off, and the next one waits for it.

use std::time::{Duration, Instant};

use mosb_plan::api::rollout::{NodeTarget, NodeTool};

use crate::error::Error;
use crate::host::{Host, words};
use crate::placed_login::cleanup_property;

/// The units of all targets.
const ALL_UNITS: &str = "mosb-stage-*.service";
/// How long a machine may take to stage an image: gigabytes over a slow line.
pub(crate) const STAGING_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How much longer than its limit a unit may run, while systemd ends it.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// How often a running unit is looked at.
const POLL: Duration = Duration::from_secs(1);
/// How long an answer of systemd or the journal may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How many lines of the unit an error has.
const LAST_LINES: u32 = 15;

/// The unit that stages one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StagingUnit(String);

impl StagingUnit {
    pub fn of(target: &NodeTarget) -> Self {
        Self(format!("mosb-stage-{}.service", target.id()))
    }

    /// Whether it is the name of such a unit.
    pub fn is_name(name: &str) -> bool {
        let around = ALL_UNITS.split_once('*');
        around.is_some_and(|(start, end)| name.starts_with(start) && name.ends_with(end))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub async fn is_running(&self, host: &Host) -> Result<bool, Error> {
        is_running(host, &self.0).await
    }

    /// Ends all staging, which has become obsolete. rpm-ostree's daemon goes on without the unit; see
    /// [`settle`](crate::rpm_ostree_daemon::settle).
    pub async fn stop_all(host: &Host) -> Result<(), Error> {
        let stop = words(["systemctl", "stop", ALL_UNITS]);
        host.run("systemctl stop", &stop, STOP_LIMIT).await.map(drop)
    }

    /// Whether the staging of any target runs.
    pub async fn is_any_running(host: &Host) -> Result<bool, Error> {
        let states = "--state=active,activating,reloading,deactivating";
        let list = words(["systemctl", "list-units", "--plain", "--no-legend", "--full", states]);
        let list: Vec<String> = list.into_iter().chain([ALL_UNITS.to_owned()]).collect();
        let text = host.run("systemctl list-units", &list, ANSWER_LIMIT).await?;
        Ok(!text.trim().is_empty())
    }

    /// Starts the tool. `access`: properties of the unit that show it a login and settings.
    pub async fn start(
        &self,
        host: &Host,
        tool: NodeTool,
        target: &NodeTarget,
        access: Vec<String>,
    ) -> Result<(), Error> {
        let command = self.command(tool, &target.image.to_string(), access);
        host.run("systemd-run", &command, ANSWER_LIMIT).await.map(drop)
    }

    fn command(&self, tool: NodeTool, image: &str, access: Vec<String>) -> Vec<String> {
        let mut command = words(["systemd-run", "--quiet", "--collect", "--service-type=exec"]);
        command.push(format!("--unit={}", self.0));
        command.push(format!("--property=RuntimeMaxSec={}", STAGING_LIMIT.as_secs()));
        let properties = access.into_iter().chain([cleanup_property()]);
        command.extend(properties.map(|property| format!("--property={property}")));
        command.push("--".to_owned());
        match tool {
            NodeTool::Bootc => command.extend(words(["bootc", "switch", image])),
            NodeTool::RpmOstree => {
                command.extend(words(["rpm-ostree", "rebase", "--bypass-driver"]));
                command.push(format!("ostree-unverified-registry:{image}"));
            }
        }
        command
    }

    /// Waits until it has ended.
    pub async fn wait(&self, host: &Host, target: &NodeTarget) -> Result<(), Error> {
        let limit = STAGING_LIMIT + STOP_LIMIT;
        let begun = Instant::now();
        while self.is_running(host).await? {
            if begun.elapsed() > limit {
                return Err(Error::StagingTimedOut {
                    image: target.image.to_string(),
                    unit: self.0.clone(),
                    seconds: limit.as_secs(),
                });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// The end of what it wrote, for an error; empty if the journal has nothing.
    pub async fn last_output(&self, host: &Host) -> String {
        let mut command = words(["journalctl", "--boot", "--quiet", "--no-pager", "--output=cat"]);
        // Without systemd's own messages about the unit.
        command.extend([format!("--lines={LAST_LINES}"), format!("_SYSTEMD_UNIT={}", self.0)]);
        // What the tool wrote last may not be in the journal yet.
        let sync = words(["journalctl", "--sync"]);
        if let Err(error) = host.run("journalctl --sync", &sync, ANSWER_LIMIT).await {
            tracing::warn!("{error}");
        }
        match host.run("journalctl", &command, ANSWER_LIMIT).await {
            Ok(text) => text.trim_end().to_owned(),
            Err(error) => {
                tracing::warn!("{error}");
                String::new()
            }
        }
    }
}

/// Whether a unit runs or is queued. One that is not loaded is inactive.
pub(crate) async fn is_running(host: &Host, unit: &str) -> Result<bool, Error> {
    let state = show(host, unit, "ActiveState").await?;
    Ok(!matches!(&*state, "inactive" | "failed" | ""))
}

/// A property of a unit.
pub(crate) async fn show(host: &Host, unit: &str, property: &str) -> Result<String, Error> {
    let property = format!("--property={property}");
    let show = words(["systemctl", "show", &property, "--value", "--", unit]);
    let text = host.run("systemctl show", &show, ANSWER_LIMIT).await?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    #[test]
    fn the_unit_runs_the_tool_and_always_removes_the_login() {
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        let target: NodeTarget =
            serde_json::from_value(serde_json::json!({ "image": image })).unwrap();
        let unit = StagingUnit::of(&target);
        let start = format!(
            "systemd-run --quiet --collect --service-type=exec --unit=mosb-stage-{}.service --property=RuntimeMaxSec=1800",
            target.id()
        );
        let cleanup = "--property=ExecStopPost=/usr/bin/rm -rf /run/mosb-rollout /run/systemd/system/rpm-ostreed.service.d/mosb-rollout.conf";
        for (tool, access, want) in [
            (NodeTool::Bootc, Vec::new(), format!("{start} {cleanup} -- bootc switch {image}")),
            (
                NodeTool::RpmOstree,
                vec!["BindReadOnlyPaths=a:b".to_owned()],
                format!(
                    "{start} --property=BindReadOnlyPaths=a:b {cleanup} -- rpm-ostree rebase --bypass-driver ostree-unverified-registry:{image}"
                ),
            ),
        ] {
            assert_eq!(unit.command(tool, &image, access).join(" "), want, "{tool:?}");
        }
    }
}
