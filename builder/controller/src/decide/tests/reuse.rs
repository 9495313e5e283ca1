//! Images that are there already (reference §8.3, reuse), and what makes no new one.

use super::rows::is_idle;
use super::world::*;
use crate::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

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
        assert!(world.seen.runners.is_empty() && world.seen.inputs.is_empty());
    }
}

#[test]
fn rows_20_21_a_then_b_then_a() {
    let mut world = World::built();
    let (a, image) = (world.current().metadata.uid.clone(), world.image().to_owned());
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
    let (first, image) = (world.current().metadata.name.clone(), world.image().to_owned());
    world.render(2);
    world.build();
    let build = world.current();
    assert_eq!(build.status.image(), Some(&*image), "row 22");
    assert_eq!(build.metadata.annotation(labels::ADOPTED_FROM), Some(&*first));
    assert_eq!(build.spec.machine_config.name, rendered(2));
    assert_eq!(
        (&build.status.builder, &build.status.build_start, &build.status.build_end),
        (&None, &None, &None)
    );
    assert_eq!((world.made.len(), world.seen.builds.len()), (1, 2));
    assert_eq!(
        world.seen.config.as_ref().unwrap().status.machine_os_build.as_ref().unwrap().name,
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
    assert_eq!(world.current().metadata.annotation(labels::ADOPTED_FROM), None);
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
    let base =
        |world: &World| world.current().metadata.annotation(labels::BASE).unwrap().to_owned();
    let second = base(&world);
    world.render(1);
    world.build();
    assert_eq!(base(&world), second, "A is built again, as its base is another");
    assert_eq!(world.made.len(), 3);
}

#[test]
fn a_build_is_planned_on_one_base_for_all_its_life() {
    let mut world = World::opted_in();
    world.settle();
    let build = world.current().clone();
    world.base = 1;
    world.delete_runner();
    world.settle();
    world.wait(60);
    world.build();
    assert_eq!(world.current().metadata.uid, build.metadata.uid);
    let pinned = world.asked.iter().rev().find_map(|lookup| match lookup {
        Lookup::Plan(plan) => plan.base.clone(),
        Lookup::Exists { .. } | Lookup::OsImage { .. } | Lookup::Result { .. } => None,
    });
    assert_eq!(
        pinned.map(|base| base.to_string()).as_deref(),
        build.metadata.annotation(labels::BASE)
    );
}

#[test]
fn what_nothing_has_to_do_with_a_build_builds_nothing() {
    let mut world = World::built();
    // A secret's name, a pool's labels: no part of an identity.
    let config = world.config();
    config.spec.rendered_image_push_secret.name = "other".to_owned();
    config.metadata.generation = Some(9);
    world.pool().metadata.labels.insert("a".to_owned(), "b".to_owned());
    world.containerfile("# only a comment\n");
    world.settle();
    assert_eq!((world.made.len(), world.asked.len()), (1, world.asked.len()));
    assert_eq!(world.config().status.observed_generation, Some(10));
    is_idle(&mut world);
}

#[test]
fn while_a_registry_refuses_to_answer_nothing_is_deleted_or_built() {
    type Place = (&'static str, fn() -> World, fn(&mut World));
    // Each is asked about an image that a status names, or that a Job has just pushed.
    let places: [Place; 5] = [
        ("an older image is wanted again", World::built, |world| {
            world.render(2);
            world.build();
            world.render(1);
        }),
        ("the image in service is adopted", daemon_world, |world| {
            world.render(2);
        }),
        ("the build that adopts it is there", daemon_world, |world| {
            world.render(2);
            world.round(usize::MAX);
            assert_eq!(world.seen.builds.len(), 2);
        }),
        ("a Job pushed it", World::opted_in, |world| {
            world.settle();
            world.succeed();
        }),
        ("the pre-built image is wanted again", World::seeded, |world| {
            world.containerfile("RUN true");
            world.build();
            world.config().spec.container_file.clear();
        }),
    ];
    for (what, start, change) in places {
        let mut world = start();
        change(&mut world);
        let there = |world: &World| -> Vec<_> {
            let builds = world.seen.builds.iter();
            let uids = builds.map(|build| build.metadata.uid.clone());
            let jobs = world.seen.runners.iter();
            uids.chain(jobs.map(|seen| Some(seen.runner.uid().to_owned()))).collect()
        };
        let (before, image, made) = (there(&world), world.image().to_owned(), world.made.len());
        world.registry_problem = Some(problem(ErrorClass::Rejected, "403"));
        for _ in 0..3 {
            let decision = world.settle();
            assert_eq!(decision.reason.to_string(), "403", "{what}");
            world.wait(600);
        }
        assert_eq!(there(&world), before, "{what}");
        assert_eq!((world.image(), world.made.len()), (&*image, made), "{what}");
        let blocked = ("True".to_owned(), "Problem".to_owned());
        assert_eq!(world.blocked(), Some(blocked), "{what}");
        // It answers: what was known before goes on, and only what it says is missing is made.
        world.registry_problem = None;
        world.build();
        assert_eq!(world.made.len(), made, "{what}");
        assert_eq!(world.blocked().unwrap().0, "False", "{what}");
        is_idle(&mut world);
    }
}

/// A pool with an image, whose machines apply configs themselves.
fn daemon_world() -> World {
    let mut world = World::opted_in();
    world.seen.cluster.machine_config_daemon = true;
    world.build();
    world
}
