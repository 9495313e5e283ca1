//! The acceptance list of the existing builder (reference §8.3), row by row, as far as it is decided here.
//!
//! In rooms of their own: 1–7 (CRDs, and `api`), 44, 45, 47, 48 (`backend/job`), 50–53 (`plan`, `containerfile`), 68–70 (`render`).
//! Decided otherwise by us:
//! - 8: a build's name is of our identity (design), not of the other builder's hash, as an image depends on more than that hashes;
//! - 22 unless `os-change`: every config gets its image where no daemon applies configs;
//! - 25–27 by counters: a Job's result is its conditions and what its pod told, never its counters;
//! - 35: a deleted Job is made again, as the image is still wanted; only what nobody wants is interrupted;
//! - 39: a build that lacks entitlements failed by what it runs, so its Job is not repeated;
//! - 47: entitlements reach `image-build` only;
//! - 55: the sidecar patches the one ConfigMap that the controller made;
//! - 64, 65: images are never deleted.
//!
//! Other components': 42, 43 (nothing of ours must be waited for: owners do it), 46 and 49 (the operator), 54, 60 but for the build, 61–63, 66, and the
//! Deployment in 67. Of the install-time issue: 56–59. Row 18 is the queue's: a decision sees one pool.

use super::world::*;
use crate::api::*;
use crate::backend::job::JobMethod;
use crate::controller::*;
use crate::report::Class;
use crate::status::EventReason;
use serde_json::json;

use BuildCondition::{Building, Failed, Prepared, Succeeded};

fn is_idle(world: &mut World) {
    world.asked.clear();
    let decision = world.decide();
    assert_eq!(decision.steps, [], "{:?}", decision.because);
    assert!(world.asked.is_empty(), "{:?}", world.asked);
    assert_eq!(decision.again, None);
}

fn degraded(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn row_9_a_pause_is_no_part_of_a_build() {
    let mut world = World::built();
    let name = world.current().metadata.name.clone();
    world.pool().spec.paused = true;
    is_idle(&mut world);
    let mut paused = World::new();
    paused.pool().spec.paused = true;
    paused.opt_in();
    paused.build();
    assert_eq!(paused.current().metadata.name, name);
    assert_eq!(paused.state(), Some(Succeeded), "row 60: it is built");
}

#[test]
fn row_10_something_is_missing() {
    let mut world = World::opted_in();
    let pool = world.seen.pool.take();
    assert_eq!(world.settle().because.code(), "no-pool");
    assert_eq!(
        world.blocked(),
        Some(("True".to_owned(), "NoPool".to_owned()))
    );
    assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1);
    is_idle(&mut world);
    world.seen.pool = pool;
    world.pool().spec.configuration.name.clear();
    assert_eq!(world.settle().because, Because::NotRendered, "install time");
    world.render(1);
    world.seen.cluster.machine_config_daemon = true;
    world.pool().status.configuration.name.clear();
    assert_eq!(world.settle().because, Because::NotRendered, "§3.4b 3");
    world.pool().status.configuration.name = rendered(1);
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
    assert_eq!(world.blocked().unwrap().0, "False");
    world.pool().spec.configuration.name = "00-worker".to_owned();
    assert_eq!(world.settle().because.code(), "bad-machine-os-config");
}

#[test]
fn row_11_without_a_config_nothing_is_built() {
    let mut world = World::new();
    for n in 1..4 {
        world.render(n);
        assert_eq!(world.settle().because, Because::NotOptedIn);
    }
    assert!(world.seen.builds.is_empty());
    is_idle(&mut world);
}

#[test]
fn row_12_a_build_its_job_and_what_that_needs_appear() {
    let mut world = World::opted_in();
    world.settle();
    assert_eq!(world.state(), Some(Prepared));
    let build = world.current().clone();
    let config = world.seen.config.clone().unwrap();
    assert!(build.metadata.is_controlled_by(config.metadata.uid()));
    assert_eq!(build.metadata.finalizers, ["foregroundDeletion"]);
    assert_eq!(build.spec.machine_config.name, rendered(1));
    assert_eq!(
        build.spec.rendered_image_push_spec,
        format!("quay.io/acme/os:{}", rendered(1))
    );
    let label = |key| build.metadata.labels.get(key).map(String::as_str);
    assert_eq!(label(labels::MACHINE_OS_CONFIG), Some("worker"));
    assert_eq!(label(labels::RENDERED_MACHINE_CONFIG), Some(&*rendered(1)));
    assert_eq!(label(labels::TARGET_MACHINE_CONFIG_POOL), Some("worker"));
    assert_eq!(
        build.metadata.annotation(labels::JOB_UID),
        world.job_uid().as_deref()
    );
    assert_eq!(world.seen.inputs.len(), 3);
    assert_eq!(world.degraded(), degraded("False", "Building"));
    assert_eq!(world.decide().because.code(), "pending");
    is_idle(&mut world);
}

#[test]
fn rows_13_14_19_another_wish_ends_a_running_build() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 3] = [
        ("row 13", |world| world.containerfile("RUN true")),
        ("row 14", |world| world.render(2)),
        ("row 19", |world| {
            world.config().spec.rendered_image_push_spec = "quay.io/acme/other:v1".to_owned();
        }),
    ];
    for (what, change) in changes {
        let mut world = World::opted_in();
        world.settle();
        world.run();
        world.settle();
        let (old, job) = (world.current().metadata.uid.clone(), world.job_uid());
        change(&mut world);
        world.settle();
        assert_eq!(world.seen.builds.len(), 1, "{what}");
        assert_ne!(world.current().metadata.uid, old, "{what}");
        assert_ne!(world.job_uid(), job, "{what}");
        assert_eq!(world.seen.jobs.len(), 1, "{what}");
        assert_eq!(world.seen.inputs.len(), 3, "{what}");
        assert_eq!(world.told(EventReason::BuildInterrupted), 1, "{what}");
        assert_eq!(world.told(EventReason::BuildDeleted), 1, "{what}");
    }
}

#[test]
fn rows_15_16_what_succeeded_stays() {
    let mut world = World::built();
    world.render(2);
    world.settle();
    world.render(3);
    world.settle();
    let rendered_of = |world: &World| -> Vec<_> {
        let builds = world.seen.builds.iter();
        builds.map(|b| b.spec.machine_config.name.clone()).collect()
    };
    assert_eq!(rendered_of(&world), [rendered(1), rendered(3)], "row 15");
    world.build();
    for n in 4..9 {
        let before = world.seen.builds.len();
        world.render(n);
        world.build();
        assert_eq!(world.seen.builds.len(), before + 1, "row 16");
        assert!(world.seen.jobs.is_empty() && world.seen.inputs.is_empty());
    }
}

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
fn rows_20_21_a_then_b_then_a() {
    let mut world = World::built();
    let (a, image) = (
        world.current().metadata.uid.clone(),
        world.image().to_owned(),
    );
    world.render(2);
    world.build();
    assert_ne!(world.image(), image);
    world.render(1);
    world.build();
    assert_eq!(world.current().metadata.uid, a, "row 20");
    assert_eq!(world.image(), image);
    assert_eq!(world.made.len(), 2, "built twice, not three times");
    is_idle(&mut world);

    // Row 21: the image is gone.
    world.render(2);
    world.build();
    let b = world.current().metadata.uid.clone();
    world.images.remove(&image.parse().unwrap());
    world.render(1);
    world.build();
    assert_ne!(world.current().metadata.uid, a);
    assert_eq!((world.image(), world.made.len()), (&*image, 3));
    world.render(2);
    world.build();
    assert_eq!((&world.current().metadata.uid, world.made.len()), (&b, 3));
}

#[test]
fn rows_22_23_where_machines_apply_configs_only_the_os_builds() {
    let mut world = World::opted_in();
    world.seen.cluster.machine_config_daemon = true;
    world.build();
    let (first, image) = (
        world.current().metadata.name.clone(),
        world.image().to_owned(),
    );
    world.render(2);
    world.build();
    let build = world.current();
    assert_eq!(build.status.image(), Some(&*image), "row 22");
    assert_eq!(
        build.metadata.annotation(labels::ADOPTED_FROM),
        Some(&*first)
    );
    assert_eq!(build.spec.machine_config.name, rendered(2));
    assert_eq!(
        (
            &build.status.builder,
            &build.status.build_start,
            &build.status.build_end
        ),
        (&None, &None, &None)
    );
    assert_eq!((world.made.len(), world.seen.builds.len()), (1, 2));
    assert_eq!(
        world
            .seen
            .config
            .as_ref()
            .unwrap()
            .status
            .machine_os_build
            .as_ref()
            .unwrap()
            .name,
        world.current().metadata.name
    );
    is_idle(&mut world);
    // An adopted one is adopted from in turn.
    world.render(3);
    world.build();
    assert_eq!((world.image(), world.made.len()), (&*image, 1));

    world.os_changes = true;
    world.render(4);
    world.build();
    assert_ne!(world.image(), image, "row 23");
    assert_eq!(world.made.len(), 2);
    world.os_changes = false;
    // A Containerfile is no matter of a machine.
    world.containerfile("RUN true");
    world.build();
    assert_eq!(world.made.len(), 3);
    // The image in service is gone: built.
    world.images.clear();
    world.render(5);
    world.build();
    assert_eq!(world.made.len(), 4);
    // From now on each config has its own image, this one too.
    world.render(6);
    world.build();
    assert_eq!(world.made.len(), 4);
    world.annotate(labels::BUILD_ON, "every-config");
    world.build();
    assert_eq!(world.made.len(), 5);
    assert_eq!(
        world.current().metadata.annotation(labels::ADOPTED_FROM),
        None
    );
    is_idle(&mut world);
}

#[test]
fn row_24_another_base_is_another_build() {
    // An osImageURL is part of the rendered config; that a tag moved is not, and builds nothing.
    let mut world = World::built();
    world.base = 1;
    is_idle(&mut world);
    world.render(2);
    world.build();
    let base = |world: &World| {
        world
            .current()
            .metadata
            .annotation(labels::BASE)
            .unwrap()
            .to_owned()
    };
    let second = base(&world);
    world.render(1);
    world.build();
    assert_eq!(
        base(&world),
        second,
        "A is built again, as its base is another"
    );
    assert_eq!(world.made.len(), 3);
}

#[test]
fn rows_25_to_30_a_job_becomes_a_status() {
    let mut world = World::opted_in();
    world.settle();
    assert_eq!(world.state(), Some(Prepared), "row 25");
    let created = world.current().status.build_start.clone().unwrap();
    world.run();
    world.settle();
    assert_eq!(world.state(), Some(Building), "row 25");
    is_idle(&mut world);
    // Row 28: its pod seems to be gone for a moment.
    world.job().unwrap().pods.clear();
    world.settle();
    assert_eq!(world.state(), Some(Building));
    // Row 29: it ends while nobody looks.
    world.wait(60);
    world.succeed();
    let tree = world.settle();
    assert_eq!(tree.because.code(), "up-to-date");
    let status = &world.current().status;
    assert_eq!(world.state(), Some(Succeeded), "row 27");
    assert_eq!(status.build_start, Some(created));
    assert!(status.build_end > status.build_start);
    assert_eq!(status.image(), Some(world.image()), "row 30");
    assert!(world.image().starts_with("quay.io/acme/os@sha256:"));
    let config = world.seen.config.clone().unwrap();
    assert_eq!(
        config.status.observed_generation,
        config.metadata.generation
    );
    let pool = world.seen.pool.as_ref().unwrap();
    assert_eq!(
        pool.metadata
            .annotation(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG),
        Some(world.image())
    );
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    assert_eq!(world.seen.cluster.base_trees.len(), 1);
    assert!(world.seen.jobs.is_empty(), "cleaned up");
    is_idle(&mut world);
}

#[test]
fn a_digest_is_not_believed() {
    let mut world = World::opted_in();
    world.settle();
    world.succeed();
    world.registry_problem = Some(problem(Class::Retry, "the registry does not answer"));
    assert_eq!(
        world.settle().because.to_string(),
        "the registry does not answer"
    );
    assert_eq!((world.state(), world.image()), (Some(Building), ""));
    world.registry_problem = None;
    let images = std::mem::take(&mut world.images);
    world.round(usize::MAX);
    assert_eq!(world.image(), "");
    assert_eq!(
        world.decide().because.code(),
        "waiting",
        "the registry has none"
    );
    world.images = images;
    world.build();
    assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 2));
}

#[test]
fn rows_31_32_39_what_failed_is_kept_until_something_changes() {
    let mut world = World::built();
    world.containerfile("RUN dnf install usbguard");
    world.settle();
    let image = world.image().to_owned();
    world.run();
    world.settle();
    world.tell(failed(Class::Refused));
    assert_eq!(world.settle().because.code(), "failed");
    assert_eq!(world.state(), Some(Failed));
    assert_eq!(
        (world.seen.jobs.len(), world.seen.inputs.len()),
        (1, 3),
        "row 31"
    );
    assert_eq!(world.degraded(), degraded("True", "BuildFailed"));
    assert_eq!(world.image(), image, "the last good one");
    let status = &world.current().status;
    let message = &condition(&status.conditions, "Failed").unwrap().message;
    assert_eq!(
        message,
        "image-build: dnf ended with 1 (run-failed)\nIts last lines:\nno package usbguard"
    );
    let (_, note) = world
        .events
        .iter()
        .find(|(reason, _)| *reason == EventReason::BuildFailed)
        .unwrap();
    assert!(
        note.contains("kubectl -n ns logs job/build-worker-"),
        "{note}"
    );
    assert_eq!(world.told(EventReason::BuildDegraded), 1);
    is_idle(&mut world);
    world.wait(100_000);
    is_idle(&mut world);

    let old = world.current().metadata.uid.clone();
    world.containerfile("RUN true");
    world.settle();
    assert_ne!(world.current().metadata.uid, old, "row 32");
    assert_eq!(
        (
            world.seen.jobs.len(),
            world.seen.inputs.len(),
            world.seen.builds.len()
        ),
        (1, 3, 2)
    );
    assert_eq!(world.degraded(), degraded("False", "Building"), "row 34");
    world.run();
    world.settle();
    world.succeed();
    world.settle();
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    is_idle(&mut world);
}

#[test]
fn rows_33_34_a_wrong_containerfile_fails_without_a_job() {
    let mut world = World::opted_in();
    world.containerfile("FRO scratch");
    world.bad_containerfile = true;
    world.settle();
    assert_eq!((world.state(), world.made.len()), (Some(Failed), 0));
    assert_eq!(world.degraded(), degraded("True", "BuildFailed"));
    let name = world.current().metadata.name.clone();
    let pool = world.seen.pool.as_ref().unwrap();
    let told = &condition(&pool.status.conditions, "ImageBuildDegraded")
        .unwrap()
        .message;
    for part in ["pool worker", &name, "line 1: FRO is no instruction"] {
        assert!(told.contains(part), "{told}");
    }
    is_idle(&mut world);
    world.bad_containerfile = false;
    world.containerfile("FROM scratch");
    world.settle();
    assert_eq!(world.degraded(), degraded("False", "Building"));
    world.build();
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    assert_eq!(world.seen.builds.len(), 1);
    assert_eq!(
        world.told(EventReason::BuildRecovered),
        0,
        "it was building since"
    );
}

#[test]
fn rows_35_36_what_is_taken_away_is_made_again() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory" });
    let lost = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager" }] });
    type Take = Box<dyn Fn(&mut World)>;
    let takes: [(&str, Take, EventReason); 3] = [
        (
            "a deleted Job",
            Box::new(World::delete_job),
            EventReason::JobDeleted,
        ),
        (
            "an evicted pod",
            Box::new(move |world| world.lose("BackoffLimitExceeded", evicted.clone())),
            EventReason::JobFailed,
        ),
        (
            "a lost node",
            Box::new(move |world| world.lose("BackoffLimitExceeded", lost.clone())),
            EventReason::JobFailed,
        ),
    ];
    for (what, take, told) in takes {
        let mut world = World::opted_in();
        world.settle();
        let uid = world.current().metadata.uid.clone();
        for n in 1..12 {
            world.run();
            world.settle();
            take(&mut world);
            let decision = world.settle();
            assert_eq!(decision.because.code(), "waiting", "{what}");
            assert_eq!(world.state(), Some(Building), "{what}");
            assert_eq!(world.told(told), n, "{what}");
            assert!(world.seen.jobs.is_empty(), "{what}");
            let pause = decision.again.expect("it is tried again").as_secs();
            assert!(pause <= 300, "{what}: {pause}");
            world.wait(pause as i64 + 1);
            world.settle();
            let attempt = world
                .current()
                .metadata
                .annotation(labels::ATTEMPT)
                .map(str::to_owned);
            assert_eq!(attempt, Some((n + 1).to_string()), "{what}");
        }
        world.build();
        assert_eq!(
            (world.state(), &world.current().metadata.uid),
            (Some(Succeeded), &uid),
            "{what}"
        );
    }
}

#[test]
fn a_fault_is_tried_again_as_its_class_says() {
    let oom = json!({ "containerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] });
    type Fail = Box<dyn Fn(&mut World)>;
    let told = |class| -> Fail { Box::new(move |world: &mut World| world.tell(failed(class))) };
    let lost = |reason: &'static str, pod: serde_json::Value| -> Fail {
        Box::new(move |world: &mut World| world.lose(reason, pod.clone()))
    };
    for (what, fail, jobs) in [
        ("a user's error", told(Class::UserInput), 1),
        ("the build itself", told(Class::Refused), 1),
        ("our error", told(Class::Bug), 2),
        ("a registry that is away", told(Class::Retry), 20),
        ("a hung build", lost("DeadlineExceeded", json!({})), 1),
        ("out of memory", lost("BackoffLimitExceeded", oom), 2),
        (
            "silent",
            lost("BackoffLimitExceeded", json!({ "phase": "Failed" })),
            3,
        ),
    ] {
        let mut world = World::opted_in();
        for _ in 0..20 {
            let decision = world.settle();
            if let Some(pause) = decision.again {
                world.wait(pause.as_secs() as i64 + 1);
                world.settle();
            }
            if world.current().status.is_terminal() {
                break;
            }
            world.run();
            world.settle();
            fail(&mut world);
        }
        world.settle();
        assert_eq!(world.made.len(), jobs, "{what}");
        assert_eq!(world.current().status.is_terminal(), jobs < 20, "{what}");
    }
}

#[test]
fn row_37_a_rebuild_is_delete_and_create() {
    let mut world = World::built();
    let (old, image) = (world.current().clone(), world.image().to_owned());
    world.annotate(labels::REBUILD, "");
    world.settle();
    assert_eq!(world.current().metadata.name, old.metadata.name);
    assert_ne!(world.current().metadata.uid, old.metadata.uid);
    assert_eq!(
        (
            world.annotation(labels::REBUILD),
            world.annotation(labels::REBUILD_OF)
        ),
        (None, None)
    );
    assert_eq!(world.image(), image, "in service until there is another");
    assert_eq!(world.told(EventReason::RebuildRequested), 1);
    world.build();
    assert_eq!((world.made.len(), world.image()), (2, &*image));
    is_idle(&mut world);

    // Of a failed one, with the same input.
    world.containerfile("RUN false");
    world.settle();
    world.tell(failed(Class::Refused));
    world.settle();
    world.annotate(labels::REBUILD, "please");
    world.build();
    assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 4));
    assert_eq!(world.annotation(labels::REBUILD), None);

    // Without a current build it is nothing to be done, and goes with the next one.
    let mut fresh = World::opted_in();
    fresh.annotate(labels::REBUILD, "");
    fresh.build();
    assert_eq!(
        (fresh.made.len(), fresh.annotation(labels::REBUILD)),
        (1, None)
    );
    is_idle(&mut fresh);
}

#[test]
fn row_38_a_deleted_build_is_made_again() {
    for ends in [false, true] {
        let mut world = World::opted_in();
        match ends {
            true => _ = world.build(),
            false => _ = world.settle(),
        }
        let old = world.current().metadata.clone();
        world.delete_build(&old.name);
        world.settle();
        assert_eq!(world.current().metadata.name, old.name);
        assert_ne!(world.current().metadata.uid, old.uid);
        assert_eq!(world.made.len(), 2);
        world.build();
        assert_eq!(world.state(), Some(Succeeded));
    }
}

#[test]
fn rows_40_41_a_restart_needs_no_memory() {
    // Every round starts from nothing; here the pool changes and the Job ends between two rounds.
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.succeed();
    world.render(2);
    world.settle();
    assert_eq!(world.seen.builds.len(), 1, "row 40: the old one goes");
    assert_eq!(world.current().spec.machine_config.name, rendered(2));
    world.run();
    world.succeed();
    world.settle();
    assert_eq!(world.state(), Some(Succeeded), "row 41");
    is_idle(&mut world);
}

#[test]
fn row_67_opting_out_leaves_nothing() {
    let mut world = World::built();
    world.containerfile("RUN false");
    world.settle();
    world.tell(failed(Class::Refused));
    world.settle();
    world.seen.config = None;
    world.collect();
    world.settle();
    assert!(
        world.seen.builds.is_empty() && world.seen.jobs.is_empty() && world.seen.inputs.is_empty()
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
        let data = [
            ("finalImagePushSecretName", "push"),
            ("finalImagePullspec", push),
        ];
        data.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    };
    world.seen.label = Some(LabelOptIn::default());
    assert_eq!(world.settle().because.code(), "label-incomplete");
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
    assert_eq!(world.settle().because, Because::NotOptedIn);
}

#[test]
fn nobody_fights() {
    let mut world = World::opted_in();
    world.seen.cluster.other_builder = Some("Deployment machine-os-builder".to_owned());
    assert_eq!(world.settle().because.code(), "other-builder");
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
    world
        .seen
        .builds
        .push(serde_json::from_value(theirs).unwrap());
    let uid = world
        .seen
        .config
        .as_ref()
        .unwrap()
        .metadata
        .uid()
        .to_owned();
    world.seen.builds[0].metadata.owner_references = vec![OwnerReference {
        uid,
        controller: Some(true),
        ..OwnerReference::default()
    }];
    assert_eq!(world.settle().because.code(), "up-to-date");
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
    assert_eq!(
        (world.made.len(), world.seen.builds.len()),
        (1, 2),
        "the other's stays"
    );
    assert_eq!(world.annotation(labels::REBUILD), None);
}

#[test]
fn two_configs_for_one_pool() {
    let mut world = World::opted_in();
    world.seen.rivals = vec!["old-worker".to_owned()];
    world.build();
    assert_eq!(
        world.state(),
        Some(Succeeded),
        "the one with the pool's name is it"
    );
    let mut rival = World::opted_in();
    rival.config().metadata.name = "old-worker".to_owned();
    rival.seen.rivals = vec!["worker".to_owned()];
    assert_eq!(rival.settle().because.code(), "rivals");
    assert!(rival.seen.builds.is_empty());
    is_idle(&mut rival);
}

#[test]
fn a_config_recreated_at_once_waits_for_the_old_ones_builds() {
    let mut world = World::built();
    world.opt_in();
    let decision = world.round(usize::MAX);
    assert_eq!(decision.because.code(), "replacing");
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
    assert_eq!(world.settle().because.code(), "pool-degraded");
    assert_eq!(world.blocked().unwrap().1, "PoolDegraded");
    world.annotate(labels::REBUILD, "");
    world.settle();
    assert_eq!((world.seen.builds.len(), world.made.len()), (1, 1));
    // Back to what was good needs no build.
    world.config().metadata.annotations.remove(labels::REBUILD);
    world.render(1);
    assert_eq!(world.settle().because.code(), "up-to-date");
    world.render(2);
    world
        .pool()
        .status
        .conditions
        .retain(|one| one.kind != "NodeDegraded");
    world.build();
    assert_eq!(world.made.len(), 2);
}

#[test]
fn what_can_t_be_built_is_told() {
    type Spoil = fn(&mut World);
    let rows: [(&str, Spoil, &str); 9] = [
        (
            "a push spec that no registry takes",
            |w| w.config().spec.rendered_image_push_spec = "quay.io/Acme/os:v1".to_owned(),
            "bad-machine-os-config",
        ),
        (
            "no tag",
            |w| w.config().spec.rendered_image_push_spec = "quay.io/acme/os".to_owned(),
            "bad-machine-os-config",
        ),
        (
            "no room for the name",
            |w| {
                w.config().spec.rendered_image_push_spec = format!("quay.io/{}:v1", "a".repeat(400))
            },
            "bad-machine-os-config",
        ),
        (
            "another builder type",
            |w| w.config().spec.image_builder.image_builder_type = "Pod".to_owned(),
            "bad-machine-os-config",
        ),
        (
            "another word",
            |w| w.annotate(labels::BUILD_ON, "always"),
            "bad-machine-os-config",
        ),
        (
            "a nested repository",
            |w| {
                w.config().spec.rendered_image_push_spec = "quay.io/acme/team/os:v1".to_owned();
                w.seen.cluster.nested_digests_refused = true;
            },
            "nested-repository",
        ),
        (
            "a mixed pool",
            |w| _ = w.seen.pool_platforms.insert("linux/arm64".parse().unwrap()),
            "mixed-platforms",
        ),
        (
            "no node, and Containerfiles of architectures",
            |w| {
                w.seen.pool_platforms.clear();
                w.config().spec.container_file = vec![ContainerFile {
                    containerfile_arch: "ARM64".to_owned(),
                    content: "RUN true".to_owned(),
                }];
            },
            "no-node",
        ),
        (
            "a missing secret",
            |w| {
                w.problem = Some(problem(
                    Class::UserInput,
                    "secret push is missing; create it",
                ))
            },
            "problem",
        ),
    ];
    for (what, spoil, code) in rows {
        let mut world = World::opted_in();
        spoil(&mut world);
        let decision = world.settle();
        assert_eq!(decision.because.code(), code, "{what}");
        assert!(world.seen.builds.is_empty(), "{what}");
        assert_eq!(world.blocked().unwrap().0, "True", "{what}");
        assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1, "{what}");
        world.settle();
        assert_eq!(
            world.told(EventReason::ConfigReconcileFailed),
            1,
            "{what}: once"
        );
    }
    let mut nested = World::opted_in();
    nested.config().spec.rendered_image_push_spec = "quay.io/acme/team/os:v1".to_owned();
    nested.settle();
    assert_eq!(nested.blocked(), None, "our CRDs take it");
    let mut away = World::opted_in();
    away.problem = Some(problem(Class::Retry, "no answer"));
    let decision = away.settle();
    assert!(
        decision.again.is_some() && away.blocked().is_none(),
        "that passes"
    );
}

#[test]
fn a_wrong_wish_ends_what_runs_for_an_older_one() {
    let mut world = World::opted_in();
    world.settle();
    world.problem = Some(problem(Class::UserInput, "no such extension"));
    world.render(2);
    world.settle();
    assert!(world.seen.builds.is_empty());
    world.problem = None;
    world.build();
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_problem_while_a_build_is_prepared_is_told_and_stays_told() {
    let mut world = World::opted_in();
    world.round(usize::MAX);
    world.problem = Some(problem(
        Class::UserInput,
        "secret push is missing; create it",
    ));
    let decision = world.settle();
    assert_eq!(decision.because.code(), "problem");
    assert_eq!(
        world.blocked().unwrap(),
        ("True".to_owned(), "Problem".to_owned())
    );
    world.problem = None;
    world.build();
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_direct_job_may_find_that_something_must_be_run() {
    let mut world = World::opted_in();
    world.seen.cluster.user_namespaces = Support::No;
    world.settle();
    let uid = world.current().metadata.uid.clone();
    world.run();
    world.settle();
    world.tell(needs_containerfile());
    world.settle();
    assert_eq!(world.current().metadata.uid, uid);
    let methods: Vec<_> = world.made.iter().map(|(.., method)| *method).collect();
    assert_eq!(methods, [JobMethod::Direct, JobMethod::Containerfile]);
    assert_eq!(
        world.current().metadata.annotation(labels::BECAUSE),
        Some("append-to-base")
    );
    let conditions = world.config().status.conditions.clone();
    assert_eq!(
        condition(&conditions, "UserNamespaces").unwrap().reason,
        "NotSupported"
    );
    world.build();
    assert_eq!(world.made.len(), 2);
    is_idle(&mut world);
}

#[test]
fn a_build_is_planned_on_one_base_for_all_its_life() {
    let mut world = World::opted_in();
    world.settle();
    let build = world.current().clone();
    world.base = 1;
    world.delete_job();
    world.settle();
    world.wait(60);
    world.build();
    assert_eq!(world.current().metadata.uid, build.metadata.uid);
    let pinned = world
        .asked
        .iter()
        .rev()
        .find_map(|question| match question {
            Question::Plan(plan) => plan.base.clone(),
            Question::Exists { .. } => None,
        });
    assert_eq!(
        pinned.map(|base| base.to_string()).as_deref(),
        build.metadata.annotation(labels::BASE)
    );
}

#[test]
fn a_pre_built_image_is_no_base() {
    let mut world = World::opted_in();
    world.seen.prebuilt = Some("quay.io/acme/golden@sha256:00".to_owned());
    assert_eq!(world.settle().because.code(), "bad-machine-os-config");
    world.seen.cluster.stock_base = Some("quay.io/release/os@sha256:01".to_owned());
    world.settle();
    let asked = world.asked.iter().any(|question| match question {
        Question::Plan(plan) => plan
            .instead
            .as_ref()
            .is_some_and(|base| base.stock == "quay.io/release/os@sha256:01"),
        Question::Exists { .. } => false,
    });
    assert!(asked);
}

#[test]
fn another_jobs_leftovers_go_first() {
    let mut world = World::opted_in();
    while world.seen.jobs.is_empty() {
        world.round(usize::MAX);
    }
    let name = world.seen.builds[0].metadata.name.clone();
    world.seen.inputs.push(SeenInput {
        kind: InputKind::Secret,
        name: format!("final-{name}"),
        uid: "old".to_owned(),
        job_uid: "an older Job".to_owned(),
        build: name,
        going_away: false,
    });
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
}

#[test]
fn what_nothing_has_to_do_with_a_build_builds_nothing() {
    let mut world = World::built();
    // A secret's name, a pool's labels: no part of an identity.
    let config = world.config();
    config.spec.rendered_image_push_secret.name = "other".to_owned();
    config.metadata.generation = Some(9);
    world
        .pool()
        .metadata
        .labels
        .insert("a".to_owned(), "b".to_owned());
    world.containerfile("# only a comment\n");
    world.settle();
    assert_eq!(
        (world.made.len(), world.asked.len()),
        (1, world.asked.len())
    );
    assert_eq!(world.config().status.observed_generation, Some(10));
    is_idle(&mut world);
}
