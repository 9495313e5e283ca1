//! Reports the result of a container of a build's pod: in the directory that it shares with the
//! sidecar, and as its termination message.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mosb_api::BuildName;

use crate::redactor::Redactor;
use crate::result::{JobResult, Outcome, Step};
use crate::result_dir::{Error, ResultDir};
use crate::step_failure::{StepFailure, oom_counts};

/// How long the sidecar may take to deliver a result; the API server may be unreachable for a
/// while.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a failure waits for its delivery: the pod fails in any case, and the sidecar delivers
/// when it ends.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(5);

/// The common fields of all results of a container.
#[derive(Debug)]
pub struct ResultReporter {
    build: BuildName,
    job_uid: String,
    termination_log: PathBuf,
    step: Step,
    /// When the push began.
    push: OnceLock<Instant>,
    redactor: Redactor,
}

/// A success that is written and not yet acknowledged.
#[derive(Debug)]
#[must_use]
pub struct Delivery {
    result_dir: ResultDir,
    text: String,
}

impl ResultReporter {
    pub fn new(
        build: BuildName,
        job_uid: String,
        termination_log: PathBuf,
        step: Step,
        redactor: Redactor,
    ) -> Self {
        Self { build, job_uid, termination_log, step, push: OnceLock::new(), redactor }
    }

    /// Credentials, which no result and no log line repeats.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// From now on, a failure is one of the push.
    pub fn begin_push(&self) {
        self.push.get_or_init(Instant::now);
    }

    /// Writes a result.
    ///
    /// # Errors
    /// The folder can't be written to.
    pub fn write(&self, folder: &Path, outcome: Outcome) -> Result<Delivery, Error> {
        let (job_uid, build) = (self.job_uid.clone(), self.build.clone());
        let result = JobResult { job_uid, build, outcome };
        // It exists in a container only. The directory is enough, so this may fail.
        let message = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.termination_log)
            .and_then(|mut file| file.write_all(result.to_termination_message().as_bytes()));
        if let Err(error) = message {
            tracing::debug!(%error, "no termination message");
        }
        let delivery = Delivery { result_dir: ResultDir::new(folder), text: result.to_json() };
        delivery.result_dir.put(&delivery.text)?;
        Ok(delivery)
    }

    /// Writes a failure to a folder that the sidecar reads when the pod ends. It is only logged if
    /// that fails: the container's own failure is the one to end with.
    pub fn write_failure(&self, folder: &Path, failure: &StepFailure<'_>) -> Option<Delivery> {
        let push = self.push.get().map(Instant::elapsed);
        let outcome = failure.outcome(self.step, push, &oom_counts(), &self.redactor);
        self.write(folder, outcome).inspect_err(|error| tracing::warn!("{error}")).ok()
    }

    /// Writes a failure, and gives the sidecar a moment to deliver it.
    pub async fn deliver_failure(&self, folder: &Path, failure: &StepFailure<'_>) {
        if let Some(delivery) = self.write_failure(folder, failure)
            && let Err(error) = delivery.acknowledged_within(FAILURE_TIMEOUT).await
        {
            tracing::warn!("{error}");
        }
    }
}

impl Delivery {
    /// Waits until the sidecar has delivered the result.
    ///
    /// # Errors
    /// It can't be delivered, or not in time.
    pub async fn acknowledged(self) -> Result<(), Error> {
        self.acknowledged_within(DELIVERY_TIMEOUT).await
    }

    async fn acknowledged_within(&self, limit: Duration) -> Result<(), Error> {
        self.result_dir.acknowledged(&self.text, limit).await
    }
}
