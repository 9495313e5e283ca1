//! Other builders, other configs, other owners.

use super::rows::{degraded, is_idle};
use super::world::*;
use crate::decide::refused;
use crate::status::{BLOCKED, EventReason, WARNINGS};
use crate::*;
use mosb_build::JobMethod;
use mosb_plan::api::*;
use mosb_types::{ErrorClass, Finding};
use serde_json::json;

use BuildCondition::Succeeded;

#[test]
fn row_17_a_build_of_another_config_is_none_of_ours() {
    let mut world = World::built();
    let mut build = world.current().clone();
    build.metadata.name = FOREIGN.to_owned();
    build.metadata.uid = Some("theirs".to_owned());
    build.metadata.annotations.clear();
    build.spec.machine_config.name = rendered(7);
    build.status = MachineOsBuildStatus::default();
    world.seen.builds.push(build);
    is_idle(&mut world);
    world.render(2);
    world.build();
    assert!(world.find(FOREIGN).is_some(), "never deleted");
    assert!(world.made.iter().all(|(build, ..)| build != "theirs"));
}

#[test]
fn row_67_opting_out_leaves_nothing() {
    let mut world = World::built();
    world.containerfile("RUN false");
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    world.settle();
    world.seen.config = None;
    world.collect();
    world.settle();
    assert!(
        world.seen.builds.is_empty()
            && world.seen.runners.is_empty()
            && world.seen.inputs.is_empty()
    );
    assert_eq!(world.degraded(), degraded("False", "NoLayeredObjects"));
    let pool = world.seen.pool.as_ref().unwrap();
    assert!(pool.metadata.annotations.is_empty());
    assert_eq!(world.told(EventReason::ConfigDeleted), 1);
    is_idle(&mut world);
    // And in again: the images are still there, and what they were is not known any more.
    world.opt_in();
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
}

#[test]
fn a_label_makes_a_config() {
    let mut world = World::new();
    let settings = |push: &str| {
        let data = [("finalImagePushSecretName", "push"), ("finalImagePullspec", push)];
        data.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    };
    world.seen.label = Some(LabelOptIn::default());
    assert_eq!(world.settle().reason.code(), "label-incomplete");
    world.seen.label = Some(LabelOptIn {
        settings: Some(settings("quay.io/acme/os")),
        containerfile: Some("RUN true".to_owned()),
    });
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
    let spec = world.config().spec.clone();
    assert_eq!(spec.rendered_image_push_spec, "quay.io/acme/os:latest");
    assert_eq!(spec.containerfile("amd64"), Some("RUN true"));
    world.seen.label.as_mut().unwrap().settings = Some(settings("quay.io/acme/new:v1"));
    world.build();
    assert_eq!(world.made.len(), 2);
    assert!(world.image().starts_with("quay.io/acme/new@") || world.state() == Some(Succeeded));
    world.seen.label = None;
    world.settle();
    world.collect();
    assert!(world.seen.config.is_none() && world.seen.builds.is_empty());
    // Where an operator keeps MachineOSConfigs, it does that by its own rules.
    world.seen.label = Some(LabelOptIn::default());
    world.seen.cluster.machine_config_operator = true;
    assert_eq!(world.settle().reason, PoolReason::NotOptedIn);
}

#[test]
fn nobody_fights() {
    let mut world = World::opted_in();
    world.seen.cluster.other_builder = Some("Deployment machine-os-builder".to_owned());
    assert_eq!(world.settle().reason.code(), "other-builder");
    assert!(world.events.is_empty() && world.seen.builds.is_empty());
    is_idle(&mut world);

    // What it left in service is left in service.
    world.seen.cluster.other_builder = None;
    let image = format!("quay.io/acme/os@sha256:{}", "0a".repeat(32));
    world.annotate(labels::CURRENT_MACHINE_OS_BUILD, FOREIGN);
    let config = world.config();
    config.status.current_image_pull_spec = image.clone();
    config.status.observed_generation = config.metadata.generation;
    let theirs = json!({
        "metadata": { "name": FOREIGN, "uid": "theirs", "resourceVersion": "1" },
        "spec": { "machineConfig": { "name": rendered(1) }, "machineOSConfig": { "name": "worker" }, "renderedImagePushSpec": "quay.io/acme/os:x" },
        "status": { "conditions": [{ "type": "Succeeded", "status": "True", "reason": "Ready", "message": "" }], "digestedImagePushSpec": image },
    });
    world.seen.builds.push(serde_json::from_value(theirs).unwrap());
    let uid = world.seen.config.as_ref().unwrap().metadata.uid().to_owned();
    world.seen.builds[0].metadata.owner_references =
        vec![OwnerReference { uid, controller: Some(true), ..OwnerReference::default() }];
    assert_eq!(world.settle().reason.code(), "up-to-date");
    assert_eq!(world.seen.builds.len(), 1);
    is_idle(&mut world);
    let mut adopting = world.clone();
    adopting.seen.cluster.machine_config_daemon = true;
    adopting.images.insert(image.parse().unwrap());
    adopting.render(2);
    adopting.build();
    assert_eq!(
        (adopting.image(), adopting.made.len()),
        (&*image, 0),
        "adopted from the other builder's"
    );
    world.annotate(labels::REBUILD, "");
    world.build();
    assert_eq!((world.made.len(), world.seen.builds.len()), (1, 2), "the other's stays");
    assert_eq!(world.annotation(labels::REBUILD), None);
}

#[test]
fn two_configs_for_one_pool() {
    let mut world = World::opted_in();
    world.seen.rivals = vec!["old-worker".to_owned()];
    world.build();
    assert_eq!(world.state(), Some(Succeeded), "the one with the pool's name is it");
    let mut rival = World::opted_in();
    rival.config().metadata.name = "old-worker".to_owned();
    rival.seen.rivals = vec!["worker".to_owned()];
    assert_eq!(rival.settle().reason.code(), "rivals");
    assert!(rival.seen.builds.is_empty());
    is_idle(&mut rival);
}

#[test]
fn a_config_recreated_at_once_waits_for_the_old_ones_builds() {
    let mut world = World::built();
    world.opt_in();
    let decision = world.round(usize::MAX);
    assert_eq!(decision.reason.code(), "replacing");
    world.build();
    assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 2));
}

#[test]
fn a_degraded_pool_gets_no_new_build() {
    let mut world = World::built();
    let degraded = Condition {
        kind: "NodeDegraded".to_owned(),
        status: "True".to_owned(),
        ..Condition::default()
    };
    world.pool().status.conditions.push(degraded);
    is_idle(&mut world);
    world.render(2);
    assert_eq!(world.settle().reason.code(), "pool-degraded");
    assert_eq!(world.blocked().unwrap().1, "PoolDegraded");
    world.annotate(labels::REBUILD, "");
    world.settle();
    assert_eq!((world.seen.builds.len(), world.made.len()), (1, 1));
    // Back to what was good needs no build.
    world.config().metadata.annotations.remove(labels::REBUILD);
    world.render(1);
    assert_eq!(world.settle().reason.code(), "up-to-date");
    world.render(2);
    world.pool().status.conditions.retain(|one| one.kind != "NodeDegraded");
    world.build();
    assert_eq!(world.made.len(), 2);
}

#[test]
fn a_pre_built_image_is_no_base() {
    let mut world = World::opted_in();
    let image = "quay.io/acme/golden@sha256:00".to_owned();
    world.seen.prebuilt = [image.clone()].into();
    world.seen.cluster.stock_base = Some("quay.io/release/os@sha256:01".to_owned());
    world.settle();
    let asked = world.asked.iter().any(|lookup| match lookup {
        Lookup::Plan(plan) => plan.instead.as_ref().is_some_and(|base| {
            base.of.contains(&image)
                && base.stock.as_deref() == Some("quay.io/release/os@sha256:01")
        }),
        Lookup::Exists { .. } | Lookup::OsImage { .. } | Lookup::Result { .. } => false,
    });
    assert!(asked);
}

#[test]
fn what_a_plan_warns_of_stands_on_the_config_that_it_is_for() {
    let mut world = World::new();
    let secret =
        |path: &str| Finding::new("looks-secret", format!("{path} looks like a private key"));
    world.warnings = vec![secret("/etc/a.key"), secret("/etc/b.key")];
    world.opt_in();
    world.build();
    let said = |world: &mut World| {
        let conditions = &world.config().status.conditions;
        let one = condition(conditions, WARNINGS).cloned();
        one.map(|one| (one.status, one.reason, one.message))
    };
    let want = (
        "True".to_owned(),
        "LooksSecret".to_owned(),
        "/etc/a.key looks like a private key; /etc/b.key looks like a private key".to_owned(),
    );
    assert_eq!(said(&mut world), Some(want));
    is_idle(&mut world);
    world.warnings = (0..12).map(|n| secret(&n.to_string())).collect();
    world.warnings[0].code = "base-not-bootable".into();
    world.render(2);
    world.build();
    let (_, reason, message) = said(&mut world).unwrap();
    assert_eq!(reason, "Several");
    assert!(message.ends_with("; and 2 more"), "{message}");
    world.warnings.clear();
    world.render(3);
    world.build();
    assert_eq!(said(&mut world).unwrap().0, "False");
    let mut world = World::built();
    assert_eq!(said(&mut world), None, "nothing to say, nothing said");
}

#[test]
fn what_runs_ends_when_what_is_wanted_can_not_be_built() {
    let mut world = World::opted_in();
    world.settle();
    assert_eq!(world.seen.runners.len(), 1);
    world.config().spec.rendered_image_push_secret.name.clear();
    world.settle();
    assert_eq!(world.told(EventReason::BuildInterrupted), 1);
    assert!(world.seen.builds.is_empty() && world.seen.runners.is_empty());
    world.config().spec.rendered_image_push_secret.name = "push".to_owned();
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
}

#[test]
fn what_a_cluster_refuses_stands_on_the_config() {
    let mut world = World::opted_in();
    let problem = problem(ErrorClass::Internal, "job build-x: no such priorityClass");
    let actions = refused(&world.seen, problem.clone(), world.now);
    let Some(Action::WriteConfigStatus { status, .. }) = actions.last() else {
        panic!("{actions:?}");
    };
    let blocked = condition(&status.conditions, BLOCKED).unwrap();
    assert_eq!((&*blocked.reason, &blocked.message), ("Problem", &problem.message));
    world.config().status = *status.clone();
    assert!(refused(&world.seen, problem, world.now).is_empty(), "once");
    world.build();
    let blocked = condition(&world.config().status.conditions, BLOCKED).cloned();
    assert_eq!(blocked.unwrap().status, "False");
}

#[test]
fn a_pool_that_can_not_be_written_stands_on_the_config_until_it_can() {
    let mut world = World::opted_in();
    let problem = problem(ErrorClass::Rejected, "machineconfigpool worker: a policy says no");
    let actions = refused(&world.seen, problem, world.now);
    let Some(Action::WriteConfigStatus { status, .. }) = actions.last() else {
        panic!("{actions:?}");
    };
    world.config().status = *status.clone();
    let mut refusals = 0;
    for _ in 0..5 {
        let actions = world.decide().actions;
        let of_pool = |action: &Action| matches!(action, Action::WritePoolCondition { .. });
        let at = actions.iter().position(of_pool);
        refusals += usize::from(at.is_some());
        world.round(at.unwrap_or(actions.len()));
        assert_eq!(world.blocked().unwrap().0, "True");
    }
    assert!(refusals > 1);
    world.build();
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_rendered_config_that_is_missing_stands_on_the_config_and_ends_nothing() {
    let mut world = World::opted_in();
    world.settle();
    world.render(2);
    world.problem = Some(Problem {
        reason: crate::lookup::NO_RENDERED_CONFIG.to_owned(),
        ..problem(ErrorClass::Transient, "there is none yet")
    });
    world.settle();
    let blocked = Some(("True".to_owned(), "Problem".to_owned()));
    assert_eq!((world.blocked(), world.seen.runners.len()), (blocked, 1));
    world.problem = None;
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_pool_says_what_builds_its_images() {
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
        let mut world = World::opted_in();
        world.seen.label = label.map(of_label);
        if let Some(text) = annotation {
            world.annotate(labels::BUILDER, text);
        }
        world.build();
        let builder = world.current().status.builder.clone().unwrap();
        assert_eq!(builder.image_builder_type, want, "{what}");
        assert_eq!(builder.job.is_some(), want == "Job", "{what}");
    }
    let mut world = World::opted_in();
    world.annotate(labels::BUILDER, "job");
    let decision = world.settle();
    assert_eq!(
        decision.reason.to_string(),
        "the MachineOSConfig can't be built: annotation mosb.dev/builder is \"job\", and can be Job, custom-pod-builder, openshift-image-builder"
    );
    assert_eq!(world.blocked(), Some(("True".to_owned(), "BadMachineOSConfig".to_owned())));
    world.annotate(labels::BUILDER, openshift);
    world.build();
    assert_eq!(world.state(), Some(BuildCondition::Succeeded));
    assert_eq!(world.made[0].2, JobMethod::Containerfile);
}

/// The image is the same, so nothing is built anew; what runs is left to end, and the next attempt is the other's.
#[test]
fn another_builder_is_for_what_is_built_next() {
    let mut world = World::built();
    let built = world.made.len();
    world.annotate(labels::BUILDER, "custom-pod-builder");
    world.settle();
    assert_eq!(world.made.len(), built);
    let kind = |world: &World| world.seen.runners[0].runner.builder();
    world.render(2);
    world.settle();
    assert_eq!(kind(&world), ImageBuilderType::CustomPod);
    world.annotate(labels::BUILDER, "Job");
    world.settle();
    assert_eq!(kind(&world), ImageBuilderType::CustomPod);
    world.run();
    world.delete_runner();
    let pause = world.settle().requeue_after.expect("another attempt");
    world.wait(pause.as_secs() as i64 + 1);
    world.settle();
    assert_eq!(kind(&world), ImageBuilderType::Job);
    world.build();
    assert_eq!(world.state(), Some(BuildCondition::Succeeded));
}
