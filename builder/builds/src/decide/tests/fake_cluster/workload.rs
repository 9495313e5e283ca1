//! What becomes of workloads.

use super::*;

impl FakeCluster {
    pub fn run(&mut self) {
        assert!(self.has_begun(), "it was let begin");
        let seen = self.job().expect("a workload");
        set_status(
            seen,
            json!({ "phase": "Running", "initContainerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "running": {} } }] }),
        );
    }

    pub fn set_pod_status(&mut self, status: serde_json::Value) {
        set_status(self.job().expect("a workload"), status);
    }

    /// The pod reports a result.
    pub fn report(&mut self, outcome: Outcome) {
        let workload = &self.job().expect("a workload").workload;
        let uid = workload.uid().to_owned();
        let build = owner_of(workload).name.clone();
        if let Workload::Build(build) = &mut self.job().expect("a workload").workload {
            build.status = openshift_status(outcome).or(build.status.take());
            return;
        }
        let result = JobResult { job_uid: uid, build: build.parse().unwrap(), outcome };
        self.snapshot.results.insert(build, result);
    }

    /// The image is pushed, and the workload succeeds.
    pub fn succeed(&mut self) {
        let workload = &self.job().expect("a workload").workload;
        let build = owner_of(workload).name.clone();
        let digest = Digest::of(build.as_bytes());
        let spec = &self.find(&build).expect("its build").spec;
        let image: ImageRef = spec.rendered_image_push_spec.parse().unwrap();
        let repo = image.repo();
        let repo = repo.clone();
        let mut outcome = succeeded(digest);
        if let Outcome::Succeeded { method, base_tree, .. } = &mut outcome
            && self.has_last_part
        {
            *method = JobMethod::Containerfile;
            *base_tree = None;
        }
        if let Outcome::Succeeded { method, prepared, .. } = &mut outcome
            && self.prepared_uses.last() == Some(&PreparedUse::Make)
        {
            let inputs = self.prepared.expect("what the planner gave");
            let image = Digest::of(format!("prepared {}", self.made.len()).as_bytes());
            self.images.insert(repo.pinned(image));
            *method = JobMethod::Containerfile;
            let made = Box::new(PreparedImage { inputs, image, made_at: self.now });
            if self.has_last_part || self.prepared_needs_signature {
                // Another pod makes the image.
                let base_tree =
                    Some(BaseTreeImage { base: image, image: Digest::of(b"tree of prepared") });
                let warnings = Vec::new();
                self.report(Outcome::Prepared { prepared: made, base_tree, warnings });
                return;
            }
            *prepared = Some(made);
        }
        self.images.insert(repo.pinned(digest));
        self.report(outcome);
    }

    /// The workload fails with a Job's reason, or with its pod's status.
    pub fn fail_workload(&mut self, reason: &str, pod: serde_json::Value) {
        let now = self.now - SignedDuration::from_secs(60);
        let seen = self.job().expect("a workload");
        let mut status = pod;
        match &mut seen.workload {
            Workload::Job(job) => {
                job.status = Some(JobStatus {
                    conditions: Some(vec![JobCondition {
                        type_: "Failed".to_owned(),
                        status: "True".to_owned(),
                        reason: Some(reason.to_owned()),
                        last_transition_time: Some(Time(now)),
                        ..JobCondition::default()
                    }]),
                    ..JobStatus::default()
                });
            }
            Workload::Build(build) => {
                build.spec.completion_deadline_seconds = Some(60);
                build.status = Some(lost_by_openshift(reason, &status, now));
                return;
            }
            Workload::Pod(_) => {
                status["phase"] = json!("Failed");
                // A Job's other reasons don't appear on its pod.
                if reason == "DeadlineExceeded" {
                    status["reason"] = json!(reason);
                }
            }
        }
        set_status(seen, status);
    }

    /// A user deletes the workload.
    pub fn delete_workload(&mut self) {
        let uid = self.job_uid().expect("a workload");
        self.remove_job(&uid);
    }

    /// A user deletes a build.
    pub fn delete_build(&mut self, name: &str) {
        let now = self.now;
        let mut builds = self.snapshot.builds.iter_mut();
        let build = builds.find(|b| b.metadata.name == name).unwrap();
        build.metadata.deletion_timestamp = Some(Time(now));
    }

    pub fn remove_job(&mut self, uid: &str) {
        self.snapshot.workloads.retain(|seen| seen.workload.uid() != uid);
        self.snapshot.inputs.retain(|input| input.workload_uid != uid);
        self.snapshot.results.retain(|_, result| result.job_uid != uid);
    }
}

/// Sets the status of the pod of a Job, or of the Pod itself.
fn set_status(seen: &mut SeenWorkload, status: serde_json::Value) {
    let status = serde_json::from_value(status).unwrap();
    match &mut seen.workload {
        Workload::Job(job) => {
            let pod = json!({
            "metadata": { "name": "p", "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": job.metadata.uid }] },
            "spec": { "initContainers": [{ "name": "image-build" }], "containers": [{ "name": "image-push" }] },
            });
            let pod = Pod { status: Some(status), ..serde_json::from_value(pod).unwrap() };
            seen.pods = vec![pod];
        }
        Workload::Pod(pod) => pod.status = Some(status),
        Workload::Build(build) => {
            build.status = Some(OpenShiftBuildStatus {
                phase: status.phase.unwrap(),
                ..OpenShiftBuildStatus::default()
            });
        }
    }
}

/// The status of an OpenShift Build with this outcome; `None` if a Build can't have it.
fn openshift_status(outcome: Outcome) -> Option<OpenShiftBuildStatus> {
    let (phase, reason, digest) = match outcome {
        Outcome::Succeeded { digest, .. } => ("Complete", "", digest.to_string()),
        Outcome::Prepared { .. } | Outcome::NeedsContainerfile { .. } => return None,
        Outcome::Failed { class, .. } => match class {
            ErrorClass::InvalidInput | ErrorClass::Rejected => {
                ("Failed", "DockerBuildFailed", String::new())
            }
            ErrorClass::Transient | ErrorClass::Internal => {
                ("Failed", "GenericBuildFailed", String::new())
            }
        },
    };
    let status = json!({ "phase": phase, "reason": reason, "message": "so it is",
        "output": { "to": { "imageDigest": digest } } });
    Some(serde_json::from_value(status).unwrap())
}

fn lost_by_openshift(
    reason: &str,
    pod: &serde_json::Value,
    end: Timestamp,
) -> OpenShiftBuildStatus {
    let text = pod.to_string();
    let (reason, seconds) = match reason {
        "DeadlineExceeded" => ("GenericBuildFailed", 60),
        _ if text.contains("Evicted") || text.contains("Disruption") => ("BuildPodEvicted", 1),
        _ if text.contains("OOMKilled") => ("OutOfMemoryKilled", 1),
        _ => ("GenericBuildFailed", 1),
    };
    OpenShiftBuildStatus {
        phase: "Failed".to_owned(),
        reason: reason.to_owned(),
        start_timestamp: Some(Time(end - SignedDuration::from_secs(seconds))),
        completion_timestamp: Some(Time(end)),
        ..OpenShiftBuildStatus::default()
    }
}
