//! The component MachineConfigs of pre-built images (`docs/reference/api.md`, Pre-built images).

use super::fake_cluster::*;
use super::fake_seed::*;
use super::rows::is_idle;
use super::seed::{is_in_service, seeded_condition};
use crate::*;
use mosb_api::*;
use mosb_cluster::status::EventReason;

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
        let mut fake = FakeCluster::to_be_seeded();
        for (name, image) in there {
            fake.add_component(name, image, None);
        }
        fake.settle();
        is_in_service(&mut fake, SEED);
        let found = |fake: &FakeCluster| {
            let mut found: Vec<_> = fake.snapshot.components.clone();
            found.sort_by(|a, b| b.name.cmp(&a.name));
            found
        };
        let components = found(&fake);
        let names: Vec<_> = components.iter().map(|one| (&*one.name, &*one.image)).collect();
        assert_eq!(names, want, "{what}");
        // One with the alternative name and another image does no harm, and is deleted with the
        // rest.
        let claimed = |one: &SeenComponent| one.claim.as_deref() == Some("worker");
        assert!(components.iter().all(claimed), "{what}");
        fake.snapshot.config = None;
        fake.collect();
        fake.settle();
        assert!(found(&fake).is_empty(), "{what}");
    }
}

#[test]
fn unclaimed_components_are_not_deleted() {
    let mut fake = FakeCluster::new();
    fake.content = Some(1);
    fake.add_component(COMPONENT, SEED, None);
    fake.settle();
    assert_eq!(fake.snapshot.components.len(), 1, "its MachineOSConfig may be on its way");
    fake.snapshot.components[0].claim = Some("worker".to_owned());
    fake.settle();
    assert!(fake.snapshot.components.is_empty());
}

/// Its MachineOSConfig may only be unseen.
#[test]
fn a_component_stays_while_a_watch_is_broken() {
    let mut fake = FakeCluster::seeded();
    fake.snapshot.config = None;
    fake.snapshot.broken_watch = Some("machineosconfigs: away".to_owned());
    let decision = fake.settle();
    assert!(decision.reason.to_string().contains("machineosconfigs: away"), "{}", decision.reason);
    assert_eq!(fake.snapshot.components.len(), 1);
    fake.snapshot.broken_watch = None;
    fake.settle();
    assert!(fake.snapshot.components.is_empty());
}

#[test]
fn the_end_of_the_config_is_the_end_of_its_component_and_another_may_begin() {
    let mut fake = FakeCluster::seeded();
    fake.snapshot.config = None;
    fake.collect();
    fake.settle();
    assert!(fake.snapshot.components.is_empty() && fake.snapshot.builds.is_empty());
    let rendered = fake.pool().spec.configuration.name.clone();
    assert_eq!(fake.os_images[&rendered], STOCK);
    is_idle(&mut fake);
    // Another image, without a reconcile in between.
    let other = other_image();
    for gone in [true, false] {
        let mut fake = FakeCluster::seeded();
        let uid = fake.config().metadata.uid.clone();
        fake.images.insert(other.parse().unwrap());
        fake.snapshot.config = None;
        if gone {
            fake.collect();
            fake.settle();
        }
        fake.opt_in();
        fake.annotate(labels::PRE_BUILT_IMAGE, &other);
        fake.settle();
        assert_ne!(fake.config().metadata.uid, uid);
        is_in_service(&mut fake, &other);
        assert_eq!(fake.snapshot.builds.len(), 1);
        assert_eq!(fake.snapshot.components.len(), 1);
        assert_eq!(fake.snapshot.components[0].image, other);
        assert!(fake.made.is_empty());
        is_idle(&mut fake);
    }
}

#[test]
fn a_missing_component_is_reported_once_and_an_unclaimed_one_is_claimed() {
    let mut fake = FakeCluster::seeded();
    fake.snapshot.components[0].claim = None;
    fake.settle();
    assert_eq!(fake.snapshot.components[0].claim.as_deref(), Some("worker"));
    fake.snapshot.components.clear();
    fake.settle();
    fake.build();
    assert_eq!(fake.event_count(EventReason::PreBuiltImageMissing), 1);
    let says = seeded_condition(&mut fake).unwrap();
    assert!(says.is_true() && says.message.contains("is gone"), "{says:?}");
    assert!(fake.snapshot.components.is_empty(), "not made again");
    assert_eq!(fake.made.len(), 1, "the pool's config is another one");
    is_idle(&mut fake);
}
