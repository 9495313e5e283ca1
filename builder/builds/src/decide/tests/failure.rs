//! Failure, interruption and recovery: rows 31 to 39 and 46 of `docs/reference/behaviours.md`.

use super::fake_cluster::*;
use super::rows::{blocked_by_degraded_pool, is_idle};
use super::server::metadata_of;
use crate::*;
use mosb_api::*;
use mosb_cluster::status::EventReason;
use mosb_types::ErrorClass;
use mosb_workload::{BuildNodes, InputKind};
use serde_json::json;
use std::time::Duration;

use BuildCondition::{Building, Failed, Succeeded};

#[test]
fn a_run_line_that_failed_is_tried_again_only_where_the_settings_say_so() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.run_retries = 1;
    fake.settle();
    fake.run();
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    let decision = fake.settle();
    assert_eq!(decision.reason.code(), "waiting", "{}", decision.reason);
    assert_eq!(decision.requeue_after, Some(Duration::from_secs(30)));
    assert_eq!(fake.state(), Some(Building));
    let failures = fake.current().metadata.annotation(labels::FAILURES);
    assert_eq!(failures, Some("1"));
    // A restarted controller finds all of it on the build.
    fake.wait(31);
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    fake.settle();
    assert_eq!(fake.state(), Some(Failed), "the one retry was spent");
    is_idle(&mut fake);
}

#[test]
fn a_job_that_a_broken_watch_lacks_is_not_replaced() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    let (workloads, made) = (std::mem::take(&mut fake.snapshot.workloads), fake.made.len());
    fake.snapshot.broken_watch = Some("jobs: away".to_owned());
    let decision = fake.settle();
    assert_eq!(decision.reason.to_string(), "the watch failed: jobs: away; check the API server");
    assert_eq!((fake.state(), fake.made.len()), (Some(Building), made));
    fake.snapshot.broken_watch = None;
    fake.snapshot.workloads = workloads;
    fake.settle();
    assert_eq!((fake.state(), fake.made.len()), (Some(Building), made), "it goes on");
}

/// Its containers could not read the inputs that this version writes. One that began has its own.
#[test]
fn a_suspended_job_of_another_version_is_replaced() {
    for (inputs, want) in [("missing", 2), ("written by the other one", 1)] {
        let mut fake = FakeCluster::opted_in();
        while fake.made.is_empty() {
            fake.round(usize::MAX);
        }
        if want == 1 {
            fake.settle();
        }
        let workload = &mut fake.snapshot.workloads[0].workload;
        let annotations = metadata_of(workload).annotations.get_or_insert_default();
        annotations.insert(labels::BUILD_SPEC.to_owned(), "0".to_owned());
        fake.settle();
        fake.wait(5);
        fake.build();
        assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), want), "{inputs}");
        let failures = fake.current().metadata.annotation(labels::FAILURES);
        assert!(matches!(failures, None | Some("0")), "{inputs}: {failures:?}");
    }
}

#[test]
fn a_digest_is_not_believed() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.succeed();
    fake.registry_problem = Some(problem(ErrorClass::Transient, "the registry does not answer"));
    assert_eq!(fake.settle().reason.to_string(), "the registry does not answer");
    assert_eq!((fake.state(), fake.image()), (Some(Building), ""));
    fake.registry_problem = None;
    let images = std::mem::take(&mut fake.images);
    fake.round(usize::MAX);
    assert_eq!(fake.image(), "");
    assert_eq!(fake.decide().reason.code(), "waiting", "the registry has none");
    fake.images = images;
    fake.build();
    assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 2));
}

/// Each kind has its own watch: that of the results may be delayed when the Job is seen to end.
#[test]
fn a_success_that_no_watch_has_shown_is_no_loss() {
    for reason in ["BackoffLimitExceeded", "DeadlineExceeded"] {
        let mut fake = FakeCluster::opted_in();
        fake.settle();
        fake.run();
        fake.settle();
        fake.succeed();
        let result = fake.snapshot.results.pop_first().map(|(_, result)| result);
        fake.unseen = result;
        fake.fail_workload(reason, json!({}));
        fake.api_problem = Some(problem(ErrorClass::Transient, "the API server did not answer"));
        let decision = fake.settle();
        assert_eq!(decision.reason.to_string(), "the API server did not answer");
        assert_eq!(fake.state(), Some(Building), "{reason}");
        fake.api_problem = None;
        fake.settle();
        assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 1), "{reason}");
        assert_eq!(fake.event_count(EventReason::JobFailed), 0, "{reason}");
    }
}

#[test]
fn rows_31_32_39_a_failed_build_is_retained_until_an_input_changes() {
    let mut fake = FakeCluster::built();
    fake.containerfile("RUN dnf install usbguard");
    fake.settle();
    let image = fake.image().to_owned();
    fake.run();
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    assert_eq!(fake.settle().reason.code(), "failed");
    assert_eq!(fake.state(), Some(Failed));
    assert_eq!((fake.snapshot.workloads.len(), fake.snapshot.inputs.len()), (1, 3), "row 31");
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("True", "BuildFailed"));
    assert_eq!(fake.image(), image, "the last good one");
    let status = &fake.current().status;
    let message = &condition(&status.conditions, "Failed").unwrap().message;
    assert_eq!(
        message,
        "image-build: dnf ended with 1 (program-failed)\nIts last lines:\nno package usbguard"
    );
    let failed = EventReason::BuildFailed.as_str();
    let note = &fake.events.iter().find(|event| event.reason == failed).unwrap().note;
    assert!(note.contains("kubectl -n ns logs job/build-worker-"), "{note}");
    assert_eq!(fake.event_count(EventReason::BuildDegraded), 1);
    is_idle(&mut fake);
    fake.wait(100_000);
    is_idle(&mut fake);

    let old = fake.current().metadata.uid.clone();
    fake.containerfile("RUN true");
    fake.settle();
    assert_ne!(fake.current().metadata.uid, old, "row 32");
    assert_eq!(
        (fake.snapshot.workloads.len(), fake.snapshot.inputs.len(), fake.snapshot.builds.len()),
        (1, 3, 2)
    );
    assert_eq!(
        fake.blocked_by_degraded_pool(),
        blocked_by_degraded_pool("False", "Building"),
        "row 34"
    );
    fake.run();
    fake.settle();
    fake.succeed();
    fake.settle();
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("False", "BuildSuccess"));
    is_idle(&mut fake);
}

#[test]
fn rows_33_34_a_wrong_containerfile_fails_without_a_job() {
    let mut fake = FakeCluster::opted_in();
    fake.containerfile("FRO scratch");
    fake.bad_containerfile = true;
    fake.settle();
    assert_eq!((fake.state(), fake.made.len()), (Some(Failed), 0));
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("True", "BuildFailed"));
    let name = fake.current().metadata.name.clone();
    let pool = fake.snapshot.pool.as_ref().unwrap();
    let message = &condition(&pool.status.conditions, "ImageBuildDegraded").unwrap().message;
    for part in ["pool worker", &name, "line 1: FRO is not an instruction"] {
        assert!(message.contains(part), "{message}");
    }
    is_idle(&mut fake);
    fake.bad_containerfile = false;
    fake.containerfile("FROM scratch");
    fake.settle();
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("False", "Building"));
    fake.build();
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("False", "BuildSuccess"));
    assert_eq!(fake.snapshot.builds.len(), 1);
    assert_eq!(fake.event_count(EventReason::BuildRecovered), 0, "it was building since");
}

#[test]
fn rows_35_36_what_is_taken_away_is_made_again() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory" });
    let lost = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager" }] });
    type Take = Box<dyn Fn(&mut FakeCluster)>;
    let takes: [(&str, Take, EventReason); 3] = [
        ("a deleted workload", Box::new(FakeCluster::delete_workload), EventReason::JobDeleted),
        (
            "an evicted pod",
            Box::new(move |fake| fake.fail_workload("BackoffLimitExceeded", evicted.clone())),
            EventReason::JobFailed,
        ),
        (
            "a lost node",
            Box::new(move |fake| fake.fail_workload("BackoffLimitExceeded", lost.clone())),
            EventReason::JobFailed,
        ),
    ];
    let by_each = ImageBuilderType::ALL.map(|builder| takes.each_ref().map(|row| (builder, row)));
    for (builder, (what, take, reason)) in by_each.into_iter().flatten() {
        let (what, reason) = (format!("{builder}: {what}"), *reason);
        let mut fake = FakeCluster::built_by(builder);
        fake.settle();
        let uid = fake.current().metadata.uid.clone();
        for n in 1..12 {
            fake.run();
            fake.settle();
            take(&mut fake);
            let decision = fake.settle();
            assert_eq!(decision.reason.code(), "waiting", "{what}");
            assert_eq!(fake.state(), Some(Building), "{what}");
            assert_eq!(fake.event_count(reason), n, "{what}");
            assert!(fake.snapshot.workloads.is_empty(), "{what}");
            let pause = decision.requeue_after.expect("it is tried again").as_secs();
            assert!(pause <= 300, "{what}: {pause}");
            fake.wait(pause as i64 + 1);
            fake.settle();
            let attempt = fake.current().metadata.annotation(labels::ATTEMPT).map(str::to_owned);
            assert_eq!(attempt, Some((n + 1).to_string()), "{what}");
        }
        fake.build();
        assert_eq!((fake.state(), &fake.current().metadata.uid), (Some(Succeeded), &uid), "{what}");
    }
}

#[test]
fn a_clock_that_was_set_back_is_not_waited_for() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory" });
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    fake.fail_workload("BackoffLimitExceeded", evicted);
    assert_eq!(fake.settle().reason.code(), "waiting");
    fake.wait(-3600);
    fake.settle();
    assert_eq!(fake.snapshot.workloads.len(), 1, "the next attempt");
    let attempt = fake.current().metadata.annotation(labels::ATTEMPT);
    assert_eq!(attempt, Some("2"));
}

#[test]
fn faults_are_retried_by_their_class() {
    let oom = json!({ "containerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] });
    type Fail = Box<dyn Fn(&mut FakeCluster)>;
    let failure =
        |class| -> Fail { Box::new(move |fake: &mut FakeCluster| fake.report(failed(class))) };
    let lost = |reason: &'static str, pod: serde_json::Value| -> Fail {
        Box::new(move |fake: &mut FakeCluster| fake.fail_workload(reason, pod.clone()))
    };
    // The number of attempts. Our own pods report a cause; OpenShift Builds rarely do.
    let rows = [
        ("a user's error", failure(ErrorClass::InvalidInput), [1, 1]),
        ("the build itself", failure(ErrorClass::Rejected), [1, 1]),
        ("our error", failure(ErrorClass::Internal), [2, 3]),
        ("a registry that is away", failure(ErrorClass::Transient), [20, 3]),
        ("a hung build", lost("DeadlineExceeded", json!({})), [1, 1]),
        ("out of memory", lost("BackoffLimitExceeded", oom), [2, 2]),
        ("silent", lost("BackoffLimitExceeded", json!({ "phase": "Failed" })), [3, 3]),
    ];
    let by_each = ImageBuilderType::ALL.map(|builder| rows.each_ref().map(|row| (builder, row)));
    for (builder, (what, fail, workloads)) in by_each.into_iter().flatten() {
        let what = format!("{builder}: {what}");
        let workloads = workloads[usize::from(builder == ImageBuilderType::OpenShiftImage)];
        let mut fake = FakeCluster::built_by(builder);
        for _ in 0..20 {
            let decision = fake.settle();
            if let Some(pause) = decision.requeue_after {
                fake.wait(pause.as_secs() as i64 + 1);
                fake.settle();
            }
            if fake.current().status.is_terminal() {
                break;
            }
            fake.run();
            fake.settle();
            fail(&mut fake);
        }
        fake.settle();
        assert_eq!(fake.made.len(), workloads, "{what}");
        assert_eq!(fake.current().status.is_terminal(), workloads < 20, "{what}");
    }
}

#[test]
fn row_38_a_deleted_build_is_made_again() {
    for ends in [false, true] {
        let mut fake = FakeCluster::opted_in();
        if ends {
            _ = fake.build()
        } else {
            _ = fake.settle()
        }
        let old = fake.current().metadata.clone();
        fake.delete_build(&old.name);
        fake.settle();
        assert_eq!(fake.current().metadata.name, old.name);
        assert_ne!(fake.current().metadata.uid, old.uid);
        assert_eq!(fake.made.len(), 2);
        fake.build();
        assert_eq!(fake.state(), Some(Succeeded));
    }
}

#[test]
fn a_foreign_object_with_our_name_is_not_deleted() {
    let mut fake = FakeCluster::opted_in();
    while fake.snapshot.workloads.is_empty() {
        fake.round(usize::MAX);
    }
    let name = format!("mc-{}", fake.snapshot.builds[0].metadata.name);
    fake.snapshot.inputs.push(SeenInput {
        kind: InputKind::ConfigMap,
        name: name.clone(),
        uid: "theirs".to_owned(),
        workload_uid: String::new(),
        build: "another".to_owned(),
        deleting: false,
    });
    let decision = fake.settle();
    assert!(decision.reason.to_string().starts_with(&format!("ConfigMap {name} ")));
    assert_eq!(fake.blocked().unwrap().0, "True");
    assert!(fake.snapshot.inputs.iter().any(|one| one.uid == "theirs"));
}

#[test]
fn another_jobs_leftovers_go_first() {
    let mut fake = FakeCluster::opted_in();
    while fake.snapshot.workloads.is_empty() {
        fake.round(usize::MAX);
    }
    let name = fake.snapshot.builds[0].metadata.name.clone();
    fake.snapshot.inputs.push(SeenInput {
        kind: InputKind::Secret,
        name: format!("final-{name}"),
        uid: "old".to_owned(),
        workload_uid: "an older Job".to_owned(),
        build: name,
        deleting: false,
    });
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
}

/// The build of control-plane machines waits for such a node, reports that, and the wait counts as
/// no failure.
#[test]
fn a_build_waits_for_a_control_plane_node() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.build_nodes = BuildNodes::ControlPlane { exists: false };
    let decision = fake.settle();
    assert_eq!(decision.reason.code(), "no-control-plane-node");
    assert!(fake.snapshot.workloads.is_empty(), "nothing runs");
    let blocked = ("True".to_owned(), "NoControlPlaneNode".to_owned());
    assert_eq!(fake.blocked(), Some(blocked.clone()));

    fake.snapshot.build_nodes = BuildNodes::ControlPlane { exists: true };
    fake.settle();
    let cordoned = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/2 nodes are available" }] });
    fake.set_pod_status(cordoned.clone());
    assert_eq!(fake.settle().reason.code(), "no-control-plane-node");
    assert_eq!(fake.blocked(), Some(blocked));

    // For any other pool this is only reported.
    let mut other = fake.clone();
    other.snapshot.build_nodes = BuildNodes::Any;
    assert_eq!(other.settle().reason.code(), "pending");

    fake.run();
    fake.settle();
    fake.succeed();
    fake.build();
    let unblocked = ("False".to_owned(), "AsExpected".to_owned());
    assert_eq!(fake.blocked(), Some(unblocked));
    assert_eq!(fake.state(), Some(Succeeded));
}
