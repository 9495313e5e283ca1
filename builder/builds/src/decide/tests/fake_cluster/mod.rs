//! A fake cluster: what users, pods and a registry do.

mod lookups;
mod outcomes;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::server::owner_of;
use crate::*;
use mosb_api::image_checks::CheckName;
use mosb_api::openshift_build::OpenShiftBuildStatus;
use mosb_api::rollout::MachinePart;
use mosb_api::*;
use mosb_build::JobMethod;
use mosb_build::result::{
    BaseTreeImage, JobResult, Outcome, Phases, PreparedImage, Step as Container,
};
use mosb_cluster::status::{EventReason, IMAGE_BUILD_DEGRADED};
use mosb_image::{Digest, ImageRef, PinnedRef, RepoRef};
use mosb_plan::image_checks::Verdict;
use mosb_reconcile::Problem;
use mosb_reconcile::write::Event;
use mosb_registry::Confirmed;
use mosb_types::{ErrorClass, Finding, canonical_json};
use mosb_workload::{Workload, observe};

pub use super::own_checks::CheckEnd;
pub use outcomes::*;

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
    /// Images that have signatures in the registry.
    pub signed: BTreeSet<PinnedRef>,
    /// Why images can't be signed.
    pub signing_problem: Option<Problem>,
    /// Images that were in service.
    pub served: BTreeSet<String>,
    /// What the checks of images find; they pass otherwise.
    pub verdicts: BTreeMap<CheckName, Verdict>,
    /// How the Jobs of own checks ended last, by image and command: whether they passed.
    pub ended_checks: BTreeMap<(String, Vec<String>), bool>,
    /// All Jobs of own checks that were created.
    pub made_checks: Vec<String>,
    /// Emitted events, in order.
    pub events: Vec<Event>,
    pub names: BTreeSet<String>,
    /// The planner returns this instead of a plan.
    pub problem: Option<Problem>,
    pub registry_problem: Option<Problem>,
    pub api_problem: Option<Problem>,
    /// Whether an image that the registry has is what a build of its tag would make.
    pub existing: Result<bool, Problem>,
    /// A result that is in the API server but not in the watch yet.
    pub unseen: Option<JobResult>,
    pub bad_containerfile: bool,
    pub warnings: Vec<Finding>,
    pub base: u32,
    /// The image format.
    pub format: u32,
    /// Whether rendered configs differ in fields that machines can't apply.
    pub os_changes: bool,
    /// Whether rendered configs differ in keys and password only.
    pub login_changes: bool,
    /// Whether rendered configs differ in files only that running machines can take on.
    pub live_changes: bool,
    /// The machine part of each rendered config.
    pub machine_part: Digest,
    /// What machines can't take on of another rendered config.
    pub unreconcilable: Vec<Finding>,
    /// Whether the pre-built image equals the planned one.
    pub recognises: bool,
    /// The inputs of prepared bases, if builds with a Containerfile can have one.
    pub prepared: Option<Digest>,
    /// Whether a policy requires signatures of them.
    pub prepared_needs_signature: bool,
    /// Whether a part of the Containerfile needs the config.
    pub has_last_part: bool,
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
    /// What each of them has to do with a prepared base.
    pub prepared_uses: Vec<PreparedUse>,
}

impl FakeCluster {
    /// A pool without a MachineOSConfig.
    pub fn new() -> Self {
        let mut fake = Self {
            snapshot: Snapshot::default(),
            now: "2026-01-01T00:00:00.25Z".parse().unwrap(),
            images: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            signed: BTreeSet::new(),
            signing_problem: None,
            served: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            ended_checks: BTreeMap::new(),
            made_checks: Vec::new(),
            events: Vec::new(),
            names: BTreeSet::new(),
            problem: None,
            registry_problem: None,
            api_problem: None,
            existing: Ok(false),
            unseen: None,
            bad_containerfile: false,
            warnings: Vec::new(),
            base: 0,
            format: 1,
            os_changes: false,
            login_changes: false,
            live_changes: false,
            machine_part: MachinePart::default().digest(),
            unreconcilable: Vec::new(),
            recognises: false,
            prepared: None,
            prepared_needs_signature: false,
            has_last_part: false,
            asked: Vec::new(),
            count: 0,
            content: None,
            os_images: BTreeMap::new(),
            logs: Vec::new(),
            made: Vec::new(),
            prepared_uses: Vec::new(),
        };
        fake.snapshot.name = "worker".to_owned();
        fake.snapshot.cluster.namespace = "ns".to_owned();
        fake.snapshot.cluster.checks = Some(Default::default());
        fake.snapshot.cluster.signing = Some(Default::default());
        fake.nodes(&[("linux/amd64", &[])]);
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

    /// The pool has these nodes, by platform.
    pub fn nodes(&mut self, nodes: &[(&str, &[&str])]) {
        let nodes = nodes.iter().map(|(platform, names)| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            (platform.parse().unwrap(), names)
        });
        self.snapshot.pool_platforms = nodes.collect();
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

    /// The MachineOSConfig has another version, so that what was decided before is rejected.
    pub fn touch(&mut self) {
        let version = self.id();
        self.config().metadata.resource_version = Some(version);
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
        let found = condition(conditions, mosb_cluster::status::BLOCKED)?;
        Some((found.status.clone(), found.reason.clone()))
    }

    pub fn event_count(&self, reason: EventReason) -> usize {
        self.events.iter().filter(|event| event.reason == reason.as_str()).count()
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

    /// Reconciles until nothing changes; every workload succeeds, and every own check passes.
    pub fn build(&mut self) -> Decision {
        for _ in 0..40 {
            let decision = self.settle();
            if !self.snapshot.check_jobs.is_empty() {
                self.end_checks(CheckEnd::Passed);
                continue;
            }
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

    /// Checks invariants that must hold at any time.
    pub fn check(&self) {
        let mut jobs = BTreeSet::new();
        for seen in &self.snapshot.check_jobs {
            assert!(jobs.insert(seen.workload.name()), "two Jobs for one check");
        }
        let mut owners = BTreeSet::new();
        for seen in &self.snapshot.workloads {
            let owner = owner_of(&seen.workload).uid.clone();
            assert!(owners.insert(owner), "two workloads for one build");
            let _ = observe(&seen.workload, &seen.pods, None, seen.quiet, self.now);
        }
    }
}
