//! The API server of the fake cluster: assigns UIDs, rejects what the real one rejects and what
//! mosb must never do, and collects garbage.

mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fake_cluster::FakeCluster;
use crate::action::{Action, BuildEffect};
use mosb_api::image_checks::{CheckMode, CheckModes, CheckName};
use mosb_api::promotion::Approvals;
use mosb_api::*;
use mosb_cluster::kinds;
use mosb_cluster::status::{IMAGE_BUILD_DEGRADED, ROLLOUT_DEGRADED};
use mosb_image::PinnedRef;
use mosb_plan::image_checks::Verdict;
use mosb_reconcile::write::{NewObject, NewStatus, Patch, Target};
use workloads::let_go;
pub use workloads::{metadata_of, owner_of};

/// resourceVersions after the writes of one decision, by UID.
pub type Versions = BTreeMap<String, String>;

fn read<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap()
}

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
        self.snapshot.check_jobs.retain(|seen| {
            let owner = &owner_of(&seen.workload).uid;
            let mut builds = self.snapshot.builds.iter();
            !seen.workload.is_being_deleted()
                && builds.any(|b| b.metadata.uid() == owner && !b.metadata.is_being_deleted())
        });
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
            Action::Effect(effect) => self.apply_effect(effect)?,
            Action::Event(event) => {
                assert!(event.name.len() <= 253);
                if self.names.insert(event.name.clone()) {
                    self.events.push(event.clone());
                }
            }
        }
        Some(())
    }

    fn apply_effect(&mut self, effect: &BuildEffect) -> Option<()> {
        match effect {
            BuildEffect::CreateWorkload(attempt) => self.create_workload(attempt)?,
            BuildEffect::CreateInputs(attempt, workload) => {
                self.create_inputs(&attempt.build, workload)?
            }
            BuildEffect::ArchiveLogs(keep) => {
                assert!(self.build_at(&keep.build_uid).is_some());
                self.logs.push((keep.build_uid.clone(), keep.attempt));
            }
            BuildEffect::RecordBaseTree { key, image } => {
                self.snapshot.cluster.base_trees.insert(key.clone(), *image);
            }
            BuildEffect::RecordPreparedBase { key, base } => {
                self.snapshot.cluster.prepared_bases.insert(key, *base);
            }
        }
        Some(())
    }

    fn create(&mut self, new: &NewObject) -> Option<()> {
        match new.kind {
            kinds::MACHINE_OS_CONFIG => {
                let config: MachineOsConfig = read(&new.body);
                let metadata = self.created(&config.metadata);
                self.snapshot.config = Some(MachineOsConfig { metadata, ..config });
            }
            kinds::MACHINE_OS_BUILD => {
                let build: MachineOsBuild = read(&new.body);
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
                self.snapshot.builds.push(MachineOsBuild { metadata, ..build });
            }
            kinds::MACHINE_CONFIG => self.create_component(&read(&new.body))?,
            kinds::JOB => self.create_check_job(read(&new.body)),
            _ => panic!("{new:?}"),
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
            kinds::MACHINE_CONFIG => return self.patch_component(target, patch, versions),
            kinds::JOB | kinds::POD => {
                let at = self.workload_at(&target.uid)?;
                let workload = &self.snapshot.workloads[at].workload;
                assert!(self.has_all_inputs(workload), "an input is missing");
                let_go(&mut self.snapshot.workloads[at].workload, &patch.spec);
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
            assert_eq!(target.kind, kinds::MACHINE_OS_CONFIG);
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
        match (target.kind, status) {
            (kinds::MACHINE_OS_BUILD, NewStatus::Whole(status)) => {
                let status: MachineOsBuildStatus = read(status);
                let at = self.build_at(&target.uid)?;
                self.check_signed(&self.snapshot.builds[at], &status);
                let build = &mut self.snapshot.builds[at];
                check_status(&build.status, &status, &self.confirmed);
                build.status = status;
            }
            (kinds::MACHINE_OS_CONFIG, NewStatus::Whole(status)) => {
                let status: MachineOsConfigStatus = read(status);
                let passed = self.own_checks_passed(&status.current_image_pull_spec);
                let config = self.snapshot.config.as_mut()?;
                let image = &status.current_image_pull_spec;
                let builds = &mut self.snapshot.builds.iter();
                let known = *image == config.status.current_image_pull_spec
                    || builds.any(|b| b.status.image() == Some(image));
                assert!(known, "no build says {image}");
                if *image != config.status.current_image_pull_spec {
                    assert!(
                        self.served.contains(image) && !is_rejected(&config.metadata, image)
                            || may_be_in_service(&config.metadata, image, &self.verdicts) && passed,
                        "{image} passed its gate"
                    );
                    self.served.insert(image.clone());
                }
                assert!(status.observed_generation >= config.status.observed_generation);
                config.status = status;
            }
            (kinds::MACHINE_CONFIG_POOL, NewStatus::Fields(fields)) => {
                assert_eq!(fields.as_object().unwrap().len(), 1, "mosb counts nothing here");
                let conditions: Vec<Condition> = read(&fields["conditions"]);
                let others = |list: &[Condition]| -> Vec<Condition> {
                    let list = list.iter();
                    list.filter(|c| ![IMAGE_BUILD_DEGRADED, ROLLOUT_DEGRADED].contains(&&*c.kind))
                        .cloned()
                        .collect()
                };
                let old = &mut self.pool().status.conditions;
                assert_eq!(others(&conditions), others(old));
                *old = conditions;
            }
            other => panic!("{other:?}"),
        }
        Some(())
    }

    /// What a build made has to be signed before the build ends, and what is called signed is.
    fn check_signed(&self, build: &MachineOsBuild, new: &MachineOsBuildStatus) {
        let Some(image) = new.image().filter(|_| build.status.image().is_none()) else {
            return;
        };
        let signing = self.snapshot.cluster.signing.as_ref().expect("valid settings");
        let config = &self.snapshot.config.as_ref().unwrap().metadata;
        let is_made =
            !build.is_pre_built() && build.metadata.annotation(labels::ADOPTED_FROM).is_none();
        let is_called_signed = build.metadata.annotation(labels::SIGNED).is_some() && is_made;
        let has_to_be = signing.required && signing.secret_of(config).unwrap().is_some();
        let is_signed = self.signed.contains(&image.parse().unwrap());
        assert!(!(is_made && has_to_be || is_called_signed) || is_signed, "{image} is not signed");
    }

    fn delete(&mut self, target: &Target) -> Option<()> {
        let (uid, now) = (&target.uid, self.now);
        match target.kind {
            kinds::MACHINE_OS_CONFIG => {
                assert_eq!(self.config().metadata.uid(), uid);
                assert!(self.annotation(labels::MADE_FOR_LABEL).is_some(), "not ours");
                self.snapshot.config = None;
            }
            kinds::MACHINE_OS_BUILD => {
                let at = self.build_at(uid)?;
                let metadata = &mut self.snapshot.builds[at].metadata;
                assert!(metadata.annotation(labels::INPUTS).is_some(), "not ours");
                metadata.deletion_timestamp = Some(Time(now));
            }
            kinds::MACHINE_CONFIG => {
                let component = self.component(target)?;
                assert!(component.claim.is_some(), "not ours");
                component.deleting = true;
            }
            kinds::JOB if self.check_job(uid).is_some() => {
                let seen = self.check_job(uid)?;
                metadata_of(&mut seen.workload).deletion_timestamp = Some(Time(now));
            }
            kinds::JOB | kinds::POD | kinds::OPENSHIFT_BUILD => {
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

    fn workload_at(&self, uid: &str) -> Option<usize> {
        let mut workloads = self.snapshot.workloads.iter();
        workloads.position(|seen| seen.workload.uid() == uid)
    }
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

fn is_rejected(config: &Metadata, image: &str) -> bool {
    let digest = image.parse::<PinnedRef>().unwrap().digest();
    let approvals = Approvals::of(config).unwrap();
    approvals.find(digest).is_some_and(|decided| !decided.approved)
}

/// Whether an image may come into service for the first time: its checks passed or are overridden,
/// nobody rejected it, and it was approved where that is asked for.
fn may_be_in_service(
    config: &Metadata,
    image: &str,
    verdicts: &BTreeMap<CheckName, Verdict>,
) -> bool {
    let digest = image.parse::<PinnedRef>().unwrap().digest();
    let overrides = config.annotation(labels::OVERRIDE_CHECK).unwrap_or_default();
    let is_failed = |(check, verdict): (&CheckName, &Verdict)| {
        let modes = CheckModes::of(config, &Default::default()).unwrap();
        matches!(verdict, Verdict::Failed(_))
            && modes.get(check.as_str()) == Some(CheckMode::Block)
            && !overrides.contains(&format!("{}@{digest}", check.as_str()))
    };
    let is_approved = Approvals::of(config).unwrap().find(digest).is_some();
    !verdicts.iter().any(is_failed)
        && !is_rejected(config, image)
        && (is_approved || config.annotation(labels::PROMOTE) != Some("manual"))
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
