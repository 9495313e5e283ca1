//! The next actions for a build's workload.

use super::annotations::{attempt_of, number_annotation};
use super::attempt_failure::AttemptFailure;
use super::{DecisionBuilder, Unavailable};
use crate::action::Action;
use crate::lookup::{Lookup, Planned};
use crate::pool_reason::PoolReason;
use crate::snapshot::SeenWorkload;
use mosb_api::{
    BuildCondition, BuildName, MachineOsBuild, MachineOsBuildStatus, condition, labels,
};
use mosb_build::JobResult;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{BuildPhase, EventReason, WorkloadRef, build_status};
use mosb_reconcile::write::{Patch, Target};
use mosb_workload::{BuildNodes, NoResultCause, Observation, Workload, observe, release};

/// The result of one pass over a build.
pub(super) enum BuildProgress {
    State(MachineOsBuildStatus, PoolReason),
    /// The inputs changed, so another build is needed.
    InputsChanged(Planned),
}

impl<'a> DecisionBuilder<'a> {
    /// Advances the desired build and reports its status.
    pub(super) fn advance(&mut self, build: &'a MachineOsBuild) -> Result<PoolReason, Lookup> {
        self.supersede(Some(build));
        if !self.is_ours(build) {
            let promotion = self.promotion(build, &build.status)?;
            self.report_status(build, &build.status, promotion.as_ref());
            return Ok(PoolReason::UpToDate(self.image_of(&build.status)));
        }
        match self.build_progress(build)? {
            BuildProgress::State(status, reason) => {
                let promotion = self.promotion(build, &status)?;
                self.report_status(build, &status, promotion.as_ref());
                if build.status.image().is_none() && status.image().is_some() {
                    self.clean_up(build);
                }
                Ok(promotion.and_then(|promotion| promotion.held()).unwrap_or(reason))
            }
            BuildProgress::InputsChanged(planned) => {
                self.actions.clear();
                self.select_planned(&planned)
            }
        }
    }

    fn image_of(&self, status: &MachineOsBuildStatus) -> String {
        status.image().unwrap_or_default().to_owned()
    }

    fn build_progress(&mut self, build: &'a MachineOsBuild) -> Result<BuildProgress, Lookup> {
        let name = build.metadata.name.clone();
        let same = |reason| Ok(BuildProgress::State(build.status.clone(), reason));
        match build.status.state() {
            Some(BuildCondition::Succeeded) => {
                let image = self.image_of(&build.status);
                let named = self.config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD);
                return same(if named == Some(&name) {
                    PoolReason::UpToDate(image)
                } else {
                    PoolReason::Reusing(image)
                });
            }
            Some(BuildCondition::Failed | BuildCondition::Interrupted) => {
                let failed = condition(&build.status.conditions, BuildCondition::Failed.as_str());
                let message = failed.map_or("", |failed| &failed.message);
                let message = message.lines().next().unwrap_or_default().to_owned();
                return same(PoolReason::Failed { build: name, message });
            }
            Some(BuildCondition::Prepared | BuildCondition::Building) | None => {}
        }
        if build.metadata.annotation(labels::ADOPTED_FROM).is_some() {
            return self.adopt(build);
        }
        let attempt = number_annotation(build, labels::ATTEMPT).max(1);
        let workloads: Vec<&SeenWorkload> = self.workloads_of(build).collect();
        let newest = workloads.iter().map(|one| attempt_of(&one.workload)).max();
        if newest.is_some_and(|newest| newest > attempt) {
            // The workload is newer than our view of the build, which the watch will update.
            return same(PoolReason::Preparing(name));
        }
        match workloads.iter().find(|one| attempt_of(&one.workload) == attempt) {
            Some(seen) => self.observe_attempt(build, seen, attempt),
            None => self.start_workload(build, attempt, !workloads.is_empty()),
        }
    }

    /// The workloads that a build owns.
    pub(super) fn workloads_of(
        &self,
        build: &MachineOsBuild,
    ) -> impl Iterator<Item = &'a SeenWorkload> {
        let uid = build.metadata.uid().to_owned();
        self.snapshot.workloads.iter().filter(move |seen| {
            let mut owners = seen.workload.metadata().owner_references.iter().flatten();
            owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
        })
    }

    /// Handles the workload of this attempt.
    fn observe_attempt(
        &mut self,
        build: &'a MachineOsBuild,
        seen: &'a SeenWorkload,
        attempt: u32,
    ) -> Result<BuildProgress, Lookup> {
        let name = build.metadata.name.clone();
        let workload = &seen.workload;
        let uid = workload.uid().to_owned();
        let result = self.snapshot.results.get(&name);
        let observation = observe(workload, &seen.pods, result, seen.quiet, self.now);
        let mut trouble = None;
        match build.metadata.annotation(labels::JOB_UID) {
            Some(known) if known != uid => {
                let lost = AttemptFailure::NoResult(NoResultCause::Deleted);
                return Ok(self.record_failure(build, Some(workload), attempt, &lost));
            }
            // Create the inputs first, because that takes longest.
            _ if is_waiting(workload, &observation) => {
                trouble = self.create_inputs(build, workload, attempt)?;
            }
            _ => {}
        }
        match build.metadata.annotation(labels::JOB_UID) {
            None if !workload.is_being_deleted() => {
                let note = format!("{workload} is attempt {attempt}");
                self.emit_build_event(build, EventReason::JobCreated, &uid, note);
                let mut patch = Patch::default();
                patch.set(labels::JOB_UID, &*uid);
                self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
            }
            _ => {}
        }
        let same = |reason| Ok(BuildProgress::State(build.status.clone(), reason));
        let reference = self.workload_ref(workload);
        let to = |builder: &mut Self, progress: BuildPhase<'_>, reason| {
            let status = build_status(&build.status, progress, builder.now);
            builder.write_build(build, status.clone());
            Ok(BuildProgress::State(status, reason))
        };
        match observation {
            Observation::Waiting => {
                let reason = trouble.unwrap_or(PoolReason::Preparing(name));
                to(self, BuildPhase::Prepared(&reference), reason)
            }
            Observation::Pending { why } => {
                let reason = trouble.unwrap_or(PoolReason::Pending { build: name, why });
                to(self, BuildPhase::Prepared(&reference), reason)
            }
            Observation::Unscheduled { why } => {
                let reason = match self.snapshot.build_nodes {
                    BuildNodes::Any | BuildNodes::Selected(_) => {
                        PoolReason::Pending { build: name, why: Some(why) }
                    }
                    BuildNodes::ControlPlane { .. } => {
                        let reason = PoolReason::NoControlPlaneNode { build: name, why: Some(why) };
                        self.block(&reason);
                        reason
                    }
                };
                to(self, BuildPhase::Prepared(&reference), reason)
            }
            Observation::Running => {
                self.emit_running_events(build, workload);
                let reason = PoolReason::Building { build: name, attempt };
                to(self, BuildPhase::Building(&reference), reason)
            }
            Observation::Ending { until } => {
                let left = until.duration_since(self.now).unsigned_abs();
                self.requeue_after = Some(left);
                let reason = self.unseen();
                let reason = reason.unwrap_or(PoolReason::Building { build: name, attempt });
                to(self, BuildPhase::Building(&reference), reason)
            }
            Observation::NoResult(lost) => {
                let result = match self.workload_result(build, workload) {
                    Ok(result) => result,
                    Err(cause) => {
                        let reason = self.unavailable(cause)?;
                        return same(reason);
                    }
                };
                match observe(workload, &seen.pods, result, seen.quiet, self.now) {
                    Observation::Finished(result) => self.finish(build, workload, attempt, result),
                    _ => Ok(self.record_failure(
                        build,
                        Some(workload),
                        attempt,
                        &AttemptFailure::NoResult(lost),
                    )),
                }
            }
            Observation::Finished(result) => self.finish(build, workload, attempt, result),
        }
    }

    /// The result in the API server. Each kind has its own watch, and a delayed one must not turn a
    /// success into a failure.
    fn workload_result(
        &self,
        build: &MachineOsBuild,
        workload: &Workload,
    ) -> Result<Option<&'a JobResult>, Unavailable> {
        let Ok(name) = build.metadata.name.parse::<BuildName>() else {
            return Ok(None);
        };
        if let Workload::Build(_) = workload {
            // The status of an OpenShift Build is the result.
            return Ok(None);
        }
        match self.snapshot.lookup_results.results.get(&name) {
            Some(Ok(result)) => Ok(result.as_ref()),
            Some(Err(problem)) => Err(Unavailable::Problem(problem.clone())),
            None => Err(Unavailable::Lookup(Lookup::Result { build: name })),
        }
    }

    pub(super) fn workload_ref(&self, workload: &Workload) -> WorkloadRef {
        let created = workload.metadata().creation_timestamp.as_ref();
        WorkloadRef {
            builder: workload.builder(),
            namespace: self.snapshot.cluster.namespace.clone(),
            name: workload.name().to_owned(),
            created: created.map_or(self.now, |time| time.0),
        }
    }

    fn emit_running_events(&mut self, build: &MachineOsBuild, workload: &Workload) {
        if build.status.state() == Some(BuildCondition::Building) {
            return;
        }
        let note = match workload {
            Workload::Job(_) => format!("the pod of {workload} runs"),
            Workload::Pod(_) | Workload::Build(_) => format!("{workload} runs"),
        };
        self.emit_build_event(build, EventReason::JobStarted, workload.uid(), note);
        let note = format!("{} is being built", build.metadata.name);
        self.emit_build_event(build, EventReason::BuildBuilding, "", note);
    }

    pub(super) fn delete_workload(&mut self, workload: &Workload) {
        if !workload.is_being_deleted() {
            self.actions.push(Action::Delete(Target::from(workload).any_version()));
        }
    }
}

/// Whether the workload waits for its inputs.
fn is_waiting(workload: &Workload, observation: &Observation) -> bool {
    let begins_by_itself = release(workload.builder()).is_none();
    match observation {
        Observation::Waiting => true,
        Observation::Pending { .. } => begins_by_itself,
        _ => false,
    }
}
