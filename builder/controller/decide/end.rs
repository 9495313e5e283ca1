//! A Job that has ended: the image, another Job, or the end of the build.

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;

use super::super::because::Because;
use super::super::question::{Existence, Question};
use super::super::snapshot::SeenJob;
use super::super::step::{Annotate, Step};
use super::Round;
use super::attempt::Setback;
use super::drive::Driven;
use super::job::{method_of, name_of, number};
use crate::api::{MachineOsBuild, labels};
use crate::backend::job::result::{JobResult, Outcome};
use crate::backend::job::{JobMethod, Lost, Observation, observe};
use crate::image::{Digest, ImageRef};
use crate::report::Finding;
use crate::status::{EventReason, Progress, build_status};

impl<'a> Round<'a> {
    /// The pod told how it ended.
    pub(super) fn finish(
        &mut self,
        build: &'a MachineOsBuild,
        job: &'a Job,
        attempt: u32,
        result: JobResult,
    ) -> Result<Driven, Question> {
        match result.outcome {
            Outcome::Succeeded { digest, .. } => self.confirm(build, job, attempt, digest),
            Outcome::NeedsContainerfile { reasons } => {
                if method_of(build) == JobMethod::Containerfile {
                    let wrong =
                        "it was built with the Containerfile, and asked for the Containerfile";
                    let setback = Setback::Lost(Lost::Failed(wrong.to_owned()));
                    return Ok(self.set_back(build, Some(job), attempt, &setback));
                }
                Ok(self.change_method(build, job, attempt, &reasons))
            }
            Outcome::Failed {
                step,
                class,
                reason,
                message,
                last_lines,
            } => {
                let setback = Setback::Told {
                    step,
                    class,
                    reason,
                    message,
                    last_lines,
                };
                Ok(self.set_back(build, Some(job), attempt, &setback))
            }
        }
    }

    /// A digest was told: the registry must answer for it.
    fn confirm(
        &mut self,
        build: &'a MachineOsBuild,
        job: &'a Job,
        attempt: u32,
        digest: Digest,
    ) -> Result<Driven, Question> {
        let spec = &build.spec.rendered_image_push_spec;
        let Ok(image) = spec.parse::<ImageRef>() else {
            let setback = Setback::Lost(Lost::Failed(format!("{spec:?} is no image")));
            return Ok(self.set_back(build, Some(job), attempt, &setback));
        };
        let image = image.repo().pinned(digest);
        match self.exists(&image, build)? {
            Ok(Existence::There(image)) => {
                let text = image.value().to_string();
                let uid = job.metadata.uid.as_deref().unwrap_or_default();
                let note = format!("Job {} made {text}", name_of(job));
                self.tell_build(build, EventReason::JobCompleted, uid, note);
                self.tell_build(build, EventReason::BuildCompleted, "", &*text);
                let end = Progress::Succeeded {
                    job: Some(&self.reference(job)),
                    image,
                };
                let status = build_status(&build.status, end, self.now);
                self.write_build(build, status.clone());
                Ok(Driven::To(status, Because::UpToDate(text)))
            }
            Ok(Existence::Gone) => {
                let setback = Setback::NotThere(image.to_string());
                Ok(self.set_back(build, Some(job), attempt, &setback))
            }
            Err(problem) => {
                let because = self.problem(problem);
                let running = Progress::Building(&self.reference(job));
                let status = build_status(&build.status, running, self.now);
                self.write_build(build, status.clone());
                Ok(Driven::To(status, because))
            }
        }
    }

    /// The Job ended without an image: another one, or the end of the build.
    pub(super) fn set_back(
        &mut self,
        build: &MachineOsBuild,
        job: Option<&Job>,
        attempt: u32,
        setback: &Setback,
    ) -> Driven {
        self.keep_logs(build);
        let name = build.metadata.name.clone();
        let line = setback.line();
        let failures = number(build, labels::FAILURES) + u32::from(setback.counts());
        let edge = format!("{attempt}");
        let reason = match setback {
            Setback::Lost(Lost::Deleted) => EventReason::JobDeleted,
            _ => EventReason::JobFailed,
        };
        self.tell_build(build, reason, &edge, format!("attempt {attempt}: {line}"));
        if setback.is_the_last(failures, attempt, method_of(build)) {
            let job = job.map(|job| self.reference(job));
            let message = setback.message();
            let end = Progress::Failed {
                job: job.as_ref(),
                message: &message,
            };
            let status = build_status(&build.status, end, self.now);
            let read = match &job {
                Some(job) => format!(
                    "; its Job is kept: kubectl -n {} logs job/{} --all-containers, or mosb logs {name}",
                    job.namespace, job.name
                ),
                None => String::new(),
            };
            self.tell_build(build, EventReason::BuildFailed, "", format!("{line}{read}"));
            self.write_build(build, status.clone());
            return Driven::To(
                status,
                Because::Failed {
                    build: name,
                    message: line,
                },
            );
        }
        let pause = setback.pause(attempt);
        let mut annotate = Annotate::of(&build.metadata);
        annotate.set(labels::ATTEMPT, (attempt + 1).to_string());
        annotate.set(labels::FAILURES, failures.to_string());
        annotate.set(labels::BECAUSE, line.chars().take(1024).collect::<String>());
        let until = self.now + SignedDuration::try_from(pause).unwrap_or_default();
        annotate.set(labels::NOT_BEFORE, until.to_string());
        annotate.remove(labels::JOB_UID);
        self.steps.push(Step::AnnotateBuild(annotate));
        if let Some(job) = job {
            self.delete_job(job);
        }
        self.again = Some(pause);
        Driven::To(
            build.status.clone(),
            Because::Waiting {
                build: name,
                attempt: attempt + 1,
                seconds: pause.as_secs(),
                why: line,
            },
        )
    }

    /// A direct Job found that something must be run.
    fn change_method(
        &mut self,
        build: &MachineOsBuild,
        job: &Job,
        attempt: u32,
        reasons: &[Finding],
    ) -> Driven {
        self.keep_logs(build);
        let codes: Vec<&str> = reasons.iter().map(|reason| &*reason.code).collect();
        let note = format!(
            "Job {} found that something must be run ({}): another one follows, with the Containerfile",
            name_of(job),
            codes.join(", ")
        );
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        self.tell_build(build, EventReason::JobCompleted, uid, note);
        let mut annotate = Annotate::of(&build.metadata);
        annotate.set(labels::METHOD, JobMethod::Containerfile.as_str());
        annotate.set(labels::ATTEMPT, (attempt + 1).to_string());
        annotate.set(labels::BECAUSE, codes.join(","));
        annotate.remove(labels::NOT_BEFORE);
        annotate.remove(labels::JOB_UID);
        self.steps.push(Step::AnnotateBuild(annotate));
        self.delete_job(job);
        let running = Progress::Building(&self.reference(job));
        let status = build_status(&build.status, running, self.now);
        self.write_build(build, status.clone());
        Driven::To(status, Because::Preparing(build.metadata.name.clone()))
    }

    /// Once a build has its image, nothing else is kept of it but its logs and what its Job learnt about the base.
    pub(super) fn clean_up(&mut self, build: &MachineOsBuild) {
        let jobs: Vec<&SeenJob> = self.jobs_of(build).collect();
        for seen in jobs {
            let result = self.world.results.get(&build.metadata.name);
            let told = observe(&seen.job, &seen.pods, result, self.now);
            if let Observation::Finished(result) = told
                && let Outcome::Succeeded {
                    base_tree: Some(tree),
                    ..
                } = result.outcome
                && !self.world.cluster.base_trees.contains_key(&tree.base)
            {
                self.steps.push(Step::RecordBaseTree {
                    base: tree.base,
                    image: tree.image,
                });
            }
            if seen.job.metadata.deletion_timestamp.is_none() {
                self.keep_logs(build);
                let uid = seen.job.metadata.uid.as_deref().unwrap_or_default();
                let note = "the image is there, so its Job and what that needed go";
                self.tell_build(build, EventReason::JobDeleted, uid, note);
            }
            self.delete_job(&seen.job);
        }
    }
}
