//! An upgrade of mosb that writes images in another format: nothing is built for it.

use super::rows::is_idle;
use super::world::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

use BuildCondition::{Failed, Succeeded};

/// A pool with its second image, after the upgrade.
fn upgraded() -> World {
    let mut world = World::built();
    world.render(2);
    world.build();
    world.format = 2;
    world
}

fn name(world: &World) -> String {
    world.current().metadata.name.clone()
}

#[test]
fn an_image_in_service_stays_until_its_inputs_change() {
    let mut world = upgraded();
    let (build, image) = (name(&world), world.image().to_owned());
    is_idle(&mut world);
    world.wait(100_000);
    is_idle(&mut world);
    assert_eq!((name(&world), world.image()), (build, &*image));
    assert_eq!(world.made.len(), 2);

    world.render(3);
    world.build();
    assert_ne!(world.image(), image);
    assert_eq!(world.made.len(), 3);
    is_idle(&mut world);
}

#[test]
fn an_earlier_config_gets_the_image_that_it_had() {
    let mut world = upgraded();
    let second = world.image().to_owned();
    world.render(1);
    world.build();
    assert_eq!(world.current().spec.machine_config.name, rendered(1));
    assert_eq!((world.made.len(), world.seen.builds.len()), (2, 2));
    is_idle(&mut world);

    // Where a registry can't be asked for it nothing is built either.
    world.registry_problem = Some(problem(ErrorClass::Transient, "the registry does not answer"));
    world.render(2);
    let told = world.settle().reason.to_string();
    assert_eq!(told, "the registry does not answer");
    assert_eq!(world.seen.builds.len(), 2);
    world.registry_problem = None;
    // It is gone: built, in the new format.
    world.images.remove(&second.parse().unwrap());
    world.build();
    assert_eq!((world.made.len(), world.seen.builds.len()), (3, 3));
}

#[test]
fn a_rebuild_is_of_the_new_format() {
    let mut world = upgraded();
    let build = name(&world);
    world.annotate(labels::REBUILD, "");
    world.build();
    assert_ne!(name(&world), build);
    assert_eq!(world.made.len(), 3);
    is_idle(&mut world);
}

#[test]
fn what_failed_is_not_tried_again() {
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    assert_eq!(world.settle().reason.code(), "failed");
    world.format = 2;
    is_idle(&mut world);
    assert_eq!((world.state(), world.made.len()), (Some(Failed), 1));
}

#[test]
fn what_runs_ends_as_it_began_and_what_is_lost_begins_anew() {
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.settle();
    let build = name(&world);
    world.format = 2;
    world.settle();
    let mut lost = world.clone();
    world.succeed();
    world.settle();
    assert_eq!((name(&world), world.state()), (build.clone(), Some(Succeeded)));
    assert_eq!(world.made.len(), 1);
    is_idle(&mut world);

    lost.delete_runner();
    lost.build();
    assert_ne!(name(&lost), build);
    assert_eq!((lost.state(), lost.seen.builds.len()), (Some(Succeeded), 1));
    is_idle(&mut lost);
}

#[test]
fn machines_that_apply_configs_themselves_keep_their_image() {
    let mut world = World::opted_in();
    world.seen.cluster.machine_config_daemon = true;
    world.build();
    let image = world.image().to_owned();
    world.format = 2;
    is_idle(&mut world);
    world.render(2);
    world.build();
    assert_eq!((world.image(), world.made.len()), (&*image, 1));
    is_idle(&mut world);
    world.render(1);
    world.build();
    assert_eq!((world.image(), world.made.len()), (&*image, 1));
}

#[test]
fn a_pre_built_image_is_the_same_build_in_every_format() {
    use super::seed_world::SEED;
    let mut world = World::to_be_seeded();
    world.round(usize::MAX);
    world.format = 2;
    world.settle();
    assert_eq!(world.image(), SEED);
    is_idle(&mut world);
    world.format = 3;
    is_idle(&mut world);
    assert!(world.made.is_empty());
}
