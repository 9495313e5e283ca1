//! The API server of the fake cluster: assigns UIDs, rejects what the real one rejects and what
//! mosb must never do, and collects garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, Pod, PodSchedulingGate, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde_json::json;

use super::fake_cluster::FakeCluster;
use crate::kinds::Kind;
use crate::status::{IMAGE_BUILD_DEGRADED, ROLLOUT_DEGRADED};
use crate::workload::InputKind;
use crate::workload::Workload;
use crate::*;
use mosb_image::PinnedRef;
use mosb_plan::api::openshift_build::OpenShiftBuild;
use mosb_plan::api::*;

/// resourceVersions after the writes of one decision, by UID.
pub type Versions = BTreeMap<String, String>;

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
    pub fn act(&mut self, action: &Action, versions: &mut Versions) -> Option<()> {
        match action {
            Action::Create(new) => self.create(new)?,
            Action::Patch(target, patch) => self.patch(target, patch, versions)?,
            Action::ReplaceStatus(target, status) => {
                self.replace_status(target, status, versions)?
            }
            Action::Delete(target) => self.delete(target)?,
            Action::CreateWorkload(attempt) => self.create_workload(attempt)?,
            Action::CreateInputs(attempt, workload) => {
                self.create_inputs(&attempt.build, workload)?
            }
            Action::ArchiveLogs(keep) => {
                assert!(self.build_at(&keep.build_uid).is_some());
                self.logs.push((keep.build_uid.clone(), keep.attempt));
            }
            Action::RecordBaseTree { base, image } => {
                self.snapshot.cluster.base_trees.insert(*base, *image);
            }
            Action::RecordPreparedBase { key, base } => {
                self.snapshot.cluster.prepared_bases.insert(key, *base);
            }
            Action::CreateNodeLogin(_) | Action::Evict { .. } | Action::WriteUserData(_) => {
                panic!("{action}")
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

    fn create(&mut self, new: &NewObject) -> Option<()> {
        match new {
            NewObject::MachineOsConfig(config) => {
                let metadata = self.created(&config.metadata);
                self.snapshot.config = Some(MachineOsConfig { metadata, ..(**config).clone() });
            }
            NewObject::MachineOsBuild(build) => {
                let is_real = build.metadata.annotation(labels::METHOD).is_some();
                // One of a deleted MachineOSConfig is collected at once.
                if is_real && self.is_of_the_config(&build.metadata) {
                    assert!(!self.is_waiting_for_its_seed(), "before it is seeded");
                }
                if self.find(&build.metadata.name).is_some() {
                    return None;
                }
                assert!(is_tag_format(&build.spec.rendered_image_push_spec));
                assert!(build.metadata.labels.values().all(|value| value.len() <= 63));
                let metadata = self.created(&build.metadata);
                self.snapshot.builds.push(MachineOsBuild { metadata, ..(**build).clone() });
            }
            NewObject::Component(config) => self.create_component(config)?,
            NewObject::Rendered(_)
            | NewObject::Workload(_)
            | NewObject::Input(_)
            | NewObject::NodeJob(_) => {
                panic!("{new:?}")
            }
        }
        Some(())
    }

    fn created(&mut self, new: &Metadata) -> Metadata {
        let Metadata { uid, resource_version, creation_timestamp, .. } = self.metadata(&new.name);
        let generation = Some(1);
        Metadata { uid, resource_version, creation_timestamp, generation, ..new.clone() }
    }

    fn patch(&mut self, target: &Target, patch: &Patch, versions: &mut Versions) -> Option<()> {
        match target.kind {
            Kind::MachineConfig => return self.patch_component(target, patch, versions),
            Kind::Job | Kind::Pod => {
                let at = self.workload_at(&target.uid)?;
                let workload = &self.snapshot.workloads[at].workload;
                assert!(self.has_all_inputs(workload), "an input is missing");
                let_go(&mut self.snapshot.workloads[at].workload);
                return Some(());
            }
            _ => {}
        }
        let annotations = &mut self.write(target, versions)?.annotations;
        for (key, value) in &patch.annotations {
            match value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
        if let Some(fields) = patch.spec.as_object() {
            assert_eq!(target.kind, Kind::MachineOsConfig);
            let mut spec = json!(self.config().spec);
            spec.as_object_mut().unwrap().extend(fields.clone());
            self.config().spec = serde_json::from_value(spec).unwrap();
        }
        Some(())
    }

    fn replace_status(
        &mut self,
        target: &Target,
        status: &NewStatus,
        versions: &mut Versions,
    ) -> Option<()> {
        self.write(target, versions)?;
        match status {
            NewStatus::MachineOsBuild(status) => {
                let at = self.build_at(&target.uid)?;
                let build = &mut self.snapshot.builds[at];
                check_status(&build.status, status, &self.confirmed);
                build.status = (**status).clone();
            }
            NewStatus::MachineOsConfig(status) => {
                let config = self.snapshot.config.as_mut()?;
                let image = &status.current_image_pull_spec;
                let builds = &mut self.snapshot.builds.iter();
                let known = *image == config.status.current_image_pull_spec
                    || builds.any(|b| b.status.image() == Some(image));
                assert!(known, "no build says {image}");
                assert!(status.observed_generation >= config.status.observed_generation);
                config.status = (**status).clone();
            }
            NewStatus::Pool(_) => panic!("the reconciler of builds writes no counts"),
            NewStatus::Conditions(conditions) => {
                let others = |list: &[Condition]| -> Vec<Condition> {
                    let list = list.iter();
                    list.filter(|c| ![IMAGE_BUILD_DEGRADED, ROLLOUT_DEGRADED].contains(&&*c.kind))
                        .cloned()
                        .collect()
                };
                let old = &mut self.pool().status.conditions;
                assert_eq!(others(conditions), others(old));
                old.clone_from(conditions);
            }
        }
        Some(())
    }

    fn delete(&mut self, target: &Target) -> Option<()> {
        let (uid, now) = (&target.uid, self.now);
        match target.kind {
            Kind::MachineOsConfig => {
                assert_eq!(self.config().metadata.uid(), uid);
                assert!(self.annotation(labels::MADE_FOR_LABEL).is_some(), "not ours");
                self.snapshot.config = None;
            }
            Kind::MachineOsBuild => {
                let at = self.build_at(uid)?;
                let metadata = &mut self.snapshot.builds[at].metadata;
                assert!(metadata.annotation(labels::INPUTS).is_some(), "not ours");
                metadata.deletion_timestamp = Some(Time(now));
            }
            Kind::MachineConfig => {
                let component = self.component(target)?;
                assert!(component.claim.is_some(), "not ours");
                component.deleting = true;
            }
            Kind::Job | Kind::Pod | Kind::OpenShiftBuild => {
                let at = self.workload_at(uid)?;
                let workload = &mut self.snapshot.workloads[at].workload;
                let owner = owner_of(workload).uid.clone();
                metadata_of(workload).deletion_timestamp = Some(Time(now));
                let at = self.build_at(&owner).expect("its build");
                let build = &self.snapshot.builds[at].metadata;
                assert!(build.annotation(labels::INPUTS).is_some(), "not ours");
            }
            _ => self.snapshot.inputs.retain(|input| input.uid != *uid),
        }
        Some(())
    }

    fn create_workload(&mut self, attempt: &Attempt) -> Option<()> {
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

    fn create_inputs(&mut self, build: &str, workload: &Target) -> Option<()> {
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

    /// Gives the object a new version, if it has the one that the write expects.
    fn write(&mut self, target: &Target, versions: &mut Versions) -> Option<&mut Metadata> {
        let new = self.id();
        let builds = self.snapshot.builds.iter_mut().map(|build| &mut build.metadata);
        let configs = self.snapshot.config.iter_mut().map(|config| &mut config.metadata);
        let pools = self.snapshot.pool.iter_mut().map(|pool| &mut pool.metadata);
        let mut all = builds.chain(configs).chain(pools);
        let metadata = all.find(|metadata| metadata.uid() == target.uid)?;
        let version = next_version(target, metadata.resource_version(), new, versions)?;
        metadata.resource_version = Some(version);
        Some(metadata)
    }

    fn build_at(&self, uid: &str) -> Option<usize> {
        let mut builds = self.snapshot.builds.iter();
        builds.position(|b| b.metadata.uid() == uid)
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

/// The new version, if the object has the one that the write expects.
pub fn next_version(
    target: &Target,
    current: &str,
    new: String,
    versions: &mut Versions,
) -> Option<String> {
    let expected = versions.get(&target.uid).or(target.version.as_ref())?;
    if expected != current {
        return None;
    }
    versions.insert(target.uid.clone(), new.clone());
    Some(new)
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
