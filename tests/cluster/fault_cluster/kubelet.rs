//! The results of runners in a cluster without running containers: a stand-in for the sidecar, the
//! kubelet and the eviction API. A runner is a Job, or a Pod without a Job.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FaultCluster, M, in_namespace, ours, text};
use mosb_tests::base_image;

/// The result of a runner.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// Its pod is evicted.
    Evicted,
    /// Its pod fails without a report.
    Crashed,
    /// It reports that the build failed.
    Failed,
    /// It pushed the image with this index.
    Made(usize),
    /// It pushed the image with this index, and the tree of the base.
    MadeWithTree(usize),
    /// It pushed the image with this index on a prepared base that it made.
    MadeWithPrepared(usize),
}

/// The index of the image that is a prepared base.
pub const PREPARED: usize = 2;

/// A runner whose pod could be running.
pub struct StartedRunner<'a> {
    runner: &'a Value,
    pod: String,
    /// The number of its rendered config.
    pub number: u32,
    /// Whether it is the first attempt of its build.
    pub is_first: bool,
}

/// Whether a Pod is a runner without a Job.
pub fn is_alone(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"][0]["kind"] == "MachineOSBuild"
}

/// Whether a Job has an active pod, or a Pod may be scheduled.
pub fn has_started(runner: &Value) -> bool {
    if runner["spec"]["containers"].is_array() {
        runner["spec"]["schedulingGates"].is_null()
    } else {
        runner["status"]["active"] == 1
    }
}

pub fn runners(cluster: &FaultCluster) -> Vec<Value> {
    let mut all = cluster.all(&in_namespace("jobs"));
    let pods = cluster.all(&in_namespace("pods")).into_iter();
    all.extend(pods.filter(is_alone));
    all
}

/// The started runners that may end according to `may_end`, which gets the UID.
pub fn started_runners<'a>(
    cluster: &FaultCluster,
    runners: &'a [Value],
    mut may_end: impl FnMut(&str) -> bool,
) -> Vec<StartedRunner<'a>> {
    let may_end = |runner: &&Value| {
        let metadata = &runner["metadata"];
        has_started(runner)
            && metadata["deletionTimestamp"].is_null()
            && may_end(text(&metadata["uid"]))
    };
    let due: Vec<&Value> = runners.iter().filter(may_end).collect();
    if due.is_empty() {
        return Vec::new();
    }
    let pods = cluster.all(&in_namespace("pods"));
    let read = |runner: &'a Value| {
        let uid = &runner["metadata"]["uid"];
        let is_its = |pod: &&Value| {
            let metadata = &pod["metadata"];
            metadata["uid"] == *uid || metadata["ownerReferences"][0]["uid"] == *uid
        };
        let pod = pods.iter().find(is_its)?;
        let labels = &runner["metadata"]["labels"];
        let rendered = text(&labels[format!("{M}/rendered-machine-config")]);
        let number = rendered.rsplit('-').next().unwrap_or_default();
        Some(StartedRunner {
            runner,
            pod: text(&pod["metadata"]["name"]).to_owned(),
            // The label may be truncated.
            number: u32::from_str_radix(number, 16).unwrap_or(super::ends::ONE),
            is_first: runner["metadata"]["annotations"]["mosb.dev/attempt"] == "1",
        })
    };
    due.into_iter().filter_map(read).collect()
}

impl StartedRunner<'_> {
    pub fn uid(&self) -> &str {
        text(&self.runner["metadata"]["uid"])
    }

    /// Reports the result and ends the pod. Returns false if the ConfigMap for the result does not
    /// exist.
    pub fn ends(&self, cluster: &FaultCluster, end: End) -> bool {
        let (phase, result) = match end {
            End::Evicted | End::Crashed => ("Failed", None),
            End::Failed => {
                let failed = json!({ "outcome": "Failed", "step": "image-build", "class": "user-input",
                    "reason": "bad-config", "message": "a test wants it to fail" });
                ("Failed", Some(failed))
            }
            End::Made(image) | End::MadeWithTree(image) | End::MadeWithPrepared(image) => {
                let method = &self.runner["metadata"]["annotations"]["mosb.dev/method"];
                let mut made = json!({ "outcome": "Succeeded", "digest": cluster.images[image], "method": method });
                match end {
                    End::MadeWithTree(_) => {
                        let base = base_image().digest("base");
                        made["baseTree"] = json!({ "base": base, "image": cluster.images[1] });
                    }
                    End::MadeWithPrepared(_) => {
                        made["prepared"] = json!({ "inputs": self.prepared_inputs(cluster),
                            "image": cluster.images[PREPARED], "madeAt": "2026-01-01T00:00:00Z" });
                    }
                    _ => {}
                }
                ("Succeeded", Some(made))
            }
        };
        if result.is_some_and(|result| !self.reports(cluster, result)) {
            return false;
        }
        let mut status = json!({ "phase": phase });
        if matches!(end, End::Evicted) {
            status["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" }]);
        } else {
            // The controller may see the result after this change. No container of the build has
            // this name, so the controller does not read its log.
            let end = json!({ "exitCode": 0, "finishedAt": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string() });
            status["containerStatuses"] = json!([{ "name": "played", "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": { "terminated": end } }]);
        }
        // The controller may have deleted the runner and its pod since the report.
        let pod = format!("{}/{}/status", in_namespace("pods"), self.pod);
        cluster.proxy.api().ask("PATCH", &pod, Some(&json!({ "status": status })));
        true
    }

    fn reports(&self, cluster: &FaultCluster, mut result: Value) -> bool {
        let metadata = &self.runner["metadata"];
        let build = text(&metadata["annotations"][format!("{M}/machine-os-build")]);
        result["jobUid"] = metadata["uid"].clone();
        result["build"] = json!(build);
        let mut data = json!({ "result.json": result.to_string() });
        if let Some(digest) = result.get("digest") {
            data["digest"] = digest.clone();
        }
        let map = self.needs("digest-").unwrap();
        let change = json!({ "data": data });
        cluster.proxy.api().ask("PATCH", &map, Some(&change)).0 == 200
    }

    /// The digest of what its build runs.
    fn prepared_inputs(&self, cluster: &FaultCluster) -> String {
        let build = text(&self.runner["metadata"]["annotations"][format!("{M}/machine-os-build")]);
        let (code, build) = cluster.proxy.api().ask("GET", &ours("machineosbuilds", build), None);
        assert_eq!(code, 200, "{build:#}");
        let inputs = text(&build["metadata"]["annotations"]["mosb.dev/prepared-inputs"]);
        format!("sha256:{inputs}")
    }

    /// The path of a ConfigMap that its pod uses, by the prefix of the name.
    pub fn needs(&self, prefix: &str) -> Option<String> {
        let needs = text(&self.runner["metadata"]["annotations"]["mosb.dev/needs"]).split(' ');
        let mut maps = needs.filter_map(|need| need.strip_prefix("ConfigMap/"));
        let name = maps.find(|name| name.starts_with(prefix))?;
        Some(format!("{}/{name}", in_namespace("configmaps")))
    }
}
