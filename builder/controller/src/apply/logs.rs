//! Archives the logs of a build's pod. A failure is logged and does not affect the build.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep, timeout};

use super::Executor;
use super::error::{ApplyError, apply_error};
use super::existing::compare;
use crate::action::NewObject;
use crate::log_archive::{ArchiveLogs, LogTail};
use crate::logs::{RawLine, lines};
use crate::target::Target;
use crate::workload::Input;
use mosb_build::Redactor;
use mosb_reconcile::{Error, error};

/// How long archiving may delay the next action of a build.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to retry, for all containers together, if the kubelet does not serve a log yet, and the
/// delay between tries.
const KUBELET_LOG_TIMEOUT: Duration = Duration::from_secs(5);
const LOG_RETRY_DELAY: Duration = Duration::from_millis(200);
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

impl Executor {
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
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
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
                sleep(LOG_RETRY_DELAY).await;
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
        let new = NewObject::Input(Box::new(Input::Secret(secret.clone())));
        let object = || self.describe(new.kind(), new.name());
        let Err(error) = self.post(&new).await else {
            return Ok(());
        };
        if !error::is_conflict(&error) {
            return Err(apply_error(object(), "create")(error).into());
        }
        let there = self.existing(&new).await.map_err(apply_error(object(), "get"))?;
        if let Some(there) = there {
            // Those of an earlier build are being deleted.
            let compared = compare(&new, Some(&there), object());
            if let Err(ApplyError::Api(Error::NotOurs { .. })) = compared {
                return Err(ArchiveError::InTheWay);
            }
            let found = secrets.get_opt(new.name()).await.map_err(apply_error(object(), "get"))?;
            if found.is_some_and(|found| has_same_logs(&found, &secret)) {
                return Ok(());
            }
            let target = Target {
                kind: new.kind(),
                name: new.name().to_owned(),
                uid: there.uid().unwrap_or_default(),
                version: None,
            };
            self.delete(&target, None).await?;
        }
        let created = self.post(&new).await;
        Ok(created.map(drop).map_err(apply_error(object(), "create"))?)
    }

    async fn tail(
        &self,
        pod: &str,
        container: &str,
        redactor: &Redactor,
    ) -> Result<LogTail, ApplyError> {
        let namespace = &self.cache.namespace;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
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
    use k8s_openapi::ByteString;

    use super::*;
    use crate::logs::{CUT_MARK, MAX_LINE};

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
}
