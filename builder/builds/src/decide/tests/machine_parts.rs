//! What machines need of a config beside the image: it is recorded on new builds, and a config that
//! changes nothing else adopts the image in service.

use super::fake_cluster::*;
use crate::PoolReason;
use mosb_api::labels;
use mosb_api::rollout::MachinePart;
use mosb_image::Digest;

/// A pool of a cluster that rolls out, with an image in service.
fn fake() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.rolling_out = true;
    fake.annotate(labels::BUILD_ON, "every-config");
    fake.annotate(labels::ROLLOUT, "automatic");
    fake.build();
    fake
}

fn part(fake: &FakeCluster) -> Option<String> {
    fake.current().metadata.annotation(labels::MACHINE_PART).map(str::to_owned)
}

#[test]
fn a_change_of_keys_alone_adopts_the_image_and_is_not_outdated() {
    let mut fake = fake();
    let image = fake.image().to_owned();
    fake.login_changes = true;
    for rendering in [2, 3] {
        let before = fake.current().metadata.name.clone();
        fake.machine_part = Digest::of(rendered(rendering).as_bytes());
        fake.render(rendering);
        fake.build();
        let build = fake.current();
        assert_eq!(build.spec.machine_config.name, rendered(rendering));
        assert_eq!(build.metadata.annotation(labels::ADOPTED_FROM), Some(&*before));
        assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
        assert_eq!(part(&fake), Some(fake.machine_part.to_string()));
        assert_eq!(fake.settle().actions, [], "it stays");
    }
    // A revert selects the first build.
    fake.render(1);
    fake.build();
    assert_eq!(fake.current().metadata.annotation(labels::ADOPTED_FROM), None);
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));

    // Another change has an image of its own.
    fake.login_changes = false;
    fake.render(4);
    fake.build();
    assert_ne!(fake.image(), image);
    assert_eq!(fake.made.len(), 2);
}

type Edit = fn(&mut FakeCluster);

#[test]
fn an_image_is_built_where_nothing_brings_keys_to_machines() {
    let cases: [(&str, Edit); 5] = [
        ("no roll-out", |fake| fake.snapshot.cluster.rolling_out = false),
        ("none of this pool", |fake| fake.annotate(labels::ROLLOUT, "none")),
        ("a daemon", |fake| fake.snapshot.cluster.machine_config_daemon = true),
        ("an operator", |fake| fake.snapshot.cluster.machine_config_operator = true),
        ("the image in service is missing", |fake| fake.images.clear()),
    ];
    for (what, edit) in cases {
        let mut fake = fake();
        let image = fake.image().to_owned();
        fake.login_changes = true;
        edit(&mut fake);
        fake.render(2);
        fake.build();
        assert_ne!(fake.image(), image, "{what}");
        assert_eq!(fake.made.len(), 2, "{what}");
    }
}

/// An image that was adopted where machines apply configs themselves lacks files of its config.
#[test]
fn an_image_of_another_config_is_not_adopted_for_keys() {
    let mut fake = fake();
    fake.annotate(labels::BUILD_ON, "os-change");
    fake.render(2);
    fake.build();
    assert_eq!(fake.made.len(), 1, "adopted");
    fake.login_changes = true;
    fake.annotate(labels::BUILD_ON, "every-config");
    fake.render(3);
    fake.build();
    assert_eq!(fake.made.len(), 2);
}

#[test]
fn builds_of_an_older_version_stay_as_they_are() {
    let mut fake = fake();
    assert_eq!(part(&fake), Some(MachinePart::default().digest().to_string()));
    fake.snapshot.builds[0].metadata.annotations.remove(labels::MACHINE_PART);
    // The config has a part, and nothing records it on the build that exists.
    fake.machine_part = Digest::of(b"part");
    let before = fake.snapshot.builds.clone();
    let decision = fake.settle();
    assert!(matches!(decision.reason, PoolReason::UpToDate(_)), "{:?}", decision.reason);
    assert_eq!((&fake.snapshot.builds, fake.made.len()), (&before, 1));
}

#[test]
fn machines_that_apply_configs_themselves_get_no_part() {
    let mut fake = fake();
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.machine_part = Digest::of(b"part");
    fake.render(2);
    fake.build();
    assert_eq!(part(&fake), None);
}
