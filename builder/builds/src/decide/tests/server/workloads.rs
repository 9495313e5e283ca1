//! The workloads of the fake API server, and their inputs.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, Pod, PodSchedulingGate, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use crate::decide::tests::fake_cluster::FakeCluster;
use crate::*;
use mosb_api::openshift_build::OpenShiftBuild;
use mosb_api::*;
use mosb_plan::payload::BuildSpec;
use mosb_reconcile::write::Target;
use mosb_workload::{InputKind, Workload};
use serde_json::Value;

impl FakeCluster {
    pub(super) fn create_workload(&mut self, attempt: &Attempt) -> Option<()> {
        let Attempt { build, build_uid, number, builder, method, prepared } = attempt;
        let name = format!("build-{build}");
        let is_there = |seen: &SeenWorkload| seen.workload.name() == name;
        if self.snapshot.workloads.iter().any(is_there) {
            return None;
        }
        let owner = &self.snapshot.builds[self.build_at(build_uid)?];
        if self.is_of_the_config(&owner.metadata) {
            assert!(!self.is_waiting_for_its_seed(), "before it is seeded");
        }
        let uid = format!("uid-{}", self.id());
        self.made.push((build_uid.clone(), uid.clone(), *method));
        self.prepared_uses.push(*prepared);
        let needs = needs(build).map(|(kind, name)| format!("{}/{name}", kind.as_str()));
        let metadata = ObjectMeta {
            name: Some(name),
            uid: Some(uid),
            resource_version: Some("1".to_owned()),
            creation_timestamp: Some(Time(self.now)),
            annotations: Some(
                [
                    (labels::ATTEMPT.to_owned(), number.to_string()),
                    (labels::NEEDS.to_owned(), needs.join(" ")),
                    (labels::BUILD_SPEC.to_owned(), BuildSpec::FORMAT.to_string()),
                ]
                .into(),
            ),
            owner_references: Some(vec![OwnerReference {
                kind: "MachineOSBuild".to_owned(),
                name: build.clone(),
                uid: build_uid.clone(),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        };
        if *builder == ImageBuilderType::CustomPod {
            self.create_input(build, (InputKind::ServiceAccount, format!("build-{build}")), "");
        }
        self.snapshot.workloads.push(SeenWorkload {
            workload: suspended(*builder, metadata),
            pods: Vec::new(),
            quiet: Duration::MAX,
        });
        assert!(
            self.snapshot.workloads.len() <= self.snapshot.builds.len(),
            "two workloads for one build"
        );
        Some(())
    }

    pub(super) fn create_inputs(&mut self, build: &str, workload: &Target) -> Option<()> {
        self.workload_at(&workload.uid)?;
        for need in needs(build) {
            self.create_input(build, need, &workload.uid);
        }
        Some(())
    }

    /// Creates an input unless it exists. The ServiceAccount of a Pod is owned by its build.
    fn create_input(&mut self, build: &str, (kind, name): (InputKind, String), workload_uid: &str) {
        let is_it = |one: &SeenInput| one.kind == kind && one.name == name;
        if self.snapshot.inputs.iter().any(is_it) {
            return;
        }
        let uid = format!("uid-{}", self.id());
        self.snapshot.inputs.push(SeenInput {
            kind,
            name,
            uid,
            workload_uid: workload_uid.to_owned(),
            build: build.to_owned(),
            deleting: false,
        });
    }

    /// Whether any workload may start.
    pub fn has_begun(&self) -> bool {
        let mut workloads = self.snapshot.workloads.iter().map(|seen| &seen.workload);
        let Some(workload) = workloads.find(|workload| !workload.is_being_deleted()) else {
            return false;
        };
        match workload {
            Workload::Job(job) => job.spec.as_ref().unwrap().suspend == Some(false),
            Workload::Pod(pod) => {
                let gates = &pod.spec.as_ref().unwrap().scheduling_gates;
                gates.as_ref().is_none_or(Vec::is_empty)
            }
            Workload::Build(_) => self.has_all_inputs(workload),
        }
    }

    pub(super) fn has_all_inputs(&self, workload: &Workload) -> bool {
        needs(&owner_of(workload).name).into_iter().all(|need| {
            let is_it = |one: &SeenInput| {
                (one.kind, &*one.name, &*one.workload_uid) == (need.0, &*need.1, workload.uid())
                    && !one.deleting
            };
            self.snapshot.inputs.iter().any(is_it)
        })
    }
}

fn suspended(builder: ImageBuilderType, metadata: ObjectMeta) -> Workload {
    match builder {
        ImageBuilderType::Job => Job {
            metadata,
            spec: Some(JobSpec { suspend: Some(true), ..JobSpec::default() }),
            status: None,
        }
        .into(),
        ImageBuilderType::CustomPod => Pod {
            metadata,
            spec: Some(PodSpec {
                init_containers: Some(vec![Container {
                    name: "image-build".to_owned(),
                    ..Container::default()
                }]),
                containers: vec![Container {
                    name: "image-push".to_owned(),
                    ..Container::default()
                }],
                scheduling_gates: Some(vec![PodSchedulingGate {
                    name: "mosb.dev/inputs".to_owned(),
                }]),
                ..PodSpec::default()
            }),
            status: None,
        }
        .into(),
        ImageBuilderType::OpenShiftImage => {
            OpenShiftBuild { metadata, ..OpenShiftBuild::default() }.into()
        }
    }
}

/// Applies a patch of the `spec` that lets it start.
pub(super) fn let_go(workload: &mut Workload, spec: &Value) {
    match workload {
        Workload::Job(job) => job.spec.as_mut().unwrap().suspend = spec["suspend"].as_bool(),
        Workload::Pod(pod) => {
            let deleted = &spec["schedulingGates"][0];
            assert_eq!(deleted["$patch"], "delete");
            let gates = pod.spec.as_mut().unwrap().scheduling_gates.as_mut().unwrap();
            gates.retain(|gate| deleted["name"] != *gate.name);
        }
        Workload::Build(_) => panic!("a Build begins by itself"),
    }
}

pub fn metadata_of(workload: &mut Workload) -> &mut ObjectMeta {
    match workload {
        Workload::Job(job) => &mut job.metadata,
        Workload::Pod(pod) => &mut pod.metadata,
        Workload::Build(build) => &mut build.metadata,
    }
}

pub fn owner_of(workload: &Workload) -> &OwnerReference {
    &workload.metadata().owner_references.as_ref().unwrap()[0]
}

fn needs(build: &str) -> [(InputKind, String); 3] {
    [
        (InputKind::ConfigMap, format!("mc-{build}")),
        (InputKind::ConfigMap, format!("digest-{build}")),
        (InputKind::Secret, format!("final-{build}")),
    ]
}
