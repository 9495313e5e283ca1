//! Logs are archived before the pod is deleted.

use super::fake_cluster::*;
use super::rows::is_idle;
use crate::action::BuildEffect;
use crate::*;
use mosb_api::*;
use mosb_cluster::kinds;
use mosb_reconcile::write::NewStatus;
use mosb_types::ErrorClass;
use serde_json::json;

/// A build whose pod runs.
fn running() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    assert_eq!(fake.logs, [], "while it runs it can be asked");
    fake
}

/// The position of an action in the next decision.
fn place(fake: &mut FakeCluster, is: impl Fn(&Action) -> bool) -> Option<usize> {
    fake.decide().actions.iter().position(is)
}

#[test]
fn logs_are_archived_before_a_job_is_deleted_and_before_a_failure_is_reported() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory",
        "containerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 137 } } }] });
    type End = Box<dyn Fn(&mut FakeCluster)>;
    let ends: [(&str, End); 4] = [
        ("succeeded", Box::new(FakeCluster::succeed)),
        ("failed", Box::new(|fake| fake.report(failed(ErrorClass::Rejected)))),
        (
            "evicted",
            Box::new(move |fake| fake.fail_workload("BackoffLimitExceeded", evicted.clone())),
        ),
        ("to be built with the Containerfile", Box::new(|fake| fake.report(needs_containerfile()))),
    ];
    for (what, end) in ends {
        let mut fake = running();
        let uid = fake.current().metadata.uid().to_owned();
        end(&mut fake);
        // Wherever the controller is killed, logs are archived in time.
        let keeps = |action: &Action| matches!(action, Action::Effect(BuildEffect::ArchiveLogs(_)));
        let archived_at = place(&mut fake, keeps).expect(what);
        let matters = |action: &Action| match action {
            Action::Delete(target) => target.kind == kinds::JOB,
            // What its checks found may be recorded before.
            Action::Patch(target, patch) => {
                target.kind == kinds::MACHINE_OS_BUILD
                    && !patch.annotations.contains_key(labels::CHECKED)
            }
            Action::ReplaceStatus(target, NewStatus::Whole(status))
                if target.kind == kinds::MACHINE_OS_BUILD =>
            {
                let status: MachineOsBuildStatus = serde_json::from_value(status.clone()).unwrap();
                status.is_terminal() && status.image().is_none()
            }
            _ => false,
        };
        assert!(place(&mut fake, matters).is_some_and(|at| archived_at < at), "{what}");
        fake.round(archived_at + 1);
        fake.settle();
        // Once, or again if the later actions were not applied.
        assert!(!fake.logs.is_empty() && fake.logs.len() <= 2, "{what}");
        assert!(fake.logs.iter().all(|archived| *archived == (uid.clone(), 1)), "{what}");
        let count = fake.logs.len();
        fake.settle();
        assert_eq!(fake.logs.len(), count, "{what}");
    }
}

#[test]
fn a_pod_without_output_leaves_no_archived_log() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.fail_workload("BackoffLimitExceeded", json!({ "phase": "Failed" }));
    fake.settle();
    assert_eq!(fake.logs, []);
    let mut fake = FakeCluster::built();
    assert_eq!(fake.logs.len(), 1);
    is_idle(&mut fake);
    fake.annotate(labels::REBUILD, "");
    fake.build();
    assert_eq!(fake.logs.len(), 2);
    assert_ne!(fake.logs[0].0, fake.logs[1].0, "another build");
}
