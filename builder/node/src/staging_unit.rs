//! The transient unit in which the tool stages an image. It is the machine's own, so a container
//! that is killed doesn't cut it off, and the next one waits for it. The unit removes its login, but
//! not the one of a command that was killed before its unit was started.

use std::time::{Duration, Instant};

use mosb_api::rollout::{NodeTarget, NodeTool};

use crate::error::Error;
use crate::host::{Host, words};
use crate::placed_login::{self, cleanup_property};
use crate::rpm_ostree_status::SIGNED;
use crate::unit_output;

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
        Ok(!running(host, &[ALL_UNITS]).await?.is_empty())
    }

    /// Ends the staging of other targets, and waits for that of this one: while a tool stages, its
    /// status waits.
    pub async fn settle(host: &Host, target: &NodeTarget) -> Result<(), Error> {
        let own = Self::of(target);
        let running = running(host, &[ALL_UNITS]).await?;
        let others: Vec<String> = running.iter().filter(|unit| **unit != own.0).cloned().collect();
        if !others.is_empty() {
            tracing::info!(units = others.join(" "), "stopping what stages another image");
            let stop =
                words(["systemctl", "stop", "--"]).into_iter().chain(others).collect::<Vec<_>>();
            host.run("systemctl stop", &stop, STOP_LIMIT).await?;
        }
        if running.contains(&own.0) {
            tracing::info!(unit = own.0, "waiting for what stages this image already");
            own.wait(host, target).await?;
        }
        Ok(())
    }

    /// Starts the tool. `access`: properties of the unit that show it a login and settings.
    pub async fn start(
        &self,
        host: &Host,
        tool: NodeTool,
        target: &NodeTarget,
        access: Vec<String>,
    ) -> Result<(), Error> {
        let command = self.command(tool, target, access);
        host.run("systemd-run", &command, ANSWER_LIMIT).await.map(drop)
    }

    /// Not of type `exec`: a tool that fails at once may end before systemd has seen that it began, and
    /// then systemd-run fails and says nothing. What the unit did is read when it has ended.
    fn command(&self, tool: NodeTool, target: &NodeTarget, access: Vec<String>) -> Vec<String> {
        let mut command = words(["systemd-run", "--quiet", "--collect"]);
        command.push(format!("--unit={}", self.0));
        command.push(format!("--property=RuntimeMaxSec={}", STAGING_LIMIT.as_secs()));
        let properties = access.into_iter().chain([cleanup_property()]);
        command.extend(properties.map(|property| format!("--property={property}")));
        command.push("--".to_owned());
        let image = &target.image;
        match tool {
            NodeTool::Bootc => {
                command.extend(words(["bootc", "switch"]));
                command.extend(target.verify.then(|| "--enforce-container-sigpolicy".to_owned()));
                command.push(image.to_string());
            }
            NodeTool::RpmOstree => {
                command.extend(words(["rpm-ostree", "rebase", "--bypass-driver"]));
                command.push(if target.verify {
                    format!("{SIGNED}docker://{image}")
                } else {
                    format!("ostree-unverified-registry:{image}")
                });
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

    /// The end of what its last run wrote, for an error; empty if the journal has nothing.
    pub async fn last_output(&self, host: &Host) -> String {
        // What the tool wrote last may not be in the journal yet.
        let sync = words(["journalctl", "--sync"]);
        if let Err(error) = host.run("journalctl --sync", &sync, ANSWER_LIMIT).await {
            tracing::warn!("{error}");
        }
        match host.run("journalctl", &unit_output::command(&self.0), ANSWER_LIMIT).await {
            Ok(text) => unit_output::of_last_run(&text, &self.0),
            Err(error) => {
                tracing::warn!("{error}");
                String::new()
            }
        }
    }
}

/// Which units of these names run or are queued.
pub(crate) async fn running(host: &Host, names: &[&str]) -> Result<Vec<String>, Error> {
    let states = "--state=active,activating,reloading,deactivating";
    let list = words(["systemctl", "list-units", "--plain", "--no-legend", "--full", states]);
    let names = names.iter().map(|name| (*name).to_owned());
    let list: Vec<String> = list.into_iter().chain(names).collect();
    let text = host.run("systemctl list-units", &list, ANSWER_LIMIT).await?;
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    Ok(text.lines().filter_map(name).collect())
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

/// Removes a login that nothing uses, if there is one.
///
/// # Errors
/// It is still there, or whether something uses it is not known.
pub(crate) async fn remove_leftover_login(host: &Host) -> Result<(), Error> {
    if !placed_login::is_left(host.root())? || StagingUnit::is_any_running(host).await? {
        return Ok(());
    }
    tracing::warn!("removing the login of a command that was killed");
    placed_login::remove(host.root())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    #[test]
    fn units_run_the_tool_and_remove_the_login() {
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        let target = |verify: bool| -> NodeTarget {
            serde_json::from_value(serde_json::json!({ "image": image, "verify": verify })).unwrap()
        };
        let cleanup = "--property=ExecStopPost=/usr/bin/rm -rf /run/mosb-rollout /run/systemd/system/rpm-ostreed.service.d/mosb-rollout.conf";
        for (tool, verify, access, want) in [
            (NodeTool::Bootc, false, "", format!("bootc switch {image}")),
            (
                NodeTool::Bootc,
                true,
                "",
                format!("bootc switch --enforce-container-sigpolicy {image}"),
            ),
            (
                NodeTool::RpmOstree,
                false,
                "BindReadOnlyPaths=a:b",
                format!("rpm-ostree rebase --bypass-driver ostree-unverified-registry:{image}"),
            ),
            (
                NodeTool::RpmOstree,
                true,
                "BindReadOnlyPaths=a:b",
                format!("rpm-ostree rebase --bypass-driver ostree-image-signed:docker://{image}"),
            ),
        ] {
            let target = target(verify);
            let properties = Some(access.to_owned()).filter(|one| !one.is_empty());
            let shown =
                properties.iter().map(|one| format!("--property={one} ")).collect::<String>();
            let want = format!(
                "systemd-run --quiet --collect --unit=mosb-stage-{}.service --property=RuntimeMaxSec=1800 {shown}{cleanup} -- {want}",
                target.id()
            );
            let properties = properties.into_iter().collect();
            let command = StagingUnit::of(&target).command(tool, &target, properties);
            assert_eq!(command.join(" "), want, "{tool:?}");
        }
    }
}
