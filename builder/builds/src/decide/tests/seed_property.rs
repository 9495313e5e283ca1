//! Seeding converges from any partial state, and wherever the controller is killed.

use proptest::prelude::*;

use super::fake_cluster::*;
use super::fake_seed::*;
use crate::*;
use mosb_api::*;
use mosb_cluster::status::IMAGE_CHECKED;

/// The final state, without times and random values.
fn end(fake: &FakeCluster) -> impl PartialEq + std::fmt::Debug + use<> {
    let says = |conditions: &[Condition]| -> Vec<_> {
        let one = |one: &Condition| (one.kind.clone(), one.status.clone(), one.reason.clone());
        conditions.iter().map(one).collect()
    };
    let seen = &fake.snapshot;
    let config = seen.config.as_ref().unwrap();
    let pool = seen.pool.as_ref().unwrap();
    let builds = seen.builds.iter().map(|build| {
        // An image that is in service is not checked again.
        let mut metadata = build.metadata.clone();
        metadata.annotations.remove(labels::CHECKED);
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
        says(&config.status.conditions)
            .into_iter()
            .filter(|(kind, ..)| *kind != IMAGE_CHECKED)
            .collect::<Vec<_>>(),
        (pool.metadata.annotations.clone(), says(&pool.status.conditions)),
        pool.spec.configuration.name.clone(),
    )
}

/// Removes the parts of the final state whose bits are not set.
fn part(had: u16) -> FakeCluster {
    let mut fake = FakeCluster::seeded();
    let has = |bit: u16| had & (1 << bit) != 0;
    let fresh = FakeCluster::to_be_seeded();
    fake.annotate(labels::PRE_BUILT_IMAGE, SEED);
    if !has(0) {
        fake.snapshot.components.clear();
    } else if !has(1) {
        fake.snapshot.components[0].claim = None;
    } else if !has(2) {
        fake.snapshot.components[0].image = SEED.replace("golden", "older");
    }
    if !has(3) {
        fake.rerender();
    }
    if !has(4) {
        fake.snapshot.builds.clear();
    } else if !has(5) {
        fake.snapshot.builds[0].status = MachineOsBuildStatus::default();
    }
    if !has(6) {
        fake.config().status = MachineOsConfigStatus::default();
    } else if !has(7) {
        fake.config().status.conditions.clear();
    }
    // A named build that is missing was another builder's.
    if !has(8) || !has(4) {
        let annotations = &mut fake.config().metadata.annotations;
        annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
    }
    let was = fresh.snapshot.pool.unwrap();
    if !has(9) {
        fake.pool().status.conditions = was.status.conditions;
    }
    if !has(10) {
        fake.pool().metadata.annotations = was.metadata.annotations;
    }
    fake.asked.clear();
    fake.made.clear();
    fake
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_the_same_whatever_there_is_already(
        had in 0u16..2048,
        killed in prop::collection::vec((0usize..6, any::<bool>()), 0..12),
    ) {
        let mut fake = part(had);
        for (most, renders) in killed {
            if renders {
                fake.rerender();
            }
            fake.round(most);
        }
        let last = fake.settle();
        prop_assert_eq!(last.reason.code(), "up-to-date");
        prop_assert_eq!(end(&fake), end(&FakeCluster::seeded()), "{:b}", had);
        prop_assert!(fake.made.is_empty());
        let planned = |lookup: &Lookup| matches!(lookup, Lookup::Plan(_));
        prop_assert!(!fake.asked.iter().any(planned), "nothing is planned");
    }
}
