//! Live apply: it is recorded on new builds from which image machines can come without a reboot.

use super::fake_cluster::*;
use crate::PoolReason;
use mosb_api::labels;
use mosb_image::{Digest, PinnedRef};

/// A pool of a cluster that rolls out, with an image in service and the setting.
fn fake() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.rolling_out = true;
    fake.annotate(labels::BUILD_ON, "every-config");
    fake.annotate(labels::ROLLOUT, "automatic");
    fake.annotate(labels::LIVE_APPLY, "true");
    fake.build();
    fake.live_changes = true;
    fake
}

fn live_from(fake: &FakeCluster) -> Option<String> {
    fake.current().metadata.annotation(labels::LIVE_FROM).map(str::to_owned)
}

/// The digest of the image in service.
fn served(fake: &FakeCluster) -> Option<String> {
    let image: PinnedRef = fake.image().parse().unwrap();
    Some(image.digest().to_string())
}

#[test]
fn a_build_names_the_image_in_service_when_it_is_made() {
    let mut fake = fake();
    assert_eq!(live_from(&fake), None, "the first one");
    let first = served(&fake);
    fake.render(2);
    fake.build();
    assert_eq!(live_from(&fake), first);
    assert_ne!(first, served(&fake));
    fake.render(5);
    fake.build();
    assert_eq!(live_from(&fake), first, "that of the build before");
    let second = served(&fake);
    // Keys alone: it has the same image.
    (fake.login_changes, fake.live_changes) = (true, false);
    fake.machine_part = Digest::of(b"keys");
    fake.render(3);
    fake.build();
    assert_eq!((served(&fake), live_from(&fake)), (second, first.clone()));
    // Without the setting, the builds that exist stay as they are, and the next one has none.
    let before = fake.snapshot.builds.clone();
    fake.annotate(labels::LIVE_APPLY, "false");
    let decision = fake.settle();
    assert!(matches!(decision.reason, PoolReason::UpToDate(_)), "{:?}", decision.reason);
    assert_eq!(fake.snapshot.builds, before);
    (fake.login_changes, fake.live_changes) = (false, true);
    fake.render(4);
    fake.build();
    assert_eq!(live_from(&fake), None);
    // A revert selects the build from before.
    fake.render(2);
    fake.build();
    assert_eq!(live_from(&fake), first);
}

type Edit = fn(&mut FakeCluster);

#[test]
fn a_build_that_is_no_such_change_has_none() {
    let cases: [(&str, Edit); 9] = [
        ("other changes", |fake| fake.live_changes = false),
        ("another value", |fake| fake.annotate(labels::LIVE_APPLY, "yes")),
        ("no roll-out", |fake| fake.snapshot.cluster.rolling_out = false),
        ("a daemon", |fake| fake.snapshot.cluster.machine_config_daemon = true),
        ("an operator", |fake| fake.snapshot.cluster.machine_config_operator = true),
        ("another base", |fake| fake.base += 1),
        ("images of changes of the OS only", |fake| {
            fake.os_changes = true;
            fake.annotate(labels::BUILD_ON, "os-change");
        }),
        ("the image in service is of another base", |fake| {
            let annotations = &mut fake.snapshot.builds[0].metadata.annotations;
            annotations.remove(labels::BASE);
        }),
        ("the build in service had other inputs", |fake| {
            let annotations = &mut fake.snapshot.builds[0].metadata.annotations;
            annotations.insert(labels::WANTED.to_owned(), "others".to_owned());
        }),
    ];
    for (what, edit) in cases {
        let mut fake = fake();
        let before = fake.made.len();
        edit(&mut fake);
        fake.render(2);
        fake.build();
        assert_eq!(live_from(&fake), None, "{what}");
        assert_eq!(fake.made.len(), before + 1, "{what}");
    }
}
