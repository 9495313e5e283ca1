//! Seeding: acceptance rows 56–58 and 62, and what comes after.

use super::rows::is_idle;
use super::seed_world::*;
use super::world::*;
use crate::status::EventReason;
use crate::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

use BuildCondition::Succeeded;

const COMPONENT: &str = "10-prebuiltimage-osimageurl-worker";

pub fn seeded_condition(world: &mut World) -> Option<Condition> {
    condition(&world.config().status.conditions, "Seeded").cloned()
}

pub fn is_in_service(world: &mut World, image: &str) {
    let name = world.current().metadata.name.clone();
    let build = world.find(&name).unwrap();
    assert_eq!(build.status.image(), Some(image));
    assert_eq!(world.image(), image);
    let status = world.config().status.clone();
    assert_eq!(status.machine_os_build.unwrap().name, name);
    let pool = world.seen.pool.as_ref().unwrap();
    let newest = labels::NEWEST_IMAGE_EQUIVALENT_CONFIG;
    assert_eq!(pool.metadata.annotation(newest), Some(image));
    assert_eq!(world.degraded(), super::rows::degraded("False", "BuildSuccess"));
}

#[test]
fn row_56_a_pre_built_image_is_put_in_service_without_a_job() {
    let mut world = World::to_be_seeded();
    assert_eq!(world.round(usize::MAX).reason.code(), "seed-component");
    let component = world.seen.components[0].clone();
    assert_eq!(
        (&*component.name, &*component.image, component.claim.as_deref()),
        (COMPONENT, SEED, Some("worker"))
    );
    let waiting = world.round(usize::MAX);
    assert_eq!((waiting.reason.code(), &*waiting.actions), ("seed-not-rendered", &[][..]));
    let why = waiting.reason.to_string();
    assert!(why.contains(COMPONENT) && why.contains("--render"), "{why}");
    assert_eq!(world.settle().reason.code(), "up-to-date");
    is_in_service(&mut world, SEED);
    assert!(world.made.is_empty());
    let build = world.current().clone();
    let label = |key: &str| build.metadata.labels.get(key).map(String::as_str);
    assert_eq!(label(labels::PRE_BUILT_IMAGE), Some("true"));
    assert_eq!(label(labels::MACHINE_OS_CONFIG), Some("worker"));
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
    assert!(seeded_condition(&mut world).unwrap().is_true());
    assert_eq!(world.told(EventReason::PreBuiltImageSeeded), 1);
    is_idle(&mut world);
}

#[test]
fn row_57_the_annotation_goes_once_all_is_written() {
    let mut world = World::to_be_seeded();
    for _ in 0..20 {
        let before = world.clone();
        world.rerender();
        world.one_write();
        if world.annotation(labels::PRE_BUILT_IMAGE).is_none() {
            let mut before = before;
            is_in_service(&mut before, SEED);
            is_idle(&mut world);
            return;
        }
    }
    panic!("it stays");
}

#[test]
fn row_58_what_has_a_build_is_not_seeded() {
    let mut world = World::built();
    let image = world.image().to_owned();
    world.annotate(labels::PRE_BUILT_IMAGE, SEED);
    assert_eq!(world.settle().reason.code(), "up-to-date");
    assert_eq!((world.image(), world.annotation(labels::PRE_BUILT_IMAGE)), (&*image, None));
    assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1, "it is told");
    assert!(world.seen.components.is_empty());
    is_idle(&mut world);
    // Named, and not in service yet: it is built, and the annotation stays until it is.
    let mut world = World::opted_in();
    world.settle();
    world.annotate(labels::PRE_BUILT_IMAGE, "nonsense");
    world.settle();
    assert!(world.annotation(labels::PRE_BUILT_IMAGE).is_some());
    world.build();
    assert_eq!(world.made.len(), 1);
    assert_eq!(world.annotation(labels::PRE_BUILT_IMAGE), None);
}

#[test]
fn row_62_a_stale_name_is_taken_away_and_the_right_build_appears() {
    for daemon in [true, false] {
        let mut world = World::seeded();
        world.seen.cluster.machine_config_daemon = daemon;
        // A node controller takes the stale name away when another config arrives.
        world.content = Some(2);
        world.rerender();
        let annotations = &mut world.config().metadata.annotations;
        annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
        world.build();
        let rendered = world.pool().spec.configuration.name.clone();
        assert_eq!(world.current().spec.machine_config.name, rendered);
        assert_eq!(world.state(), Some(Succeeded));
        assert_eq!(world.made.len(), usize::from(!daemon), "daemon: {daemon}");
        assert_eq!(world.image() == SEED, daemon);
        is_idle(&mut world);
        // Back to what it began with.
        world.content = Some(1);
        world.build();
        assert_eq!(world.image(), SEED, "A, B, A");
        assert_eq!(world.made.len(), usize::from(!daemon));
        is_idle(&mut world);
    }
}

#[test]
fn the_next_change_is_built_on_the_releases_own_image() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 3] = [
        ("the pool", |world| world.content = Some(2)),
        ("the Containerfile", |world| world.containerfile("RUN true")),
        ("a rebuild", |world| world.annotate(labels::REBUILD, "")),
    ];
    for (what, change) in changes {
        let mut world = World::seeded();
        change(&mut world);
        world.asked.clear();
        world.build();
        assert_eq!(world.made.len(), 1, "{what}");
        assert!(world.image().starts_with("quay.io/acme/os@"), "{what}");
        let on_stock = |lookup: &Lookup| match lookup {
            Lookup::Plan(plan) => {
                let instead = plan.instead.as_ref().unwrap();
                instead.of.contains(SEED) && instead.stock.as_deref() == Some(STOCK)
            }
            Lookup::Exists { .. } | Lookup::OsImage { .. } | Lookup::Result { .. } => false,
        };
        assert!(world.asked.iter().any(on_stock), "{what}");
        assert_eq!(world.seen.components.len(), 1, "{what}: kept");
        assert!(seeded_condition(&mut world).unwrap().is_true(), "{what}");
        is_idle(&mut world);
    }
}

#[test]
fn a_change_that_the_image_was_made_of_needs_no_job() {
    let mut world = World::seeded();
    let seeded = world.current().metadata.name.clone();
    world.recognises = true;
    world.content = Some(2);
    assert_eq!(world.round(usize::MAX).reason.code(), "up-to-date");
    world.rerender();
    assert_eq!(world.round(usize::MAX).reason.code(), "recognised");
    world.build();
    assert_eq!((world.image(), world.made.len()), (SEED, 0));
    let build = world.current().clone();
    assert_eq!(build.spec.machine_config.name, world.pool().spec.configuration.name);
    assert!(!build.is_pre_built());
    assert_eq!(build.metadata.annotation(labels::ADOPTED_FROM), Some(&*seeded));
    is_idle(&mut world);
    // Only the first: whatever comes then is built.
    world.content = Some(3);
    world.build();
    assert_eq!(world.made.len(), 1);
    assert_ne!(world.image(), SEED);

    type Change = fn(&mut World);
    let changes: [(&str, Change); 2] = [
        ("the Containerfile", |world| world.containerfile("RUN true")),
        ("a rebuild", |world| world.annotate(labels::REBUILD, "")),
    ];
    for (what, change) in changes {
        let mut world = World::seeded();
        world.recognises = true;
        change(&mut world);
        world.build();
        assert_eq!(world.made.len(), 1, "{what}");
    }
}

#[test]
fn nothing_is_planned_or_built_before_it_is_seeded() {
    type Trouble = fn(&mut World);
    let troubles: [(&str, &str, Trouble); 6] = [
        ("no such image", "problem", |world| world.images.clear()),
        ("refused", "problem", |world| {
            world.registry_problem = Some(problem(ErrorClass::InvalidInput, "denied"));
        }),
        ("away", "problem", |world| {
            world.registry_problem = Some(problem(ErrorClass::Transient, "away"));
        }),
        ("no image", "bad-machine-os-config", |world| {
            world.annotate(labels::PRE_BUILT_IMAGE, "quay.io/acme/os:v1");
        }),
        ("nested", "bad-machine-os-config", |world| {
            world.seen.cluster.nested_digests_refused = true;
            let nested = SEED.replace("golden", "a/b");
            world.annotate(labels::PRE_BUILT_IMAGE, &nested);
        }),
        ("nobody renders", "seed-not-rendered", |world| {
            world.content = None;
            world.render(1);
        }),
    ];
    for (what, code, trouble) in troubles {
        let mut world = World::to_be_seeded();
        trouble(&mut world);
        let passes =
            world.registry_problem.as_ref().is_some_and(|one| one.class == ErrorClass::Transient);
        let told = !passes && code != "seed-not-rendered";
        for change in [0, 1, 2] {
            match change {
                0 => {}
                1 => world.containerfile("RUN true"),
                _ => world.annotate(labels::REBUILD, ""),
            }
            let mut decision = world.round(usize::MAX);
            for _ in 0..5 {
                decision = world.round(usize::MAX);
            }
            assert_eq!(decision.reason.code(), code, "{what}");
            assert_eq!(decision.actions, [], "{what}");
            assert_eq!(world.blocked().is_some(), told, "{what}");
            assert!(world.seen.builds.is_empty() && world.made.is_empty(), "{what}");
        }
        let pointed = code == "seed-not-rendered";
        assert_eq!(!world.seen.components.is_empty(), pointed, "{what}: no pool is pointed at it");
        // And mended.
        world.registry_problem = None;
        world.images.insert(SEED.parse().unwrap());
        world.annotate(labels::PRE_BUILT_IMAGE, SEED);
        world.content = Some(3);
        world.settle();
        is_in_service(&mut world, SEED);
        assert!(world.made.is_empty(), "{what}");
        let is_blocked = world.blocked().is_some_and(|(status, _)| status == "True");
        assert!(!is_blocked, "{what}");
        is_idle(&mut world);
    }
}

#[test]
fn the_image_may_vanish_between_being_named_and_being_taken() {
    let mut world = World::to_be_seeded();
    world.round(usize::MAX);
    world.rerender();
    world.images.clear();
    let decision = world.round(usize::MAX);
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(world.blocked().unwrap().1, "Problem");
    world.images.insert(SEED.parse().unwrap());
    world.settle();
    is_in_service(&mut world, SEED);
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn at_installation_the_pool_is_given_the_image_before_it_has_a_config() {
    let mut world = World::to_be_seeded();
    world.content = None;
    world.pool().spec.configuration = PoolConfiguration::default();
    assert_eq!(world.round(usize::MAX).reason.code(), "seed-component");
    assert_eq!(world.seen.components.len(), 1);
    assert_eq!(world.settle().reason.code(), "seed-not-rendered");
    world.content = Some(1);
    // Nor has any machine one yet, where a daemon tells.
    world.seen.cluster.machine_config_daemon = true;
    world.pool().status.configuration = PoolConfiguration::default();
    assert_eq!(world.settle().reason, PoolReason::NotRendered);
    is_in_service(&mut world, SEED);
    assert_eq!(world.annotation(labels::PRE_BUILT_IMAGE), None);
    let rendered = world.pool().spec.configuration.name.clone();
    world.pool().status.configuration.name = rendered;
    is_idle(&mut world);
}

#[test]
fn at_installation_a_registry_that_stays_away_is_told_until_it_answers() {
    let mut world = World::to_be_seeded();
    world.content = None;
    world.pool().spec.configuration = PoolConfiguration::default();
    let away = problem(ErrorClass::Transient, "registry.test/os: away");
    world.registry_problem = Some(away.clone());
    assert_eq!(world.settle().reason.code(), "problem");
    assert_eq!(world.blocked(), None, "it may pass");
    world.seen.earlier_problem =
        Some(EarlierProblem { cause: away.cause(), lasted: std::time::Duration::from_secs(60) });
    world.settle();
    assert_eq!(world.blocked().unwrap().0, "True", "it lasts");
    assert!(world.seen.components.is_empty());
    world.registry_problem = None;
    world.seen.earlier_problem = None;
    assert_eq!(world.settle().reason.code(), "seed-not-rendered");
    assert_eq!(world.blocked().unwrap().0, "False", "it answered");
    is_idle(&mut world);
}

#[test]
fn without_a_word_on_the_releases_image_what_is_in_service_stays() {
    let mut world = World::to_be_seeded();
    world.seen.cluster.stock_base = None;
    world.settle();
    is_in_service(&mut world, SEED);
    is_idle(&mut world);
    world.seen.cluster.stock_base = Some(STOCK.to_owned());
    is_idle(&mut world);
}
