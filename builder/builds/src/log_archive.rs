//! Archived logs of a build: the end of each container's log, in one Secret of the MachineOSBuild.
//! Pure.
//!
//! They are in a Secret because a `RUN` line may print anything that it can read, and no ConfigMap
//! may contain credentials.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use mosb_api::{API_VERSION, BuildName, MachineOsBuild, labels, object_name, shortened};
use mosb_build::result::Step as Container;
use mosb_plan::payload::gzip;
use mosb_workload::{build_annotations, build_labels, container_names, has_started};

/// Bytes to keep of a container's log, from its end. A pod has three containers, and an object
/// holds 1 MiB.
const MAX_LOG_BYTES: usize = 64 << 10;
/// The most containers whose logs are archived.
const MAX_CONTAINERS: usize = 8;
/// Suffix of the Secret's keys. Before it: the container's place in the order in which they run,
/// and its name.
const KEY_SUFFIX: &str = ".log.gz";

/// The logs to archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLogs {
    pub build: BuildName,
    /// Name of the Secret.
    pub secret: String,
    /// UID of the MachineOSBuild, which owns the Secret.
    pub build_uid: String,
    pub attempt: u32,
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret; unlike labels they hold long names whole.
    pub annotations: BTreeMap<String, String>,
    pub pod: String,
    /// The pod's containers, in the order in which they run.
    pub containers: Vec<String>,
    /// Those that have started, even if the kubelet has not reported it yet: their logs are worth
    /// waiting for.
    pub begun: BTreeSet<String>,
    /// The Secrets that the pod could read: their content is redacted.
    pub secrets: Vec<String>,
}

impl ArchiveLogs {
    /// The logs of a build's pod, whose result this container reported; none if no container has
    /// started.
    pub fn of(
        build: &MachineOsBuild,
        attempt: u32,
        pod: &Pod,
        step: Option<Container>,
    ) -> Option<Self> {
        let meta = &build.metadata;
        let mut containers = container_names(pod);
        containers.truncate(MAX_CONTAINERS);
        let seen = containers.iter();
        let seen = seen.filter(|name| has_started(pod, name) == Some(true)).cloned();
        let mut begun: BTreeSet<String> = seen.collect();
        if begun.is_empty() {
            return None;
        }
        // A container may report the result before its kubelet reports the start.
        let reported =
            containers.iter().position(|name| step.is_some_and(|step| step.as_str() == name));
        begun.extend(containers.iter().take(reported.map_or(0, |at| at + 1)).cloned());
        let mut annotations = build_annotations(build);
        annotations.insert(labels::ATTEMPT.to_owned(), attempt.to_string());
        let name: BuildName = meta.name.parse().ok()?;
        Some(Self {
            secret: secret_name(&name),
            build: name,
            build_uid: meta.uid().to_owned(),
            attempt,
            labels: build_labels(build),
            annotations,
            pod: pod.metadata.name.clone()?,
            containers,
            begun,
            secrets: secrets(pod),
        })
    }

    /// The logs of the pod of an own check.
    pub fn of_check(build: &MachineOsBuild, job: &str, pod: &Pod) -> Option<Self> {
        Some(Self { secret: check_secret_name(job), ..Self::of(build, 1, pod, None)? })
    }

    /// The Secret with the logs by container.
    pub fn secret(&self, logs: &[(String, LogTail)]) -> Secret {
        let logs = logs.iter().enumerate();
        let data = logs.map(|(place, (container, tail))| {
            let key = format!("{place}-{}{KEY_SUFFIX}", shortened(container, 63));
            (key, ByteString(gzip::packed(tail.text().as_bytes())))
        });
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret.clone()),
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()),
                owner_references: Some(vec![OwnerReference {
                    api_version: API_VERSION.to_owned(),
                    kind: "MachineOSBuild".to_owned(),
                    name: self.build.to_string(),
                    uid: self.build_uid.clone(),
                    controller: Some(false),
                    block_owner_deletion: Some(false),
                }]),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            ..Secret::default()
        }
    }
}

fn secrets(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let volumes = spec.volumes.iter().flatten();
    let mounted = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.clone());
    let containers = spec.init_containers.iter().flatten();
    let containers = containers.chain(&spec.containers);
    let variables = containers.flat_map(|one| one.env_from.iter().flatten());
    let variables = variables.filter_map(|from| Some(from.secret_ref.as_ref()?.name.clone()));
    let mut all: Vec<String> = mounted.chain(variables).collect();
    all.sort();
    all.dedup();
    all
}

pub fn secret_name(build: &BuildName) -> String {
    object_name("log", build)
}

/// Name of the Secret with the logs of the Job of an own check.
pub fn check_secret_name(job: &str) -> String {
    format!("log-{job}")
}

/// The logs in a Secret of this build: the attempt, and the text by container in order.
pub fn read_secret(secret: &Secret, build_uid: &str) -> Option<(u32, Vec<(String, String)>)> {
    let meta = &secret.metadata;
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.uid == build_uid)?;
    let attempt = meta.annotations.as_ref()?.get(labels::ATTEMPT)?;
    let data = secret.data.iter().flatten();
    let logs = data.filter_map(|(key, value)| {
        let (_, container) = key.strip_suffix(KEY_SUFFIX)?.split_once('-')?;
        let text = gzip::unpacked(&value.0, MAX_LOG_BYTES).ok()??;
        Some((container.to_owned(), String::from_utf8_lossy(&text).into_owned()))
    });
    Some((attempt.parse().ok()?, logs.collect()))
}

/// The end of a text, in whole lines if they fit.
#[derive(Debug, Default)]
pub struct LogTail {
    lines: VecDeque<String>,
    size: usize,
}

impl LogTail {
    /// Adds a line, given without its end.
    pub fn push(&mut self, line: &str) {
        let mut start = line.len().saturating_sub(MAX_LOG_BYTES - 1);
        while !line.is_char_boundary(start) {
            start += 1;
        }
        let line = &line[start..];
        self.size += line.len() + 1;
        self.lines.push_back(line.to_owned());
        while self.size > MAX_LOG_BYTES
            && let Some(first) = self.lines.pop_front()
        {
            self.size -= first.len() + 1;
        }
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.size);
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        let state = |name: &str, state: serde_json::Value| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let pod = json!({
            "metadata": { "name": "p" },
            "spec": {
                "initContainers": [{ "name": "wait-for-done" }, { "name": "image-build" }],
                "containers": [{ "name": "image-push", "envFrom": [{ "secretRef": { "name": "proxy-x" } }] }],
                "volumes": [{ "name": "a", "secret": { "secretName": "final-x" } }, { "name": "b", "configMap": { "name": "mc-x" } },
                    { "name": "c", "secret": { "secretName": "etc-pki-entitlement" } }],
            },
            "status": {
                "initContainerStatuses": [state("wait-for-done", json!({ "running": {} })), state("image-build", json!({ "terminated": { "exitCode": 0 } }))],
                "containerStatuses": [state("image-push", json!({ "waiting": {} }))],
            },
        });
        serde_json::from_value(pod).unwrap()
    }

    fn build() -> MachineOsBuild {
        let name = format!("worker-{}", "0a".repeat(16));
        serde_json::from_value(json!({
            "metadata": { "name": name, "uid": "u", "labels": { labels::MACHINE_OS_CONFIG: "worker" } },
            "spec": { "machineConfig": { "name": "rendered" }, "machineOSConfig": { "name": "worker" }, "renderedImagePushSpec": "q.io/a/b:c" },
        }))
        .unwrap()
    }

    #[test]
    fn archived_logs_are_read_only_for_their_build() {
        let keep = ArchiveLogs::of(&build(), 3, &pod(), None).unwrap();
        let begun = |keep: &ArchiveLogs| keep.begun.iter().cloned().collect::<Vec<_>>();
        assert_eq!(begun(&keep), ["image-build", "wait-for-done"]);
        let archive = ArchiveLogs::of(&build(), 3, &pod(), Some(Container::ImagePush)).unwrap();
        assert_eq!(begun(&archive), ["image-build", "image-push", "wait-for-done"]);
        assert_eq!(keep.containers, ["image-build", "image-push", "wait-for-done"]);
        assert_eq!(keep.secrets, ["etc-pki-entitlement", "final-x", "proxy-x"]);
        let mut tail = LogTail::default();
        ["one", "", "twö"].iter().for_each(|line| tail.push(line));
        let logs =
            [("image-build".to_owned(), tail), ("wait-for-done".to_owned(), LogTail::default())];
        let secret = keep.secret(&logs);
        assert_eq!(secret, keep.secret(&logs), "the same bytes");
        let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let want = vec![text("image-build", "one\n\ntwö\n"), text("wait-for-done", "")];
        assert_eq!(read_secret(&secret, "u"), Some((3, want)));
        assert_eq!(read_secret(&secret, "v"), None, "of one that is gone");
        let meta = &secret.metadata;
        assert!(meta.name.as_ref().unwrap().starts_with("log-worker-0a0a"));
        for key in [
            labels::ON_CLUSTER_LAYERING,
            labels::EPHEMERAL_BUILD_OBJECT,
            labels::MACHINE_OS_BUILD,
            labels::MACHINE_OS_CONFIG,
        ] {
            assert!(meta.labels.as_ref().unwrap().contains_key(key), "{key}");
        }

        let mut silent = pod();
        silent.status = None;
        assert_eq!(ArchiveLogs::of(&build(), 1, &silent, Some(Container::ImagePush)), None);
    }

    #[test]
    fn only_the_end_is_retained() {
        let mut tail = LogTail::default();
        for n in 0..10_000 {
            tail.push(&format!("{n} é"));
        }
        let text = tail.text();
        assert!(text.len() <= MAX_LOG_BYTES && text.len() > MAX_LOG_BYTES - 16, "{}", text.len());
        assert!(text.ends_with("\n9999 é\n"));
        for line in ["x".repeat(MAX_LOG_BYTES * 2), "é".repeat(MAX_LOG_BYTES)] {
            tail.push(&line);
            let text = tail.text();
            assert!(text.len() <= MAX_LOG_BYTES && text.len() > MAX_LOG_BYTES - 4);
            assert!(line.ends_with(text.trim_end()));
        }
    }
}
