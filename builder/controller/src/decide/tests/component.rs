//! The MachineConfigs that bring pools their pre-built images (reference §3.12).

use super::rows::is_idle;
use super::seed::{is_in_service, seeded_condition};
use super::seed_world::*;
use super::world::*;
use crate::status::EventReason;
use crate::*;
use mosb_plan::api::*;

const COMPONENT: &str = "10-prebuiltimage-osimageurl-worker";
const MISSPELT: &str = "10-prebuildimage-osimageurl-worker";

fn other_image() -> String {
    SEED.replace("golden", "second")
}

#[test]
fn a_component_that_is_there_is_claimed_or_replaced() {
    let other = other_image();
    let tagged = SEED.replace("os@", "os:v1@");
    for (what, there, want) in [
        ("the same", vec![(COMPONENT, SEED)], vec![(COMPONENT, SEED)]),
        ("with a tag", vec![(COMPONENT, &*tagged)], vec![(COMPONENT, &*tagged)]),
        ("another", vec![(COMPONENT, &*other)], vec![(COMPONENT, SEED)]),
        ("no image", vec![(COMPONENT, "")], vec![(COMPONENT, SEED)]),
        ("misspelt", vec![(MISSPELT, SEED)], vec![(MISSPELT, SEED)]),
        (
            "misspelt, another",
            vec![(MISSPELT, &*other)],
            vec![(COMPONENT, SEED), (MISSPELT, &*other)],
        ),
        (
            "both",
            vec![(COMPONENT, &*other), (MISSPELT, &*other)],
            vec![(COMPONENT, SEED), (MISSPELT, &*other)],
        ),
    ] {
        let mut world = World::to_be_seeded();
        for (name, image) in there {
            world.add_component(name, image, None);
        }
        world.settle();
        is_in_service(&mut world, SEED);
        let found = |world: &World| {
            let mut found: Vec<_> = world.seen.components.clone();
            found.sort_by(|a, b| b.name.cmp(&a.name));
            found
        };
        let components = found(&world);
        let names: Vec<_> = components.iter().map(|one| (&*one.name, &*one.image)).collect();
        assert_eq!(names, want, "{what}");
        // One of the other spelling that names another image does no harm, and goes with the rest.
        let claimed = |one: &SeenComponent| one.claim.as_deref() == Some("worker");
        assert!(components.iter().all(claimed), "{what}");
        world.seen.config = None;
        world.collect();
        world.settle();
        assert!(found(&world).is_empty(), "{what}");
    }
}

#[test]
fn what_nobody_claimed_stays() {
    let mut world = World::new();
    world.content = Some(1);
    world.add_component(COMPONENT, SEED, None);
    world.settle();
    assert_eq!(world.seen.components.len(), 1, "its MachineOSConfig may be on its way");
    world.seen.components[0].claim = Some("worker".to_owned());
    world.settle();
    assert!(world.seen.components.is_empty());
}

#[test]
fn the_end_of_the_config_is_the_end_of_its_component_and_another_may_begin() {
    let mut world = World::seeded();
    world.seen.config = None;
    world.collect();
    world.settle();
    assert!(world.seen.components.is_empty() && world.seen.builds.is_empty());
    let rendered = world.pool().spec.configuration.name.clone();
    assert_eq!(world.os_images[&rendered], STOCK);
    is_idle(&mut world);
    // Another image, and nobody looks in between.
    let other = other_image();
    for gone in [true, false] {
        let mut world = World::seeded();
        let uid = world.config().metadata.uid.clone();
        world.images.insert(other.parse().unwrap());
        world.seen.config = None;
        if gone {
            world.collect();
            world.settle();
        }
        world.opt_in();
        world.annotate(labels::PRE_BUILT_IMAGE, &other);
        world.settle();
        assert_ne!(world.config().metadata.uid, uid);
        is_in_service(&mut world, &other);
        assert_eq!(world.seen.builds.len(), 1);
        assert_eq!(world.seen.components.len(), 1);
        assert_eq!(world.seen.components[0].image, other);
        assert!(world.made.is_empty());
        is_idle(&mut world);
    }
}

#[test]
fn a_component_that_is_missed_is_told_once_and_one_that_lost_its_claim_is_claimed() {
    let mut world = World::seeded();
    world.seen.components[0].claim = None;
    world.settle();
    assert_eq!(world.seen.components[0].claim.as_deref(), Some("worker"));
    world.seen.components.clear();
    world.settle();
    world.build();
    assert_eq!(world.told(EventReason::PreBuiltImageMissing), 1);
    let says = seeded_condition(&mut world).unwrap();
    assert!(says.is_true() && says.message.contains("is gone"), "{says:?}");
    assert!(world.seen.components.is_empty(), "not made again");
    assert_eq!(world.made.len(), 1, "the pool's config is another one");
    is_idle(&mut world);
}
