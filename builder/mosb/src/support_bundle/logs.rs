//! The logs of a bundle: of the controller, of pods on machines and of builds, and archived ones.

use futures_util::stream::{self, StreamExt as _};
use futures_util::{AsyncReadExt as _, TryFutureExt as _};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::LogParams;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::scope::{REQUEST_TIME, REQUESTS, Scope, name};
use mosb_api::labels;
use mosb_commands::bundle::Bundle;
use mosb_controller::builds::{self, LogLine};
use mosb_controller::kinds;

/// Lines at the end of a log, bytes of them that are read, and bytes that are kept.
const LOG_LINES: i64 = 2_000;
const LOG_READ: usize = 4 << 20;
const LOG_KEPT: usize = 256 << 10;
/// Logs of containers and of builds, and bytes of all of them.
const LOGS: usize = 400;
const ALL_LOGS: usize = 8_000_000;

/// Name of a Secret with archived logs, and the UID of the build that owns it.
pub(super) fn archived_logs_of(secret: &Secret) -> Option<(String, String)> {
    secret.metadata.annotations.as_ref()?.get(labels::ATTEMPT)?;
    let mut owners = secret.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == kinds::MACHINE_OS_BUILD.name)?;
    let is_archive =
        secret.data.as_ref().is_some_and(|data| data.keys().all(|key| key.ends_with(".gz")));
    is_archive.then_some(())?;
    Some((secret.metadata.name.clone()?, owner.uid.clone()))
}

impl Scope<'_> {
    /// Adds logs of the controller, of pods on machines and of builds, and archived logs of builds.
    pub(super) async fn add_logs(
        &self,
        bundle: &mut Bundle,
        pods: Vec<(String, Value)>,
        secrets: &[&Secret],
        has_all_secrets: bool,
    ) {
        let mut wanted = Vec::new();
        let mut unredacted = 0;
        for (namespace, pod) in &pods {
            let is_build = pod["metadata"]["labels"][labels::EPHEMERAL_BUILD_OBJECT].is_string();
            if is_build && !has_all_secrets {
                unredacted += 1;
                continue;
            }
            let namespace = namespace.clone();
            let of_pod = containers(pod).map(|(container, is_previous)| WantedLog {
                namespace: namespace.clone(),
                pod: name(pod),
                container,
                is_previous,
            });
            wanted.extend(of_pod.map(|log| (is_build, log)));
        }
        if unredacted > 0 {
            bundle.add_missing(
                format!("logs of {unredacted} build pods"),
                "Secrets could not be read, so credentials could not be redacted",
            );
        }
        // Those of the controller and of machines first.
        wanted.sort_by_key(|(is_build, _)| *is_build);
        if wanted.len() > LOGS {
            bundle.add_cut("logs", format!("the first {LOGS} containers only"));
        }
        let wanted = stream::iter(wanted.into_iter().take(LOGS)).map(|(_, log)| self.log(log));
        let mut size = 0;
        let mut logs: Vec<_> = wanted.buffered(REQUESTS).collect().await;
        let archives = secrets.iter().filter_map(|secret| archived_logs_of(secret));
        let archives: Vec<_> = archives.take(LOGS).collect();
        let archives = stream::iter(archives).map(|(name, uid)| self.archived_log(name, uid));
        logs.extend(archives.buffered(REQUESTS).collect::<Vec<_>>().await);
        for (path, log) in logs {
            match log {
                Ok(text) if size + text.len() > ALL_LOGS => {
                    bundle
                        .add_cut(path, format!("left out: all logs have {ALL_LOGS} bytes at most"));
                }
                Ok(text) => {
                    size += text.len();
                    bundle.add_text(&path, &text);
                }
                Err(why) => bundle.add_missing(path, why),
            }
        }
    }

    /// The end of a container's log.
    async fn log(&self, log: WantedLog) -> (String, Result<String, String>) {
        let WantedLog { namespace, pod, container, is_previous } = log;
        let before = if is_previous { ".previous" } else { "" };
        let path = format!("logs/{namespace}/{pod}/{container}{before}.log");
        let params = LogParams {
            container: Some(container),
            previous: is_previous,
            tail_lines: Some(LOG_LINES),
            timestamps: true,
            ..LogParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let read = api.log_stream(&pod, &params).and_then(|stream| async {
            let mut bytes = Vec::new();
            let read = stream.take(LOG_READ as u64).read_to_end(&mut bytes).await;
            read.map_err(kube::Error::ReadEvents).map(|_| bytes)
        });
        let read = self.limited(&format!("pod {namespace}/{pod}"), "get log", read).await;
        (path, read.map(|bytes| end_of(&bytes)).map_err(|error| error.to_string()))
    }

    async fn archived_log(&self, name: String, uid: String) -> (String, Result<String, String>) {
        let path = format!("logs/builds/{}.log", name.trim_start_matches("log-"));
        let end = self.end.min(Instant::now() + REQUEST_TIME);
        let read = builds::archived_logs(self.client, &self.namespaces.own, &name, &uid);
        let text = match timeout_at(end, read).await {
            Err(_) => Err("no answer in time".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(None)) => Err("deleted meanwhile".to_owned()),
            Ok(Ok(Some((attempt, lines)))) => {
                let lines = lines.into_iter().map(|line| match line {
                    LogLine::Container(name) => format!("{name}:\n"),
                    LogLine::Text(text) => format!("{text}\n"),
                });
                let text: String = lines.collect();
                Ok(format!("attempt {attempt}\n{}", end_of(text.as_bytes())))
            }
        };
        (path, text)
    }
}

/// A log to read.
struct WantedLog {
    namespace: String,
    pod: String,
    container: String,
    is_previous: bool,
}

/// The containers of a pod that have started, and whether the log is of the start before.
fn containers(pod: &Value) -> impl Iterator<Item = (String, bool)> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses =
        lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    statuses.flat_map(|status| {
        let name = status["name"].as_str().unwrap_or_default();
        let is_started =
            !status["state"]["running"].is_null() || !status["state"]["terminated"].is_null();
        let was_started = !status["lastState"]["terminated"].is_null();
        let logs = [(is_started, false), (was_started, true)].into_iter();
        logs.filter(|(exists, _)| *exists).map(|(_, is_previous)| (name.to_owned(), is_previous))
    })
}

/// The last lines of a log.
fn end_of(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(LOG_KEPT);
    let text = String::from_utf8_lossy(&bytes[start..]);
    match text.split_once('\n') {
        Some((_, rest)) if start > 0 => format!("[earlier lines are left out]\n{rest}"),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn logs_are_of_containers_that_started() {
        let pod = json!({ "status": {
            "initContainerStatuses": [{ "name": "a", "state": { "terminated": {} } }],
            "containerStatuses": [{ "name": "b", "state": { "waiting": {} }, "lastState": { "terminated": {} } },
                { "name": "c", "state": { "waiting": {} } }] } });
        let found: Vec<_> = containers(&pod).collect();
        assert_eq!(found, [("a".to_owned(), false), ("b".to_owned(), true)]);
        let long = format!("first\n{}\nlast\n", "x".repeat(LOG_KEPT - 6));
        assert_eq!(end_of(long.as_bytes()), "[earlier lines are left out]\nlast\n");
        assert_eq!(end_of(b"a\nb"), "a\nb");
    }
}
