//! The API server of the fake cluster: assigns UIDs, rejects what the real one rejects and what
//! mosb must never do, and collects garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, Pod, PodSchedulingGate, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use super::fake_cluster::FakeCluster;
use crate::status::IMAGE_BUILD_DEGRADED;
use crate::workload::InputKind;
use crate::workload::Workload;
use crate::*;
use mosb_image::PinnedRef;
use mosb_plan::api::openshift_build::OpenShiftBuild;
use mosb_plan::api::*;

impl FakeCluster {
    /// The garbage collector: deleted workloads, then deleted builds, then objects without an
    /// owner.
    pub fn collect(&mut self) {
        let uid = |config: &MachineOsConfig| config.metadata.uid().to_owned();
        let config = self.snapshot.config.as_ref().map(uid);
        let now = self.now;
        for build in &mut self.snapshot.builds {
            let owner = &build.metadata.owner_references;
            if owner.iter().any(|owner| Some(&owner.uid) != config.as_ref()) {
                build.metadata.deletion_timestamp.get_or_insert(Time(now));
            }
        }
        let going: BTreeSet<String> = self
            .snapshot
            .builds
            .iter()
            .filter(|b| b.metadata.is_being_deleted())
            .map(|b| b.metadata.uid().to_owned())
            .collect();
        let gone: Vec<String> = self
            .snapshot
            .workloads
            .iter()
            .filter(|seen| {
                let owner = seen.workload.metadata().owner_references.iter().flatten();
                seen.workload.is_being_deleted()
                    || owner.into_iter().any(|owner| going.contains(&owner.uid))
            })
            .map(|seen| seen.workload.uid().to_owned())
            .collect();
        for uid in gone {
            self.remove_job(&uid);
        }
        let going: BTreeSet<&str> = self
            .snapshot
            .builds
            .iter()
            .filter(|b| b.metadata.is_being_deleted())
            .map(|b| &*b.metadata.name)
            .collect();
        self.snapshot
            .inputs
            .retain(|input| !(input.workload_uid.is_empty() && going.contains(&*input.build)));
        self.snapshot.builds.retain(|b| !b.metadata.is_being_deleted());
        self.collect_components();
    }

    /// Applies an action as the API server would; `None` on a conflict.
    pub fn act(&mut self, action: &Action, versions: &mut BTreeMap<String, String>) -> Option<()> {
        match action {
            Action::CreateConfig { spec, .. } => {
                self.opt_in();
                self.annotate(labels::MADE_FOR_LABEL, "");
                self.config().spec = spec.clone();
            }
            Action::UpdateConfig { spec, .. } => self.config().spec = spec.clone(),
            Action::DeleteConfig { uid, .. } => {
                assert_eq!(self.config().metadata.uid(), uid);
                assert!(self.annotation(labels::MADE_FOR_LABEL).is_some(), "not ours");
                self.snapshot.config = None;
            }
            Action::CreateComponent { .. }
            | Action::UpdateComponent { .. }
            | Action::DeleteComponent { .. } => return self.act_on_component(action),
            Action::CreateBuild { build } => {
                let is_real = build.metadata.annotation(labels::METHOD).is_some();
                // One of a deleted MachineOSConfig is collected at once.
                if is_real && self.is_of_the_config(&build.metadata) {
                    assert!(!self.is_waiting_for_its_seed(), "before it is seeded");
                }
                if self.find(&build.metadata.name).is_some() {
                    return None;
                }
                let mut build = (**build).clone();
                let made = self.metadata(&build.metadata.name);
                assert!(is_tag_format(&build.spec.rendered_image_push_spec));
                assert!(build.metadata.labels.values().all(|value| value.len() <= 63));
                build.metadata = Metadata {
                    labels: build.metadata.labels,
                    annotations: build.metadata.annotations,
                    owner_references: build.metadata.owner_references,
                    finalizers: build.metadata.finalizers,
                    ..made
                };
                self.snapshot.builds.push(build);
            }
            Action::WriteBuildStatus { uid, resource_version, status, .. } => {
                let version = self.id();
                let images = self.confirmed.clone();
                let at = self.build_at(uid)?;
                let build = &mut self.snapshot.builds[at];
                write(&mut build.metadata, resource_version, version, versions)?;
                check_status(&build.status, status, &images);
                build.status = (**status).clone();
            }
            Action::AnnotateBuild(annotate) => {
                let version = self.id();
                let at = self.build_at(&annotate.uid)?;
                change(&mut self.snapshot.builds[at].metadata, annotate, version, versions)?;
            }
            Action::DeleteBuild { uid, .. } => {
                let now = self.now;
                let at = self.build_at(uid)?;
                let metadata = &mut self.snapshot.builds[at].metadata;
                assert!(metadata.annotation(labels::INPUTS).is_some(), "not ours");
                metadata.deletion_timestamp = Some(Time(now));
            }
            Action::CreateWorkload { build, build_uid, attempt, builder, method } => {
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
                let needs = needs(build).map(|(kind, name)| format!("{}/{name}", kind.as_str()));
                let metadata = ObjectMeta {
                    name: Some(name),
                    uid: Some(uid),
                    resource_version: Some("1".to_owned()),
                    creation_timestamp: Some(Time(self.now)),
                    annotations: Some(
                        [
                            (labels::ATTEMPT.to_owned(), attempt.to_string()),
                            (labels::NEEDS.to_owned(), needs.join(" ")),
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
                    self.make_account(build);
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
            }
            Action::CreateInputs { build, workload_uid, .. } => {
                self.workload_at(workload_uid)?;
                for (kind, name) in needs(build) {
                    let is_it = |one: &&SeenInput| one.kind == kind && one.name == name;
                    if self.snapshot.inputs.iter().any(|one| is_it(&one)) {
                        continue;
                    }
                    let uid = format!("uid-{}", self.id());
                    self.snapshot.inputs.push(SeenInput {
                        kind,
                        name,
                        uid,
                        workload_uid: workload_uid.clone(),
                        build: build.clone(),
                        deleting: false,
                    });
                }
            }
            Action::Unsuspend { uid, .. } => {
                let at = self.workload_at(uid)?;
                let workload = &self.snapshot.workloads[at].workload;
                assert!(self.has_all_inputs(workload), "an input is missing");
                let_go(&mut self.snapshot.workloads[at].workload);
            }
            Action::ArchiveLogs(keep) => {
                assert!(self.build_at(&keep.build_uid).is_some());
                self.logs.push((keep.build_uid.clone(), keep.attempt));
            }
            Action::DeleteWorkload { uid, .. } => {
                let now = self.now;
                let at = self.workload_at(uid)?;
                let workload = &mut self.snapshot.workloads[at].workload;
                let owner = owner_of(workload).uid.clone();
                metadata_of(workload).deletion_timestamp = Some(Time(now));
                let at = self.build_at(&owner).expect("its build");
                let build = &self.snapshot.builds[at].metadata;
                assert!(build.annotation(labels::INPUTS).is_some(), "not ours");
            }
            Action::DeleteInput { uid, .. } => {
                let ours = |one: &SeenInput| one.uid != *uid;
                self.snapshot.inputs.retain(ours);
            }
            Action::AnnotateConfig(annotate) => {
                let version = self.id();
                let config = self.snapshot.config.as_mut()?;
                change(&mut config.metadata, annotate, version, versions)?;
            }
            Action::WriteConfigStatus { uid, resource_version, status, .. } => {
                let version = self.id();
                let config = self.snapshot.config.as_mut()?;
                if config.metadata.uid() != uid {
                    return None;
                }
                write(&mut config.metadata, resource_version, version, versions)?;
                let image = &status.current_image_pull_spec;
                let builds = &mut self.snapshot.builds.iter();
                let known = *image == config.status.current_image_pull_spec
                    || builds.any(|b| b.status.image() == Some(image));
                assert!(known, "no build says {image}");
                assert!(status.observed_generation >= config.status.observed_generation);
                config.status = (**status).clone();
            }
            Action::WritePoolCondition { conditions, resource_version, .. } => {
                let version = self.id();
                let pool = self.snapshot.pool.as_mut()?;
                write(&mut pool.metadata, resource_version, version, versions)?;
                let others = |list: &[Condition]| -> Vec<Condition> {
                    let list = list.iter();
                    list.filter(|c| c.kind != IMAGE_BUILD_DEGRADED).cloned().collect()
                };
                assert_eq!(others(conditions), others(&pool.status.conditions));
                pool.status.conditions = conditions.clone();
            }
            Action::AnnotatePool(annotate) => {
                let version = self.id();
                let pool = self.snapshot.pool.as_mut()?;
                change(&mut pool.metadata, annotate, version, versions)?;
            }
            Action::RecordBaseTree { base, image } => {
                self.snapshot.cluster.base_trees.insert(*base, *image);
            }
            Action::Event(event) => {
                assert!(event.name.len() <= 253);
                if self.names.insert(event.name.clone()) {
                    self.events.push((event.reason, event.note.clone()));
                }
            }
        }
        Some(())
    }

    fn build_at(&self, uid: &str) -> Option<usize> {
        let mut builds = self.snapshot.builds.iter();
        builds.position(|b| b.metadata.uid() == uid)
    }

    /// The ServiceAccount of a Pod, owned by the MachineOSBuild.
    fn make_account(&mut self, build: &str) {
        let is_it = |one: &SeenInput| one.kind == InputKind::ServiceAccount && one.build == build;
        if !self.snapshot.inputs.iter().any(is_it) {
            let uid = format!("uid-{}", self.id());
            self.snapshot.inputs.push(SeenInput {
                kind: InputKind::ServiceAccount,
                name: format!("build-{build}"),
                uid,
                workload_uid: String::new(),
                build: build.to_owned(),
                deleting: false,
            });
        }
    }

    /// Whether any workload may start.
    pub fn has_begun(&self) -> bool {
        let mut workloads = self.snapshot.workloads.iter().map(|seen| &seen.workload);
        let Some(workload) = workloads.find(|workload| !workload.is_being_deleted()) else {
            return false;
        };
        match workload {
            Workload::Job(job) => job.spec.as_ref().unwrap().suspend == Some(false),
            Workload::Pod(pod) => pod.spec.as_ref().unwrap().scheduling_gates.is_none(),
            Workload::Build(_) => self.has_all_inputs(workload),
        }
    }

    fn has_all_inputs(&self, workload: &Workload) -> bool {
        needs(&owner_of(workload).name).into_iter().all(|need| {
            let is_it = |one: &SeenInput| {
                (one.kind, &*one.name, &*one.workload_uid) == (need.0, &*need.1, workload.uid())
                    && !one.deleting
            };
            self.snapshot.inputs.iter().any(is_it)
        })
    }

    fn workload_at(&self, uid: &str) -> Option<usize> {
        let mut workloads = self.snapshot.workloads.iter();
        workloads.position(|seen| seen.workload.uid() == uid)
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

fn let_go(workload: &mut Workload) {
    match workload {
        Workload::Job(job) => job.spec.as_mut().unwrap().suspend = Some(false),
        Workload::Pod(pod) => pod.spec.as_mut().unwrap().scheduling_gates = None,
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

fn write(
    metadata: &mut Metadata,
    seen: &str,
    version: String,
    versions: &mut BTreeMap<String, String>,
) -> Option<()> {
    let uid = metadata.uid().to_owned();
    let expected = versions.get(&uid).map_or(seen, String::as_str);
    if expected != metadata.resource_version() {
        return None;
    }
    versions.insert(uid, version.clone());
    metadata.resource_version = Some(version);
    Some(())
}

fn change(
    metadata: &mut Metadata,
    annotate: &Annotate,
    version: String,
    versions: &mut BTreeMap<String, String>,
) -> Option<()> {
    if metadata.uid() != annotate.uid {
        return None;
    }
    write(metadata, &annotate.resource_version, version, versions)?;
    metadata.annotations.extend(annotate.set.clone());
    metadata.annotations.retain(|key, _| !annotate.remove.contains(key));
    Some(())
}

/// The rules of the real CRD (`docs/reference/api.md`, MachineOSBuild); reported images must exist
/// in a registry.
fn check_status(
    old: &MachineOsBuildStatus,
    new: &MachineOsBuildStatus,
    images: &BTreeSet<PinnedRef>,
) {
    assert_eq!(new.conditions.len(), 5);
    assert!(new.conditions.iter().filter(|c| c.is_true()).count() <= 1);
    assert!(
        new.conditions.iter().all(|c| !c.reason.is_empty() && c.message.chars().count() <= 32_768)
    );
    assert!(!old.is_terminal() || old.conditions == new.conditions, "frozen");
    for (old, new) in [(&old.build_start, &new.build_start), (&old.build_end, &new.build_end)] {
        assert!(old.is_none() || old == new, "immutable");
    }
    if let Some(end) = &new.build_end {
        let start = new.build_start.as_ref().expect("a start");
        assert!(start.0.as_second() < end.0.as_second());
    }
    if !new.digested_image_push_spec.is_empty()
        && new.digested_image_push_spec != old.digested_image_push_spec
    {
        let image: PinnedRef = new.digested_image_push_spec.parse().unwrap();
        assert!(images.contains(&image), "unconfirmed");
        assert!(is_digest_format(&new.digested_image_push_spec, true));
    }
}
