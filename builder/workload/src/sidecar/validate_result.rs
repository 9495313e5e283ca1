//! Validates results: any result of the push is accepted; of the build, only a failure.

use super::SidecarConfig;
use mosb_build::result::{JobResult, Outcome, Step};
use mosb_types::ErrorClass;

/// The result of the push. An invalid one is reported as a failure.
pub(super) fn validate_push_result(config: &SidecarConfig, bytes: &[u8]) -> JobResult {
    let read = JobResult::from_json(bytes).map_err(|error| error.to_string());
    let outcome = match read {
        Ok(result) if result.build == config.build => result.outcome,
        Ok(result) => invalid(format!(
            "the result is of build {}, and this is {}",
            result.build, config.build
        )),
        Err(error) => invalid(error),
    };
    for_config(config, outcome)
}

fn invalid(message: String) -> Outcome {
    Outcome::Failed {
        step: Step::WaitForDone,
        class: ErrorClass::Internal,
        reason: "bad-job-result".to_owned(),
        message,
        last_lines: Vec::new(),
        push: None,
    }
}

/// The failure that the build reported, if it is one.
pub(super) fn validate_build_failure(config: &SidecarConfig, bytes: &[u8]) -> Option<JobResult> {
    let read = JobResult::from_json(bytes).ok()?;
    match read.outcome {
        Outcome::Failed { class, reason, message, last_lines, .. } => Some(for_config(
            config,
            Outcome::Failed {
                step: Step::ImageBuild,
                class,
                reason,
                message,
                last_lines,
                push: None,
            },
        )),
        Outcome::Succeeded { .. }
        | Outcome::Prepared { .. }
        | Outcome::NeedsContainerfile { .. } => None,
    }
}

fn for_config(config: &SidecarConfig, outcome: Outcome) -> JobResult {
    JobResult { job_uid: config.job_uid.clone(), build: config.build.clone(), outcome }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use mosb_image::Digest;

    fn config() -> SidecarConfig {
        SidecarConfig {
            result: "/none".into(),
            failure: None,
            config_map: "digest".to_owned(),
            namespace: "ns".to_owned(),
            job_uid: "uid".to_owned(),
            build: "worker-0123456789abcdef0123456789abcdef".parse().unwrap(),
        }
    }

    fn text(build: &str, outcome: Value) -> Vec<u8> {
        let mut value = json!({ "jobUid": "forged", "build": build });
        value.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        value.to_string().into_bytes()
    }

    const BUILD: &str = "worker-0123456789abcdef0123456789abcdef";

    fn succeeded() -> Value {
        json!({ "outcome": "Succeeded", "digest": Digest::of(b""), "method": "direct" })
    }

    fn refused(step: &str) -> Value {
        json!({ "outcome": "Failed", "step": step, "class": "refused", "reason": "x", "message": "m" })
    }

    #[test]
    fn only_failures_of_the_build_are_accepted() {
        let other = "infra-0123456789abcdef0123456789abcdef";
        for (what, bytes, want) in [
            ("a failure", text(BUILD, refused("image-build")), true),
            ("a failure of another step", text(BUILD, refused("image-push")), true),
            ("a failure of another build", text(other, refused("image-build")), true),
            ("a success", text(BUILD, succeeded()), false),
            (
                "needs",
                text(BUILD, json!({ "outcome": "NeedsContainerfile", "reasons": [] })),
                false,
            ),
            ("rubbish", b"{".to_vec(), false),
        ] {
            let found = validate_build_failure(&config(), &bytes);
            assert_eq!(found.is_some(), want, "{what}");
            if let Some(found) = found {
                assert_eq!((&*found.job_uid, found.build.as_str()), ("uid", BUILD), "{what}");
                assert!(
                    matches!(found.outcome, Outcome::Failed { step: Step::ImageBuild, .. }),
                    "{what}"
                );
            }
        }
    }

    #[test]
    fn every_result_of_the_push_is_reported() {
        for (what, bytes, want) in [
            ("a success", text(BUILD, succeeded()), "Succeeded"),
            ("a failure", text(BUILD, refused("image-push")), "ImagePush"),
            (
                "of another build",
                text("infra-0123456789abcdef0123456789abcdef", succeeded()),
                "WaitForDone",
            ),
            ("rubbish", b"{".to_vec(), "WaitForDone"),
        ] {
            let deliveries = validate_push_result(&config(), &bytes);
            assert_eq!(deliveries.job_uid, "uid", "{what}");
            assert!(format!("{:?}", deliveries.outcome).contains(want), "{what}: {deliveries:?}");
        }
    }
}
