//! Failed attempts: whether and when a build is retried.

use std::time::Duration;

use mosb_build::JobMethod;
use mosb_build::buildah::BUILDAH_FAILED;
use mosb_build::result::Step as Container;
use mosb_cluster::status::failed_message;
use mosb_reconcile::waits::{BUILD_ATTEMPT_MAX, Backoff};
use mosb_types::ErrorClass;
use mosb_workload::NoResultCause;

/// Retries of an error that the build reports as transient itself, because its report may be forged
/// by a `RUN` line: two and a half hours.
const MAX_UNTRUSTED_ATTEMPTS: u32 = 20;

/// Reason of a failed program, here buildah.
const PROGRAM_FAILED_REASON: &str = "program-failed";

/// How an attempt ended without an image.
#[derive(Debug, Clone)]
pub(super) enum AttemptFailure {
    /// The workload reported no result.
    NoResult(NoResultCause),
    Reported {
        step: Container,
        class: ErrorClass,
        reason: String,
        message: String,
        last_lines: Vec<String>,
    },
    /// The pod reported a digest that the registry does not have.
    ImageMissing(String),
}

/// The number of attempts (`None`: unlimited), and the first and longest delay in seconds.
struct RetryPolicy {
    max_attempts: Option<u32>,
    first_delay: u64,
    max_delay: u64,
}

impl AttemptFailure {
    /// `run_retries`: how often the settings allow a failed `RUN` line to be retried.
    fn retry_policy(&self, run_retries: u32) -> RetryPolicy {
        let policy = |max_attempts, first_delay, max_delay| RetryPolicy {
            max_attempts,
            first_delay,
            max_delay,
        };
        match self {
            // Unrelated to the build.
            Self::NoResult(NoResultCause::Evicted(_) | NoResultCause::NodeLost(_)) => {
                policy(None, 5, 300)
            }
            Self::NoResult(NoResultCause::Deleted) => policy(None, 1, 60),
            Self::NoResult(NoResultCause::OutOfMemory(_) | NoResultCause::OutOfDisk(_)) => {
                policy(Some(2), 10, 300)
            }
            Self::NoResult(NoResultCause::DeadlineExceeded) => policy(Some(1), 0, 0),
            Self::NoResult(NoResultCause::Failed(_)) | Self::ImageMissing(_) => {
                policy(Some(3), 10, 300)
            }
            // A failed `RUN` line may be transient or not, so it is retried only if the settings
            // ask for it.
            Self::Reported {
                step: Container::ImageBuild,
                class: ErrorClass::Rejected,
                reason,
                ..
            } if reason == PROGRAM_FAILED_REASON => {
                policy(Some(run_retries.saturating_add(1)), 30, BUILD_ATTEMPT_MAX.as_secs())
            }
            // The pod retried already.
            Self::Reported { reason, .. } if reason == BUILDAH_FAILED => policy(Some(1), 0, 0),
            Self::Reported { class, .. } => match class {
                ErrorClass::Transient => policy(None, 10, BUILD_ATTEMPT_MAX.as_secs()),
                ErrorClass::InvalidInput | ErrorClass::Rejected => policy(Some(1), 0, 0),
                ErrorClass::Internal => policy(Some(2), 30, 300),
            },
        }
    }

    /// Whether it counts as a failure of the build.
    pub fn counts_as_failure(&self) -> bool {
        self.retry_policy(0).max_attempts.is_some()
    }

    /// Whether there is no further attempt, after `failures` that count (including this one) and
    /// `attempt` attempts.
    pub fn is_final(
        &self,
        failures: u32,
        attempt: u32,
        method: JobMethod,
        run_retries: u32,
    ) -> bool {
        let max_attempts = self.retry_policy(run_retries).max_attempts;
        max_attempts.is_some_and(|max_attempts| failures >= max_attempts)
            || self.is_untrusted(method) && attempt >= MAX_UNTRUSTED_ATTEMPTS
    }

    /// Whether an administrator's `RUN` line that escaped its chroot may have forged the report.
    fn is_untrusted(&self, method: JobMethod) -> bool {
        let from_build = |step| step == Container::ImageBuild;
        method == JobMethod::Containerfile
            && matches!(self, Self::Reported { step, .. } if from_build(*step))
    }

    /// The delay after this attempt, which is 1 for the first.
    pub fn delay(&self, attempt: u32) -> Duration {
        let RetryPolicy { first_delay, max_delay, .. } = self.retry_policy(0);
        let [first, max] = [first_delay, max_delay].map(Duration::from_secs);
        Backoff::doubling(first, max).wait(attempt)
    }

    /// A one-line summary.
    pub fn summary(&self) -> String {
        match self {
            Self::NoResult(NoResultCause::Evicted(why)) => format!("its pod was evicted: {why}"),
            Self::NoResult(NoResultCause::NodeLost(why)) => format!("its node was lost: {why}"),
            Self::NoResult(NoResultCause::Deleted) => "its Job or pod was deleted".to_owned(),
            Self::NoResult(NoResultCause::DeadlineExceeded) => {
                "it took longer than activeDeadlineSeconds allows; raise it in ConfigMap mosb-config, or check what hangs".to_owned()
            }
            Self::NoResult(NoResultCause::OutOfMemory(container)) => format!(
                "container {container} needed more memory than it may have; raise its limit under job.resources in ConfigMap mosb-config"
            ),
            Self::NoResult(NoResultCause::OutOfDisk(why)) => format!(
                "its pod was evicted, as it used more disk than it may: {}; raise its limits of ephemeral-storage under job.resources in ConfigMap mosb-config",
                why.trim_end_matches(['.', ' '])
            ),
            Self::NoResult(NoResultCause::Failed(why)) => why.clone(),
            Self::Reported { step, message, .. } => format!("{}: {message}", step.as_str()),
            Self::ImageMissing(image) => format!(
                "{image} was pushed, but the registry has no such image; does it delete untagged images?"
            ),
        }
    }

    /// The full message, for the condition `Failed`.
    pub fn message(&self) -> String {
        match self {
            Self::Reported { step, reason, message, last_lines, .. } => {
                failed_message(step.as_str(), message, Some(reason), last_lines)
            }
            Self::NoResult(_) | Self::ImageMissing(_) => {
                failed_message("Job", &self.summary(), None, &[])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_failures_are_retried_without_limit() {
        let reported = |class| AttemptFailure::Reported {
            step: Container::ImageBuild,
            class,
            reason: "x".to_owned(),
            message: "y".to_owned(),
            last_lines: Vec::new(),
        };
        let text = String::new;
        for (what, failure, max_attempts, pauses) in [
            (
                "evicted",
                AttemptFailure::NoResult(NoResultCause::Evicted(text())),
                None,
                [5, 10, 20, 300],
            ),
            (
                "node lost",
                AttemptFailure::NoResult(NoResultCause::NodeLost(text())),
                None,
                [5, 10, 20, 300],
            ),
            ("deleted", AttemptFailure::NoResult(NoResultCause::Deleted), None, [1, 2, 4, 60]),
            (
                "out of memory",
                AttemptFailure::NoResult(NoResultCause::OutOfMemory(text())),
                Some(2),
                [10, 20, 40, 300],
            ),
            (
                "out of disk",
                AttemptFailure::NoResult(NoResultCause::OutOfDisk(text())),
                Some(2),
                [10, 20, 40, 300],
            ),
            (
                "too long",
                AttemptFailure::NoResult(NoResultCause::DeadlineExceeded),
                Some(1),
                [0; 4],
            ),
            (
                "silent",
                AttemptFailure::NoResult(NoResultCause::Failed(text())),
                Some(3),
                [10, 20, 40, 300],
            ),
            ("registry away", reported(ErrorClass::Transient), None, [10, 20, 40, 600]),
            ("user's error", reported(ErrorClass::InvalidInput), Some(1), [0; 4]),
            ("build failed", reported(ErrorClass::Rejected), Some(1), [0; 4]),
            ("our error", reported(ErrorClass::Internal), Some(2), [30, 60, 120, 300]),
            ("not there", AttemptFailure::ImageMissing(text()), Some(3), [10, 20, 40, 300]),
        ] {
            let last = |method| (1..100).find(|n| failure.is_final(*n, *n, method, 0));
            assert_eq!(last(JobMethod::Direct), max_attempts, "{what}");
            let forged =
                max_attempts.or(matches!(failure, AttemptFailure::Reported { .. }).then_some(20));
            assert_eq!(last(JobMethod::Containerfile), forged, "{what}");
            assert_eq!(failure.counts_as_failure(), max_attempts.is_some(), "{what}");
            let found = [1, 2, 3, u32::MAX].map(|attempt| failure.delay(attempt).as_secs());
            assert_eq!(found, pauses, "{what}");
        }
    }

    #[test]
    fn a_run_line_that_failed_is_tried_again_as_often_as_the_settings_say() {
        let reported = |step, class, reason: &str| AttemptFailure::Reported {
            step,
            class,
            reason: reason.to_owned(),
            message: "y".to_owned(),
            last_lines: vec!["Error: no mirror, try again".to_owned()],
        };
        let (build, push) = (Container::ImageBuild, Container::ImagePush);
        for (what, failure, max_attempts) in [
            ("a RUN line", reported(build, ErrorClass::Rejected, "program-failed"), [1, 2, 4]),
            (
                "an image that isn't the plan's",
                reported(build, ErrorClass::Rejected, "bad-build-output"),
                [1; 3],
            ),
            ("a push", reported(push, ErrorClass::Rejected, "program-failed"), [1; 3]),
            ("the user's", reported(build, ErrorClass::InvalidInput, "program-failed"), [1; 3]),
            (
                "buildah's own, tried in the pod",
                reported(build, ErrorClass::Transient, "buildah-failed"),
                [1; 3],
            ),
        ] {
            let found = [0, 1, 3].map(|retries| {
                let last = |n: &u32| failure.is_final(*n, *n, JobMethod::Containerfile, retries);
                (1..100).find(last).unwrap()
            });
            assert_eq!(found, max_attempts, "{what}");
            assert!(failure.counts_as_failure(), "{what}");
        }
        let run = reported(build, ErrorClass::Rejected, "program-failed");
        let pauses = [1, 2, 3, 9].map(|attempt| run.delay(attempt).as_secs());
        assert_eq!(pauses, [30, 60, 120, 600]);
    }
}
