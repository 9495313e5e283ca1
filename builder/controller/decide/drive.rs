//! What a build's Job needs next.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use super::super::because::Because;
use super::super::question::{Existence, Planned, Question};
use super::super::snapshot::SeenJob;
use super::super::step::{Annotate, Step};
use super::Round;
use super::attempt::Setback;
use super::job::{attempt_of, method_of, name_of, needs_of, number};
use crate::api::{BuildCondition, MachineOsBuild, MachineOsBuildStatus, condition, labels};
use crate::backend::job::{Lost, Observation, observe};
use crate::status::{BuildJob, EventReason, Progress, build_status};

/// What a build has come to after this round.
pub(super) enum Driven {
    /// This.
    To(MachineOsBuildStatus, Because),
    /// Its inputs are others by now: it is another build that is wanted.
    Elsewhere(Planned),
}

impl<'a> Round<'a> {
    /// Does what the wanted build needs, and tells what it has come to.
    pub(super) fn pursue(&mut self, build: &'a MachineOsBuild) -> Result<Because, Question> {
        self.supersede(Some(build));
        if !self.is_ours(build) {
            self.serve(build, &build.status);
            return Ok(Because::UpToDate(self.image_of(&build.status)));
        }
        match self.drive(build)? {
            Driven::To(status, because) => {
                self.serve(build, &status);
                if build.status.image().is_none() && status.image().is_some() {
                    self.clean_up(build);
                }
                Ok(because)
            }
            Driven::Elsewhere(planned) => {
                self.steps.clear();
                self.take(&planned)
            }
        }
    }

    fn image_of(&self, status: &MachineOsBuildStatus) -> String {
        status.image().unwrap_or_default().to_owned()
    }

    fn drive(&mut self, build: &'a MachineOsBuild) -> Result<Driven, Question> {
        let name = build.metadata.name.clone();
        let same = |because| Ok(Driven::To(build.status.clone(), because));
        match build.status.state() {
            Some(BuildCondition::Succeeded) => {
                let image = self.image_of(&build.status);
                let named = self
                    .config
                    .metadata
                    .annotation(labels::CURRENT_MACHINE_OS_BUILD);
                return same(match named == Some(&name) {
                    true => Because::UpToDate(image),
                    false => Because::Reusing(image),
                });
            }
            Some(BuildCondition::Failed | BuildCondition::Interrupted) => {
                let failed = condition(&build.status.conditions, BuildCondition::Failed.as_str());
                let message = failed.map_or("", |failed| &failed.message);
                let message = message.lines().next().unwrap_or_default().to_owned();
                return same(Because::Failed {
                    build: name,
                    message,
                });
            }
            Some(BuildCondition::Prepared | BuildCondition::Building) | None => {}
        }
        if build.metadata.annotation(labels::ADOPTED_FROM).is_some() {
            return self.adopt(build);
        }
        let attempt = number(build, labels::ATTEMPT).max(1);
        let jobs: Vec<&SeenJob> = self.jobs_of(build).collect();
        let newest = jobs.iter().map(|job| attempt_of(&job.job)).max();
        if newest.is_some_and(|newest| newest > attempt) {
            // The Job is newer than what we see of its build: that is on its way.
            return same(Because::Preparing(name));
        }
        match jobs.iter().find(|job| attempt_of(&job.job) == attempt) {
            Some(job) => self.look_after(build, job, attempt),
            None => self.start(build, attempt, !jobs.is_empty()),
        }
    }

    /// The Jobs that a build owns.
    pub(super) fn jobs_of(&self, build: &MachineOsBuild) -> impl Iterator<Item = &'a SeenJob> {
        let uid = build.metadata.uid().to_owned();
        self.world.jobs.iter().filter(move |seen| {
            let mut owners = seen.job.metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
        })
    }

    /// Copies the image of another build, once the registry answered for it.
    fn adopt(&mut self, build: &'a MachineOsBuild) -> Result<Driven, Question> {
        let from = build.metadata.annotation(labels::ADOPTED_FROM);
        let mut builds = self.world.builds.iter();
        let source = builds.find(|one| Some(&*one.metadata.name) == from);
        let image = source.and_then(|source| source.status.image()?.parse().ok());
        let gone = |round: &mut Self| {
            round.delete_build(build, "the image that it was to adopt is gone");
            let because = Because::Replacing(build.metadata.name.clone());
            Ok(Driven::To(build.status.clone(), because))
        };
        let (Some(source), Some(image)) = (source, image) else {
            return gone(self);
        };
        match self.exists(&image, source)? {
            Ok(Existence::There(image)) => {
                let end = Progress::Succeeded { job: None, image };
                let status = build_status(&build.status, end, self.now);
                self.write_build(build, status.clone());
                let because = Because::Adopting(image.value().to_string());
                Ok(Driven::To(status, because))
            }
            Ok(Existence::Gone) => gone(self),
            Err(problem) => {
                let because = self.problem(problem);
                Ok(Driven::To(build.status.clone(), because))
            }
        }
    }

    /// There is no Job of this attempt.
    fn start(
        &mut self,
        build: &'a MachineOsBuild,
        attempt: u32,
        is_older_there: bool,
    ) -> Result<Driven, Question> {
        let name = build.metadata.name.clone();
        let same = |because| Ok(Driven::To(build.status.clone(), because));
        if build.metadata.annotation(labels::JOB_UID).is_some() {
            return Ok(self.set_back(build, None, attempt, &Setback::Lost(Lost::Deleted)));
        }
        if is_older_there || self.is_in_the_way(&name) {
            let jobs: Vec<_> = self.jobs_of(build).collect();
            for job in jobs {
                self.delete_job(&job.job);
            }
            return same(Because::Replacing(name));
        }
        if let Some(pause) = self.pause(build) {
            self.again = Some(pause);
            return same(Because::Waiting {
                build: name,
                attempt,
                seconds: pause.as_secs() + u64::from(pause.subsec_nanos() > 0),
                why: build
                    .metadata
                    .annotation(labels::BECAUSE)
                    .unwrap_or_default()
                    .to_owned(),
            });
        }
        let planned = match self.plan(|| self.plan_question(Some(build)))? {
            Ok(planned) => planned,
            Err(problem) => {
                let because = self.problem(problem);
                return same(because);
            }
        };
        if planned.build.as_str() != name {
            return Ok(Driven::Elsewhere(planned.clone()));
        }
        if let Some(problem) = &planned.containerfile_problem {
            let message = format!("Containerfile: {}", problem.message);
            let end = Progress::Failed {
                job: None,
                message: &message,
            };
            let status = build_status(&build.status, end, self.now);
            self.tell_build(build, EventReason::BuildFailed, "", &*message);
            self.write_build(build, status.clone());
            return Ok(Driven::To(
                status,
                Because::Failed {
                    build: name,
                    message,
                },
            ));
        }
        if attempt == 1 {
            let note = format!(
                "building {} for pool {}",
                build.spec.machine_config.name, self.wish.pool
            );
            self.tell_build(build, EventReason::BuildStarted, "", note);
            let note = "its Job and what that needs are being made";
            self.tell_build(build, EventReason::BuildPreparing, "", note);
        }
        self.steps.push(Step::CreateJob {
            build: name.clone(),
            build_uid: build.metadata.uid().to_owned(),
            attempt,
            method: method_of(build),
        });
        same(Because::Preparing(name))
    }

    /// Whether a Job of an earlier build of the same name is still there: it goes with its owner.
    fn is_in_the_way(&self, name: &str) -> bool {
        self.world.jobs.iter().any(|seen| {
            let mut owners = seen.job.metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.kind == "MachineOSBuild" && owner.name == name)
        })
    }

    fn pause(&self, build: &MachineOsBuild) -> Option<Duration> {
        let time = build.metadata.annotation(labels::NOT_BEFORE)?;
        let until: Timestamp = time.parse().ok()?;
        let left = until.duration_since(self.now);
        left.is_positive().then(|| left.unsigned_abs())
    }

    /// There is a Job of this attempt.
    fn look_after(
        &mut self,
        build: &'a MachineOsBuild,
        seen: &'a SeenJob,
        attempt: u32,
    ) -> Result<Driven, Question> {
        let name = build.metadata.name.clone();
        let job = &seen.job;
        let uid = job.metadata.uid.clone().unwrap_or_default();
        match build.metadata.annotation(labels::JOB_UID) {
            Some(known) if known != uid => {
                let lost = Setback::Lost(Lost::Deleted);
                return Ok(self.set_back(build, Some(job), attempt, &lost));
            }
            Some(_) => {}
            None if job.metadata.deletion_timestamp.is_none() => {
                let note = format!("Job {} is attempt {attempt}", name_of(job));
                self.tell_build(build, EventReason::JobCreated, &uid, note);
                let mut annotate = Annotate::of(&build.metadata);
                annotate.set(labels::JOB_UID, &*uid);
                self.steps.push(Step::AnnotateBuild(annotate));
            }
            None => {}
        }
        let reference = self.reference(job);
        let to = |round: &mut Self, progress: Progress<'_>, because| {
            let status = build_status(&build.status, progress, round.now);
            round.write_build(build, status.clone());
            Ok(Driven::To(status, because))
        };
        let result = self.world.results.get(&name);
        match observe(job, &seen.pods, result, self.now) {
            Observation::Waiting => {
                self.prepare(build, job, &uid, attempt)?;
                to(
                    self,
                    Progress::Prepared(&reference),
                    Because::Preparing(name),
                )
            }
            Observation::Pending { why } => {
                let because = Because::Pending { build: name, why };
                to(self, Progress::Prepared(&reference), because)
            }
            Observation::Running => {
                self.tell_running(build, job, &uid);
                let because = Because::Building {
                    build: name,
                    attempt,
                };
                to(self, Progress::Building(&reference), because)
            }
            Observation::Ending { until } => {
                let left = until.duration_since(self.now).unsigned_abs();
                self.again = Some(left);
                let because = Because::Building {
                    build: name,
                    attempt,
                };
                to(self, Progress::Building(&reference), because)
            }
            Observation::Lost(lost) => {
                Ok(self.set_back(build, Some(job), attempt, &Setback::Lost(lost)))
            }
            Observation::Finished(result) => self.finish(build, job, attempt, result),
        }
    }

    pub(super) fn reference(&self, job: &Job) -> BuildJob {
        let created = job.metadata.creation_timestamp.as_ref();
        BuildJob {
            namespace: self.world.cluster.namespace.clone(),
            name: name_of(job),
            created: created.map_or(self.now, |time| time.0),
        }
    }

    fn tell_running(&mut self, build: &MachineOsBuild, job: &Job, uid: &str) {
        if build.status.state() == Some(BuildCondition::Building) {
            return;
        }
        let note = format!("the pod of Job {} runs", name_of(job));
        self.tell_build(build, EventReason::JobStarted, uid, note);
        let note = format!("{} is being built", build.metadata.name);
        self.tell_build(build, EventReason::BuildBuilding, "", note);
    }

    /// Makes what the pod of a suspended Job needs, and lets it begin once all of that was seen.
    fn prepare(
        &mut self,
        build: &MachineOsBuild,
        job: &Job,
        uid: &str,
        attempt: u32,
    ) -> Result<(), Question> {
        let needs = needs_of(job);
        let mut missing = needs.is_empty();
        let mut waits = false;
        for (kind, name) in &needs {
            let mut seen = self.world.inputs.iter();
            match seen.find(|one| one.kind == *kind && one.name == *name) {
                None => missing = true,
                Some(one) if one.going_away => waits = true,
                Some(one) if one.job_uid == uid => {}
                Some(one) => {
                    waits = true;
                    self.steps.push(Step::DeleteInput {
                        kind: one.kind,
                        name: one.name.clone(),
                        uid: one.uid.clone(),
                    });
                }
            }
        }
        if waits {
            return Ok(());
        }
        let name = build.metadata.name.clone();
        if !missing {
            self.steps.push(Step::Unsuspend {
                job: name_of(job),
                uid: uid.to_owned(),
                resource_version: job.metadata.resource_version.clone().unwrap_or_default(),
            });
            return Ok(());
        }
        match self.plan(|| self.plan_question(Some(build)))? {
            // Another identity by now: what this Job would be given is not what it was made for.
            Ok(planned) if planned.build.as_str() != name => self.delete_job(job),
            Ok(_) => self.steps.push(Step::CreateInputs {
                build: name,
                build_uid: build.metadata.uid().to_owned(),
                job: name_of(job),
                job_uid: uid.to_owned(),
                attempt,
                method: method_of(build),
            }),
            Err(problem) => {
                self.problem(problem);
            }
        }
        Ok(())
    }

    pub(super) fn delete_job(&mut self, job: &Job) {
        if job.metadata.deletion_timestamp.is_none() {
            self.steps.push(Step::DeleteJob {
                name: name_of(job),
                uid: job.metadata.uid.clone().unwrap_or_default(),
            });
        }
    }
}
