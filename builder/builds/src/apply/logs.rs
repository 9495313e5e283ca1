//! Archives the logs of a build's pod. A failure is logged and does not affect the build.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::LogParams;
use tokio::time::{Instant, sleep, timeout};

use super::BuildExecutor;
use crate::action::new_object;
use crate::log_archive::{ArchiveLogs, LogTail};
use crate::logs::{RawLine, lines};
use mosb_build::Redactor;
use mosb_reconcile::error;
use mosb_reconcile::waits::KUBELET_LOG;
use mosb_reconcile::write::{ApplyError, Existing, Target, apply_error};
use mosb_workload::Input;

/// How long archiving may delay the next action of a build.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to retry, for all containers together, if the kubelet does not serve a log yet.
const KUBELET_LOG_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines to request per container. Nodes store at most 16 KiB of a line in one piece.
const MAX_LINES: i64 = 1000;

/// Why the logs of a build are not archived.
#[derive(Debug, thiserror::Error)]
enum ArchiveError {
    #[error("secret {0} was deleted, so its credentials can't be redacted")]
    SecretGone(String),
    #[error("another object has its name")]
    InTheWay,
    #[error(transparent)]
    ApplyError(#[from] ApplyError),
}

impl BuildExecutor {
    pub(super) async fn archive_logs(&self, archive: &ArchiveLogs) {
        let why = match timeout(ARCHIVE_TIMEOUT, self.try_archive_logs(archive)).await {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why.to_string(),
            Err(_) => format!("it took longer than {} seconds", ARCHIVE_TIMEOUT.as_secs()),
        };
        let build = &archive.build;
        tracing::warn!("machineosbuild {build}: its logs are not archived: {why}");
    }

    async fn try_archive_logs(&self, archive: &ArchiveLogs) -> Result<(), ArchiveError> {
        let namespace = &self.cache.namespace;
        let secrets: Api<Secret> = Api::namespaced(self.writes.client.clone(), namespace);
        let mut data = Vec::new();
        for name in &archive.secrets {
            let found = secrets.get_opt(name).await;
            let found = found.map_err(apply_error(format!("secret {namespace}/{name}"), "get"))?;
            let found = found.ok_or_else(|| ArchiveError::SecretGone(name.clone()))?;
            data.push(found.data.unwrap_or_default());
        }
        let redactor = Redactor::from_secrets(data);
        let mut logs = Vec::new();
        let began = Instant::now();
        for container in &archive.containers {
            let mut tail = self.tail(&archive.pod, container, &redactor).await;
            // The API server returns no log until the kubelet has reported that the container
            // started.
            while tail.is_err()
                && archive.begun.contains(container)
                && began.elapsed() < KUBELET_LOG_TIMEOUT
            {
                sleep(KUBELET_LOG).await;
                tail = self.tail(&archive.pod, container, &redactor).await;
            }
            match tail {
                Ok(tail) => logs.push((container.clone(), tail)),
                // The node or container may not exist any more. The other logs are still archived.
                Err(why) => tracing::debug!("container {container} of pod {}: {why}", archive.pod),
            }
        }
        if logs.is_empty() {
            return Ok(());
        }
        self.replace(&secrets, archive.secret(&logs)).await
    }

    /// Replaces the logs of an earlier attempt, or those written before a restart. Equal ones stay:
    /// a controller that is killed after each write would otherwise delete and create them for ever.
    async fn replace(&self, secrets: &Api<Secret>, secret: Secret) -> Result<(), ArchiveError> {
        let new = new_object::input(&Input::Secret(secret.clone()));
        let object = || self.writes.describe(new.kind, &new.name);
        let Err(error) = self.writes.post(&new).await else {
            return Ok(());
        };
        if !error::is_conflict(&error) {
            return Err(apply_error(object(), "create")(error).into());
        }
        let existing = self.writes.existing(&new).await.map_err(apply_error(object(), "get"))?;
        if let (compared, Some(uid)) = existing {
            // Those of an earlier build are being deleted.
            if compared == Existing::NotOurs {
                return Err(ArchiveError::InTheWay);
            }
            let found = secrets.get_opt(&new.name).await.map_err(apply_error(object(), "get"))?;
            if found.is_some_and(|found| has_same_logs(&found, &secret)) {
                return Ok(());
            }
            let target = Target { kind: new.kind, name: new.name.clone(), uid, version: None };
            self.writes.delete(&target, None).await?;
        }
        let created = self.writes.post(&new).await;
        Ok(created.map(drop).map_err(apply_error(object(), "create"))?)
    }

    async fn tail(
        &self,
        pod: &str,
        container: &str,
        redactor: &Redactor,
    ) -> Result<LogTail, ApplyError> {
        let namespace = &self.cache.namespace;
        let pods: Api<Pod> = Api::namespaced(self.writes.client.clone(), namespace);
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(MAX_LINES),
            limit_bytes: Some(MAX_LINES * (16 << 10)),
            ..LogParams::default()
        };
        let object = || format!("pod {namespace}/{pod}");
        let log = pods.log_stream(pod, &params).await;
        let log = log.map_err(apply_error(object(), "get log"))?;
        let mut lines = pin!(lines(log));
        let mut tail = LogTail::default();
        let failed = |source| apply_error(object(), "get log")(kube::Error::ReadEvents(source));
        while let Some(line) = lines.try_next().await.map_err(failed)? {
            tail.push(&redact(redactor, line));
        }
        Ok(tail)
    }
}

/// Whether a Secret has the logs of the same attempt of the same build, with the same content.
fn has_same_logs(found: &Secret, wanted: &Secret) -> bool {
    let [of, to] = [&found.metadata, &wanted.metadata];
    found.data == wanted.data
        && of.owner_references == to.owner_references
        && of.annotations == to.annotations
        && of.deletion_timestamp.is_none()
}

/// Redacts credentials in a line. A cut line may end in a part of a credential, so as much as that
/// part could be is removed.
fn redact(redactor: &Redactor, line: RawLine) -> String {
    let mut text = redactor.redact(&line.text);
    if line.is_cut {
        let mut end = text.len().saturating_sub(redactor.longest_secret());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    RawLine { text, ..line }.with_cut_mark()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;
    use crate::logs::{CUT_MARK, MAX_LINE};
    use mosb_api::labels;
    use mosb_cluster::cluster_cache::ClusterCache;
    use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};

    #[test]
    fn no_part_of_a_credential_is_left_where_a_line_was_cut() {
        let secret = "correct-horse-battery";
        let data = [("password".to_owned(), ByteString(secret.into()))].into();
        let redactor = Redactor::from_secrets([data]);
        // Wherever the credential was cut.
        for read in 0..=secret.len() {
            let text = format!("{}{}", "é".repeat(MAX_LINE / 2), &secret[..read]);
            let cut = RawLine { text, is_cut: true };
            let found = redact(&redactor, cut);
            let text = found.strip_suffix(CUT_MARK).unwrap();
            assert!(text.chars().all(|c| c == 'é'), "{read}");
            assert!(text.len() > MAX_LINE - 4 * secret.len());
        }
        let whole = RawLine { text: format!("a {secret}"), is_cut: false };
        assert_eq!(redact(&redactor, whole), "a [secret]");
    }

    /// An API server that has the log of a pod and one Secret. After a write, it gives no more
    /// answers.
    fn server_until_a_write(
        secret: &Arc<Mutex<Option<Value>>>,
        has_written: &Arc<Mutex<bool>>,
    ) -> FakeApi {
        let (secret, has_written) = (Arc::clone(secret), Arc::clone(has_written));
        FakeApi::new(move |request| {
            if *has_written.lock().unwrap() {
                return FakeAnswer::Never;
            }
            let mut secret = secret.lock().unwrap();
            let answer = match (&*request.method, &*secret) {
                ("GET", _) if request.path.ends_with("/log") => json!("a line").into(),
                ("GET", Some(there)) => there.clone().into(),
                ("GET", None) => FakeAnswer::failure(404),
                ("POST", Some(_)) => FakeAnswer::failure(409),
                ("POST", None) => {
                    let mut new = request.body.clone();
                    new["metadata"]["uid"] = json!("of-secret");
                    *secret = Some(new.clone());
                    FakeAnswer::Json(201, new)
                }
                ("DELETE", _) => secret.take().unwrap_or_default().into(),
                other => panic!("{other:?}"),
            };
            let is_done = matches!(answer, FakeAnswer::Json(..300, _));
            *has_written.lock().unwrap() = request.is_write() && is_done;
            answer
        })
    }

    fn executor_on(api: &FakeApi) -> BuildExecutor {
        BuildExecutor {
            writes: api.into(),
            cache: Arc::new(ClusterCache::empty("ns")),
            builder_image: None,
            security_context_constraints: false,
        }
    }

    /// Each start ends with its first write.
    #[tokio::test(start_paused = true)]
    async fn a_controller_that_is_killed_after_each_write_archives_logs_once() {
        let archive = |attempt: u32| ArchiveLogs {
            build: format!("worker-{}", "0".repeat(32)).parse().unwrap(),
            secret: "log-worker".to_owned(),
            build_uid: "of-build".to_owned(),
            attempt,
            labels: [(labels::EPHEMERAL_BUILD_OBJECT, "")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            annotations: [(labels::ATTEMPT.to_owned(), attempt.to_string())].into(),
            pod: "x".to_owned(),
            containers: vec!["image-build".to_owned()],
            begun: ["image-build".to_owned()].into(),
            secrets: Vec::new(),
        };
        let secret: Arc<Mutex<Option<Value>>> = Arc::default();
        // The first attempt writes them; the second one deletes and writes them.
        for (attempt, writes) in [(1, 1), (2, 2)] {
            let mut starts = 0;
            loop {
                let has_written: Arc<Mutex<bool>> = Arc::default();
                let executor = executor_on(&server_until_a_write(&secret, &has_written));
                executor.archive_logs(&archive(attempt)).await;
                if !*has_written.lock().unwrap() {
                    break;
                }
                starts += 1;
                assert!(starts <= writes, "attempt {attempt}: it writes for ever");
            }
            assert_eq!(starts, writes, "attempt {attempt}");
            let secret = secret.lock().unwrap().clone().unwrap();
            assert_eq!(secret["metadata"]["annotations"][labels::ATTEMPT], attempt.to_string());
        }
    }
}
