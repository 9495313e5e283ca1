//! Seeding: rows 56 to 58 and 62 of `docs/reference/behaviours.md`, and what follows it.

use super::fake_cluster::*;
use super::fake_seed::*;
use super::rows::is_idle;
use crate::*;
use mosb_api::*;
use mosb_cluster::status::EventReason;
use mosb_reconcile::EarlierProblem;
use mosb_types::ErrorClass;

use BuildCondition::Succeeded;

const COMPONENT: &str = "10-prebuiltimage-osimageurl-worker";

pub fn seeded_condition(fake: &mut FakeCluster) -> Option<Condition> {
    condition(&fake.config().status.conditions, "Seeded").cloned()
}

pub fn is_in_service(fake: &mut FakeCluster, image: &str) {
    let name = fake.current().metadata.name.clone();
    let build = fake.find(&name).unwrap();
    assert_eq!(build.status.image(), Some(image));
    assert_eq!(fake.image(), image);
    let status = fake.config().status.clone();
    assert_eq!(status.machine_os_build.unwrap().name, name);
    let pool = fake.snapshot.pool.as_ref().unwrap();
    let newest = labels::NEWEST_IMAGE_EQUIVALENT_CONFIG;
    assert_eq!(pool.metadata.annotation(newest), Some(image));
    assert_eq!(
        fake.blocked_by_degraded_pool(),
        super::rows::blocked_by_degraded_pool("False", "BuildSuccess")
    );
}

#[test]
fn row_56_a_pre_built_image_is_put_in_service_without_a_job() {
    let mut fake = FakeCluster::to_be_seeded();
    assert_eq!(fake.round(usize::MAX).reason.code(), "seed-component");
    let component = fake.snapshot.components[0].clone();
    assert_eq!(
        (&*component.name, &*component.image, component.claim.as_deref()),
        (COMPONENT, SEED, Some("worker"))
    );
    let waiting = fake.round(usize::MAX);
    assert_eq!((waiting.reason.code(), &*waiting.actions), ("seed-not-rendered", &[][..]));
    let why = waiting.reason.to_string();
    assert!(why.contains(COMPONENT) && why.contains("--render"), "{why}");
    assert_eq!(fake.settle().reason.code(), "up-to-date");
    is_in_service(&mut fake, SEED);
    assert!(fake.made.is_empty());
    let build = fake.current().clone();
    let label = |key: &str| build.metadata.labels.get(key).map(String::as_str);
    assert_eq!(label(labels::PRE_BUILT_IMAGE), Some("true"));
    assert_eq!(label(labels::MACHINE_OS_CONFIG), Some("worker"));
    assert_eq!(label(labels::MACHINEOSCONFIG), Some("worker"));
    assert_eq!(build.metadata.finalizers, ["foregroundDeletion"]);
    let secret = labels::RENDERED_IMAGE_PUSH_SECRET;
    assert_eq!(build.metadata.annotation(secret), Some("push"));
    for absent in [labels::METHOD, labels::BASE, labels::ATTEMPT] {
        assert_eq!(build.metadata.annotation(absent), None);
    }
    assert_eq!(build.spec.rendered_image_push_spec, "quay.io/acme/os:latest");
    for one in &build.status.conditions {
        assert_eq!(one.reason, "PreBuiltImageSeeded");
        assert_eq!(one.is_true(), one.kind == "Succeeded");
    }
    assert!(build.status.build_start < build.status.build_end);
    assert!(seeded_condition(&mut fake).unwrap().is_true());
    assert_eq!(fake.event_count(EventReason::PreBuiltImageSeeded), 1);
    is_idle(&mut fake);
}

#[test]
fn row_57_the_annotation_is_removed_once_all_is_written() {
    let mut fake = FakeCluster::to_be_seeded();
    for _ in 0..20 {
        let before = fake.clone();
        fake.rerender();
        fake.one_write();
        if fake.annotation(labels::PRE_BUILT_IMAGE).is_none() {
            let mut before = before;
            is_in_service(&mut before, SEED);
            is_idle(&mut fake);
            return;
        }
    }
    panic!("it stays");
}

#[test]
fn row_58_what_has_a_build_is_not_seeded() {
    let mut fake = FakeCluster::built();
    let image = fake.image().to_owned();
    fake.annotate(labels::PRE_BUILT_IMAGE, SEED);
    assert_eq!(fake.settle().reason.code(), "up-to-date");
    assert_eq!((fake.image(), fake.annotation(labels::PRE_BUILT_IMAGE)), (&*image, None));
    assert_eq!(fake.event_count(EventReason::ConfigReconcileFailed), 1, "it is reported");
    assert!(fake.snapshot.components.is_empty());
    is_idle(&mut fake);
    // Named but not in service yet: it is built, and the annotation stays until then.
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.annotate(labels::PRE_BUILT_IMAGE, "nonsense");
    fake.settle();
    assert!(fake.annotation(labels::PRE_BUILT_IMAGE).is_some());
    fake.build();
    assert_eq!(fake.made.len(), 1);
    assert_eq!(fake.annotation(labels::PRE_BUILT_IMAGE), None);
}

#[test]
fn row_62_a_stale_name_is_taken_away_and_the_right_build_appears() {
    for daemon in [true, false] {
        let mut fake = FakeCluster::seeded();
        fake.snapshot.cluster.machine_config_daemon = daemon;
        // A node controller removes the stale name when the config changes.
        fake.content = Some(2);
        fake.rerender();
        let annotations = &mut fake.config().metadata.annotations;
        annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
        fake.build();
        let rendered = fake.pool().spec.configuration.name.clone();
        assert_eq!(fake.current().spec.machine_config.name, rendered);
        assert_eq!(fake.state(), Some(Succeeded));
        assert_eq!(fake.made.len(), usize::from(!daemon), "daemon: {daemon}");
        assert_eq!(fake.image() == SEED, daemon);
        is_idle(&mut fake);
        // Back to the first config.
        fake.content = Some(1);
        fake.build();
        assert_eq!(fake.image(), SEED, "A, B, A");
        assert_eq!(fake.made.len(), usize::from(!daemon));
        is_idle(&mut fake);
    }
}

#[test]
fn the_next_change_is_built_on_the_releases_own_image() {
    type Change = fn(&mut FakeCluster);
    let changes: [(&str, Change); 3] = [
        ("the pool", |fake| fake.content = Some(2)),
        ("the Containerfile", |fake| fake.containerfile("RUN true")),
        ("a rebuild", |fake| fake.annotate(labels::REBUILD, "")),
    ];
    for (what, change) in changes {
        let mut fake = FakeCluster::seeded();
        change(&mut fake);
        fake.asked.clear();
        fake.build();
        assert_eq!(fake.made.len(), 1, "{what}");
        assert!(fake.image().starts_with("quay.io/acme/os@"), "{what}");
        let on_stock = |lookup: &Lookup| match lookup {
            Lookup::Plan(plan) => {
                let instead = plan.instead.as_ref().unwrap();
                instead.of.contains(SEED) && instead.stock.as_deref() == Some(STOCK)
            }
            Lookup::Exists { .. }
            | Lookup::Existing(_)
            | Lookup::Checks(_)
            | Lookup::Sign(_)
            | Lookup::OsImage { .. }
            | Lookup::Result { .. } => false,
        };
        assert!(fake.asked.iter().any(on_stock), "{what}");
        assert_eq!(fake.snapshot.components.len(), 1, "{what}: retained");
        assert!(seeded_condition(&mut fake).unwrap().is_true(), "{what}");
        is_idle(&mut fake);
    }
}

#[test]
fn a_change_that_the_image_was_made_of_needs_no_job() {
    let mut fake = FakeCluster::seeded();
    let seeded = fake.current().metadata.name.clone();
    fake.recognises = true;
    fake.content = Some(2);
    assert_eq!(fake.round(usize::MAX).reason.code(), "up-to-date");
    fake.rerender();
    assert_eq!(fake.round(usize::MAX).reason.code(), "recognised");
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (SEED, 0));
    let build = fake.current().clone();
    assert_eq!(build.spec.machine_config.name, fake.pool().spec.configuration.name);
    assert!(!build.is_pre_built());
    assert_eq!(build.metadata.annotation(labels::ADOPTED_FROM), Some(&*seeded));
    is_idle(&mut fake);
    // Only the first image is pre-built.
    fake.content = Some(3);
    fake.build();
    assert_eq!(fake.made.len(), 1);
    assert_ne!(fake.image(), SEED);

    type Change = fn(&mut FakeCluster);
    let changes: [(&str, Change); 2] = [
        ("the Containerfile", |fake| fake.containerfile("RUN true")),
        ("a rebuild", |fake| fake.annotate(labels::REBUILD, "")),
    ];
    for (what, change) in changes {
        let mut fake = FakeCluster::seeded();
        fake.recognises = true;
        change(&mut fake);
        fake.build();
        assert_eq!(fake.made.len(), 1, "{what}");
    }
}

#[test]
fn nothing_is_planned_or_built_before_it_is_seeded() {
    type Trouble = fn(&mut FakeCluster);
    let troubles: [(&str, &str, Trouble); 6] = [
        ("no such image", "problem", |fake| fake.images.clear()),
        ("refused", "problem", |fake| {
            fake.registry_problem = Some(problem(ErrorClass::InvalidInput, "denied"));
        }),
        ("away", "problem", |fake| {
            fake.registry_problem = Some(problem(ErrorClass::Transient, "away"));
        }),
        ("no image", "bad-machine-os-config", |fake| {
            fake.annotate(labels::PRE_BUILT_IMAGE, "quay.io/acme/os:v1");
        }),
        ("nested", "bad-machine-os-config", |fake| {
            fake.snapshot.cluster.nested_digests_refused = true;
            let nested = SEED.replace("golden", "a/b");
            fake.annotate(labels::PRE_BUILT_IMAGE, &nested);
        }),
        ("nobody renders", "seed-not-rendered", |fake| {
            fake.content = None;
            fake.render(1);
        }),
    ];
    for (what, code, trouble) in troubles {
        let mut fake = FakeCluster::to_be_seeded();
        trouble(&mut fake);
        let passes =
            fake.registry_problem.as_ref().is_some_and(|one| one.class == ErrorClass::Transient);
        let is_reported = !passes && code != "seed-not-rendered";
        for change in [0, 1, 2] {
            match change {
                0 => {}
                1 => fake.containerfile("RUN true"),
                _ => fake.annotate(labels::REBUILD, ""),
            }
            let mut decision = fake.round(usize::MAX);
            for _ in 0..5 {
                decision = fake.round(usize::MAX);
            }
            assert_eq!(decision.reason.code(), code, "{what}");
            assert_eq!(decision.actions, [], "{what}");
            assert_eq!(fake.blocked().is_some(), is_reported, "{what}");
            assert!(fake.snapshot.builds.is_empty() && fake.made.is_empty(), "{what}");
        }
        let pointed = code == "seed-not-rendered";
        assert_eq!(
            !fake.snapshot.components.is_empty(),
            pointed,
            "{what}: no pool is pointed at it"
        );
        // And fixed.
        fake.registry_problem = None;
        fake.images.insert(SEED.parse().unwrap());
        fake.annotate(labels::PRE_BUILT_IMAGE, SEED);
        fake.content = Some(3);
        fake.settle();
        is_in_service(&mut fake, SEED);
        assert!(fake.made.is_empty(), "{what}");
        let is_blocked = fake.blocked().is_some_and(|(status, _)| status == "True");
        assert!(!is_blocked, "{what}");
        is_idle(&mut fake);
    }
}

/// The policies by which the pre-built image was to be verified, in order.
fn policies(fake: &FakeCluster) -> Vec<RequiredPolicy> {
    let policy = |lookup: &Lookup| match lookup {
        Lookup::Exists { policy, .. } => Some(policy.clone()),
        _ => None,
    };
    fake.asked.iter().filter_map(policy).collect()
}

#[test]
fn pre_built_image_is_verified_before_its_use() {
    let of_pool = |fake: &mut FakeCluster| {
        RequiredPolicy::Pool(fake.pool().spec.configuration.name.parse().unwrap())
    };
    let mut fake = FakeCluster::to_be_seeded();
    let first = of_pool(&mut fake);
    fake.registry_problem = Some(problem(ErrorClass::Rejected, "it has no signature"));
    assert_eq!(fake.settle().reason.code(), "problem");
    assert_eq!(fake.blocked().unwrap().0, "True");
    assert!(fake.snapshot.components.is_empty() && fake.snapshot.builds.is_empty());
    fake.registry_problem = None;
    fake.settle();
    let seeded = of_pool(&mut fake);
    let asked = policies(&fake);
    assert!(asked.starts_with(&[first]) && asked.contains(&seeded), "{asked:?}");

    // Before the pool has a config, only the settings have a policy.
    let mut fake = FakeCluster::to_be_seeded();
    fake.content = None;
    fake.pool().spec.configuration = PoolConfiguration::default();
    fake.settle();
    assert_eq!(policies(&fake)[0], RequiredPolicy::Settings);
    fake.content = Some(1);
    fake.settle();
    let seeded = of_pool(&mut fake);
    assert!(policies(&fake).contains(&seeded), "{:?}", policies(&fake));
}

#[test]
fn the_image_may_vanish_between_being_named_and_being_taken() {
    let mut fake = FakeCluster::to_be_seeded();
    fake.round(usize::MAX);
    fake.rerender();
    fake.images.clear();
    let decision = fake.round(usize::MAX);
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(fake.blocked().unwrap().1, INVALID_INPUT);
    fake.images.insert(SEED.parse().unwrap());
    fake.settle();
    is_in_service(&mut fake, SEED);
    assert_eq!(fake.blocked().unwrap().0, "False");
}

#[test]
fn at_installation_the_pool_is_given_the_image_before_it_has_a_config() {
    let mut fake = FakeCluster::to_be_seeded();
    fake.content = None;
    fake.pool().spec.configuration = PoolConfiguration::default();
    assert_eq!(fake.round(usize::MAX).reason.code(), "seed-component");
    assert_eq!(fake.snapshot.components.len(), 1);
    assert_eq!(fake.settle().reason.code(), "seed-not-rendered");
    fake.content = Some(1);
    // With a daemon, no machine has one yet either.
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.pool().status.configuration = PoolConfiguration::default();
    assert_eq!(fake.settle().reason, PoolReason::NotRendered);
    is_in_service(&mut fake, SEED);
    assert_eq!(fake.annotation(labels::PRE_BUILT_IMAGE), None);
    let rendered = fake.pool().spec.configuration.name.clone();
    fake.pool().status.configuration.name = rendered;
    is_idle(&mut fake);
}

#[test]
fn at_installation_an_unreachable_registry_is_reported_until_it_answers() {
    let mut fake = FakeCluster::to_be_seeded();
    fake.content = None;
    fake.pool().spec.configuration = PoolConfiguration::default();
    let away = problem(ErrorClass::Transient, "registry.test/os: away");
    fake.registry_problem = Some(away.clone());
    assert_eq!(fake.settle().reason.code(), "problem");
    assert_eq!(fake.blocked(), None, "it may pass");
    fake.snapshot.earlier_problem =
        Some(EarlierProblem { cause: away.cause(), lasted: std::time::Duration::from_secs(60) });
    fake.settle();
    assert_eq!(fake.blocked().unwrap().0, "True", "it lasts");
    assert!(fake.snapshot.components.is_empty());
    fake.registry_problem = None;
    fake.snapshot.earlier_problem = None;
    assert_eq!(fake.settle().reason.code(), "seed-not-rendered");
    assert_eq!(fake.blocked().unwrap().0, "False", "it answered");
    is_idle(&mut fake);
}

#[test]
fn without_a_word_on_the_releases_image_what_is_in_service_stays() {
    let mut fake = FakeCluster::to_be_seeded();
    fake.snapshot.cluster.stock_base = None;
    fake.settle();
    is_in_service(&mut fake, SEED);
    is_idle(&mut fake);
    fake.snapshot.cluster.stock_base = Some(STOCK.to_owned());
    is_idle(&mut fake);
}
