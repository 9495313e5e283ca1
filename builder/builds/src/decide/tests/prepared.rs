//! A build that must run something is made on a prepared base, which only this cluster's pods make.

use super::fake_cluster::*;
use super::rows::is_idle;
use crate::*;
use mosb_api::*;
use mosb_build::JobMethod;
use mosb_build::result::{Outcome, PreparedImage};
use mosb_cluster::status::EventReason;
use mosb_image::Digest;
use mosb_workload::BuildNodes;

use BuildCondition::Succeeded;

fn inputs() -> Digest {
    Digest::of(b"what is run")
}

fn key(secret: Option<&str>) -> PreparedBaseKey {
    PreparedBaseKey::new(&"quay.io/acme/os".parse().unwrap(), secret, &BuildNodes::Any, &inputs())
}

/// A pool whose Containerfile needs nothing of the config.
fn customised() -> FakeCluster {
    let mut fake = FakeCluster::opted_in();
    fake.containerfile("FROM base\nRUN true");
    fake.prepared = Some(inputs());
    fake
}

fn recorded(fake: &FakeCluster) -> PreparedBase {
    *fake.snapshot.cluster.prepared_bases.get(&key(None)).expect("a record")
}

fn annotation<'a>(fake: &'a FakeCluster, key: &str) -> Option<&'a str> {
    fake.current().metadata.annotation(key)
}

#[test]
fn the_first_build_makes_it_and_the_next_config_is_built_directly_on_it() {
    let mut fake = customised();
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Make]);
    assert_eq!(fake.state(), Some(Succeeded));
    let first = recorded(&fake);
    assert_eq!(annotation(&fake, labels::PREPARED), Some(&*first.image.to_string()));
    assert_eq!(annotation(&fake, labels::PREPARED_AT), Some(&*first.made_at.to_string()));
    assert_eq!(annotation(&fake, labels::METHOD), Some("containerfile"));
    is_idle(&mut fake);

    fake.wait(86_400);
    fake.render(2);
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, PreparedUse::On(first.image)]);
    assert_eq!(fake.made[1].2, JobMethod::Direct);
    assert_eq!(annotation(&fake, labels::PREPARED), Some(&*first.image.to_string()));
    let second = recorded(&fake);
    assert_eq!((second.image, second.made_at), (first.image, first.made_at));
    assert!(second.used_at > first.used_at, "it is used");
    let note = format!("on the prepared base of {}", first.made_at.strftime("%F"));
    let noted = fake.events.iter().filter(|event| event.note.ends_with(&note));
    assert_eq!(noted.count(), 2, "{:?}", fake.events);
    is_idle(&mut fake);
}

/// A pool whose Containerfile has a part for each config, too.
fn with_last_part() -> FakeCluster {
    let mut fake = customised();
    fake.containerfile("FROM base\nRUN true\nFROM configs\nRUN true");
    fake.has_last_part = true;
    fake
}

#[test]
fn a_last_part_runs_in_a_pod_of_its_own_on_the_prepared_base() {
    let mut fake = with_last_part();
    fake.build();
    let first = recorded(&fake);
    assert_eq!(fake.state(), Some(Succeeded));
    let on = PreparedUse::On(first.image);
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, on]);
    assert_eq!(annotation(&fake, labels::PREPARED), Some(&*first.image.to_string()));
    assert_eq!(annotation(&fake, labels::METHOD), Some("containerfile"));
    let push = "quay.io/acme/os".parse().unwrap();
    let tree = BaseTreeKey::new(&first.image, &push, &BuildNodes::Any);
    let tree = fake.snapshot.cluster.base_trees.get(&tree);
    assert_eq!(tree, Some(&Digest::of(b"tree of prepared")));
    is_idle(&mut fake);

    fake.wait(86_400);
    fake.render(2);
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, on, on]);
    assert_eq!(fake.made[2].2, JobMethod::Containerfile);
    assert!(recorded(&fake).used_at > first.used_at, "it is used");
    is_idle(&mut fake);

    // A rebuild makes it anew, once.
    fake.annotate(labels::REBUILD, "");
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
    let again = recorded(&fake).image;
    assert_ne!(again, first.image);
    assert_eq!(fake.prepared_uses[3..], [PreparedUse::Make, PreparedUse::On(again)]);
    is_idle(&mut fake);
}

#[test]
fn a_last_part_runs_on_what_was_made_even_if_that_can_not_be_recorded() {
    let mut fake = with_last_part();
    fake.settle();
    fake.run();
    fake.settle();
    fake.succeed();
    fake.settle();
    let made = recorded(&fake).image;
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, PreparedUse::On(made)]);
    fake.delete_workload();
    fake.snapshot.cluster.prepared_bases = PreparedBases::default();
    fake.build();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::On(made)));
    assert!(!fake.prepared_uses[1..].contains(&PreparedUse::Make), "{:?}", fake.prepared_uses);
    assert_eq!(fake.state(), Some(Succeeded));
}

/// Reconciles until nothing changes. The controller is killed once, after so many writes.
pub fn settle_killed(fake: &mut FakeCluster, writes_left: &mut Option<usize>) {
    for _ in 0..40 {
        let decision = fake.round(writes_left.unwrap_or(usize::MAX));
        fake.check();
        let made = decision.actions.len();
        *writes_left = writes_left.and_then(|left| left.checked_sub(made));
        if made == 0 {
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn killed_after_any_write_it_ends_the_same() {
    for (what, pool) in
        [("a direct layer", customised as fn() -> _), ("a last part", with_last_part)]
    {
        let pods = |n| if pool().has_last_part && n == 1 { 2 } else { 1 };
        let mut whole = pool();
        for n in [1, 2] {
            whole.render(n);
            whole.build();
        }
        let mut kills = 0;
        loop {
            let mut fake = pool();
            let mut writes_left = Some(kills);
            for n in [1, 2] {
                fake.render(n);
                for _ in 0..pods(n) {
                    settle_killed(&mut fake, &mut writes_left);
                    fake.run();
                    settle_killed(&mut fake, &mut writes_left);
                    fake.succeed();
                    settle_killed(&mut fake, &mut writes_left);
                }
                assert_eq!(fake.state(), Some(Succeeded), "{what}, {n}, killed after {kills}");
                assert!(fake.snapshot.workloads.is_empty(), "{what}, {n}, killed after {kills}");
            }
            assert_eq!(fake.prepared_uses, whole.prepared_uses, "{what}, killed after {kills}");
            assert_eq!(recorded(&fake).image, recorded(&whole).image, "{what}, {kills}");
            is_idle(&mut fake);
            if writes_left.is_some() {
                break;
            }
            kills += 1;
        }
        assert!(kills > 20, "{what}: {kills}");
    }
}

#[test]
fn one_that_is_gone_from_the_registry_is_made_again() {
    let mut fake = customised();
    fake.build();
    let first = recorded(&fake).image;
    fake.images.retain(|image| image.digest() != first);
    fake.render(2);
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, PreparedUse::Make]);
    assert_eq!(fake.event_count(EventReason::PreparedBaseMissing), 1);
    assert_ne!(recorded(&fake).image, first);
    is_idle(&mut fake);

    // While the registry doesn't answer, nothing is made.
    fake.render(3);
    fake.registry_problem = Some(problem(mosb_types::ErrorClass::Transient, "no answer"));
    fake.settle();
    assert_eq!(fake.prepared_uses.len(), 2);
    fake.registry_problem = None;
    fake.build();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::On(recorded(&fake).image)));
}

#[test]
fn a_rebuild_makes_it_anew_unless_only_the_config_is_built() {
    let mut fake = customised();
    fake.build();
    let first = recorded(&fake).image;
    fake.annotate(labels::REBUILD, labels::REBUILD_CONFIG_ONLY);
    fake.build();
    assert_eq!(fake.prepared_uses[1..], [PreparedUse::On(first)]);
    for value in ["", "please"] {
        let before = recorded(&fake).image;
        fake.annotate(labels::REBUILD, value);
        // An attempt that fails is made anew again.
        fake.settle();
        assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::Make), "{value:?}");
        fake.delete_workload();
        fake.build();
        assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::Make), "{value:?}");
        assert_ne!(recorded(&fake).image, before, "{value:?}");
        assert_eq!(fake.annotation(labels::REBUILD), None, "{value:?}");
    }
    is_idle(&mut fake);
}

#[test]
fn another_thing_to_run_is_run_once_together_with_the_config_and_the_way_back_runs_nothing() {
    type Change = fn(&mut FakeCluster);
    let changes: [(&str, Change); 4] = [
        ("the Containerfile", |fake| fake.containerfile("FROM base\nRUN false")),
        ("the base, an extension or a CA of the config", |fake| fake.render(2)),
        ("both", |fake| {
            fake.render(2);
            fake.containerfile("FROM base\nRUN false");
        }),
        ("the Containerfile, without a rebuild of what it is asked for", |fake| {
            fake.annotate(labels::REBUILD, labels::REBUILD_CONFIG_ONLY);
            fake.containerfile("FROM base\nRUN false");
        }),
    ];
    let other = Digest::of(b"something else");
    let push = "quay.io/acme/os".parse().unwrap();
    let other_key = PreparedBaseKey::new(&push, None, &BuildNodes::Any, &other);
    for (what, change) in changes {
        let mut fake = customised();
        fake.build();
        let first = recorded(&fake).image;
        change(&mut fake);
        fake.prepared = Some(other);
        fake.build();
        assert_eq!(fake.prepared_uses, [PreparedUse::Make, PreparedUse::Make], "{what}");
        assert_eq!(fake.made.len(), 2, "{what}: one build for all that changed");
        let second = fake.snapshot.cluster.prepared_bases.get(&other_key).expect(what).image;
        assert_ne!(second, first, "{what}");
        assert_eq!(recorded(&fake).image, first, "{what}");
        assert_eq!(annotation(&fake, labels::PREPARED), Some(&*second.to_string()), "{what}");
        is_idle(&mut fake);

        fake.render(3);
        fake.build();
        assert_eq!(fake.prepared_uses[2..], [PreparedUse::On(second)], "{what}");

        fake.render(4);
        fake.containerfile("FROM base\nRUN true");
        fake.prepared = Some(inputs());
        fake.build();
        assert_eq!(fake.prepared_uses[3..], [PreparedUse::On(first)], "{what}");
        assert_eq!(fake.made[3].2, JobMethod::Direct, "{what}");
        is_idle(&mut fake);
    }
}

#[test]
fn pools_share_one_only_with_the_same_repository_secret_and_inputs() {
    let mut first = customised();
    first.build();
    let image = recorded(&first).image;
    type Change = fn(&mut FakeCluster);
    let changes: [(&str, Change, bool); 5] = [
        ("the same", |_| (), true),
        ("another config", |fake| fake.render(7), true),
        (
            "another repository",
            |fake| {
                fake.config().spec.rendered_image_push_spec =
                    "quay.io/acme/other:latest".to_owned();
            },
            false,
        ),
        (
            "another pull Secret",
            |fake| {
                let secret = serde_json::from_value(serde_json::json!({ "name": "pull" })).unwrap();
                fake.config().spec.base_image_pull_secret = Some(secret);
            },
            false,
        ),
        (
            "other inputs, as those of a control-plane pool are",
            |fake| {
                fake.prepared = Some(Digest::of(b"made on the control plane"));
            },
            false,
        ),
    ];
    for (what, change, shares) in changes {
        let mut second = customised();
        second.snapshot.cluster.prepared_bases = first.snapshot.cluster.prepared_bases.clone();
        second.images = first.images.clone();
        change(&mut second);
        second.build();
        let want = if shares { PreparedUse::On(image) } else { PreparedUse::Make };
        assert_eq!(second.prepared_uses, [want], "{what}");
        assert_eq!(recorded(&second).image, image, "{what}");
        is_idle(&mut second);
    }
}

#[test]
fn what_does_not_go_together_with_it_is_run_at_once() {
    let mut fake = customised();
    fake.settle();
    fake.run();
    fake.settle();
    let image = Digest::of(b"pushed before that was found out");
    let repo: mosb_image::RepoRef = "quay.io/acme/os".parse().unwrap();
    fake.images.insert(repo.pinned(image));
    let mut outcome = needs_containerfile();
    if let Outcome::NeedsContainerfile { prepared, .. } = &mut outcome {
        *prepared = Some(Box::new(PreparedImage { inputs: inputs(), image, made_at: fake.now }));
    }
    fake.report(outcome);
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Make, PreparedUse::Without]);
    assert_eq!(annotation(&fake, labels::PREPARED), Some("without"));
    assert_eq!(annotation(&fake, labels::PREPARED_KEY), None);
    assert_eq!(fake.made[1].2, JobMethod::Containerfile);
    is_idle(&mut fake);
    // The next config asks the one that was pushed, without making it again.
    fake.render(2);
    fake.settle();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::On(image)));

    // The same of a direct Job, and once for each build.
    let mut fake = customised();
    fake.build();
    fake.render(2);
    fake.settle();
    fake.run();
    fake.settle();
    fake.report(needs_containerfile());
    fake.settle();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::Without));
    fake.run();
    fake.settle();
    fake.report(needs_containerfile());
    fake.settle();
    assert_eq!(fake.event_count(EventReason::JobFailed), 1, "it is the Containerfile");
}

#[test]
fn an_upgrade_builds_nothing_anew() {
    let mut fake = FakeCluster::opted_in();
    fake.containerfile("FROM base\nRUN true");
    fake.build();
    let image = fake.image().to_owned();
    // The new version knows prepared bases.
    fake.prepared = Some(inputs());
    is_idle(&mut fake);
    assert_eq!((fake.made.len(), fake.image()), (1, &*image));
    fake.render(2);
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Without, PreparedUse::Make]);

    // A build that was under way continues as it was.
    let mut fake = FakeCluster::opted_in();
    fake.containerfile("FROM base\nRUN true");
    fake.settle();
    fake.prepared = Some(inputs());
    fake.build();
    assert_eq!(fake.prepared_uses, [PreparedUse::Without]);
    assert_eq!(annotation(&fake, labels::PREPARED), None);
    is_idle(&mut fake);
}

#[test]
fn a_build_whose_prepared_base_another_version_does_not_know_is_run_at_once() {
    let mut fake = customised();
    fake.build();
    fake.render(2);
    fake.settle();
    fake.prepared = None;
    fake.delete_workload();
    fake.build();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::Without));
    assert_eq!(fake.made.last().unwrap().2, JobMethod::Containerfile);
    assert_eq!(fake.state(), Some(Succeeded));
    is_idle(&mut fake);
}
