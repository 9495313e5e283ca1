//! Logs of a build's pod, one container after another, and archived logs.

use std::io;
use std::pin::pin;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt as _};
use futures_util::stream::{Stream, try_unfold};
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, LogParams};
use kube::runtime::watcher::{Config, Event, watch_object, watcher};
use kube::{Api, Client, ResourceExt as _};

use super::log_archive::{check_secret_name, read_secret};
use mosb_api::{BuildName, job_name, label_value, labels};
use mosb_reconcile::Error;
use mosb_reconcile::error::is_not_found;
use mosb_workload::container_names;

/// Bytes to read of a line: as much as is archived of a container's log.
pub(super) const MAX_LINE: usize = 64 << 10;
/// Label of the pods of a Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Appended to a line that was cut.
pub(super) const CUT_MARK: &str = " [cut here: the line is longer than 64 KiB]";

/// A part of the output, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A container's log begins.
    Container(String),
    Text(String),
}

/// Emits the log of a build's newest pod; with `follow` until the pod ends. Returns how many
/// containers had started; none without a pod.
///
/// # Errors
/// The API server does not return it.
pub async fn logs(
    client: &Client,
    namespace: &str,
    build: &BuildName,
    follow: bool,
    emit: impl FnMut(Line),
) -> Result<Option<usize>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let Some(pod) = newest(client, &pods, namespace, build, follow).await? else {
        return Ok(None);
    };
    pod_logs(&pods, namespace, &pod, follow, emit).await.map(Some)
}

/// Emits the log of an own check: that of its newest pod, with `follow` until this ends, or the
/// archived one.
///
/// # Errors
/// The API server does not return it.
pub async fn check_logs(
    client: &Client,
    namespace: &str,
    build_uid: &str,
    job: &str,
    follow: bool,
    mut emit: impl FnMut(Line),
) -> Result<(), Error> {
    let archived = archived_logs(client, namespace, &check_secret_name(job), build_uid).await?;
    if let Some((_, lines)) = archived {
        lines.into_iter().for_each(emit);
        return Ok(());
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    if let Some(pod) = newest_of(&pods, &format!("{JOB_NAME}={job}")).await? {
        pod_logs(&pods, namespace, &pod, follow, &mut emit).await?;
    }
    Ok(())
}

/// Emits the logs of the containers of a pod that have started. Returns how many there are.
async fn pod_logs(
    pods: &Api<Pod>,
    namespace: &str,
    pod: &Pod,
    follow: bool,
    mut emit: impl FnMut(Line),
) -> Result<usize, Error> {
    let name = pod.name_any();
    let mut emitted = 0;
    for container in container_names(pod) {
        if !has_started(pods, &name, &container, follow).await? {
            continue;
        }
        let params =
            LogParams { container: Some(container.clone()), follow, ..LogParams::default() };
        let object = || format!("pod {namespace}/{name}");
        let log = pods.log_stream(&name, &params).await;
        let log = log.map_err(Error::api(object(), "get log"))?;
        emit(Line::Container(container));
        emitted += 1;
        let failed = |source| Error::api(object(), "get log")(kube::Error::ReadEvents(source));
        let mut lines = pin!(lines(log));
        while let Some(line) = lines.try_next().await.map_err(failed)? {
            emit(Line::Text(line.with_cut_mark()));
        }
    }
    Ok(emitted)
}

/// The archived logs in a Secret: the attempt, and its lines. None if there are none of the build with
/// this UID.
///
/// # Errors
/// The API server does not return them.
pub async fn archived_logs(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<(u32, Vec<Line>)>, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(name).await;
    let found = found.map_err(Error::api(format!("secret {namespace}/{name}"), "get"))?;
    let found = found.and_then(|secret| read_secret(&secret, uid));
    Ok(found.map(|(attempt, logs)| {
        let lines = logs.into_iter().flat_map(|(container, text)| {
            let lines: Vec<Line> = text.lines().map(|line| Line::Text(line.to_owned())).collect();
            [Line::Container(container)].into_iter().chain(lines)
        });
        (attempt, lines.collect())
    }))
}

/// A line of a log as the program wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawLine {
    /// Without the end of the line. Invalid UTF-8 is replaced.
    pub text: String,
    /// Whether the line was longer: only its first [`MAX_LINE`] bytes are here.
    pub is_cut: bool,
}

impl RawLine {
    /// The text, with a mark if it was cut.
    pub fn with_cut_mark(mut self) -> String {
        if self.is_cut {
            self.text.push_str(CUT_MARK);
        }
        self.text
    }
}

/// The lines of a log. Of a very long line only the beginning is held in memory; the rest is read
/// and dropped.
pub(super) fn lines(log: impl AsyncBufRead) -> impl Stream<Item = io::Result<RawLine>> {
    try_unfold(Box::pin(log), |mut log| async move {
        let (mut line, mut is_cut, mut has_ended) = (Vec::new(), false, false);
        while !has_ended {
            let part = log.fill_buf().await?;
            if part.is_empty() {
                if line.is_empty() {
                    return Ok(None);
                }
                break;
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let text = &part[..end.unwrap_or(part.len())];
            let fits = &text[..text.len().min(MAX_LINE - line.len())];
            is_cut |= fits.len() < text.len();
            line.extend_from_slice(fits);
            has_ended = end.is_some();
            let taken = text.len() + usize::from(has_ended);
            log.consume_unpin(taken);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\r').to_owned();
        Ok(Some((RawLine { text, is_cut }, log)))
    })
}

/// The newest pod of the build; with `follow` it is waited for as long as there is a Job.
async fn newest(
    client: &Client,
    pods: &Api<Pod>,
    namespace: &str,
    build: &BuildName,
    follow: bool,
) -> Result<Option<Pod>, Error> {
    let labels = format!(
        "{},!{},{}={}",
        labels::EPHEMERAL_BUILD_OBJECT,
        labels::CHECK,
        labels::MACHINE_OS_BUILD,
        label_value(build.as_str())
    );
    let newest = newest_of(pods, &labels).await?;
    if newest.is_some() || !follow {
        return Ok(newest);
    }
    let job = job_name(build);
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let there = jobs.get_opt(&job).await;
    let there = there.map_err(Error::api(format!("job {namespace}/{job}"), "get"))?;
    if there.is_none() {
        return Ok(None);
    }
    let mut events = pin!(watcher(pods.clone(), Config::default().labels(&labels)));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event {
            return Ok(Some(pod));
        }
    }
    Ok(None)
}

async fn newest_of(pods: &Api<Pod>, labels: &str) -> Result<Option<Pod>, Error> {
    let list = pods.list(&ListParams::default().labels(labels)).await;
    let pods = list.map_err(Error::api("pods", "list"))?.items.into_iter();
    Ok(pods.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0)))
}

/// Whether a container has started; with `follow` this waits for it until the pod ends.
async fn has_started(
    pods: &Api<Pod>,
    pod: &str,
    container: &str,
    follow: bool,
) -> Result<bool, Error> {
    if !follow {
        let there = pods.get_opt(pod).await;
        let there = there.map_err(Error::api(format!("pod {pod}"), "get"))?;
        return Ok(
            there.is_some_and(|there| mosb_workload::has_started(&there, container) == Some(true))
        );
    }
    let mut events = pin!(watch_object(pods.clone(), pod));
    while let Some(event) = events.next().await {
        match event {
            Ok(Some(there)) => match mosb_workload::has_started(&there, container) {
                Some(true) => return Ok(true),
                _ if has_ended(&there) => return Ok(false),
                _ => {}
            },
            Ok(None) => return Ok(false),
            Err(kube::runtime::watcher::Error::InitialListFailed(error))
                if !is_not_found(&error) =>
            {
                return Err(Error::api(format!("pod {pod}"), "watch")(error));
            }
            // The watcher restarts by itself.
            Err(_) => {}
        }
    }
    Ok(false)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(log: &[u8]) -> Vec<RawLine> {
        // In parts, as from the network.
        let log = futures_util::io::BufReader::with_capacity(1000, log);
        lines(log).try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn a_line_is_read_as_it_is_and_one_without_end_only_so_far() {
        let line = |text: &str, is_cut| RawLine { text: text.to_owned(), is_cut };
        let exact = "x".repeat(MAX_LINE);
        for (what, log, want) in [
            ("nothing", String::new(), vec![]),
            ("one", "a\n".to_owned(), vec![line("a", false)]),
            (
                "empty ones, and none at the end",
                "\na\r\n\nb".to_owned(),
                vec![line("", false), line("a", false), line("", false), line("b", false)],
            ),
            (
                "as long as may be",
                format!("{exact}\nb\n"),
                vec![line(&exact, false), line("b", false)],
            ),
            ("longer by one", format!("{exact}y\nb\n"), vec![line(&exact, true), line("b", false)]),
            ("without end", "x".repeat(20 * MAX_LINE), vec![line(&exact, true)]),
        ] {
            assert_eq!(read(log.as_bytes()).await, want, "{what}");
        }
        assert_eq!(read(b"a\xffb\n").await, [line("a\u{fffd}b", false)]);
        assert_eq!(line("a", true).with_cut_mark(), format!("a{CUT_MARK}"));
    }
}
