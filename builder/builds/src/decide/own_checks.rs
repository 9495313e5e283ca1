//! Own checks of an image: which Job is due, what an ended one found, and which Jobs are deleted.
//!
//! A result is recorded with the name of its Job, which is for one image and one content of the
//! check's settings. A Job is created until its result is recorded, and deleted after that.

use super::DecisionBuilder;
use super::promotion::CheckPolicy;
use crate::action::{Action, BuildEffect, new_object};
use crate::log_archive::ArchiveLogs;
use crate::snapshot::{SeenWorkload, Support};
use mosb_api::MachineOsBuild;
use mosb_api::image_checks::{CheckMode, CheckRecord, CheckResult, CheckVerdict};
use mosb_image::PinnedRef;
use mosb_workload::{CheckProgress, CheckRequest, observe_check};

/// Codes of failed checks: the program found something; it did not run to its end.
const FAILED: &str = "check-failed";
const NOT_ENDED: &str = "check-not-ended";

/// In the message of a check: why its pod does not run follows.
const NOT_RUNNING: &str = " does not run: ";

/// Whether an own check is made again with the other checks, because its program found nothing.
pub(super) fn is_made_again(result: &CheckResult) -> bool {
    result.code.as_deref() == Some(NOT_ENDED)
}

impl DecisionBuilder<'_> {
    /// Adds the own checks to a record that has the other checks of now and the own ones of before.
    /// Jobs are created once the other checks let the image pass.
    pub(super) fn add_own_checks(
        &mut self,
        build: &MachineOsBuild,
        image: &PinnedRef,
        policy: &CheckPolicy<'_>,
        record: &mut CheckRecord,
    ) {
        let results = std::mem::take(&mut record.results);
        let (before, built_in): (Vec<_>, Vec<_>) =
            results.into_iter().partition(|one| one.job.is_some());
        record.results = built_in;
        let is_held = policy.is_held(record);
        let (cluster, config) = (&self.snapshot.cluster, self.config);
        let own_secret = config.spec.base_image_pull_secret.as_ref().map(|secret| &*secret.name);
        let pull_secrets: Vec<&str> =
            own_secret.into_iter().chain([&*cluster.global_pull_secret]).collect();
        let platform = self.desired.platform.clone();
        for (name, check) in policy.own_checks() {
            let request = CheckRequest {
                name,
                check,
                image,
                build,
                namespace: &cluster.namespace,
                settings: &cluster.job,
                machine_role: &self.snapshot.machine_role,
                platform: platform.as_ref(),
                pull_secrets: &pull_secrets,
                user_namespaces: cluster.user_namespaces == Support::Yes,
                security_context_constraints: cluster.security_context_constraints,
            };
            let job = request.job_name();
            let known = before.iter().find(|one| one.job.as_deref() == Some(&*job));
            record.push(match known {
                Some(known) if known.verdict != CheckVerdict::Outstanding => known.clone(),
                _ => self.own_check(&request, job, is_held, known),
            });
        }
    }

    /// The result of the Job of a check, which is created if it is due.
    fn own_check(
        &mut self,
        request: &CheckRequest<'_>,
        job: String,
        is_held: bool,
        before: Option<&CheckResult>,
    ) -> CheckResult {
        let result = |verdict, code: Option<&str>, message: String| CheckResult {
            check: request.name.to_owned(),
            verdict,
            code: code.map(str::to_owned),
            message,
            mode: CheckMode::Block,
            overridden: false,
            job: Some(job.clone()),
        };
        let outstanding = |message| result(CheckVerdict::Outstanding, None, message);
        let snapshot = self.snapshot;
        let seen = snapshot.check_jobs.iter().find(|seen| seen.workload.name() == job);
        let Some(seen) = seen else {
            if is_held {
                let message = "it is made once the other checks let the image pass";
                return outstanding(message.to_owned());
            }
            self.needed_checks.get_or_insert_default().insert(job.clone());
            self.actions.push(Action::Create(new_object::workload(&request.job())));
            return outstanding(format!("Job {job} is created"));
        };
        let name = request.name;
        match observe_check(&seen.workload, &seen.pods, seen.quiet, self.now) {
            CheckProgress::Running(why) => {
                self.needed_checks.get_or_insert_default().insert(job.clone());
                outstanding(match why {
                    Some(why) => format!("Job {job}{NOT_RUNNING}{why}"),
                    None => format!("Job {job} runs"),
                })
            }
            CheckProgress::Ending(until) => {
                self.needed_checks.get_or_insert_default().insert(job.clone());
                self.requeue_within(until.duration_since(self.now).unsigned_abs());
                outstanding(format!("Job {job} ends"))
            }
            CheckProgress::Passed => {
                self.archive_check_logs(request.build, seen);
                result(CheckVerdict::Passed, None, "it ended with exit code 0".to_owned())
            }
            CheckProgress::Failed(found) => {
                self.archive_check_logs(request.build, seen);
                let build = &request.build.metadata.name;
                let message = format!("{found}; correct that, or read mosb logs {build}");
                result(CheckVerdict::Failed, Some(FAILED), message)
            }
            CheckProgress::NotEnded(why) => {
                self.archive_check_logs(request.build, seen);
                let last = before.and_then(|before| before.message.split_once(NOT_RUNNING));
                let last = last.map_or(String::new(), |(_, last)| format!(": {last}"));
                let message = format!(
                    "{why}{last}; correct that, or raise the limits in checks.own.{name} of ConfigMap mosb-config; it is made again later"
                );
                result(CheckVerdict::Failed, Some(NOT_ENDED), message)
            }
        }
    }

    fn archive_check_logs(&mut self, build: &MachineOsBuild, seen: &SeenWorkload) {
        let pods = seen.pods.iter();
        let newest = pods.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0));
        let job = seen.workload.name();
        let archive = newest.and_then(|pod| ArchiveLogs::of_check(build, job, pod));
        let archive = archive.map(|archive| BuildEffect::ArchiveLogs(Box::new(archive)).into());
        self.actions.extend(archive);
    }

    /// Deletes the Jobs whose results are recorded by earlier actions, and those that no image needs
    /// any more.
    pub(super) fn delete_ended_checks(&mut self) {
        let Some(needed) = self.needed_checks.take() else {
            // What the pool's images need is not known now.
            return;
        };
        for seen in &self.snapshot.check_jobs {
            if !needed.contains(seen.workload.name()) {
                self.delete_workload(&seen.workload);
            }
        }
    }
}
