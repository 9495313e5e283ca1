//! Whatever happens, in whatever order, and wherever the controller is killed: it converges, and never does what it must not.

use proptest::prelude::*;
use serde_json::json;

use super::seed_world::*;
use super::world::*;
use crate::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

/// What a user, a cluster or a fate does.
#[derive(Debug, Clone)]
enum Deed {
    Render(u32),
    Containerfile(u8),
    Rebuild,
    Daemon(bool),
    OsChanges(bool),
    Degraded(bool),
    Base(u32),
    Builder(ImageBuilderType),
    Problem(u8),
    RunJob,
    Succeed,
    Fail(u8),
    Evict,
    DeadlineExceeded,
    NeedsContainerfile,
    DeleteJob,
    DeleteBuild(prop::sample::Index),
    DeleteImage(prop::sample::Index),
    ForgetCurrent,
    Recreate,
    Rerender,
    DeleteComponent,
    Wait(u16),
    /// A round of which so many steps are done.
    DecisionBuilder(u8),
    /// All that was decided some deeds ago, late.
    Late,
    Settle,
}

fn deed() -> impl Strategy<Value = Deed> {
    use Deed::*;
    prop_oneof![
        3 => (1u32..4).prop_map(Render),
        2 => (0u8..3).prop_map(Containerfile),
        2 => Just(Rebuild),
        1 => any::<bool>().prop_map(Daemon),
        1 => any::<bool>().prop_map(OsChanges),
        1 => any::<bool>().prop_map(Degraded),
        1 => (0u32..2).prop_map(Base),
        1 => prop::sample::select(&ImageBuilderType::ALL[..]).prop_map(Builder),
        1 => (0u8..3).prop_map(Problem),
        3 => Just(RunJob),
        4 => Just(Succeed),
        2 => (0u8..4).prop_map(Fail),
        1 => Just(Evict),
        1 => Just(DeadlineExceeded),
        2 => Just(NeedsContainerfile),
        2 => Just(DeleteJob),
        2 => any::<prop::sample::Index>().prop_map(DeleteBuild),
        1 => any::<prop::sample::Index>().prop_map(DeleteImage),
        1 => Just(ForgetCurrent),
        1 => Just(Recreate),
        2 => Just(Rerender),
        1 => Just(DeleteComponent),
        2 => (0u16..400).prop_map(Wait),
        8 => (0u8..5).prop_map(DecisionBuilder),
        2 => Just(Late),
        4 => Just(Settle),
    ]
}

fn set_degraded(world: &mut World, is: bool) {
    let conditions = &mut world.pool().status.conditions;
    conditions.retain(|one| one.kind != "NodeDegraded");
    if is {
        conditions.push(Condition {
            kind: "NodeDegraded".to_owned(),
            status: "True".to_owned(),
            ..Condition::default()
        });
    }
    // Another writer: what was decided on the older list must be refused.
    world.pool().metadata.resource_version = Some(format!("other-{}", conditions_count(world)));
}

fn conditions_count(world: &World) -> usize {
    world.events.len() * 2 + world.seen.pool.as_ref().unwrap().status.conditions.len()
}

fn happen(world: &mut World, deed: &Deed, late: &mut Decision) {
    match deed {
        Deed::Render(n) if world.content.is_some() => world.content = Some(*n),
        Deed::Render(n) => world.render(*n),
        Deed::Rerender => world.rerender(),
        Deed::DeleteComponent => world.seen.components.clear(),
        Deed::Containerfile(0) => world.config().spec.container_file.clear(),
        Deed::Containerfile(n) => world.containerfile(&format!("RUN {n}")),
        Deed::Rebuild => world.annotate(labels::REBUILD, ""),
        Deed::Daemon(is) => world.seen.cluster.machine_config_daemon = *is,
        Deed::OsChanges(is) => world.os_changes = *is,
        Deed::Degraded(is) => set_degraded(world, *is),
        Deed::Base(n) => world.base = *n,
        Deed::Builder(builder) => world.annotate(labels::BUILDER, builder.as_str()),
        Deed::Problem(0) => world.problem = None,
        Deed::Problem(1) => world.problem = Some(problem(ErrorClass::Transient, "away")),
        Deed::Problem(_) => world.problem = Some(problem(ErrorClass::InvalidInput, "wrong")),
        Deed::RunJob if world.has_begun() => world.run(),
        Deed::Succeed if world.has_begun() => world.succeed(),
        Deed::Fail(n) if world.has_begun() => {
            let classes = [
                ErrorClass::Transient,
                ErrorClass::InvalidInput,
                ErrorClass::Rejected,
                ErrorClass::Internal,
            ];
            world.tell(failed(classes[usize::from(*n)]));
        }
        Deed::Evict if world.has_begun() => {
            world.lose("BackoffLimitExceeded", json!({ "reason": "Evicted" }))
        }
        Deed::DeadlineExceeded if world.has_begun() => world.lose("DeadlineExceeded", json!({})),
        Deed::NeedsContainerfile if world.has_begun() => world.tell(needs_containerfile()),
        Deed::DeleteJob if world.job().is_some() => world.delete_runner(),
        Deed::DeleteBuild(at) if !world.seen.builds.is_empty() => {
            let name = at.get(&world.seen.builds).metadata.name.clone();
            world.delete_build(&name);
        }
        Deed::DeleteImage(at) if !world.images.is_empty() => {
            let images: Vec<_> = world.images.iter().cloned().collect();
            world.images.remove(at.get(&images));
        }
        Deed::ForgetCurrent => {
            let annotations = &mut world.config().metadata.annotations;
            annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
        }
        Deed::Recreate => {
            world.seen.config = None;
            world.opt_in();
            if world.content.is_some() {
                world.annotate(labels::PRE_BUILT_IMAGE, SEED);
            }
        }
        Deed::Wait(seconds) => world.wait(i64::from(*seconds)),
        Deed::DecisionBuilder(most) => *late = world.round(usize::from(*most)),
        Deed::Late => {
            let mut versions = Default::default();
            let actions = std::mem::take(&mut late.actions);
            for action in &actions {
                if world.act(action, &mut versions).is_none() {
                    break;
                }
            }
        }
        Deed::Settle => _ = world.settle(),
        _ => {}
    }
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_converges_from_everywhere(
        seeds in any::<bool>(),
        builder in prop::sample::select(&ImageBuilderType::ALL[..]),
        deeds in prop::collection::vec(deed(), 0..40),
    ) {
        let mut world = match seeds {
            true => World::to_be_seeded(),
            false => World::opted_in(),
        };
        world.annotate(labels::BUILDER, builder.as_str());
        let foreign = json!({ "metadata": { "name": FOREIGN, "uid": "theirs" }, "spec": { "machineOSConfig": { "name": "worker" } } });
        world.seen.builds.push(serde_json::from_value(foreign).unwrap());
        let mut late = world.decide();
        for deed in &deeds {
            happen(&mut world, deed, &mut late);
        }
        // Then all is well, and whatever is built succeeds, but for what failed of the same wish before.
        world.problem = None;
        world.images.insert(SEED.parse().unwrap());
        set_degraded(&mut world, false);
        let decision = world.build();
        let theirs = world.find(FOREIGN);
        prop_assert!(theirs.is_none() || theirs.unwrap().metadata.annotations.is_empty());
        match decision.reason {
            PoolReason::UpToDate(image) => {
                prop_assert_eq!(&image, world.image());
                prop_assert_eq!(world.state(), Some(BuildCondition::Succeeded));
                prop_assert!(world.seen.runners.is_empty());
                prop_assert!(world.seen.inputs.is_empty(), "{:?}", world.seen.inputs);
            }
            PoolReason::Failed { .. } => prop_assert_eq!(world.state(), Some(BuildCondition::Failed)),
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(&world.current().spec.machine_config.name, &world.seen.pool.as_ref().unwrap().spec.configuration.name);
        world.asked.clear();
        let idle = world.decide();
        prop_assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
        prop_assert!(world.asked.is_empty(), "{:?}", world.asked);
    }
}
