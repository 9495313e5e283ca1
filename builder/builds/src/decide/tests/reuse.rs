//! Images that exist already, and changes that need no new one: rows 15, 16 and 20 to 24 of
//! `docs/reference/behaviours.md`.

use super::fake_cluster::*;
use super::rows::is_idle;
use crate::*;
use mosb_api::*;
use mosb_image::Digest;
use mosb_types::ErrorClass;

#[test]
fn rows_15_16_what_succeeded_stays() {
    let mut fake = FakeCluster::built();
    fake.render(2);
    fake.settle();
    fake.render(3);
    fake.settle();
    let rendered_of = |fake: &FakeCluster| -> Vec<_> {
        let builds = fake.snapshot.builds.iter();
        builds.map(|b| b.spec.machine_config.name.clone()).collect()
    };
    assert_eq!(rendered_of(&fake), [rendered(1), rendered(3)], "row 15");
    fake.build();
    for n in 4..9 {
        let before = fake.snapshot.builds.len();
        fake.render(n);
        fake.build();
        assert_eq!(fake.snapshot.builds.len(), before + 1, "row 16");
        assert!(fake.snapshot.workloads.is_empty() && fake.snapshot.inputs.is_empty());
    }
}

#[test]
fn rows_20_21_a_then_b_then_a() {
    let mut fake = FakeCluster::built();
    let (a, image) = (fake.current().metadata.uid.clone(), fake.image().to_owned());
    fake.render(2);
    fake.build();
    assert_ne!(fake.image(), image);
    fake.render(1);
    fake.build();
    assert_eq!(fake.current().metadata.uid, a, "row 20");
    assert_eq!(fake.image(), image);
    assert_eq!(fake.made.len(), 2, "built twice, not three times");
    is_idle(&mut fake);

    // Row 21: the image is missing.
    fake.render(2);
    fake.build();
    let b = fake.current().metadata.uid.clone();
    fake.images.remove(&image.parse().unwrap());
    fake.render(1);
    fake.build();
    assert_ne!(fake.current().metadata.uid, a);
    assert_eq!((fake.image(), fake.made.len()), (&*image, 3));
    fake.render(2);
    fake.build();
    assert_eq!((&fake.current().metadata.uid, fake.made.len()), (&b, 3));
}

#[test]
fn rows_22_23_where_machines_apply_configs_only_the_os_builds() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.build();
    let (first, image) = (fake.current().metadata.name.clone(), fake.image().to_owned());
    fake.render(2);
    fake.build();
    let build = fake.current();
    assert_eq!(build.status.image(), Some(&*image), "row 22");
    assert_eq!(build.metadata.annotation(labels::ADOPTED_FROM), Some(&*first));
    assert_eq!(build.spec.machine_config.name, rendered(2));
    assert_eq!(
        (&build.status.builder, &build.status.build_start, &build.status.build_end),
        (&None, &None, &None)
    );
    assert_eq!((fake.made.len(), fake.snapshot.builds.len()), (1, 2));
    assert_eq!(
        fake.snapshot.config.as_ref().unwrap().status.machine_os_build.as_ref().unwrap().name,
        fake.current().metadata.name
    );
    is_idle(&mut fake);
    // An adopted image can be adopted again.
    fake.render(3);
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));

    fake.os_changes = true;
    fake.render(4);
    fake.build();
    assert_ne!(fake.image(), image, "row 23");
    assert_eq!(fake.made.len(), 2);
    fake.os_changes = false;
    // Machines can't apply a Containerfile.
    fake.containerfile("RUN true");
    fake.build();
    assert_eq!(fake.made.len(), 3);
    // The image in service is missing, so it is built.
    fake.images.clear();
    fake.render(5);
    fake.build();
    assert_eq!(fake.made.len(), 4);
    // From now on each config has its own image, this one too.
    fake.render(6);
    fake.build();
    assert_eq!(fake.made.len(), 4);
    fake.annotate(labels::BUILD_ON, "every-config");
    fake.build();
    assert_eq!(fake.made.len(), 5);
    assert_eq!(fake.current().metadata.annotation(labels::ADOPTED_FROM), None);
    is_idle(&mut fake);
}

#[test]
fn row_24_another_base_is_another_build() {
    // An osImageURL is part of the rendered config. A moved tag is not, and builds nothing.
    let mut fake = FakeCluster::built();
    fake.base = 1;
    is_idle(&mut fake);
    fake.render(2);
    fake.build();
    let base =
        |fake: &FakeCluster| fake.current().metadata.annotation(labels::BASE).unwrap().to_owned();
    let second = base(&fake);
    fake.render(1);
    fake.build();
    assert_eq!(base(&fake), second, "A is built again, as its base is another");
    assert_eq!(fake.made.len(), 3);
}

#[test]
fn a_build_is_planned_on_one_base_for_all_its_life() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    let build = fake.current().clone();
    fake.base = 1;
    fake.delete_workload();
    fake.settle();
    fake.wait(60);
    fake.build();
    assert_eq!(fake.current().metadata.uid, build.metadata.uid);
    let pinned = fake.asked.iter().rev().find_map(|lookup| match lookup {
        Lookup::Plan(plan) => plan.base.clone(),
        Lookup::Exists { .. }
        | Lookup::Existing(_)
        | Lookup::Checks(_)
        | Lookup::Sign(_)
        | Lookup::OsImage { .. }
        | Lookup::Result { .. } => None,
    });
    assert_eq!(
        pinned.map(|base| base.to_string()).as_deref(),
        build.metadata.annotation(labels::BASE)
    );
}

#[test]
fn changes_that_are_no_inputs_start_no_build() {
    let mut fake = FakeCluster::built();
    // A secret's name and a pool's labels are not part of the identity.
    let config = fake.config();
    config.spec.rendered_image_push_secret.name = "other".to_owned();
    config.metadata.generation = Some(9);
    fake.pool().metadata.labels.insert("a".to_owned(), "b".to_owned());
    fake.containerfile("# only a comment\n");
    fake.settle();
    assert_eq!((fake.made.len(), fake.asked.len()), (1, fake.asked.len()));
    assert_eq!(fake.config().status.observed_generation, Some(10));
    is_idle(&mut fake);
}

#[test]
fn while_a_registry_refuses_to_answer_nothing_is_deleted_or_built() {
    type Place = (&'static str, fn() -> FakeCluster, fn(&mut FakeCluster));
    // Each needs an image that a status names, or that a Job has just pushed.
    let places: [Place; 5] = [
        ("an older image is wanted again", FakeCluster::built, |fake| {
            fake.render(2);
            fake.build();
            fake.render(1);
        }),
        ("the image in service is adopted", pool_with_daemon, |fake| {
            fake.render(2);
        }),
        ("the build that adopts it is there", pool_with_daemon, |fake| {
            fake.render(2);
            fake.round(usize::MAX);
            assert_eq!(fake.snapshot.builds.len(), 2);
        }),
        ("a Job pushed it", FakeCluster::opted_in, |fake| {
            fake.settle();
            fake.succeed();
        }),
        ("the pre-built image is wanted again", FakeCluster::seeded, |fake| {
            fake.containerfile("RUN true");
            fake.build();
            fake.config().spec.container_file.clear();
        }),
    ];
    for (what, start, change) in places {
        let mut fake = start();
        change(&mut fake);
        let there = |fake: &FakeCluster| -> Vec<_> {
            let builds = fake.snapshot.builds.iter();
            let uids = builds.map(|build| build.metadata.uid.clone());
            let jobs = fake.snapshot.workloads.iter();
            uids.chain(jobs.map(|seen| Some(seen.workload.uid().to_owned()))).collect()
        };
        let (before, image, made) = (there(&fake), fake.image().to_owned(), fake.made.len());
        fake.registry_problem = Some(problem(ErrorClass::Rejected, "403"));
        for _ in 0..3 {
            let decision = fake.settle();
            assert_eq!(decision.reason.to_string(), "403", "{what}");
            fake.wait(600);
        }
        assert_eq!(there(&fake), before, "{what}");
        assert_eq!((fake.image(), fake.made.len()), (&*image, made), "{what}");
        let blocked = ("True".to_owned(), "Rejected".to_owned());
        assert_eq!(fake.blocked(), Some(blocked), "{what}");
        // The registry answers again: only images that it reports as missing are built.
        fake.registry_problem = None;
        fake.build();
        assert_eq!(fake.made.len(), made, "{what}");
        assert_eq!(fake.blocked().unwrap().0, "False", "{what}");
        is_idle(&mut fake);
    }
}

/// A pool with an image, whose machines apply configs themselves.
fn pool_with_daemon() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.build();
    fake
}

#[test]
fn a_recorded_base_is_built_on_and_a_held_one_costs_no_build() {
    let mut fake = FakeCluster::built();
    let (name, first) = (fake.current().metadata.name.clone(), fake.image().to_owned());
    let base =
        |fake: &FakeCluster| fake.current().metadata.annotation(labels::BASE).unwrap().to_owned();
    // What `mosb base hold` writes: the base that the image has.
    let (repo, digest) =
        base(&fake).split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    fake.annotate(labels::BASE, &format!("{repo}:stable@{digest}"));
    fake.build();
    assert_eq!(
        (&*fake.current().metadata.name, fake.image(), fake.made.len()),
        (&*name, &*first, 1)
    );
    // What a newer base is recorded as.
    let newer = format!("sha256:{}", "7".repeat(64));
    fake.annotate(labels::BASE, &format!("{repo}:stable@{newer}"));
    fake.build();
    assert_eq!(base(&fake), format!("{repo}@{newer}"));
    assert_eq!(fake.made.len(), 2);
    is_idle(&mut fake);
    // Back: the image is still there.
    fake.annotate(labels::BASE, &format!("{repo}:stable@{digest}"));
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*first, 2));
    fake.annotate(labels::BASE, "nonsense");
    fake.settle();
    let (status, reason) = fake.blocked().unwrap();
    assert_eq!((&*status, &*reason), ("True", "BadMachineOSConfig"));
}

/// What a pool does when its base moves, its config changes, or both, under each policy.
#[test]
fn what_is_built_when_base_and_config_move() {
    let newer = format!("sha256:{}", "7".repeat(64));
    let tag = "quay.io/release/base:stable";
    // The default beside a machine-config-daemon, and where there is none.
    let policies = [
        (true, None, false),
        (true, Some("os-change"), false),
        (false, Some("os-change"), false),
        (false, None, true),
        (false, Some("every-config"), true),
        (true, Some("every-config"), true),
    ];
    for (has_daemon, policy, is_every) in policies {
        for (what, is_rendered, os_image, is_recorded, builds) in [
            ("nothing", false, false, false, false),
            ("the config", true, false, false, is_every),
            ("osImageURL", true, true, false, true),
            ("the recorded base", false, false, true, true),
            ("both", true, false, true, true),
        ] {
            let what = format!("{what}, {policy:?}, a daemon: {has_daemon}");
            let mut fake = FakeCluster::opted_in();
            fake.snapshot.cluster.machine_config_daemon = has_daemon;
            if let Some(policy) = policy {
                fake.annotate(labels::BUILD_ON, policy);
            }
            fake.build();
            let (image, old) = (fake.image().to_owned(), base(&fake));
            // Its tag names another base by now.
            fake.base = 1;
            fake.os_changes = os_image;
            if is_recorded {
                fake.annotate(labels::BASE, &format!("{tag}@{newer}"));
            }
            if is_rendered {
                fake.render(2);
            }
            fake.build();
            assert_eq!(fake.made.len(), 1 + usize::from(builds), "{what}");
            assert_eq!(fake.image() == image, !builds, "{what}");
            assert_eq!(base(&fake) == old, !builds, "{what}");
            if is_recorded {
                assert!(base(&fake).ends_with(&newer), "{what}");
            }
            is_idle(&mut fake);
        }
    }
}

fn base(fake: &FakeCluster) -> String {
    fake.current().metadata.annotation(labels::BASE).unwrap().to_owned()
}

/// A tag moved while only the config changed, so that the image was taken over. Its name is that of
/// a build on the newer base.
#[test]
fn a_base_is_built_on_whose_name_an_adopted_image_has() {
    let of_keys = || {
        let mut fake = FakeCluster::opted_in();
        fake.snapshot.cluster.rolling_out = true;
        fake.annotate(labels::ROLLOUT, "automatic");
        fake.login_changes = true;
        fake
    };
    let of_daemon = || {
        let mut fake = FakeCluster::opted_in();
        fake.snapshot.cluster.machine_config_daemon = true;
        fake
    };
    for (what, mut fake) in [("only keys", of_keys()), ("a daemon", of_daemon())] {
        fake.build();
        let (image, old) = (fake.image().to_owned(), base(&fake));
        fake.base = 1;
        fake.render(2);
        fake.build();
        assert_eq!((fake.image(), base(&fake), fake.made.len()), (&*image, old, 1), "{what}");
        let name = fake.current().metadata.name.clone();
        let newer = Digest::of(&1u32.to_be_bytes());
        fake.annotate(labels::BASE, &format!("quay.io/release/base:stable@{newer}"));
        fake.build();
        assert_eq!((fake.made.len(), &*fake.current().metadata.name), (2, &*name), "{what}");
        assert!(fake.image() != image && base(&fake).ends_with(&newer.to_string()), "{what}");
        is_idle(&mut fake);
    }
}
