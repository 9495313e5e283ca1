//! Starting a workload: create it suspended, create its inputs, unsuspend it.

use std::time::Duration;

use jiff::Timestamp;

use super::DecisionBuilder;
use super::annotations::{method_of, needs_of, reads_build_spec};
use super::attempt_failure::AttemptFailure;
use super::create_build::MAX_LABEL_VALUE;
use super::prepared_base::{PreparedChoice, prepared_use};
use super::progress::BuildProgress;
use crate::action::{Action, Attempt, BuildEffect};
use crate::lookup::Lookup;
use crate::pool_reason::PoolReason;
use mosb_api::{ImageBuilderType, MachineOsBuild, labels, shortened};
use mosb_build::JobMethod;
use mosb_cluster::status::{BuildPhase, EventReason, build_status};
use mosb_reconcile::Problem;
use mosb_reconcile::waits::BUILD_ATTEMPT_MAX;
use mosb_reconcile::write::Patch;
use mosb_types::ErrorClass;
use mosb_workload::{BuildNodes, NoResultCause, Workload, kind, release};

impl<'a> DecisionBuilder<'a> {
    /// Creates the workload of this attempt.
    pub(super) fn start_workload(
        &mut self,
        build: &'a MachineOsBuild,
        attempt: u32,
        is_older_there: bool,
    ) -> Result<BuildProgress, Lookup> {
        let name = build.metadata.name.clone();
        let same = |reason| Ok(BuildProgress::State(build.status.clone(), reason));
        if build.metadata.annotation(labels::JOB_UID).is_some() {
            if let Some(reason) = self.unseen() {
                return same(reason);
            }
            return Ok(self.record_failure(
                build,
                None,
                attempt,
                &AttemptFailure::NoResult(NoResultCause::Deleted),
            ));
        }
        if is_older_there || self.has_leftover_workload(&name) {
            let workloads: Vec<_> = self.workloads_of(build).collect();
            for seen in workloads {
                self.delete_workload(&seen.workload);
            }
            return same(PoolReason::Replacing(name));
        }
        if let Some(pause) = self.pause(build) {
            self.requeue_after = Some(pause);
            return same(PoolReason::Waiting {
                build: name,
                attempt,
                seconds: pause.as_secs() + u64::from(pause.subsec_nanos() > 0),
                why: build.metadata.annotation(labels::REASON).unwrap_or_default().to_owned(),
            });
        }
        if self.snapshot.build_nodes == (BuildNodes::ControlPlane { exists: false }) {
            let reason = PoolReason::NoControlPlaneNode { build: name, why: None };
            self.block(&reason);
            return same(reason);
        }
        let planned = match self.plan(|| self.plan_lookup(Some(build), self.desired.builder))? {
            Ok(planned) => planned,
            Err(problem) => {
                let reason = self.problem(problem);
                return same(reason);
            }
        };
        if planned.build.as_str() != name {
            return Ok(BuildProgress::InputsChanged(planned.clone()));
        }
        if let Some(problem) = &planned.containerfile_problem {
            let message = format!("Containerfile: {}", problem.message);
            let end = BuildPhase::Failed { workload: None, message: &message };
            let status = build_status(&build.status, end, self.now);
            self.emit_build_event(build, EventReason::BuildFailed, "", &*message);
            self.write_build(build, status.clone());
            return Ok(BuildProgress::State(status, PoolReason::Failed { build: name, message }));
        }
        match self.choose_prepared_base(build, planned)? {
            PreparedChoice::Recorded => {}
            PreparedChoice::Changed => return same(PoolReason::Preparing(name)),
            PreparedChoice::Unknown(problem) => {
                let reason = self.problem(&problem);
                return same(reason);
            }
        }
        if let Some(image) = self.existing_image(build, planned, attempt)? {
            return self.take_existing(build, image);
        }
        if attempt == 1 {
            let note = format!(
                "building {} for pool {}",
                build.spec.machine_config.name, self.desired.pool
            );
            self.emit_build_event(build, EventReason::BuildStarted, "", note);
            let what = kind(self.desired.builder);
            let note = format!("creating its {what} and the inputs");
            self.emit_build_event(build, EventReason::BuildPreparing, "", note);
        }
        let attempt = new_attempt(build, attempt, self.desired.builder);
        self.actions.push(BuildEffect::CreateWorkload(attempt).into());
        same(PoolReason::Preparing(name))
    }

    /// Whether a workload of an earlier build of the same name still exists; its owner's deletion
    /// removes it.
    fn has_leftover_workload(&self, name: &str) -> bool {
        self.snapshot.workloads.iter().any(|seen| {
            let mut owners = seen.workload.metadata().owner_references.iter().flatten();
            owners.any(|owner| owner.kind == "MachineOSBuild" && owner.name == name)
        })
    }

    fn pause(&self, build: &MachineOsBuild) -> Option<Duration> {
        let time = build.metadata.annotation(labels::NOT_BEFORE)?;
        let until: Timestamp = time.parse().ok()?;
        let left = until.duration_since(self.now);
        // If it is longer, the clock was set back: don't wait.
        let is_pause = left.is_positive() && left.unsigned_abs() <= BUILD_ATTEMPT_MAX;
        is_pause.then(|| left.unsigned_abs())
    }

    /// Creates the inputs of a suspended workload, and unsuspends it once all inputs are visible.
    /// Returns the reason if that is blocked.
    pub(super) fn create_inputs(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        attempt: u32,
    ) -> Result<Option<PoolReason>, Lookup> {
        let (uid, needs) = (workload.uid(), needs_of(workload));
        let label = shortened(&build.metadata.name, MAX_LABEL_VALUE);
        let mut missing = needs.is_empty();
        let mut waits = false;
        for (kind, name) in &needs {
            let mut seen = self.snapshot.inputs.iter();
            match seen.find(|one| one.kind == *kind && one.name == *name) {
                None => missing = true,
                Some(one) if one.deleting => waits = true,
                Some(one) if one.workload_uid == uid => {}
                Some(one) if one.build != label && one.build != build.metadata.name => {
                    let message = format!(
                        "{} {name} has the name of an input of the build and does not belong to mosb; delete or rename it",
                        kind.as_str()
                    );
                    return Ok(Some(self.problem(&Problem {
                        class: ErrorClass::InvalidInput,
                        reason: "in-the-way".to_owned(),
                        message,
                    })));
                }
                Some(one) => {
                    waits = true;
                    self.actions.push(Action::Delete(one.into()));
                }
            }
        }
        if waits {
            return Ok(None);
        }
        let name = build.metadata.name.clone();
        // Record the workload's UID on the build before it may run: otherwise, if it is deleted,
        // this attempt could run twice.
        let is_known = build.metadata.annotation(labels::JOB_UID) == Some(uid);
        let release = release(workload.builder());
        if !is_known && (release.is_none() || !missing) {
            return Ok(None);
        }
        if !missing {
            let patch = release.map(|spec| Patch { spec, ..Patch::default() });
            self.actions.extend(patch.map(|patch| Action::Patch(workload.into(), patch)));
            return Ok(None);
        }
        if !reads_build_spec(workload) {
            // Another version created it, whose containers can't read what this one writes.
            self.delete_workload(workload);
            return Ok(None);
        }
        match self.plan(|| self.plan_lookup(Some(build), workload.builder()))? {
            // The inputs changed since the workload was created.
            Ok(planned) if planned.build.as_str() != name => self.delete_workload(workload),
            Ok(_) => {
                let attempt = new_attempt(build, attempt, workload.builder());
                self.actions.push(BuildEffect::CreateInputs(attempt, workload.into()).into());
            }
            Err(problem) => return Ok(Some(self.problem(problem))),
        }
        Ok(None)
    }
}

fn new_attempt(build: &MachineOsBuild, number: u32, builder: ImageBuilderType) -> Attempt {
    Attempt {
        build: build.metadata.name.clone(),
        build_uid: build.metadata.uid().to_owned(),
        number,
        builder,
        method: match builder {
            ImageBuilderType::Job | ImageBuilderType::CustomPod => method_of(build),
            // It supports only Containerfiles.
            ImageBuilderType::OpenShiftImage => JobMethod::Containerfile,
        },
        prepared: prepared_use(build),
    }
}
