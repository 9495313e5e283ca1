//! Other builders, other configs, other owners.
//! Rows 17 and 67 of `docs/reference/behaviours.md` are here.

use super::fake_cluster::*;
use super::rows::{blocked_by_degraded_pool, is_idle};
use crate::decide::report_refusal;
use crate::*;
use mosb_api::*;
use mosb_build::JobMethod;
use mosb_cluster::kinds;
use mosb_cluster::status::{BLOCKED, EventReason, WARNINGS};
use mosb_reconcile::Problem;
use mosb_reconcile::write::NewStatus;
use mosb_types::{ErrorClass, Finding};
use serde_json::json;

use BuildCondition::Succeeded;

#[test]
fn row_17_a_build_of_another_config_is_none_of_ours() {
    let mut fake = FakeCluster::built();
    let mut build = fake.current().clone();
    build.metadata.name = FOREIGN.to_owned();
    build.metadata.uid = Some("theirs".to_owned());
    build.metadata.annotations.clear();
    build.spec.machine_config.name = rendered(7);
    build.status = MachineOsBuildStatus::default();
    fake.snapshot.builds.push(build);
    is_idle(&mut fake);
    fake.render(2);
    fake.build();
    assert!(fake.find(FOREIGN).is_some(), "never deleted");
    assert!(fake.made.iter().all(|(build, ..)| build != "theirs"));
}

#[test]
fn row_67_opting_out_leaves_nothing() {
    let mut fake = FakeCluster::built();
    fake.containerfile("RUN false");
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    fake.settle();
    fake.snapshot.config = None;
    fake.collect();
    fake.settle();
    assert!(
        fake.snapshot.builds.is_empty()
            && fake.snapshot.workloads.is_empty()
            && fake.snapshot.inputs.is_empty()
    );
    assert_eq!(
        fake.blocked_by_degraded_pool(),
        blocked_by_degraded_pool("False", "NoLayeredObjects")
    );
    let pool = fake.snapshot.pool.as_ref().unwrap();
    assert!(pool.metadata.annotations.is_empty());
    assert_eq!(fake.event_count(EventReason::ConfigDeleted), 1);
    is_idle(&mut fake);
    // Opt in again: the images still exist, but their builds are unknown.
    fake.opt_in();
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
}

#[test]
fn a_label_makes_a_config() {
    let mut fake = FakeCluster::new();
    let settings = |push: &str| {
        let data = [("finalImagePushSecretName", "push"), ("finalImagePullspec", push)];
        data.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    };
    fake.snapshot.label = Some(LabelOptIn::default());
    assert_eq!(fake.settle().reason.code(), "label-incomplete");
    fake.snapshot.label = Some(LabelOptIn {
        settings: Some(settings("quay.io/acme/os")),
        containerfile: Some("RUN true".to_owned()),
    });
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
    let spec = fake.config().spec.clone();
    assert_eq!(spec.rendered_image_push_spec, "quay.io/acme/os:latest");
    assert_eq!(spec.containerfile("amd64"), Some("RUN true"));
    fake.snapshot.label.as_mut().unwrap().settings = Some(settings("quay.io/acme/new:v1"));
    fake.build();
    assert_eq!(fake.made.len(), 2);
    assert!(fake.image().starts_with("quay.io/acme/new@") || fake.state() == Some(Succeeded));
    fake.snapshot.label = None;
    fake.settle();
    fake.collect();
    assert!(fake.snapshot.config.is_none() && fake.snapshot.builds.is_empty());
    // With a Machine Config Operator, the label has no effect here.
    fake.snapshot.label = Some(LabelOptIn::default());
    fake.snapshot.cluster.machine_config_operator = true;
    assert_eq!(fake.settle().reason, PoolReason::NotOptedIn);
}

#[test]
fn nobody_fights() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.other_builder = Some("Deployment machine-os-builder".to_owned());
    assert_eq!(fake.settle().reason.code(), "other-builder");
    assert!(fake.events.is_empty() && fake.snapshot.builds.is_empty());
    is_idle(&mut fake);

    // The image that it put in service stays in service.
    fake.snapshot.cluster.other_builder = None;
    let image = format!("quay.io/acme/os@sha256:{}", "0a".repeat(32));
    fake.annotate(labels::CURRENT_MACHINE_OS_BUILD, FOREIGN);
    let config = fake.config();
    config.status.current_image_pull_spec = image.clone();
    config.status.observed_generation = config.metadata.generation;
    let theirs = json!({
        "metadata": { "name": FOREIGN, "uid": "theirs", "resourceVersion": "1" },
        "spec": { "machineConfig": { "name": rendered(1) }, "machineOSConfig": { "name": "worker" }, "renderedImagePushSpec": "quay.io/acme/os:x" },
        "status": { "conditions": [{ "type": "Succeeded", "status": "True", "reason": "Ready", "message": "" }], "digestedImagePushSpec": image },
    });
    fake.snapshot.builds.push(serde_json::from_value(theirs).unwrap());
    let uid = fake.snapshot.config.as_ref().unwrap().metadata.uid().to_owned();
    fake.snapshot.builds[0].metadata.owner_references =
        vec![OwnerReference { uid, controller: Some(true), ..OwnerReference::default() }];
    assert_eq!(fake.settle().reason.code(), "up-to-date");
    assert_eq!(fake.snapshot.builds.len(), 1);
    is_idle(&mut fake);
    let mut adopting = fake.clone();
    adopting.snapshot.cluster.machine_config_daemon = true;
    adopting.images.insert(image.parse().unwrap());
    adopting.render(2);
    adopting.build();
    assert_eq!(
        (adopting.image(), adopting.made.len()),
        (&*image, 0),
        "adopted from the other builder's"
    );
    fake.annotate(labels::REBUILD, "");
    fake.build();
    assert_eq!((fake.made.len(), fake.snapshot.builds.len()), (1, 2), "the other's stays");
    assert_eq!(fake.annotation(labels::REBUILD), None);
}

#[test]
fn two_configs_for_one_pool() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.rivals = vec!["old-worker".to_owned()];
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded), "the one with the pool's name is it");
    let mut rival = FakeCluster::opted_in();
    rival.config().metadata.name = "old-worker".to_owned();
    rival.snapshot.rivals = vec!["worker".to_owned()];
    assert_eq!(rival.settle().reason.code(), "rivals");
    assert!(rival.snapshot.builds.is_empty());
    is_idle(&mut rival);
}

#[test]
fn a_config_recreated_at_once_waits_for_the_old_ones_builds() {
    let mut fake = FakeCluster::built();
    fake.opt_in();
    let decision = fake.round(usize::MAX);
    assert_eq!(decision.reason.code(), "replacing");
    fake.build();
    assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 2));
}

#[test]
fn a_degraded_pool_gets_no_new_build() {
    let mut fake = FakeCluster::built();
    let blocked_by_degraded_pool = Condition {
        kind: "NodeDegraded".to_owned(),
        status: "True".to_owned(),
        ..Condition::default()
    };
    fake.pool().status.conditions.push(blocked_by_degraded_pool);
    is_idle(&mut fake);
    fake.render(2);
    assert_eq!(fake.settle().reason.code(), "pool-degraded");
    assert_eq!(fake.blocked().unwrap().1, "PoolDegraded");
    fake.annotate(labels::REBUILD, "");
    fake.settle();
    assert_eq!((fake.snapshot.builds.len(), fake.made.len()), (1, 1));
    // Returning to a good config needs no build.
    fake.config().metadata.annotations.remove(labels::REBUILD);
    fake.render(1);
    assert_eq!(fake.settle().reason.code(), "up-to-date");
    fake.render(2);
    fake.pool().status.conditions.retain(|one| one.kind != "NodeDegraded");
    fake.build();
    assert_eq!(fake.made.len(), 2);
}

#[test]
fn a_pre_built_image_is_no_base() {
    let mut fake = FakeCluster::opted_in();
    let image = "quay.io/acme/golden@sha256:00".to_owned();
    fake.snapshot.prebuilt = [image.clone()].into();
    fake.snapshot.cluster.stock_base = Some("quay.io/release/os@sha256:01".to_owned());
    fake.settle();
    let asked = fake.asked.iter().any(|lookup| match lookup {
        Lookup::Plan(plan) => plan.instead.as_ref().is_some_and(|base| {
            base.of.contains(&image)
                && base.stock.as_deref() == Some("quay.io/release/os@sha256:01")
        }),
        Lookup::Exists { .. }
        | Lookup::Existing(_)
        | Lookup::Checks(_)
        | Lookup::Sign(_)
        | Lookup::OsImage { .. }
        | Lookup::Result { .. } => false,
    });
    assert!(asked);
}

#[test]
fn warnings_of_a_plan_are_reported_on_its_config() {
    let mut fake = FakeCluster::new();
    let secret =
        |path: &str| Finding::new("looks-secret", format!("{path} looks like a private key"));
    fake.warnings = vec![secret("/etc/a.key"), secret("/etc/b.key")];
    fake.opt_in();
    fake.build();
    let update = |fake: &mut FakeCluster| {
        let conditions = &fake.config().status.conditions;
        let one = condition(conditions, WARNINGS).cloned();
        one.map(|one| (one.status, one.reason, one.message))
    };
    let want = (
        "True".to_owned(),
        "LooksSecret".to_owned(),
        "/etc/a.key looks like a private key; /etc/b.key looks like a private key".to_owned(),
    );
    assert_eq!(update(&mut fake), Some(want));
    is_idle(&mut fake);
    fake.warnings = (0..12).map(|n| secret(&n.to_string())).collect();
    fake.warnings[0].code = "base-not-bootable".into();
    fake.render(2);
    fake.build();
    let (_, reason, message) = update(&mut fake).unwrap();
    assert_eq!(reason, "Several");
    assert!(message.ends_with("; and 2 more"), "{message}");
    fake.warnings.clear();
    fake.render(3);
    fake.build();
    assert_eq!(update(&mut fake).unwrap().0, "False");
    let mut fake = FakeCluster::built();
    assert_eq!(update(&mut fake), None, "nothing to report");
}

#[test]
fn a_running_build_ends_when_the_desired_one_cannot_be_built() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    assert_eq!(fake.snapshot.workloads.len(), 1);
    fake.config().spec.rendered_image_push_secret.name.clear();
    fake.settle();
    assert_eq!(fake.event_count(EventReason::BuildInterrupted), 1);
    assert!(fake.snapshot.builds.is_empty() && fake.snapshot.workloads.is_empty());
    fake.config().spec.rendered_image_push_secret.name = "push".to_owned();
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
}

/// The status of the MachineOSConfig that the last action writes.
fn config_status(actions: &[Action]) -> MachineOsConfigStatus {
    let Some(Action::ReplaceStatus(target, NewStatus::Whole(status))) = actions.last() else {
        panic!("{actions:?}");
    };
    assert_eq!(target.kind, kinds::MACHINE_OS_CONFIG);
    serde_json::from_value(status.clone()).unwrap()
}

#[test]
fn a_rejection_by_the_api_server_is_reported_on_the_config() {
    let mut fake = FakeCluster::opted_in();
    let problem = problem(ErrorClass::Internal, "job build-x: no such priorityClass");
    let actions = report_refusal(&fake.snapshot, problem.clone(), fake.now);
    let status = config_status(&actions);
    let blocked = condition(&status.conditions, BLOCKED).unwrap();
    assert_eq!((&*blocked.reason, &blocked.message), ("Problem", &problem.message));
    fake.config().status = status.clone();
    assert!(report_refusal(&fake.snapshot, problem, fake.now).is_empty(), "once");
    fake.build();
    let blocked = condition(&fake.config().status.conditions, BLOCKED).cloned();
    assert_eq!(blocked.unwrap().status, "False");
}

#[test]
fn a_pool_that_cannot_be_written_is_reported_on_the_config_until_it_can() {
    let mut fake = FakeCluster::opted_in();
    let problem = problem(ErrorClass::Rejected, "machineconfigpool worker: a policy says no");
    let actions = report_refusal(&fake.snapshot, problem, fake.now);
    let status = config_status(&actions);
    fake.config().status = status.clone();
    let mut refusals = 0;
    for _ in 0..5 {
        let actions = fake.decide().actions;
        let of_pool = |action: &Action| mosb_cluster::object::conditions_in(action).is_some();
        let at = actions.iter().position(of_pool);
        refusals += usize::from(at.is_some());
        fake.round(at.unwrap_or(actions.len()));
        assert_eq!(fake.blocked().unwrap().0, "True");
    }
    assert!(refusals > 1);
    fake.build();
    assert_eq!(fake.blocked().unwrap().0, "False");
}

#[test]
fn a_missing_rendered_config_is_reported_on_the_config_and_ends_nothing() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.render(2);
    fake.problem = Some(Problem {
        reason: mosb_cluster::resolver::NO_RENDERED_CONFIG.to_owned(),
        ..problem(ErrorClass::Transient, "there is none yet")
    });
    fake.settle();
    let blocked = Some(("True".to_owned(), "Problem".to_owned()));
    assert_eq!((fake.blocked(), fake.snapshot.workloads.len()), (blocked, 1));
    fake.problem = None;
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
    assert_eq!(fake.blocked().unwrap().0, "False");
}

#[test]
fn a_pool_reports_what_builds_its_images() {
    let of_label = |text: &str| LabelOptIn {
        settings: Some([("imageBuilderType".to_owned(), text.to_owned())].into()),
        containerfile: None,
    };
    let (pod, openshift) = ("custom-pod-builder", "openshift-image-builder");
    for (what, annotation, label, want) in [
        ("nothing", None, None, "Job"),
        ("an annotation", Some(pod), None, pod),
        ("another one", Some(openshift), None, openshift),
        ("a label", None, Some(pod), pod),
        ("an empty label", None, Some(" "), "Job"),
        ("the annotation goes first", Some("Job"), Some(pod), "Job"),
    ] {
        let mut fake = FakeCluster::opted_in();
        fake.snapshot.label = label.map(of_label);
        if let Some(text) = annotation {
            fake.annotate(labels::BUILDER, text);
        }
        fake.build();
        let builder = fake.current().status.builder.clone().unwrap();
        assert_eq!(builder.image_builder_type, want, "{what}");
        assert_eq!(builder.job.is_some(), want == "Job", "{what}");
    }
    let mut fake = FakeCluster::opted_in();
    fake.annotate(labels::BUILDER, "job");
    let decision = fake.settle();
    assert_eq!(
        decision.reason.to_string(),
        "the MachineOSConfig can't be built: annotation mosb.dev/builder is \"job\", and can be Job, custom-pod-builder, openshift-image-builder"
    );
    assert_eq!(fake.blocked(), Some(("True".to_owned(), "BadMachineOSConfig".to_owned())));
    fake.annotate(labels::BUILDER, openshift);
    fake.build();
    assert_eq!(fake.state(), Some(BuildCondition::Succeeded));
    assert_eq!(fake.made[0].2, JobMethod::Containerfile);
}

/// The image is the same, so nothing is rebuilt. A running workload may finish; the next attempt
/// uses the other builder.
#[test]
fn another_builder_is_for_what_is_built_next() {
    let mut fake = FakeCluster::built();
    let built = fake.made.len();
    fake.annotate(labels::BUILDER, "custom-pod-builder");
    fake.settle();
    assert_eq!(fake.made.len(), built);
    let kind = |fake: &FakeCluster| fake.snapshot.workloads[0].workload.builder();
    fake.render(2);
    fake.settle();
    assert_eq!(kind(&fake), ImageBuilderType::CustomPod);
    fake.annotate(labels::BUILDER, "Job");
    fake.settle();
    assert_eq!(kind(&fake), ImageBuilderType::CustomPod);
    fake.run();
    fake.delete_workload();
    let pause = fake.settle().requeue_after.expect("another attempt");
    fake.wait(pause.as_secs() as i64 + 1);
    fake.settle();
    assert_eq!(kind(&fake), ImageBuilderType::Job);
    fake.build();
    assert_eq!(fake.state(), Some(BuildCondition::Succeeded));
}
