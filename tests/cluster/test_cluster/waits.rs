//! Waits for what the controller does, each with a limit.

use super::*;

/// The events of type Warning.
const WARNINGS: [&str; 9] = [
    "BuildDegraded",
    "BuildFailed",
    "BuildInterrupted",
    "ConfigReconcileFailed",
    "ImageHeld",
    "ImageNotSigned",
    "JobFailed",
    "PreBuiltImageMissing",
    "PreparedBaseMissing",
];

impl Cluster {
    /// Waits until a container of the pool's build runs; the build's name.
    #[track_caller]
    pub fn building(&self) -> String {
        let running = || {
            let pod = self.pods().into_iter().find(|pod| {
                pod["metadata"]["deletionTimestamp"].is_null()
                    && pod["status"]["initContainerStatuses"][1]["state"].get("running").is_some()
            })?;
            let label =
                &pod["metadata"]["labels"]["machineconfiguration.openshift.io/machine-os-build"];
            let build = label.as_str().unwrap().to_owned();
            // The status follows.
            let found = self.node.find(&format!("machineosbuild/{build}"))?;
            (state(&found) == "Building").then_some(build)
        };
        wait("a build that runs", BUILD, running)
    }

    /// Waits until something has another UID.
    #[track_caller]
    pub fn another(&self, uid: impl Fn() -> Option<String>, before: &str) {
        wait("another one", BUILD, || uid().filter(|uid| uid != before));
    }

    /// Waits until an object (`machineosbuild/x`, or in the namespace `job/x`) is deleted.
    #[track_caller]
    pub fn wait_deleted(&self, what: &str) {
        wait(&format!("the end of {what}"), BUILD, || {
            self.namespace.find(what).is_none().then_some(())
        });
    }

    /// Waits until `mosb status` reports this code for the pool.
    #[track_caller]
    pub fn wait_status(&self, code: &str) {
        let has_code = || {
            let status = self.mosb(&["status", &self.pool, "-o", "json"]).ok().json();
            (status["pools"][0]["reason"]["code"] == code).then_some(())
        };
        wait(&format!("mosb status with {code}"), SOON, has_code);
    }

    /// Waits until events of these kinds and reasons were reported for objects of the pool: each
    /// with its type, and for a build none twice.
    #[track_caller]
    pub fn assert_events(&self, wanted: &[(&str, &str)]) {
        let all = || -> Vec<Value> {
            let mut events = self.node.api().list(Some("default"), "events", "");
            let name = |event: &Value| event["involvedObject"]["name"].as_str().map(str::to_owned);
            events.retain(|event| name(event).is_some_and(|name| name.starts_with(&self.pool)));
            events
        };
        let is = |event: &Value, (kind, reason): &(&str, &str)| {
            event["involvedObject"]["kind"] == *kind && event["reason"] == *reason
        };
        let events = wait(&format!("the events {wanted:?}"), SOON, || {
            let events = all();
            let is_there = |one| events.iter().any(|event| is(event, one));
            wanted.iter().all(is_there).then_some(events)
        });
        let mut seen = BTreeSet::new();
        for event in &events {
            let reason = event["reason"].as_str().unwrap();
            let kind = if WARNINGS.contains(&reason) { "Warning" } else { "Normal" };
            assert_eq!(event["type"], kind, "{event}");
            let on = &event["involvedObject"];
            let what = (on["uid"].to_string(), reason, event["message"].to_string());
            // The same build may be that of a MachineOSConfig again.
            let is_new = seen.insert(what) || on["kind"] != "MachineOSBuild";
            assert!(is_new, "reported twice: {event}");
        }
    }

    /// Waits until nothing that served a build is there but its logs; a pod that is being deleted
    /// has half a minute.
    #[track_caller]
    pub fn nothing_is_left_of(&self, build: &str) {
        let kinds = "jobs,pods,configmaps,secrets,serviceaccounts,roles,rolebindings";
        let log = format!("log-{build}");
        let nothing = || {
            let left = self.namespace.list_labelled(kinds, &of_build(build));
            left.iter().all(|one| one["metadata"]["name"] == *log).then_some(())
        };
        wait(&format!("everything of {build} to be deleted"), BUILD, nothing);
    }

    /// What `mosb logs` prints of a pod that was deleted.
    #[track_caller]
    pub fn archived_logs(&self, of: &str) -> String {
        let archived = || {
            let logs = self.mosb(&["logs", of]);
            let archived = logs.stderr.contains("the archived log of attempt ");
            archived.then(|| logs.ok().text())
        };
        wait(&format!("the archived logs of {of}"), BUILD, archived)
    }

    /// Waits until the image in service is another than before; the image.
    #[track_caller]
    pub fn image_after(&self, before: &str) -> String {
        self.pool_image(&self.pool, before)
    }

    /// The same, for another pool.
    #[track_caller]
    pub fn pool_image(&self, pool: &str, before: &str) -> String {
        let limit = BUILD;
        let other = |config: &Value| {
            let image = config["status"]["currentImagePullSpec"].as_str();
            image.is_some_and(|image| !image.is_empty() && image != before)
        };
        let config = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.node.wait(&format!("machineosconfig/{pool}"), limit, other)
        }));
        match config {
            Ok(config) => config["status"]["currentImagePullSpec"].as_str().unwrap().to_owned(),
            Err(_) => {
                panic!("no image; log of the controller:\n{}\n{}", self.log(), self.everything())
            }
        }
    }

    /// Waits until the pool's condition `ImageBuildDegraded` has this reason.
    #[track_caller]
    pub fn wait_for_pool_condition(&self, reason: &str) -> Value {
        let has_reason = |pool: &Value| {
            let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .iter()
                .any(|one| one["type"] == "ImageBuildDegraded" && one["reason"] == reason)
        };
        self.node.wait(&format!("machineconfigpool/{}", self.pool), BUILD, has_reason)
    }
}
