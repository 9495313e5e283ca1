//! An upgrade of mosb to another image format builds nothing.

use super::fake_cluster::*;
use super::rows::is_idle;
use mosb_api::*;
use mosb_types::ErrorClass;

use BuildCondition::{Failed, Succeeded};

/// A pool with its second image, after the upgrade.
fn upgraded() -> FakeCluster {
    let mut fake = FakeCluster::built();
    fake.render(2);
    fake.build();
    fake.format = 2;
    fake
}

fn name(fake: &FakeCluster) -> String {
    fake.current().metadata.name.clone()
}

#[test]
fn an_image_in_service_stays_until_its_inputs_change() {
    let mut fake = upgraded();
    let (build, image) = (name(&fake), fake.image().to_owned());
    is_idle(&mut fake);
    fake.wait(100_000);
    is_idle(&mut fake);
    assert_eq!((name(&fake), fake.image()), (build, &*image));
    assert_eq!(fake.made.len(), 2);

    fake.render(3);
    fake.build();
    assert_ne!(fake.image(), image);
    assert_eq!(fake.made.len(), 3);
    is_idle(&mut fake);
}

#[test]
fn a_rebuild_is_of_the_new_format() {
    let mut fake = upgraded();
    let build = name(&fake);
    fake.annotate(labels::REBUILD, "");
    fake.build();
    assert_ne!(name(&fake), build);
    assert_eq!(fake.made.len(), 3);
    is_idle(&mut fake);
}

#[test]
fn a_pool_that_is_rolled_out_automatically_keeps_its_image() {
    let mut fake = upgraded();
    fake.annotate(labels::ROLLOUT, "automatic");
    fake.settle();
    let status = fake.config().status.clone();
    fake.format = 3;
    is_idle(&mut fake);
    fake.wait(100_000);
    is_idle(&mut fake);
    assert_eq!((fake.config().status.clone(), fake.made.len()), (status, 2));
}

#[test]
fn another_choice_of_configs_counts_from_the_next_change_on() {
    let mut fake = upgraded();
    let image = fake.image().to_owned();
    for choice in ["os-change", "every-config"] {
        fake.annotate(labels::BUILD_ON, choice);
        is_idle(&mut fake);
        assert_eq!((fake.image(), fake.made.len()), (&*image, 2), "{choice}");
    }
}

#[test]
fn a_failed_build_is_not_retried_with_a_new_format() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    assert_eq!(fake.settle().reason.code(), "failed");
    fake.format = 2;
    is_idle(&mut fake);
    assert_eq!((fake.state(), fake.made.len()), (Some(Failed), 1));
}

#[test]
fn a_running_build_retains_its_format_and_a_lost_one_restarts() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    let build = name(&fake);
    fake.format = 2;
    fake.settle();
    let mut lost = fake.clone();
    fake.succeed();
    fake.settle();
    assert_eq!((name(&fake), fake.state()), (build.clone(), Some(Succeeded)));
    assert_eq!(fake.made.len(), 1);
    is_idle(&mut fake);

    lost.delete_workload();
    lost.build();
    assert_ne!(name(&lost), build);
    assert_eq!((lost.state(), lost.snapshot.builds.len()), (Some(Succeeded), 1));
    is_idle(&mut lost);
}

#[test]
fn machines_that_apply_configs_themselves_keep_their_image() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.build();
    let image = fake.image().to_owned();
    fake.format = 2;
    is_idle(&mut fake);
    fake.render(2);
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
    is_idle(&mut fake);
    fake.render(1);
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
}

#[test]
fn a_pre_built_image_is_the_same_build_in_every_format() {
    use super::fake_seed::SEED;
    let mut fake = FakeCluster::to_be_seeded();
    fake.round(usize::MAX);
    fake.format = 2;
    fake.settle();
    assert_eq!(fake.image(), SEED);
    is_idle(&mut fake);
    fake.format = 3;
    is_idle(&mut fake);
    assert!(fake.made.is_empty());
}
