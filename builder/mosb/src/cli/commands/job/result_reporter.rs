//! How a part of a build ends: its result is told, to the sidecar and as the container's termination message.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::cli::resolve::{PodInputs, Settings};
use crate::cli::{ExitCode, Failure, Result, output};
use mosb_build::Redactor;
use mosb_build::exec;
use mosb_build::result::{JobResult, Outcome, Step};
use mosb_build::result_dir::ResultDir;
use mosb_plan::api::BuildName;
use mosb_types::ErrorClass;

/// How long the sidecar may take to deliver a result; the API may be away for a while.
const DELIVERY: Duration = Duration::from_secs(300);
/// How long a failure waits for it: the pod fails all the same, and the sidecar delivers at its reporter.
const FAILURE: Duration = Duration::from_secs(5);

/// What every result of this container says.
#[derive(Debug)]
pub struct ResultReporter {
    build: BuildName,
    job_uid: String,
    termination_log: PathBuf,
    step: Step,
    /// When the push began.
    push: OnceLock<Instant>,
    /// What no result repeats.
    pub secrets: Redactor,
}

impl ResultReporter {
    /// Of the container for this step.
    pub fn new(inputs: &PodInputs, settings: &Settings, step: Step) -> Self {
        let files = [&settings.authfile, &settings.push_authfile];
        let files = files.into_iter().flatten();
        Self {
            build: inputs.build.clone(),
            job_uid: inputs.job_uid.clone(),
            termination_log: inputs.termination_log.clone(),
            step,
            push: OnceLock::new(),
            // One that can't be read is told by who needs it.
            secrets: Redactor::from_logins(files.filter_map(|file| std::fs::read(file).ok())),
        }
    }

    /// From now on, what fails is the push.
    pub fn begin_push(&self) {
        self.push.get_or_init(Instant::now);
    }

    /// Tells how it ended, and waits until the sidecar has delivered that.
    ///
    /// # Errors
    /// What went wrong; a success that could not be delivered.
    pub async fn deliver(&self, folder: &Path, ended: Result<Outcome>) -> Result<ExitCode> {
        let result_dir = ResultDir::new(folder);
        match ended {
            Ok(outcome) => {
                let summary = summary(&outcome);
                let text = self.write(&result_dir, outcome)?;
                output::print_text(&summary)?;
                result_dir.acknowledged(&text, DELIVERY).await?;
                Ok(0)
            }
            Err(error) => {
                let told = self.write(&result_dir, self.failed(&error));
                let delivered = match &told {
                    Ok(text) => result_dir.acknowledged(text, FAILURE).await,
                    Err(_) => Ok(()),
                };
                // The first error is the one to end with.
                for other in told.err().into_iter().chain(delivered.err()) {
                    tracing::warn!("{other}");
                }
                Err(error)
            }
        }
    }

    /// Tells a failure in a folder of which nothing else is believed. Nobody answers: the sidecar delivers it at the pod's reporter.
    ///
    /// # Errors
    /// What went wrong.
    pub fn report_failure(&self, folder: &Path, ended: Result<()>) -> Result<ExitCode> {
        let Err(error) = ended else { return Ok(0) };
        if let Err(other) = self.write(&ResultDir::new(folder), self.failed(&error)) {
            tracing::warn!("{other}");
        }
        Err(error)
    }

    /// Writes a result to both places, and gives its text.
    fn write(
        &self,
        result_dir: &ResultDir,
        outcome: Outcome,
    ) -> Result<String, mosb_build::result_dir::Error> {
        let result =
            JobResult { job_uid: self.job_uid.clone(), build: self.build.clone(), outcome };
        // Only there in a container; it is a second way, so that it fails is no failure.
        let message = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.termination_log)
            .and_then(|mut file| file.write_all(result.to_termination_message().as_bytes()));
        if let Err(error) = message {
            tracing::debug!(%error, "no termination message");
        }
        let text = result.to_json();
        result_dir.put(&text)?;
        Ok(text)
    }

    fn failed(&self, failure: &Failure) -> Outcome {
        let program = program(failure);
        let want = program.and_then(|program| Shortage::of(last_output(program), &oom_counts()));
        let (message, last_lines) = match program.and_then(last_output) {
            Some(last) => {
                let message = failure.message();
                let told = message.split("; its last output:").next();
                let remedy = want.map(Shortage::remedy).unwrap_or_default();
                let lines = last.lines().map(|line| self.secrets.redact(line));
                let message = format!("{}{remedy}", told.unwrap_or_default());
                (message, lines.collect())
            }
            None => (failure.text(), Vec::new()),
        };
        Outcome::Failed {
            step: self.step,
            class: class(failure, program, want),
            reason: failure.code().to_owned(),
            message: self.secrets.redact(&message),
            last_lines,
            push: self.push.get().map(|began| millis(began.elapsed())),
        }
    }
}

/// What the controller should do. It differs from the exit code where a pod differs from a user's machine: its disk, its files
/// and its command line are not the user's doing, and its credentials are.
fn class(failure: &Failure, program: Option<&exec::Error>, want: Option<Shortage>) -> ErrorClass {
    match (failure.code(), program) {
        _ if want == Some(Shortage::Memory) => ErrorClass::Rejected,
        // There may be room on another node, or later.
        _ if want == Some(Shortage::Disk) => ErrorClass::Transient,
        // The base was just found there with the same credentials, so it is the network or the registry.
        (_, Some(exec::Error::Failed { action, .. })) if action == "pull" => ErrorClass::Transient,
        // Killed, for memory or with its node.
        (_, Some(exec::Error::Failed { status, .. })) if status.signal().is_some() => {
            ErrorClass::Transient
        }
        ("denied", _) => ErrorClass::InvalidInput,
        ("no-space" | "unusable-file" | "file-error" | "unwritable-file", _) => {
            ErrorClass::Transient
        }
        (
            "unreadable-file" | "wrong-use" | "no-cache-directory" | "payload-parts"
            | "payload-content" | "payload-bomb",
            _,
        ) => ErrorClass::Internal,
        _ => failure.class(),
    }
}

/// What a program had too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    Memory,
    Disk,
}

impl Shortage {
    /// From what a program wrote last, and what the kernel counts of our container: that a process was killed for lack of memory is
    /// not seen by who started it.
    fn of(last: Option<&str>, oom_counts: &[String]) -> Option<Self> {
        let killed = |line: &str| {
            let count = line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok()?;
            Some(count > 0)
        };
        let mut lines = oom_counts.iter().flat_map(|text| text.lines());
        if lines.any(|line| killed(line) == Some(true)) {
            return Some(Self::Memory);
        }
        let is_full = last.is_some_and(|last| last.contains("no space left on device"));
        is_full.then_some(Self::Disk)
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Memory => {
                ", and a process of this container was killed for lack of memory; raise its limit under job.resources in ConfigMap mosb-config, or let the build use less"
            }
            Self::Disk => {
                ", as a disk is full; raise the container's ephemeral-storage under job.resources in ConfigMap mosb-config, make room on the node, or let the build write less"
            }
        }
    }
}

/// What the kernel counts, by the second version of control groups and by the first.
fn oom_counts() -> Vec<String> {
    let files = ["memory.events", "memory/memory.oom_control"].into_iter();
    // Only one of them is there, and out of a container perhaps none.
    let read =
        files.filter_map(|file| fs::read_to_string(Path::new("/sys/fs/cgroup").join(file)).ok());
    read.collect()
}

/// The program that failed, if one did.
fn program(failure: &Failure) -> Option<&exec::Error> {
    match failure.downcast_ref()? {
        mosb_build::Error::Buildah(error) => error.program(),
        _ => None,
    }
}

fn last_output(error: &exec::Error) -> Option<&str> {
    match error {
        exec::Error::Failed { last, .. } | exec::Error::TimedOut { last, .. } => Some(last),
        _ => None,
    }
}

/// A line for who reads the container's log.
fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded { digest, .. } => format!("{digest}\n"),
        Outcome::NeedsContainerfile { reasons } => reasons
            .iter()
            .map(|reason| format!("can't be built directly: {}\n", reason.message))
            .collect(),
        Outcome::Failed { message, .. } => format!("{message}\n"),
    }
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn program(action: &str, status: i32) -> Failure {
        let error = exec::Error::Failed {
            program: "buildah".to_owned(),
            action: action.to_owned(),
            status: ExitStatus::from_raw(status),
            last: "first\nsecond".to_owned(),
        };
        mosb_build::Error::from(mosb_build::buildah::Error::from(error)).into()
    }

    fn registry(status: u16) -> Failure {
        let message = mosb_registry::RegistryMessage::default();
        match status {
            403 => mosb_registry::Error::Denied {
                image: "quay.io/os".to_owned(),
                status,
                with: "without credentials".to_owned(),
                message,
            },
            _ => mosb_registry::Error::Server {
                host: "quay.io".to_owned(),
                status,
                tries: 3,
                message,
            },
        }
        .into()
    }

    #[test]
    fn what_there_was_too_little_of_is_told() {
        let events = "low 0\nmax 41\noom 3\noom_kill 2\n";
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
        let full = "write layout/x: no space left on device";
        for (what, last, counts, want) in [
            ("neither", "exit status 1", &[control][..], None),
            ("killed", "exit status 137", &[events], Some(Shortage::Memory)),
            ("full", full, &[control], Some(Shortage::Disk)),
            ("nothing is counted", full, &[], Some(Shortage::Disk)),
        ] {
            let counts: Vec<_> = counts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(Shortage::of(Some(last), &counts), want, "{what}");
        }
    }

    #[test]
    fn the_class_says_what_the_controller_should_do() {
        let payload = mosb_plan::payload::unpack_texts(&["x".to_owned()]).unwrap_err();
        for (what, error, want, reason) in [
            ("a failing RUN", program("bud", 256), ErrorClass::Rejected, "program-failed"),
            ("a RUN killed for memory", program("bud", 9), ErrorClass::Transient, "program-failed"),
            (
                "blobs that don't come",
                program("pull", 256),
                ErrorClass::Transient,
                "program-failed",
            ),
            ("refused credentials", registry(403), ErrorClass::InvalidInput, "denied"),
            ("a registry in trouble", registry(503), ErrorClass::Transient, "registry-error"),
            ("a damaged ConfigMap", payload.into(), ErrorClass::Internal, "payload-content"),
            (
                "another build",
                crate::cli::error::Error::OtherBuild {
                    planned: "a".to_owned(),
                    wanted: "b".to_owned(),
                }
                .into(),
                ErrorClass::Internal,
                "other-build",
            ),
        ] {
            let reporter = ResultReporter {
                build: "worker-0123456789abcdef0123456789abcdef".parse().unwrap(),
                job_uid: String::new(),
                termination_log: PathBuf::new(),
                step: Step::ImageBuild,
                push: OnceLock::new(),
                secrets: Redactor::default(),
            };
            match reporter.failed(&error) {
                Outcome::Failed { class, reason: code, message, last_lines, .. } => {
                    assert_eq!((class, &*code), (want, reason), "{what}");
                    let ran = program_failed(&error);
                    assert_eq!(last_lines.len(), if ran { 2 } else { 0 }, "{what}");
                    assert!(!message.contains("second"), "{what}: {message}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn program_failed(error: &Failure) -> bool {
        super::program(error).is_some()
    }
}
