//! Whatever there is already of what seeding makes, and wherever the controller is killed, it ends the same.

use proptest::prelude::*;

use super::seed_world::*;
use super::world::*;
use crate::*;
use mosb_plan::api::*;

/// Everything that seeding leaves, without what differs by time or chance.
fn end(world: &World) -> impl PartialEq + std::fmt::Debug + use<> {
    let says = |conditions: &[Condition]| -> Vec<_> {
        let one = |one: &Condition| (one.kind.clone(), one.status.clone(), one.reason.clone());
        conditions.iter().map(one).collect()
    };
    let seen = &world.seen;
    let config = seen.config.as_ref().unwrap();
    let pool = seen.pool.as_ref().unwrap();
    let builds = seen.builds.iter().map(|build| {
        let metadata = &build.metadata;
        let status = &build.status;
        (
            metadata.name.clone(),
            metadata.labels.clone(),
            metadata.annotations.clone(),
            build.spec.clone(),
            says(&status.conditions),
            status.image().map(str::to_owned),
            status.build_start < status.build_end,
        )
    });
    let components = seen.components.iter();
    let components = components.map(|one| (one.name.clone(), one.image.clone(), one.claim.clone()));
    (
        builds.collect::<Vec<_>>(),
        components.collect::<Vec<_>>(),
        config.metadata.annotations.clone(),
        config.status.current_image_pull_spec.clone(),
        config.status.machine_os_build.clone(),
        says(&config.status.conditions),
        (pool.metadata.annotations.clone(), says(&pool.status.conditions)),
        pool.spec.configuration.name.clone(),
    )
}

/// Takes away what a set of bits does not hold of the world that seeding ends in.
fn part(had: u16) -> World {
    let mut world = World::seeded();
    let has = |bit: u16| had & (1 << bit) != 0;
    let fresh = World::to_be_seeded();
    world.annotate(labels::PRE_BUILT_IMAGE, SEED);
    if !has(0) {
        world.seen.components.clear();
    } else if !has(1) {
        world.seen.components[0].claim = None;
    } else if !has(2) {
        world.seen.components[0].image = SEED.replace("golden", "older");
    }
    if !has(3) {
        world.rerender();
    }
    if !has(4) {
        world.seen.builds.clear();
    } else if !has(5) {
        world.seen.builds[0].status = MachineOsBuildStatus::default();
    }
    if !has(6) {
        world.config().status = MachineOsConfigStatus::default();
    } else if !has(7) {
        world.config().status.conditions.clear();
    }
    // Who is named, and gone, was somebody else's.
    if !has(8) || !has(4) {
        let annotations = &mut world.config().metadata.annotations;
        annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
    }
    let was = fresh.seen.pool.unwrap();
    if !has(9) {
        world.pool().status.conditions = was.status.conditions;
    }
    if !has(10) {
        world.pool().metadata.annotations = was.metadata.annotations;
    }
    world.asked.clear();
    world.made.clear();
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_the_same_whatever_there_is_already(
        had in 0u16..2048,
        killed in prop::collection::vec((0usize..6, any::<bool>()), 0..12),
    ) {
        let mut world = part(had);
        for (most, renders) in killed {
            if renders {
                world.rerender();
            }
            world.round(most);
        }
        let last = world.settle();
        prop_assert_eq!(last.reason.code(), "up-to-date");
        prop_assert_eq!(end(&world), end(&World::seeded()), "{:b}", had);
        prop_assert!(world.made.is_empty());
        let planned = |lookup: &Lookup| matches!(lookup, Lookup::Plan(_));
        prop_assert!(!world.asked.iter().any(planned), "nothing is planned");
    }
}
