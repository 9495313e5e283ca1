//! A Job on its way to its pod: made suspended, given what it needs, let go.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use super::super::because::Because;
use super::super::question::{Problem, Question};
use super::super::step::Step;
use super::Round;
use super::attempt::Setback;
use super::create::LABEL_LIMIT;
use super::drive::Driven;
use super::job::{method_of, name_of, needs_of};
use crate::api::{MachineOsBuild, labels, shortened};
use crate::backend::job::Lost;
use crate::report::Class;
use crate::status::{EventReason, Progress, build_status};

impl<'a> Round<'a> {
    /// There is no Job of this attempt.
    pub(super) fn start(
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

    /// Makes what the pod of a suspended Job needs, and lets it begin once all of that was seen. Returns what hinders it.
    pub(super) fn prepare(
        &mut self,
        build: &MachineOsBuild,
        job: &Job,
        uid: &str,
        attempt: u32,
    ) -> Result<Option<Because>, Question> {
        let needs = needs_of(job);
        let label = shortened(&build.metadata.name, LABEL_LIMIT);
        let mut missing = needs.is_empty();
        let mut waits = false;
        for (kind, name) in &needs {
            let mut seen = self.world.inputs.iter();
            match seen.find(|one| one.kind == *kind && one.name == *name) {
                None => missing = true,
                Some(one) if one.going_away => waits = true,
                Some(one) if one.job_uid == uid => {}
                Some(one) if one.build != label && one.build != build.metadata.name => {
                    let message = format!(
                        "{} {name} has the name of one that the build needs, and is not ours; delete or rename it",
                        kind.as_str()
                    );
                    return Ok(Some(self.problem(&Problem {
                        class: Class::UserInput,
                        reason: "in-the-way".to_owned(),
                        message,
                    })));
                }
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
            return Ok(None);
        }
        let name = build.metadata.name.clone();
        if !missing {
            // One that may run is known to its build: were it deleted, another would be this attempt's second.
            if build.metadata.annotation(labels::JOB_UID) == Some(uid) {
                self.steps.push(Step::Unsuspend {
                    job: name_of(job),
                    uid: uid.to_owned(),
                    resource_version: job.metadata.resource_version.clone().unwrap_or_default(),
                });
            }
            return Ok(None);
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
            Err(problem) => return Ok(Some(self.problem(problem))),
        }
        Ok(None)
    }
}
