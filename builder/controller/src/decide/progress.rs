//! What a build's runner needs next.

use super::super::action::{Action, Annotate};
use super::super::lookup::{Lookup, Planned, Problem};
use super::super::pool_reason::PoolReason;
use super::super::snapshot::{BuildNodes, SeenRunner};
use super::DecisionBuilder;
use super::attempt_failure::AttemptFailure;
use super::runner::{attempt_of, number};
use crate::status::{BuildRunner, EventReason, Progress, build_status};
use crate::workload::Lost;
use crate::workload::Observation;
use crate::workload::Runner;
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
            self.serve(build, &build.status);
            return Ok(PoolReason::UpToDate(self.image_of(&build.status)));
        }
        match self.build_progress(build)? {
            BuildProgress::State(status, reason) => {
                self.serve(build, &status);
                if build.status.image().is_none() && status.image().is_some() {
                    self.clean_up(build);
                }
                Ok(reason)
            }
            BuildProgress::InputsChanged(planned) => {
                self.actions.clear();
                self.take(&planned)
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
        let runners: Vec<&SeenRunner> = self.runners_of(build).collect();
        let newest = runners.iter().map(|one| attempt_of(&one.runner)).max();
        if newest.is_some_and(|newest| newest > attempt) {
            // It is newer than what we see of its build: that is on its way.
            return same(PoolReason::Preparing(name));
        }
        match runners.iter().find(|one| attempt_of(&one.runner) == attempt) {
            Some(seen) => self.observe_attempt(build, seen, attempt),
            None => self.start(build, attempt, !runners.is_empty()),
        }
    }

    /// The runners that a build owns.
    pub(super) fn runners_of(
        &self,
        build: &MachineOsBuild,
    ) -> impl Iterator<Item = &'a SeenRunner> {
        let uid = build.metadata.uid().to_owned();
        self.snapshot.runners.iter().filter(move |seen| {
            let mut owners = seen.runner.metadata().owner_references.iter().flatten();
            owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
        })
    }

    /// There is a runner of this attempt.
    fn observe_attempt(
        &mut self,
        build: &'a MachineOsBuild,
        seen: &'a SeenRunner,
        attempt: u32,
    ) -> Result<BuildProgress, Lookup> {
        let name = build.metadata.name.clone();
        let runner = &seen.runner;
        let uid = runner.uid().to_owned();
        let result = self.snapshot.results.get(&name);
        let observation = observe(runner, &seen.pods, result, seen.quiet, self.now);
        let mut trouble = None;
        match build.metadata.annotation(labels::JOB_UID) {
            Some(known) if known != uid => {
                let lost = AttemptFailure::Lost(Lost::Deleted);
                return Ok(self.record_failure(build, Some(runner), attempt, &lost));
            }
            // What the pod needs comes first: it takes longest.
            _ if is_waiting(runner, &observation) => {
                trouble = self.prepare(build, runner, attempt)?;
            }
            _ => {}
        }
        match build.metadata.annotation(labels::JOB_UID) {
            None if !runner.is_going_away() => {
                let note = format!("{runner} is attempt {attempt}");
                self.tell_build(build, EventReason::JobCreated, &uid, note);
                let mut annotate = Annotate::of(&build.metadata);
                annotate.set(labels::JOB_UID, &*uid);
                self.actions.push(Action::AnnotateBuild(annotate));
            }
            _ => {}
        }
        let same = |reason| Ok(BuildProgress::State(build.status.clone(), reason));
        let reference = self.reference(runner);
        let to = |builder: &mut Self, progress: Progress<'_>, reason| {
            let status = build_status(&build.status, progress, builder.now);
            builder.write_build(build, status.clone());
            Ok(BuildProgress::State(status, reason))
        };
        match observation {
            Observation::Waiting => {
                let reason = trouble.unwrap_or(PoolReason::Preparing(name));
                to(self, Progress::Prepared(&reference), reason)
            }
            Observation::Pending { why } => {
                let reason = trouble.unwrap_or(PoolReason::Pending { build: name, why });
                to(self, Progress::Prepared(&reference), reason)
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
                to(self, Progress::Prepared(&reference), reason)
            }
            Observation::Running => {
                self.tell_running(build, runner);
                let reason = PoolReason::Building { build: name, attempt };
                to(self, Progress::Building(&reference), reason)
            }
            Observation::Ending { until } => {
                let left = until.duration_since(self.now).unsigned_abs();
                self.requeue_after = Some(left);
                let reason = PoolReason::Building { build: name, attempt };
                to(self, Progress::Building(&reference), reason)
            }
            Observation::Lost(lost) => {
                let result = match self.reported(build, runner)? {
                    Ok(result) => result,
                    Err(problem) => {
                        let reason = self.problem(problem);
                        return same(reason);
                    }
                };
                match observe(runner, &seen.pods, result, seen.quiet, self.now) {
                    Observation::Finished(result) => self.finish(build, runner, attempt, result),
                    _ => Ok(self.record_failure(
                        build,
                        Some(runner),
                        attempt,
                        &AttemptFailure::Lost(lost),
                    )),
                }
            }
            Observation::Finished(result) => self.finish(build, runner, attempt, result),
        }
    }

    /// What the pod of a build reported, as the API server has it now: each kind is watched by a connection of its own, and one that
    /// stands still must not make a success a loss.
    fn reported(
        &self,
        build: &MachineOsBuild,
        runner: &Runner,
    ) -> Result<Result<Option<&'a JobResult>, &'a Problem>, Lookup> {
        let Ok(name) = build.metadata.name.parse::<BuildName>() else {
            return Ok(Ok(None));
        };
        if let Runner::Build(_) = runner {
            // Its own status says it all.
            return Ok(Ok(None));
        }
        match self.snapshot.lookup_results.results.get(&name) {
            Some(answer) => Ok(answer.as_ref().map(Option::as_ref)),
            None => Err(Lookup::Result { build: name }),
        }
    }

    pub(super) fn reference(&self, runner: &Runner) -> BuildRunner {
        let created = runner.metadata().creation_timestamp.as_ref();
        BuildRunner {
            builder: runner.builder(),
            namespace: self.snapshot.cluster.namespace.clone(),
            name: runner.name().to_owned(),
            created: created.map_or(self.now, |time| time.0),
        }
    }

    fn tell_running(&mut self, build: &MachineOsBuild, runner: &Runner) {
        if build.status.state() == Some(BuildCondition::Building) {
            return;
        }
        let note = match runner {
            Runner::Job(_) => format!("the pod of {runner} runs"),
            Runner::Pod(_) | Runner::Build(_) => format!("{runner} runs"),
        };
        self.tell_build(build, EventReason::JobStarted, runner.uid(), note);
        let note = format!("{} is being built", build.metadata.name);
        self.tell_build(build, EventReason::BuildBuilding, "", note);
    }

    pub(super) fn delete_runner(&mut self, runner: &Runner) {
        if !runner.is_going_away() {
            self.actions.push(Action::DeleteRunner {
                builder: runner.builder(),
                name: runner.name().to_owned(),
                uid: runner.uid().to_owned(),
            });
        }
    }
}

/// Whether it does not run because it waits for what it needs.
fn is_waiting(runner: &Runner, observation: &Observation) -> bool {
    let begins_by_itself = release(runner.builder()).is_none();
    match observation {
        Observation::Waiting => true,
        Observation::Pending { .. } => begins_by_itself,
        _ => false,
    }
}
