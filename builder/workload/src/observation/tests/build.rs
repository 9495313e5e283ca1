//! A Build of OpenShift.

use super::*;

#[test]
fn the_state_of_a_build_follows_its_status() {
    let build = |status: Value, gone: bool| -> Workload {
        let build: mosb_api::openshift_build::OpenShiftBuild = serde_json::from_value(json!({
            "metadata": { "name": RUNNER, "uid": UID, "deletionTimestamp": gone.then_some("2026-01-01T00:00:00Z"),
                "ownerReferences": [{ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
                    "name": "worker-0123456789abcdef0123456789abcdef", "uid": "b" }] },
            "spec": { "completionDeadlineSeconds": 60 }, "status": status,
        }))
        .unwrap();
        build.into()
    };
    let failed = |reason: &str| json!({ "phase": "Failed", "reason": reason, "message": "so it is", "logSnippet": "STEP 5\nno package\n" });
    let pending = |why: Option<&str>| Observation::Pending { why: why.map(str::to_owned) };
    let lost = Observation::NoResult;
    let digest = Digest::of(b"image");
    let complete = |digest: &str| json!({ "phase": "Complete", "output": { "to": { "imageDigest": digest } } });
    let text = |text: &str| NoResultCause::Failed(text.to_owned());
    let refused = |reason: &str| {
        Observation::Finished(result(
            UID,
            Outcome::Failed {
                step: Step::ImageBuild,
                class: ErrorClass::Rejected,
                reason: "program-failed".to_owned(),
                message: format!("{reason}: so it is"),
                last_lines: vec!["STEP 5".to_owned(), "no package".to_owned()],
                push: None,
            },
        ))
    };
    let mut too_long = failed("GenericBuildFailed");
    too_long["startTimestamp"] = json!("2026-01-01T00:00:00Z");
    too_long["completionTimestamp"] = json!("2026-01-01T00:01:00Z");
    let mut in_time = too_long.clone();
    in_time["completionTimestamp"] = json!("2026-01-01T00:00:59Z");
    for (what, status, gone, want) in [
        ("not looked at", json!(null), false, pending(None)),
        ("new", json!({ "phase": "New" }), false, pending(None)),
        (
            "waiting",
            json!({ "phase": "New", "reason": "MissingPushSecret", "message": "no such secret" }),
            false,
            pending(Some("MissingPushSecret: no such secret")),
        ),
        ("running", json!({ "phase": "Running" }), false, Observation::Running),
        ("going away", json!({ "phase": "Running" }), true, lost(NoResultCause::Deleted)),
        ("cancelled", json!({ "phase": "Cancelled" }), false, lost(NoResultCause::Deleted)),
        (
            "evicted",
            failed("BuildPodEvicted"),
            false,
            lost(NoResultCause::Evicted("BuildPodEvicted: so it is".to_owned())),
        ),
        ("its pod deleted", failed("BuildPodDeleted"), false, lost(NoResultCause::Deleted)),
        (
            "out of memory",
            failed("OutOfMemoryKilled"),
            false,
            lost(NoResultCause::OutOfMemory("of the Build".to_owned())),
        ),
        ("a failing instruction", failed("DockerBuildFailed"), false, refused("DockerBuildFailed")),
        ("a bad name", failed("InvalidOutputReference"), false, refused("InvalidOutputReference")),
        (
            "a push that failed",
            failed("PushImageToRegistryFailed"),
            false,
            lost(text("PushImageToRegistryFailed: so it is: no package")),
        ),
        ("too long", too_long, false, lost(NoResultCause::DeadlineExceeded)),
        ("in time", in_time, false, lost(text("GenericBuildFailed: so it is: no package"))),
        (
            "without a digest",
            complete(""),
            false,
            lost(text(
                "the Build is complete, and its status names no imageDigest; does the registry return digests?",
            )),
        ),
    ] {
        let found = settled(&build(status, gone), &[], None);
        assert_eq!(found, want, "{what}");
    }
    let done = settled(&build(complete(&digest.to_string()), true), &[], None);
    let Observation::Finished(reported) = done else {
        panic!("{done:?}");
    };
    assert_eq!(reported.job_uid, UID);
    assert!(
        matches!(reported.outcome, Outcome::Succeeded { digest: found, .. } if found == digest)
    );
}
