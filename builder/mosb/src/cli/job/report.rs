//! Reports the end of a part of a build: a result for the controller, and an exit code.

use std::path::Path;

use super::inputs::PodInputs;
use mosb_build::result::{Outcome, PreparedImage, Step};
use mosb_build::{Redactor, ResultReporter, StepFailure, exec};
use mosb_commands::settings::Settings;
use mosb_commands::{ExitCode, Failure, Result, output};
use mosb_plan::plan::Reason;

/// The reporter of the container for this step.
pub fn new_reporter(inputs: &PodInputs, settings: &Settings, step: Step) -> ResultReporter {
    let files = [settings.authfile.as_ref(), settings.push_logins()];
    // A file that can't be read is reported by the code that needs it.
    let files = files.into_iter().flatten().filter_map(|file| std::fs::read(file).ok());
    ResultReporter::new(
        inputs.spec.build.clone(),
        inputs.job_uid.clone(),
        inputs.termination_log.clone(),
        step,
        Redactor::from_logins(files),
    )
}

/// Reports the result, and waits until the sidecar has delivered it.
///
/// # Errors
/// The error of the part; a success that could not be delivered.
pub async fn deliver(
    reporter: &ResultReporter,
    folder: &Path,
    ended: Result<Outcome>,
) -> Result<ExitCode> {
    match ended {
        Ok(outcome) => {
            let summary = summary(&outcome);
            let delivery = reporter.write(folder, outcome)?;
            output::print_text(&summary)?;
            delivery.acknowledged().await?;
            Ok(0)
        }
        Err(error) => {
            reporter.deliver_failure(folder, &step_failure(&error)).await;
            Err(error)
        }
    }
}

/// Reports a failure in a folder whose other content is not trusted. The sidecar acknowledges
/// nothing there.
///
/// # Errors
/// The error of the part.
pub fn report_failure(
    reporter: &ResultReporter,
    folder: &Path,
    ended: Result<()>,
) -> Result<ExitCode> {
    ended.inspect_err(|error| {
        reporter.write_failure(folder, &step_failure(error));
    })?;
    Ok(0)
}

fn step_failure(failure: &Failure) -> StepFailure<'_> {
    StepFailure {
        class: failure.class(),
        code: failure.code(),
        message: failure.message(),
        text: failure.text(),
        program: program(failure),
    }
}

/// The failed program, if a program failed.
fn program(failure: &Failure) -> Option<&exec::Error> {
    match failure.downcast_ref()? {
        mosb_build::Error::Buildah(error) => error.program(),
        _ => None,
    }
}

/// The result of a build that needs buildah.
pub fn needs_containerfile(reasons: &[Reason], prepared: Option<PreparedImage>) -> Outcome {
    Outcome::NeedsContainerfile {
        reasons: reasons.iter().map(Reason::finding).collect(),
        prepared: prepared.map(Box::new),
    }
}

/// Logs a failure.
fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded { digest, .. } => format!("{digest}\n"),
        Outcome::Prepared { prepared, .. } => format!("{}\n", prepared.image),
        Outcome::NeedsContainerfile { reasons, .. } => reasons
            .iter()
            .map(|reason| format!("can't be built directly: {}\n", reason.message))
            .collect(),
        Outcome::Failed { message, .. } => format!("{message}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::ErrorClass;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

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
    fn each_error_is_reported_with_its_class() {
        let payload = mosb_plan::payload::unpack_texts(&["x".to_owned()]).unwrap_err();
        let killed = exec::Error::Failed {
            program: "buildah".to_owned(),
            action: "bud".to_owned(),
            status: ExitStatus::from_raw(9),
            last: "first\nsecond".to_owned(),
        };
        let killed = mosb_build::Error::from(mosb_build::buildah::Error::from(killed));
        let other_build = mosb_commands::error::Error::OtherBuild {
            planned: "a".to_owned(),
            wanted: "b".to_owned(),
        };
        for (what, error, want, reason) in [
            ("a RUN that was killed", killed.into(), ErrorClass::Transient, "program-failed"),
            ("refused credentials", registry(403), ErrorClass::InvalidInput, "denied"),
            ("a registry in trouble", registry(503), ErrorClass::Transient, "registry-error"),
            ("a damaged ConfigMap", payload.into(), ErrorClass::Internal, "payload-content"),
            ("another build", other_build.into(), ErrorClass::Internal, "other-build"),
        ] {
            let failure = step_failure(&error);
            match failure.outcome(Step::ImageBuild, None, &[], &Redactor::default()) {
                Outcome::Failed { class, reason: code, .. } => {
                    assert_eq!((class, &*code), (want, reason), "{what}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
