//! What a build's workload needs next.

use super::super::action::{Action, Annotate};
use super::super::lookup::{Lookup, Planned, Problem};
use super::super::pool_reason::PoolReason;
use super::super::snapshot::{BuildNodes, SeenWorkload};
use super::DecisionBuilder;
use super::annotations::{attempt_of, number};
use super::attempt_failure::AttemptFailure;
use crate::status::{BuildPhase, EventReason, WorkloadRef, build_status};
use crate::workload::NoResultCause;
use crate::workload::Observation;
use crate::workload::Workload;
use crate::workload::observe;
use crate::workload::release;
use mosb_build::JobResult;
use mosb_plan::api::{
    BuildCondition, BuildName, MachineOsBuild, MachineOsBuildStatus, condition, labels,
};

/// What a build has come to after this round.
pub(super) enum BuildProgress {
    /// This.
    State(MachineOsBuildStatus, PoolReason),
    /// Its inputs are others by now: it is another build that is wanted.
    InputsChanged(Planned),
}

impl<'a> DecisionBuilder<'a> {
    /// Does what the wanted build needs, and tells what it has come to.
    pub(super) fn advance(&mut self, build: &'a MachineOsBuild) -> Result<PoolReason, Lookup> {
        self.supersede(Some(build));
        if !self.is_ours(build) {
            self.report_status(build, &build.status);
            return Ok(PoolReason::UpToDate(self.image_of(&build.status)));
        }
        match self.build_progress(build)? {
            BuildProgress::State(status, reason) => {
                self.report_status(build, &status);
                if build.status.image().is_none() && status.image().is_some() {
                    self.clean_up(build);
                }
                Ok(reason)
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
                return same(match named == Some(&name) {
                    true => PoolReason::UpToDate(image),
                    false => PoolReason::Reusing(image),
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
        let attempt = number(build, labels::ATTEMPT).max(1);
        let workloads: Vec<&SeenWorkload> = self.workloads_of(build).collect();
        let newest = workloads.iter().map(|one| attempt_of(&one.workload)).max();
        if newest.is_some_and(|newest| newest > attempt) {
            // It is newer than what we see of its build: that is on its way.
            return same(PoolReason::Preparing(name));
        }
        match workloads.iter().find(|one| attempt_of(&one.workload) == attempt) {
            Some(seen) => self.observe_attempt(build, seen, attempt),
            None => self.start(build, attempt, !workloads.is_empty()),
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

    /// There is a workload of this attempt.
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
            // What the pod needs comes first: it takes longest.
            _ if is_waiting(workload, &observation) => {
                trouble = self.prepare(build, workload, attempt)?;
            }
            _ => {}
        }
        match build.metadata.annotation(labels::JOB_UID) {
            None if !workload.is_being_deleted() => {
                let note = format!("{workload} is attempt {attempt}");
                self.emit_build_event(build, EventReason::JobCreated, &uid, note);
                let mut annotate = Annotate::of(&build.metadata);
                annotate.set(labels::JOB_UID, &*uid);
                self.actions.push(Action::AnnotateBuild(annotate));
            }
            _ => {}
        }
        let same = |reason| Ok(BuildProgress::State(build.status.clone(), reason));
        let reference = self.reference(workload);
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
                    BuildNodes::Any => PoolReason::Pending { build: name, why: Some(why) },
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
                let reason = PoolReason::Building { build: name, attempt };
                to(self, BuildPhase::Building(&reference), reason)
            }
            Observation::NoResult(lost) => {
                let result = match self.workload_result(build, workload)? {
                    Ok(result) => result,
                    Err(problem) => {
                        let reason = self.problem(problem);
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

    /// What the pod of a build reported, as the API server has it now: each kind is watched by a connection of its own, and one that
    /// stands still must not make a success a loss.
    fn workload_result(
        &self,
        build: &MachineOsBuild,
        workload: &Workload,
    ) -> Result<Result<Option<&'a JobResult>, &'a Problem>, Lookup> {
        let Ok(name) = build.metadata.name.parse::<BuildName>() else {
            return Ok(Ok(None));
        };
        if let Workload::Build(_) = workload {
            // Its own status says it all.
            return Ok(Ok(None));
        }
        match self.snapshot.lookup_results.results.get(&name) {
            Some(answer) => Ok(answer.as_ref().map(Option::as_ref)),
            None => Err(Lookup::Result { build: name }),
        }
    }

    pub(super) fn reference(&self, workload: &Workload) -> WorkloadRef {
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
            self.actions.push(Action::DeleteWorkload {
                builder: workload.builder(),
                name: workload.name().to_owned(),
                uid: workload.uid().to_owned(),
            });
        }
    }
}

/// Whether it does not run because it waits for what it needs.
fn is_waiting(workload: &Workload, observation: &Observation) -> bool {
    let begins_by_itself = release(workload.builder()).is_none();
    match observation {
        Observation::Waiting => true,
        Observation::Pending { .. } => begins_by_itself,
        _ => false,
    }
}
