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
//! Other components': 42, 43 (nothing of ours must be waited for: owners do it), 46 and 49 (the operator), 54, 60 but for the build, 61, 63, 66, and the
//! Deployment in 67. In `seed`: 56–58 and what of 62 is ours; 59 is the room `bootstrap`'s. Row 18 is the queue's: a decision sees one pool.

use super::world::*;
use crate::status::EventReason;
use crate::*;
use mosb_build::JobMethod;
use mosb_build::result::Outcome;
use mosb_image::Digest;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

use BuildCondition::{Building, Prepared, Succeeded};

pub fn is_idle(world: &mut World) {
    world.asked.clear();
    let decision = world.decide();
    assert_eq!(decision.actions, [], "{:?}", decision.reason);
    assert!(world.asked.is_empty(), "{:?}", world.asked);
    assert_eq!(decision.requeue_after, None);
}

pub fn degraded(status: &str, reason: &str) -> (String, String) {
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
    let decision = world.settle();
    assert_eq!(decision.reason.code(), "no-pool");
    assert_eq!(world.blocked(), None, "it may be applied together with it");
    world.wait(-2);
    world.settle();
    assert_eq!(world.blocked(), None, "the API server's clock is ahead");
    world.wait(2);
    world.wait(decision.requeue_after.expect("another look").as_secs() as i64 + 1);
    assert_eq!(world.settle().reason.code(), "no-pool");
    assert_eq!(world.blocked(), Some(("True".to_owned(), "NoPool".to_owned())));
    assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1);
    is_idle(&mut world);
    world.seen.pool = pool;
    world.pool().spec.configuration.name.clear();
    assert_eq!(world.settle().reason, PoolReason::NotRendered, "install time");
    assert_eq!(world.blocked().unwrap().0, "False", "there is a pool");
    world.render(1);
    world.seen.cluster.machine_config_daemon = true;
    world.pool().status.configuration.name.clear();
    assert_eq!(world.settle().reason, PoolReason::NotRendered, "§3.4b 3");
    world.pool().status.configuration.name = rendered(1);
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
    assert_eq!(world.blocked().unwrap().0, "False");
    world.pool().spec.configuration.name = "00-worker".to_owned();
    assert_eq!(world.settle().reason.code(), "bad-machine-os-config");
}

#[test]
fn row_11_without_a_config_nothing_is_built() {
    let mut world = World::new();
    for n in 1..4 {
        world.render(n);
        assert_eq!(world.settle().reason, PoolReason::NotOptedIn);
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
    assert_eq!(build.spec.rendered_image_push_spec, format!("quay.io/acme/os:{}", rendered(1)));
    let label = |key| build.metadata.labels.get(key).map(String::as_str);
    assert_eq!(label(labels::MACHINE_OS_CONFIG), Some("worker"));
    assert_eq!(label(labels::RENDERED_MACHINE_CONFIG), Some(&*rendered(1)));
    assert_eq!(label(labels::TARGET_MACHINE_CONFIG_POOL), Some("worker"));
    assert_eq!(build.metadata.annotation(labels::JOB_UID), world.job_uid().as_deref());
    assert_eq!(world.seen.inputs.len(), 3);
    assert_eq!(world.degraded(), degraded("False", "Building"));
    assert_eq!(world.decide().reason.code(), "pending");
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
        assert_eq!(world.seen.runners.len(), 1, "{what}");
        assert_eq!(world.seen.inputs.len(), 3, "{what}");
        assert_eq!(world.told(EventReason::BuildInterrupted), 1, "{what}");
        assert_eq!(world.told(EventReason::BuildDeleted), 1, "{what}");
    }
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
    assert_eq!(tree.reason.code(), "up-to-date");
    let status = &world.current().status;
    assert_eq!(world.state(), Some(Succeeded), "row 27");
    assert_eq!(status.build_start, Some(created));
    assert!(status.build_end > status.build_start);
    assert_eq!(status.image(), Some(world.image()), "row 30");
    assert!(world.image().starts_with("quay.io/acme/os@sha256:"));
    let config = world.seen.config.clone().unwrap();
    assert_eq!(config.status.observed_generation, config.metadata.generation);
    let pool = world.seen.pool.as_ref().unwrap();
    assert_eq!(
        pool.metadata.annotation(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG),
        Some(world.image())
    );
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    assert_eq!(world.seen.cluster.base_trees.len(), 1);
    assert!(world.seen.runners.is_empty(), "cleaned up");
    is_idle(&mut world);
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
        (world.annotation(labels::REBUILD), world.annotation(labels::REBUILD_OF)),
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
    world.tell(failed(ErrorClass::Rejected));
    world.settle();
    world.annotate(labels::REBUILD, "please");
    world.build();
    assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 4));
    assert_eq!(world.annotation(labels::REBUILD), None);

    // Without a current build it is nothing to be done, and goes with the next one.
    let mut fresh = World::opted_in();
    fresh.annotate(labels::REBUILD, "");
    fresh.build();
    assert_eq!((fresh.made.len(), fresh.annotation(labels::REBUILD)), (1, None));
    is_idle(&mut fresh);
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
fn a_base_tree_is_recorded_only_for_the_builds_own_base_that_it_read() {
    let own = Digest::of(&0_u32.to_be_bytes());
    let other = Digest::of(b"another team's base");
    let (direct, containerfile) = (JobMethod::Direct, JobMethod::Containerfile);
    for (what, planned, base, method, recorded) in [
        ("its own", direct, own, direct, 1),
        ("another base's", direct, other, direct, 0),
        ("read by no Containerfile", containerfile, own, containerfile, 0),
        ("a Containerfile's that says direct", containerfile, own, direct, 0),
        ("a direct one's that says Containerfile", direct, own, containerfile, 0),
    ] {
        let mut world = World::opted_in();
        world.settle();
        if planned == containerfile {
            world.run();
            world.settle();
            world.tell(needs_containerfile());
            world.settle();
        }
        world.succeed();
        let build = world.current().metadata.name.clone();
        let result = world.seen.results.get_mut(&build).unwrap();
        if let Outcome::Succeeded { method: told, base_tree: Some(tree), .. } = &mut result.outcome
        {
            *told = method;
            tree.base = base;
        }
        world.settle();
        assert_eq!(world.state(), Some(Succeeded), "{what}");
        let trees = &world.seen.cluster.base_trees;
        assert_eq!(trees.len(), recorded, "{what}: {trees:?}");
    }
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
    assert_eq!(world.current().metadata.annotation(labels::REASON), Some("append-to-base"));
    let conditions = world.config().status.conditions.clone();
    assert_eq!(condition(&conditions, "UserNamespaces").unwrap().reason, "NotSupported");
    world.seen.cluster.user_namespaces = Support::Forbidden;
    world.settle();
    let conditions = world.config().status.conditions.clone();
    assert_eq!(condition(&conditions, "UserNamespaces").unwrap().reason, "Forbidden");
    world.build();
    assert_eq!(world.made.len(), 2);
    is_idle(&mut world);
}

#[test]
fn a_job_that_is_newer_than_what_is_seen_of_its_build_is_left_alone() {
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.settle();
    let old = world.current().clone();
    world.delete_runner();
    let pause = world.settle().requeue_after.expect("a next attempt");
    world.wait(pause.as_secs() as i64 + 1);
    world.settle();
    // The watch of builds is behind that of Jobs.
    let at = world.seen.builds.iter_mut().find(|b| b.metadata.uid == old.metadata.uid);
    *at.unwrap() = old;
    let decision = world.decide();
    assert_eq!(decision.actions, []);
    assert_eq!(decision.reason.code(), "preparing");
}
