//! A finished workload: report the image, retry, or fail the build.

use jiff::SignedDuration;

use super::DecisionBuilder;
use super::annotations::{method_of, number_annotation};
use super::attempt_failure::AttemptFailure;
use super::prepared_base::{
    PreparedChoice, day_of, made_prepared_base, prepared_use, without_prepared_base,
};
use super::progress::BuildProgress;
use super::signing::SigningWait;
use crate::action::Action;
use crate::lookup::{ImageStatus, Lookup};
use crate::pool_reason::PoolReason;
use crate::prepared_bases::{PreparedBase, PreparedUse};
use crate::snapshot::SeenWorkload;
use mosb_api::{MachineOsBuild, labels};
use mosb_build::JobMethod;
use mosb_build::result::{JobResult, Outcome, PreparedImage};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{BuildPhase, EventReason, build_status};
use mosb_image::{Digest, ImageRef, PinnedRef};
use mosb_plan::plan::diff::OsSummary;
use mosb_reconcile::Problem;
use mosb_reconcile::write::Patch;
use mosb_types::Finding;
use mosb_workload::{InputKind, NoResultCause, Observation, Workload, kind, observe};

impl<'a> DecisionBuilder<'a> {
    /// Handles the result that the pod reported.
    pub(super) fn finish(
        &mut self,
        build: &'a MachineOsBuild,
        workload: &'a Workload,
        attempt: u32,
        result: JobResult,
    ) -> Result<BuildProgress, Lookup> {
        match result.outcome {
            Outcome::Prepared { ref prepared, .. } => {
                self.record_for_later(build, workload, &result.outcome);
                Ok(self.run_last_part(build, workload, attempt, prepared))
            }
            Outcome::Succeeded { digest, prepared, os_summary, .. } => {
                if let Some(summary) = os_summary
                    && self.record_os_summary(build, &summary)
                {
                    // With the image in service, a roll-out reads it.
                    let reason = PoolReason::Confirming(build.metadata.name.clone());
                    return Ok(BuildProgress::State(build.status.clone(), reason));
                }
                self.confirm_image(build, workload, attempt, digest, prepared.as_deref())
            }
            Outcome::NeedsContainerfile { reasons, prepared } => {
                let is_whole = prepared_use(build) == PreparedUse::Without;
                if method_of(build) == JobMethod::Containerfile && is_whole {
                    let wrong =
                        "a build with the Containerfile reported that the Containerfile is needed";
                    let failure = AttemptFailure::NoResult(NoResultCause::Failed(wrong.to_owned()));
                    return Ok(self.record_failure(build, Some(workload), attempt, &failure));
                }
                // The next config finds out the same without making it again.
                self.record_prepared_base(build, workload, prepared.as_deref());
                Ok(self.switch_to_containerfile(build, workload, attempt, &reasons))
            }
            Outcome::Failed { step, class, reason, message, last_lines, push: _ } => {
                let failure = AttemptFailure::Reported { step, class, reason, message, last_lines };
                Ok(self.record_failure(build, Some(workload), attempt, &failure))
            }
        }
    }

    /// Records what of the OS changes with a build; false if it is recorded.
    fn record_os_summary(&mut self, build: &MachineOsBuild, summary: &OsSummary) -> bool {
        let mut patch = Patch::default();
        patch.set(labels::OS_SUMMARY, summary.to_annotation());
        matches!(self.record_choice(build, patch), PreparedChoice::Changed)
    }

    /// Asks the registry to confirm a reported digest.
    fn confirm_image(
        &mut self,
        build: &'a MachineOsBuild,
        workload: &'a Workload,
        attempt: u32,
        digest: Digest,
        made: Option<&PreparedImage>,
    ) -> Result<BuildProgress, Lookup> {
        let spec = &build.spec.rendered_image_push_spec;
        let Ok(image) = spec.parse::<ImageRef>() else {
            let failure = AttemptFailure::NoResult(NoResultCause::Failed(format!(
                "{spec:?} is not an image"
            )));
            return Ok(self.record_failure(build, Some(workload), attempt, &failure));
        };
        let image = image.repo().pinned(digest);
        match self.image_status(&image, build)? {
            ImageStatus::Present(image) => {
                let text = image.value().to_string();
                let base = self.prepared_base_of(build, made).map(|(_, base)| base);
                match self.sign_made(build, workload, image.value(), base.as_ref(), made)? {
                    None => {}
                    Some(SigningWait::InputsChanged(planned)) => {
                        return Ok(BuildProgress::InputsChanged(planned.clone()));
                    }
                    Some(SigningWait::Problem(problem)) => {
                        return Ok(self.still_building(build, workload, &problem));
                    }
                }
                let on = base.map_or(String::new(), |base| {
                    format!(" on the prepared base of {}", day_of(base.made_at))
                });
                let os = OsSummary::of(&build.metadata);
                let os = os.map_or(String::new(), |os| format!("; OS: {os}"));
                let note = format!("{workload} made {text}{on}{os}");
                self.emit_build_event(build, EventReason::JobCompleted, workload.uid(), note);
                self.emit_build_event(build, EventReason::BuildCompleted, "", &*text);
                if let Some(base) = base {
                    self.note_prepared_base(build, &base);
                }
                let end =
                    BuildPhase::Succeeded { workload: Some(&self.workload_ref(workload)), image };
                let status = build_status(&build.status, end, self.now);
                self.write_build(build, status.clone());
                Ok(BuildProgress::State(status, PoolReason::UpToDate(text)))
            }
            ImageStatus::Missing => {
                let failure = AttemptFailure::ImageMissing(image.to_string());
                Ok(self.record_failure(build, Some(workload), attempt, &failure))
            }
            ImageStatus::Unknown(problem) => Ok(self.still_building(build, workload, problem)),
        }
    }

    /// A build whose workload ended, and whose image can't be used yet.
    fn still_building(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        problem: &Problem,
    ) -> BuildProgress {
        let reason = self.problem(problem);
        let running = BuildPhase::Building(&self.workload_ref(workload));
        let status = build_status(&build.status, running, self.now);
        self.write_build(build, status.clone());
        BuildProgress::State(status, reason)
    }

    /// Signs what a workload pushed: the prepared base that it made, and the image on it.
    fn sign_made(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        image: &PinnedRef,
        base: Option<&PreparedBase>,
        made: Option<&PreparedImage>,
    ) -> Result<Option<SigningWait<'a>>, Lookup> {
        let builder = workload.builder();
        if let (Some(base), Some(_)) = (base, made)
            && let Some(wait) = self.sign_prepared(build, base.image, builder)?
        {
            return Ok(Some(wait));
        }
        let kind = self.image_kind(build, builder, base);
        self.sign(build, image, kind, builder)
    }

    /// Records a failed attempt: retries, or fails the build.
    pub(super) fn record_failure(
        &mut self,
        build: &MachineOsBuild,
        workload: Option<&Workload>,
        attempt: u32,
        failure: &AttemptFailure,
    ) -> BuildProgress {
        self.archive_logs(build);
        let name = build.metadata.name.clone();
        let line = failure.summary();
        let failures =
            number_annotation(build, labels::FAILURES) + u32::from(failure.counts_as_failure());
        let edge = format!("{attempt}");
        let reason = match failure {
            AttemptFailure::NoResult(NoResultCause::Deleted) => EventReason::JobDeleted,
            _ => EventReason::JobFailed,
        };
        self.emit_build_event(build, reason, &edge, format!("attempt {attempt}: {line}"));
        let retries = self.snapshot.cluster.run_retries;
        if failure.is_final(failures, attempt, method_of(build), retries) {
            let named = workload.map(|workload| self.workload_ref(workload));
            let message = failure.message();
            let end = BuildPhase::Failed { workload: named.as_ref(), message: &message };
            let status = build_status(&build.status, end, self.now);
            let read = workload.map_or(String::new(), |workload| {
                let (what, namespace) = (kind(workload.builder()), &self.snapshot.cluster.namespace);
                let called = format!("{}/{}", what.to_lowercase(), workload.name());
                let read = match workload {
                    // Only `oc` knows which pod that is.
                    Workload::Build(_) => format!("oc -n {namespace} logs {called}"),
                    Workload::Job(_) | Workload::Pod(_) => {
                        format!("kubectl -n {namespace} logs {called} --all-containers, or mosb logs {name}")
                    }
                };
                format!("; its {what} is kept: {read}")
            });
            self.emit_build_event(build, EventReason::BuildFailed, "", format!("{line}{read}"));
            self.write_build(build, status.clone());
            return BuildProgress::State(status, PoolReason::Failed { build: name, message: line });
        }
        let pause = failure.delay(attempt);
        let mut patch = Patch::default();
        patch.set(labels::ATTEMPT, (attempt + 1).to_string());
        patch.set(labels::FAILURES, failures.to_string());
        patch.set(labels::REASON, line.chars().take(1024).collect::<String>());
        let until = self.now + SignedDuration::try_from(pause).unwrap_or_default();
        patch.set(labels::NOT_BEFORE, until.to_string());
        patch.remove(labels::JOB_UID);
        self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        if let Some(workload) = workload {
            self.delete_workload(workload);
        }
        self.requeue_after = Some(pause);
        BuildProgress::State(
            build.status.clone(),
            PoolReason::Waiting {
                build: name,
                attempt: attempt + 1,
                seconds: pause.as_secs(),
                why: line,
            },
        )
    }

    /// A direct build found that something must be run: the next attempt uses the Containerfile.
    fn switch_to_containerfile(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        attempt: u32,
        reasons: &[Finding],
    ) -> BuildProgress {
        self.archive_logs(build);
        let codes: Vec<&str> = reasons.iter().map(|reason| &*reason.code).collect();
        let note = format!(
            "{workload} found that something must be run ({}): the next one uses the Containerfile",
            codes.join(", ")
        );
        self.emit_build_event(build, EventReason::JobCompleted, workload.uid(), note);
        let mut patch = match prepared_use(build) {
            PreparedUse::Without => {
                let mut patch = Patch::default();
                patch.set(labels::METHOD, JobMethod::Containerfile.as_str());
                patch
            }
            PreparedUse::Make | PreparedUse::On(_) => without_prepared_base(),
        };
        patch.set(labels::REASON, codes.join(","));
        self.start_next(build, workload, attempt, patch)
    }

    /// Ends a workload that did its part, so that the next attempt does the rest.
    fn start_next(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        attempt: u32,
        mut patch: Patch,
    ) -> BuildProgress {
        patch.set(labels::ATTEMPT, (attempt + 1).to_string());
        patch.remove(labels::NOT_BEFORE);
        patch.remove(labels::JOB_UID);
        self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        self.delete_workload(workload);
        let running = BuildPhase::Building(&self.workload_ref(workload));
        let status = build_status(&build.status, running, self.now);
        self.write_build(build, status.clone());
        BuildProgress::State(status, PoolReason::Preparing(build.metadata.name.clone()))
    }

    /// The prepared base was made: the next attempt makes the image on it, once it is signed.
    fn run_last_part(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        attempt: u32,
        made: &PreparedImage,
    ) -> BuildProgress {
        let base = self.prepared_base_of(build, Some(made));
        let (PreparedUse::Make, Some((_, base))) = (prepared_use(build), base) else {
            let wrong = "it reported a prepared base that it was not to make";
            let failure = AttemptFailure::NoResult(NoResultCause::Failed(wrong.to_owned()));
            return self.record_failure(build, Some(workload), attempt, &failure);
        };
        self.archive_logs(build);
        let note = format!(
            "{workload} made the prepared base {}: the next one makes the image on it",
            base.image
        );
        self.emit_build_event(build, EventReason::JobCompleted, workload.uid(), note);
        let mut patch = made_prepared_base(&base);
        patch.remove(labels::REASON);
        self.start_next(build, workload, attempt, patch)
    }

    /// Deletes everything of a build that has its image, except archived logs and what is recorded
    /// for later builds.
    pub(super) fn clean_up(&mut self, build: &MachineOsBuild) {
        let workloads: Vec<&SeenWorkload> = self.workloads_of(build).collect();
        for seen in workloads {
            let result = self.snapshot.results.get(&build.metadata.name);
            let observation = observe(&seen.workload, &seen.pods, result, seen.quiet, self.now);
            if let Observation::Finished(result) = observation {
                self.record_for_later(build, &seen.workload, &result.outcome);
            }
            let workload = &seen.workload;
            if !workload.is_being_deleted() {
                self.archive_logs(build);
                let what = kind(workload.builder());
                let note = format!("the image exists, so its {what} and the inputs are deleted");
                self.emit_build_event(build, EventReason::JobDeleted, workload.uid(), note);
            }
            self.delete_workload(workload);
        }
        // The ServiceAccount of a Pod is created before the Pod, so the Pod does not own it.
        let inputs = self.snapshot.inputs.iter();
        let own = inputs.filter(|one| one.build == build.metadata.name && !one.deleting);
        for account in own.filter(|one| one.kind == InputKind::ServiceAccount) {
            if account.workload_uid.is_empty() {
                self.actions.push(Action::Delete(account.into()));
            }
        }
    }
}
