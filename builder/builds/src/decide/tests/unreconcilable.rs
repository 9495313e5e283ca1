//! The rendered config changes in what machines can't take on without a reinstallation.

use super::fake_cluster::*;
use mosb_api::labels;
use mosb_types::Finding;

const BLOCKED: &str = "Unreconcilable";

/// A pool of a cluster that rolls out, with an image in service, whose disks then change.
fn fake() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.rolling_out = true;
    fake.annotate(labels::BUILD_ON, "every-config");
    fake.build();
    fake.unreconcilable = vec![
        Finding::new("needs-reinstall", "it is changed")
            .object("spec.config.storage.disks[/dev/sda]"),
    ];
    fake
}

fn is_blocked(fake: &FakeCluster) -> bool {
    fake.blocked().is_some_and(|(status, reason)| status == "True" && reason == BLOCKED)
}

#[test]
fn nothing_is_built_until_the_config_is_reverted_or_accepted() {
    let mut fake = fake();
    let (first, builds) = (fake.image().to_owned(), fake.snapshot.builds.len());
    fake.render(2);
    let decision = fake.build();
    assert_eq!(decision.reason.code(), "unreconcilable");
    let message = decision.reason.to_string();
    for want in ["spec.config.storage.disks[/dev/sda]", &rendered(1), &rendered(2), "revert"] {
        assert!(message.contains(want), "{message}");
    }
    assert!(is_blocked(&fake));
    assert_eq!((fake.image(), fake.snapshot.builds.len()), (&*first, builds));
    // Again: nothing is written.
    assert_eq!(fake.settle().actions, []);

    // Another config with the same problem, accepted by the name of the one before.
    fake.annotate(labels::ACCEPT_UNRECONCILABLE, &rendered(2));
    fake.render(3);
    fake.build();
    assert!(is_blocked(&fake));

    fake.render(1);
    assert_eq!(fake.build().reason.code(), "up-to-date");
    assert!(!is_blocked(&fake) && fake.image() == first);

    fake.render(2);
    assert_eq!(fake.build().reason.code(), "up-to-date");
    assert!(!is_blocked(&fake) && fake.image() != first);
}

#[test]
fn a_build_of_a_config_between_is_interrupted() {
    let mut fake = fake();
    let found = std::mem::take(&mut fake.unreconcilable);
    fake.render(2);
    fake.settle();
    assert!(fake.job().is_some());
    fake.unreconcilable = found;
    fake.render(3);
    fake.build();
    assert!(is_blocked(&fake) && fake.job().is_none());
}

#[test]
fn it_is_built_where_images_alone_do_not_bring_configs() {
    for (what, edit) in [
        ("no roll-out", (|fake| fake.snapshot.cluster.rolling_out = false) as fn(&mut FakeCluster)),
        ("a daemon", |fake| fake.snapshot.cluster.machine_config_daemon = true),
        ("an operator", |fake| fake.snapshot.cluster.machine_config_operator = true),
        ("os-change", |fake| {
            fake.annotate(labels::BUILD_ON, "os-change");
            fake.os_changes = true;
        }),
    ] {
        let mut fake = fake();
        edit(&mut fake);
        let first = fake.image().to_owned();
        fake.render(2);
        fake.build();
        assert!(!is_blocked(&fake) && fake.image() != first, "{what}");
    }
}

/// What an upgrade of mosb finds.
#[test]
fn a_build_that_had_begun_and_an_image_in_service_are_not_blocked() {
    let mut fake = fake();
    let found = std::mem::take(&mut fake.unreconcilable);
    fake.render(2);
    fake.settle();
    fake.unreconcilable = found;
    fake.settle();
    fake.build();
    assert!(!is_blocked(&fake));
    assert_eq!(fake.current().spec.machine_config.name, rendered(2));
    fake.format = 2;
    assert_eq!(fake.build().reason.code(), "up-to-date");
    assert!(!is_blocked(&fake));
}
