//! A fake cluster: what users, pods and a registry do.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::fake_seed::STOCK;
use super::server::owner_of;
use crate::status::{EventReason, IMAGE_BUILD_DEGRADED};
use crate::workload::Workload;
use crate::workload::observe;
use crate::*;
use mosb_build::JobMethod;
use mosb_build::result::{BaseTreeImage, JobResult, Outcome, Phases, Step as Container};
use mosb_image::{Digest, ImageRef, PinnedRef, RepoRef};
use mosb_plan::api::openshift_build::OpenShiftBuildStatus;
use mosb_plan::api::*;
use mosb_registry::Confirmed;
use mosb_types::canonical_json;
use mosb_types::{ErrorClass, Finding};

pub const FOREIGN: &str = "worker-ffffffffffffffffffffffffffffffff";

pub fn rendered(n: u32) -> String {
    format!("rendered-worker-{n:032x}")
}

/// A fake cluster. Tests may change its public fields as a user would.
#[derive(Clone)]
pub struct FakeCluster {
    pub snapshot: Snapshot,
    pub now: Timestamp,
    pub images: BTreeSet<PinnedRef>,
    /// Images that the registry ever confirmed.
    pub confirmed: BTreeSet<PinnedRef>,
    /// Emitted events, in order.
    pub events: Vec<(EventReason, String)>,
    pub names: BTreeSet<String>,
    /// The planner returns this instead of a plan.
    pub problem: Option<Problem>,
    pub registry_problem: Option<Problem>,
    pub api_problem: Option<Problem>,
    /// A result that is in the API server but not in the watch yet.
    pub unseen: Option<JobResult>,
    pub bad_containerfile: bool,
    pub warnings: Vec<Finding>,
    pub base: u32,
    /// The image format.
    pub format: u32,
    /// Whether rendered configs differ in fields that machines can't apply.
    pub os_changes: bool,
    /// Whether the pre-built image equals the planned one.
    pub recognises: bool,
    pub asked: Vec<Lookup>,
    pub count: u64,
    /// Contents of the pool's MachineConfigs, without the image. If `None`, the test names rendered
    /// configs itself.
    pub content: Option<u32>,
    /// The OS images of rendered configs.
    pub os_images: BTreeMap<String, String>,
    /// Archived logs: build and attempt.
    pub logs: Vec<(String, u32)>,
    /// All created workloads, with their build's UID.
    pub made: Vec<(String, String, JobMethod)>,
}

impl FakeCluster {
    /// A pool without a MachineOSConfig.
    pub fn new() -> Self {
        let mut fake = Self {
            snapshot: Snapshot::default(),
            now: "2026-01-01T00:00:00.25Z".parse().unwrap(),
            images: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            events: Vec::new(),
            names: BTreeSet::new(),
            problem: None,
            registry_problem: None,
            api_problem: None,
            unseen: None,
            bad_containerfile: false,
            warnings: Vec::new(),
            base: 0,
            format: 1,
            os_changes: false,
            recognises: false,
            asked: Vec::new(),
            count: 0,
            content: None,
            os_images: BTreeMap::new(),
            logs: Vec::new(),
            made: Vec::new(),
        };
        fake.snapshot.name = "worker".to_owned();
        fake.snapshot.cluster.namespace = "ns".to_owned();
        fake.snapshot.pool_platforms = ["linux/amd64".parse().unwrap()].into();
        let mut pool =
            MachineConfigPool { metadata: fake.metadata("worker"), ..MachineConfigPool::default() };
        pool.spec.configuration.name = rendered(1);
        pool.status.configuration.name = rendered(1);
        pool.status.conditions = vec![Condition {
            kind: "Updated".to_owned(),
            status: "True".to_owned(),
            ..Condition::default()
        }];
        fake.snapshot.pool = Some(pool);
        fake
    }

    /// A pool that just opted in.
    pub fn opted_in() -> Self {
        let mut fake = Self::new();
        fake.opt_in();
        fake
    }

    /// A pool that just opted in, with this builder.
    pub fn built_by(builder: ImageBuilderType) -> Self {
        let mut fake = Self::opted_in();
        fake.annotate(labels::BUILDER, builder.as_str());
        fake
    }

    /// A pool with an image of its first config.
    pub fn built() -> Self {
        let mut fake = Self::opted_in();
        fake.build();
        fake
    }

    pub fn opt_in(&mut self) {
        let metadata = self.metadata("worker");
        self.snapshot.config = Some(MachineOsConfig {
            metadata: Metadata {
                generation: Some(1),
                ..metadata
            },
            spec: serde_json::from_value(json!({
                "machineConfigPool": { "name": "worker" }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": "quay.io/acme/os:latest",
            }))
            .unwrap(),
            status: MachineOsConfigStatus::default(),
        });
    }

    pub fn id(&mut self) -> String {
        self.count += 1;
        self.count.to_string()
    }

    pub fn metadata(&mut self, name: &str) -> Metadata {
        Metadata {
            name: name.to_owned(),
            uid: Some(format!("uid-{}", self.id())),
            resource_version: Some(self.id()),
            creation_timestamp: Some(Time(self.now)),
            ..Metadata::default()
        }
    }

    pub fn config(&mut self) -> &mut MachineOsConfig {
        self.snapshot.config.as_mut().unwrap()
    }

    pub fn pool(&mut self) -> &mut MachineConfigPool {
        self.snapshot.pool.as_mut().unwrap()
    }

    /// Renders this config for the pool.
    pub fn render(&mut self, n: u32) {
        self.pool().spec.configuration.name = rendered(n);
    }

    pub fn containerfile(&mut self, content: &str) {
        let file =
            ContainerFile { containerfile_arch: "NoArch".to_owned(), content: content.to_owned() };
        let config = self.config();
        config.spec.container_file = vec![file];
        config.metadata.generation = config.metadata.generation.map(|n| n + 1);
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        let config = self.config();
        config.metadata.annotations.insert(key.to_owned(), value.to_owned());
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = &self.snapshot.config.as_ref().unwrap().metadata.annotations;
        annotations.get(key).map(String::as_str)
    }

    /// The build that the MachineOSConfig names.
    pub fn current(&self) -> &MachineOsBuild {
        let name = self.annotation(labels::CURRENT_MACHINE_OS_BUILD);
        let name = name.expect("a current build");
        self.find(name).expect("it is there")
    }

    pub fn find(&self, name: &str) -> Option<&MachineOsBuild> {
        self.snapshot.builds.iter().find(|b| b.metadata.name == name)
    }

    pub fn state(&self) -> Option<BuildCondition> {
        self.current().status.state()
    }

    pub fn image(&self) -> &str {
        &self.snapshot.config.as_ref().unwrap().status.current_image_pull_spec
    }

    pub fn blocked_by_degraded_pool(&self) -> (String, String) {
        let conditions = &self.snapshot.pool.as_ref().unwrap().status.conditions;
        let found = condition(conditions, IMAGE_BUILD_DEGRADED).cloned();
        let found = found.unwrap_or_default();
        (found.status, found.reason)
    }

    pub fn blocked(&self) -> Option<(String, String)> {
        let conditions = &self.snapshot.config.as_ref().unwrap().status.conditions;
        let found = condition(conditions, crate::status::BLOCKED)?;
        Some((found.status.clone(), found.reason.clone()))
    }

    pub fn event_count(&self, reason: EventReason) -> usize {
        self.events.iter().filter(|(one, _)| *one == reason).count()
    }

    /// The one workload that is not being deleted.
    pub fn job(&mut self) -> Option<&mut SeenWorkload> {
        let mut workloads = self.snapshot.workloads.iter_mut();
        workloads.find(|seen| !seen.workload.is_being_deleted())
    }

    pub fn job_uid(&self) -> Option<String> {
        let first = self.snapshot.workloads.first();
        first.map(|seen| seen.workload.uid().to_owned())
    }

    /// Decides, and resolves lookups until none are left.
    pub fn decide(&mut self) -> Decision {
        let mut seen = self.snapshot.clone();
        for _ in 0..5 {
            let decision = decide(&seen, self.now);
            assert_eq!(decision, decide(&seen, self.now), "same snapshot, same actions");
            if decision.lookups.is_empty() {
                return decision;
            }
            assert_eq!(decision.actions, []);
            for lookup in decision.lookups {
                self.asked.push(lookup.clone());
                match lookup {
                    Lookup::OsImage { rendered } => {
                        let image = self.os_images.get(rendered.as_str()).cloned();
                        let image =
                            image.ok_or_else(|| problem(ErrorClass::Transient, "not there yet"));
                        let twice = seen.lookup_results.os_image.insert(rendered, image);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Result { build } => {
                        let unseen =
                            self.unseen.as_ref().map(|result| &result.build) == Some(&build);
                        let result = match &self.api_problem {
                            Some(problem) => Err(problem.clone()),
                            None if unseen => Ok(self.unseen.clone()),
                            None => Ok(seen.results.get(build.as_str()).cloned()),
                        };
                        let twice = seen.lookup_results.results.insert(build, result);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Plan(lookup) => {
                        let answer = self.planned(&lookup);
                        assert!(seen.lookup_results.plan.replace(answer).is_none(), "asked twice");
                    }
                    Lookup::Exists { image, secret, pull } => {
                        assert_eq!(secret, "push");
                        let push = &self.snapshot.config.as_ref().unwrap().spec;
                        let push: ImageRef = push.rendered_image_push_spec.parse().unwrap();
                        let is_elsewhere = image.repo() != push.repo();
                        assert!(pull != Pull::Not || !is_elsewhere);
                        let answer = match &self.registry_problem {
                            Some(problem) => ImageStatus::Unknown(problem.clone()),
                            None if self.images.contains(&image) => {
                                self.confirmed.insert(image.clone());
                                ImageStatus::Present(Confirmed::in_a_test(image.clone()))
                            }
                            None => ImageStatus::Missing,
                        };
                        assert!(
                            seen.lookup_results.exists.insert(image, answer).is_none(),
                            "asked twice"
                        );
                    }
                }
            }
        }
        panic!("it asks and asks");
    }

    fn planned(&self, lookup: &PlanLookup) -> Result<Planned, Problem> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let repo: RepoRef = "quay.io/release/base".parse().unwrap();
        let fresh = repo.pinned(Digest::of(&self.base.to_be_bytes()));
        let base = lookup.base.clone().unwrap_or(fresh);
        let inputs = |format: u32| {
            let (rendered, containerfile) = (&lookup.rendered, &lookup.containerfile);
            let parts = json!([format, rendered, containerfile, lookup.push, base]);
            Digest::of(&canonical_json(&parts)).hex()
        };
        let build = |format| BuildName::new(&lookup.pool, &inputs(format)).unwrap();
        assert!(!self.is_waiting_for_its_seed(), "planned before it is seeded");
        let os_image = self.os_images.get(lookup.rendered.as_str());
        if let Some(instead) = &lookup.instead
            && os_image.is_some_and(|os_image| instead.of.contains(os_image))
        {
            assert_eq!(instead.stock.as_deref(), Some(STOCK));
        } else {
            let is_stock = os_image.is_none_or(|os_image| os_image == STOCK);
            assert!(is_stock, "built on the pre-built image");
        }
        let runs = lookup.containerfile.is_some() || lookup.method.is_some();
        let bad = self.bad_containerfile && lookup.containerfile.is_some();
        Ok(Planned {
            build: build(self.format),
            older: (1..self.format).rev().map(build).collect(),
            inputs: inputs(self.format),
            base: base.clone(),
            method: if runs { JobMethod::Containerfile } else { JobMethod::Direct },
            reasons: Vec::new(),
            platform: "linux/amd64".parse().unwrap(),
            warnings: self.warnings.clone(),
            containerfile_problem: bad
                .then(|| problem(ErrorClass::InvalidInput, "line 1: FRO is no instruction")),
            os_changed: self.os_changes || lookup.compare.is_none(),
            is_recognised: self.recognises && lookup.recognise.is_some(),
        })
    }

    /// One pass; the controller is killed after `most` actions.
    pub fn round(&mut self, most: usize) -> Decision {
        let decision = self.decide();
        let mut versions = BTreeMap::new();
        for action in decision.actions.iter().take(most) {
            if self.act(action, &mut versions).is_none() {
                break;
            }
        }
        self.collect();
        decision
    }

    /// Reconciles until nothing changes.
    pub fn settle(&mut self) -> Decision {
        for _ in 0..40 {
            self.rerender();
            let before = self.snapshot.builds.len() + self.snapshot.workloads.len();
            let decision = self.round(usize::MAX);
            let after = self.snapshot.builds.len() + self.snapshot.workloads.len();
            if decision.actions.is_empty() && before == after {
                return decision;
            }
        }
        panic!("it never ends: {:#?}", self.decide());
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Reconciles until nothing changes; every workload succeeds.
    pub fn build(&mut self) -> Decision {
        for _ in 0..40 {
            let decision = self.settle();
            if self.job().is_some() && !self.current().status.is_terminal() {
                self.run();
                self.settle();
                self.succeed();
                continue;
            }
            match decision.requeue_after {
                Some(pause) => self.wait(pause.as_secs() as i64 + 1),
                None => return decision,
            }
        }
        panic!("it never ends");
    }

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
        self.images.insert(repo.pinned(digest));
        self.report(succeeded(digest));
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

    /// Checks invariants that must hold at any time.
    pub fn check(&self) {
        let mut owners = BTreeSet::new();
        for seen in &self.snapshot.workloads {
            let owner = owner_of(&seen.workload).uid.clone();
            assert!(owners.insert(owner), "two workloads for one build");
            let _ = observe(&seen.workload, &seen.pods, None, seen.quiet, self.now);
        }
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
        Outcome::NeedsContainerfile { .. } => return None,
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

pub fn problem(class: ErrorClass, message: &str) -> Problem {
    Problem { class, reason: "x".to_owned(), message: message.to_owned() }
}

pub fn succeeded(digest: Digest) -> Outcome {
    Outcome::Succeeded {
        digest,
        method: JobMethod::Direct,
        bytes_pulled: 0,
        bytes_pushed: 0,
        phases: Phases::default(),
        base_tree: Some(BaseTreeImage {
            // The initial base.
            base: Digest::of(&0_u32.to_be_bytes()),
            image: Digest::of(b"tree"),
        }),
        warnings: Vec::new(),
    }
}

pub fn failed(class: ErrorClass) -> Outcome {
    Outcome::Failed {
        step: Container::ImageBuild,
        class,
        reason: "program-failed".to_owned(),
        message: "dnf ended with 1".to_owned(),
        last_lines: vec!["no package usbguard".to_owned()],
        push: None,
    }
}

pub fn needs_containerfile() -> Outcome {
    let reason = Finding::new("append-to-base", "x");
    Outcome::NeedsContainerfile { reasons: vec![reason] }
}
