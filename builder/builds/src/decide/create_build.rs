//! Creates new builds, and interrupts and deletes superseded ones.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::DecisionBuilder;
use crate::action::{Action, new_object};
use crate::lookup::Planned;
use mosb_api::{
    API_VERSION, BuildOn, MachineOsBuild, MachineOsBuildSpec, MachineOsBuildStatus, Metadata,
    NameRef, OwnerReference, labels, shortened,
};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{BuildPhase, EventReason, build_status, new_event, regarding};
use mosb_plan::plan::BaseRelease;

/// The longest value of a label.
pub(super) const MAX_LABEL_VALUE: usize = 63;

/// The annotations about the base of an image.
const OF_BASE: [&str; 4] =
    [labels::BASE, labels::BASE_NAME, labels::BASE_CREATED, labels::BASE_VERSION];

impl DecisionBuilder<'_> {
    /// Creates a build from this plan. With a source, the build adopts its image.
    pub(super) fn create(&mut self, planned: &Planned, source: Option<&MachineOsBuild>) {
        let desired = &self.desired;
        let annotation = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let reasons: Vec<&str> = planned.reasons.iter().map(|one| &*one.code).collect();
        let mut annotations = [
            annotation(labels::INPUTS, &planned.inputs),
            annotation(labels::WANTED, &desired.wanted),
            annotation(labels::BASE, &planned.base.to_string()),
            annotation(labels::BASE_NAME, planned.base_name.as_str()),
            annotation(labels::PLATFORM, &planned.platform.to_string()),
            annotation(labels::RENDERED_IMAGE_PUSH_SECRET, &desired.push_secret),
        ]
        .into_iter()
        .collect::<BTreeMap<_, _>>();
        let BaseRelease { created, version } = &planned.base_release;
        annotations.extend(created.map(|at| annotation(labels::BASE_CREATED, &format!("{at:.0}"))));
        annotations.extend(version.as_ref().map(|is| annotation(labels::BASE_VERSION, is)));
        match source {
            Some(source) => {
                let name = &source.metadata.name;
                annotations.extend([annotation(labels::ADOPTED_FROM, name)]);
                if !planned.is_recognised {
                    // Its tag may name another base by now.
                    for key in OF_BASE {
                        annotations.remove(key);
                        let its = source.metadata.annotation(key);
                        annotations.extend(its.map(|is| annotation(key, is)));
                    }
                }
                let signed = source.metadata.annotation(labels::SIGNED);
                annotations.extend(signed.map(|key| annotation(labels::SIGNED, key)));
                if planned.is_recognised {
                    annotations.extend([annotation(labels::RECOGNISED, "true")]);
                } else if desired.build_on == BuildOn::EveryConfig {
                    annotations.extend([annotation(labels::SAME_LAYER, "true")]);
                }
            }
            None => {
                annotations.extend([
                    annotation(labels::METHOD, planned.method.as_str()),
                    annotation(labels::ATTEMPT, "1"),
                ]);
                if self.is_made_anew() {
                    annotations.extend([annotation(labels::ANEW, "true")]);
                }
                let prepared = self.prepared_of_new_build(planned);
                annotations.extend(prepared.map(|word| annotation(labels::PREPARED, word)));
                if !reasons.is_empty() {
                    annotations.extend([annotation(labels::REASON, &reasons.join(","))]);
                }
            }
        }
        if !self.has_config_daemon() {
            let part = planned.machine_part.to_string();
            annotations.extend([annotation(labels::MACHINE_PART, &part)]);
        }
        if let Some(from) = self.live_from(planned, source) {
            annotations.extend([annotation(labels::LIVE_FROM, &from)]);
        }
        let build = self.new_build(planned.build.as_str(), annotations);
        self.emit_config_change_event(planned);
        self.update_warnings();
        self.actions.push(Action::Create(new_object::build(&build)));
    }

    /// A build of the desired state, with this name and these annotations.
    pub(super) fn new_build(
        &self,
        name: &str,
        annotations: BTreeMap<String, String>,
    ) -> MachineOsBuild {
        let desired = &self.desired;
        let owner = &self.config.metadata;
        let label = |key: &str, value: &str| (key.to_owned(), shortened(value, MAX_LABEL_VALUE));
        MachineOsBuild {
            metadata: Metadata {
                name: name.to_owned(),
                labels: [
                    label(labels::TARGET_MACHINE_CONFIG_POOL, desired.pool.as_str()),
                    label(labels::RENDERED_MACHINE_CONFIG, desired.rendered.as_str()),
                    label(labels::MACHINE_OS_CONFIG, &owner.name),
                    label(labels::MACHINEOSCONFIG, &owner.name),
                ]
                .into(),
                annotations,
                finalizers: vec!["foregroundDeletion".to_owned()],
                owner_references: vec![OwnerReference {
                    api_version: API_VERSION.to_owned(),
                    kind: "MachineOSConfig".to_owned(),
                    name: owner.name.clone(),
                    uid: owner.uid().to_owned(),
                    controller: Some(true),
                    block_owner_deletion: Some(true),
                }],
                ..Metadata::default()
            },
            spec: MachineOsBuildSpec {
                machine_config: NameRef { name: desired.rendered.to_string() },
                machine_os_config: NameRef { name: owner.name.clone() },
                rendered_image_push_spec: desired.push_spec(),
            },
            status: MachineOsBuildStatus::default(),
        }
    }

    /// Emits an event on the pool: its rendered config changed.
    fn emit_config_change_event(&mut self, planned: &Planned) {
        let named = self.config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD);
        let mut builds = self.snapshot.builds.iter();
        let before = builds.find(|build| Some(&*build.metadata.name) == named);
        let (Some(before), new) = (before, self.desired.rendered.as_str()) else {
            return;
        };
        let old = &before.spec.machine_config.name;
        if old == new {
            return;
        }
        let on = regarding("MachineConfigPool", &self.pool.metadata);
        let note = format!("{old} is followed by {new}");
        let edge = planned.build.as_str();
        let event = new_event(on, EventReason::PoolConfigChanged, edge, note);
        self.actions.push(Action::Event(event));
    }

    /// Interrupts all builds of ours except `keep` and those that succeeded, and cleans up the
    /// workloads of the latter.
    pub(super) fn supersede(&mut self, keep: Option<&MachineOsBuild>) {
        let keep = keep.map(|build| build.metadata.uid());
        let ours: Vec<_> = self.ours().collect();
        for build in ours {
            if build.status.image().is_some() {
                self.clean_up(build);
            } else if Some(build.metadata.uid()) != keep {
                self.interrupt(build);
            }
        }
    }

    /// Interrupts and deletes an active build.
    pub(super) fn interrupt(&mut self, build: &MachineOsBuild) {
        if self.is_deleted(build) {
            return;
        }
        let end = interrupt_actions(build, "superseded by a newer desired state", self.now);
        self.actions.extend(end);
    }

    pub(super) fn delete_build(&mut self, build: &MachineOsBuild, why: &str) {
        if !self.is_deleted(build) {
            self.actions.extend(delete_actions(build, why));
        }
    }

    fn is_deleted(&self, build: &MachineOsBuild) -> bool {
        self.actions.contains(&object::delete(kinds::MACHINE_OS_BUILD, &build.metadata))
    }

    /// Writes a build's status if it changed.
    pub(super) fn write_build(&mut self, build: &MachineOsBuild, status: MachineOsBuildStatus) {
        if status != build.status {
            self.actions.push(write_status(build, &status));
        }
    }
}

/// Marks an active build as interrupted, and deletes it.
pub(super) fn interrupt_actions(build: &MachineOsBuild, why: &str, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    if !build.status.is_terminal() {
        let status = build_status(&build.status, BuildPhase::Interrupted, now);
        actions.push(build_event(build, EventReason::BuildInterrupted, why));
        actions.push(write_status(build, &status));
    }
    actions.extend(delete_actions(build, why));
    actions
}

fn delete_actions(build: &MachineOsBuild, why: &str) -> [Action; 2] {
    let delete = object::delete(kinds::MACHINE_OS_BUILD, &build.metadata);
    [build_event(build, EventReason::BuildDeleted, why), delete]
}

fn build_event(build: &MachineOsBuild, reason: EventReason, why: &str) -> Action {
    let on = regarding("MachineOSBuild", &build.metadata);
    Action::Event(new_event(on, reason, "", why))
}

fn write_status(build: &MachineOsBuild, status: &MachineOsBuildStatus) -> Action {
    object::replace_status(kinds::MACHINE_OS_BUILD, &build.metadata, status)
}
