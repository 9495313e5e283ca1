//! Any events in any order, and the controller killed at any point: it converges and never violates
//! an invariant.

use proptest::prelude::*;
use serde_json::json;

use super::fake_cluster::*;
use super::fake_seed::*;
use super::promotion::verdict;
use crate::*;
use mosb_api::cluster_settings::SigningSettings;
use mosb_api::image_checks::CheckName;
use mosb_api::*;
use mosb_types::ErrorClass;

/// What a user, the cluster or chance does.
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
    /// Whether builds find their images in the registry.
    Existing(u8),
    /// Whether images can be signed.
    Signing(u8),
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
    Promote(bool),
    DecideAbout(prop::sample::Index, bool),
    Verdict(CheckName, u8),
    CheckMode(CheckName, &'static str),
    Override(CheckName, prop::sample::Index),
    OwnCheck(u8),
    EndChecks(CheckEnd),
    DeleteChecks,
    Wait(u16),
    /// A pass of which this many actions are applied.
    Round(u8),
    /// A delayed decision from some deeds ago.
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
        1 => (0u8..3).prop_map(Existing),
        2 => (0u8..3).prop_map(Signing),
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
        2 => any::<bool>().prop_map(Promote),
        3 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, is)| DecideAbout(at, is)),
        3 => (check_name(), 0u8..3).prop_map(|(check, what)| Verdict(check, what)),
        1 => (check_name(), prop::sample::select(&["block", "warn", "off"][..]))
            .prop_map(|(check, mode)| CheckMode(check, mode)),
        1 => (check_name(), any::<prop::sample::Index>()).prop_map(|(check, at)| Override(check, at)),
        1 => (0u8..3).prop_map(OwnCheck),
        3 => prop::sample::select(&[CheckEnd::Passed, CheckEnd::Failed, CheckEnd::OverItsTime][..])
            .prop_map(EndChecks),
        1 => Just(DeleteChecks),
        2 => (0u16..400).prop_map(Wait),
        8 => (0u8..5).prop_map(Round),
        2 => Just(Late),
        4 => Just(Settle),
    ]
}

fn check_name() -> impl Strategy<Value = CheckName> {
    prop::sample::select(&CheckName::ALL[..2])
}

fn set_degraded(fake: &mut FakeCluster, is: bool) {
    let conditions = &mut fake.pool().status.conditions;
    conditions.retain(|one| one.kind != "NodeDegraded");
    if is {
        conditions.push(Condition {
            kind: "NodeDegraded".to_owned(),
            status: "True".to_owned(),
            ..Condition::default()
        });
    }
    // Another writer: actions decided on the older list must be rejected.
    fake.pool().metadata.resource_version = Some(format!("other-{}", conditions_count(fake)));
}

fn conditions_count(fake: &FakeCluster) -> usize {
    fake.events.len() * 2 + fake.snapshot.pool.as_ref().unwrap().status.conditions.len()
}

fn happen(fake: &mut FakeCluster, deed: &Deed, late: &mut Decision) {
    match deed {
        Deed::Render(n) if fake.content.is_some() => fake.content = Some(*n),
        Deed::Render(n) => fake.render(*n),
        Deed::Rerender => fake.rerender(),
        Deed::DeleteComponent => fake.snapshot.components.clear(),
        Deed::Containerfile(0) => fake.config().spec.container_file.clear(),
        Deed::Containerfile(n) => fake.containerfile(&format!("RUN {n}")),
        Deed::Rebuild => fake.annotate(labels::REBUILD, ""),
        Deed::Daemon(is) => fake.snapshot.cluster.machine_config_daemon = *is,
        Deed::OsChanges(is) => fake.os_changes = *is,
        Deed::Degraded(is) => set_degraded(fake, *is),
        Deed::Base(n) => fake.base = *n,
        Deed::Builder(builder) => fake.annotate(labels::BUILDER, builder.as_str()),
        Deed::Problem(0) => fake.problem = None,
        Deed::Problem(1) => fake.problem = Some(problem(ErrorClass::Transient, "away")),
        Deed::Problem(_) => fake.problem = Some(problem(ErrorClass::InvalidInput, "wrong")),
        Deed::Existing(2) => fake.existing = Err(problem(ErrorClass::Transient, "away")),
        Deed::Signing(0) => fake.signing_problem = None,
        Deed::Signing(1) => fake.signing_problem = Some(problem(ErrorClass::Transient, "away")),
        Deed::Signing(_) => {
            fake.signing_problem = Some(problem(ErrorClass::InvalidInput, "no key"));
        }
        Deed::Existing(n) => fake.existing = Ok(*n == 1),
        Deed::RunJob if fake.has_begun() => fake.run(),
        Deed::Succeed if fake.has_begun() => fake.succeed(),
        Deed::Fail(n) if fake.has_begun() => {
            let classes = [
                ErrorClass::Transient,
                ErrorClass::InvalidInput,
                ErrorClass::Rejected,
                ErrorClass::Internal,
            ];
            fake.report(failed(classes[usize::from(*n)]));
        }
        Deed::Evict if fake.has_begun() => {
            fake.fail_workload("BackoffLimitExceeded", json!({ "reason": "Evicted" }))
        }
        Deed::DeadlineExceeded if fake.has_begun() => {
            fake.fail_workload("DeadlineExceeded", json!({}))
        }
        Deed::NeedsContainerfile if fake.has_begun() => fake.report(needs_containerfile()),
        Deed::DeleteJob if fake.job().is_some() => fake.delete_workload(),
        Deed::DeleteBuild(at) if !fake.snapshot.builds.is_empty() => {
            let name = at.get(&fake.snapshot.builds).metadata.name.clone();
            fake.delete_build(&name);
        }
        Deed::DeleteImage(at) if !fake.images.is_empty() => {
            let images: Vec<_> = fake.images.iter().cloned().collect();
            fake.images.remove(at.get(&images));
        }
        Deed::ForgetCurrent => {
            let annotations = &mut fake.config().metadata.annotations;
            annotations.remove(labels::CURRENT_MACHINE_OS_BUILD);
        }
        Deed::Recreate => {
            fake.snapshot.config = None;
            fake.opt_in();
            if fake.content.is_some() {
                fake.annotate(labels::PRE_BUILT_IMAGE, SEED);
            }
        }
        Deed::Promote(manual) => {
            fake.annotate(labels::PROMOTE, if *manual { "manual" } else { "automatic" });
            fake.touch();
        }
        Deed::DecideAbout(at, approved) if !fake.images.is_empty() => {
            let images: Vec<_> = fake.images.iter().cloned().collect();
            fake.decide_about(&at.get(&images).to_string(), *approved);
            fake.touch();
        }
        Deed::Verdict(check, what) => {
            fake.verdicts.insert(*check, verdict(*what));
            // What is recorded of an image does not change behind it.
            let version = fake.id();
            for build in &mut fake.snapshot.builds {
                build.metadata.annotations.remove(labels::CHECKED);
                build.metadata.resource_version = Some(version.clone());
            }
            fake.touch();
        }
        Deed::CheckMode(check, mode) => {
            fake.annotate(labels::CHECKS, &format!("{}={mode}", check.as_str()));
            fake.touch();
        }
        Deed::Override(check, at) if !fake.images.is_empty() => {
            let images: Vec<_> = fake.images.iter().cloned().collect();
            let digest = at.get(&images).digest();
            fake.annotate(labels::OVERRIDE_CHECK, &format!("{}@{digest}", check.as_str()));
            fake.touch();
        }
        Deed::OwnCheck(0) => {
            fake.snapshot.cluster.checks.as_mut().unwrap().own.clear();
            fake.touch();
        }
        Deed::OwnCheck(n) => {
            let command = vec![n.to_string()];
            fake.set_own_check("lint", OwnCheck { command, ..OwnCheck::default() });
        }
        Deed::EndChecks(end) => fake.end_checks(*end),
        Deed::DeleteChecks => fake.snapshot.check_jobs.clear(),
        Deed::Wait(seconds) => fake.wait(i64::from(*seconds)),
        Deed::Round(most) => *late = fake.round(usize::from(*most)),
        Deed::Late => {
            let mut versions = Default::default();
            let actions = std::mem::take(&mut late.actions);
            for action in &actions {
                if fake.act(action, &mut versions).is_none() {
                    break;
                }
            }
        }
        Deed::Settle => _ = fake.settle(),
        _ => {}
    }
    fake.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_converges_from_everywhere(
        seeds in any::<bool>(),
        builder in prop::sample::select(&ImageBuilderType::ALL[..]),
        signs in any::<bool>(),
        deeds in prop::collection::vec(deed(), 0..40),
    ) {
        let mut fake = if seeds { FakeCluster::to_be_seeded() } else { FakeCluster::opted_in() };
        fake.annotate(labels::BUILDER, builder.as_str());
        let secret = signs.then(|| "os-key".to_owned());
        fake.snapshot.cluster.signing = Some(SigningSettings { secret, required: true });
        let foreign = json!({ "metadata": { "name": FOREIGN, "uid": "theirs" }, "spec": { "machineOSConfig": { "name": "worker" } } });
        fake.snapshot.builds.push(serde_json::from_value(foreign).unwrap());
        let mut late = fake.decide();
        for deed in &deeds {
            happen(&mut fake, deed, &mut late);
        }
        // Then every build succeeds, except one that failed before with the same desired state.
        fake.problem = None;
        fake.signing_problem = None;
        fake.config().metadata.annotations.remove(labels::APPROVALS);
        fake.verdicts.clear();
        fake.snapshot.check_jobs.clear();
        for build in &mut fake.snapshot.builds {
            build.metadata.annotations.remove(labels::CHECKED);
        }
        fake.annotate(labels::PROMOTE, "automatic");
        fake.images.insert(SEED.parse().unwrap());
        set_degraded(&mut fake, false);
        let decision = fake.build();
        let theirs = fake.find(FOREIGN);
        prop_assert!(theirs.is_none() || theirs.unwrap().metadata.annotations.is_empty());
        match decision.reason {
            PoolReason::UpToDate(image) => {
                prop_assert_eq!(&image, fake.image());
                prop_assert_eq!(fake.state(), Some(BuildCondition::Succeeded));
                prop_assert!(fake.snapshot.workloads.is_empty());
                prop_assert!(fake.snapshot.check_jobs.is_empty());
                prop_assert!(fake.snapshot.inputs.is_empty(), "{:?}", fake.snapshot.inputs);
            }
            PoolReason::Failed { .. } => prop_assert_eq!(fake.state(), Some(BuildCondition::Failed)),
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(&fake.current().spec.machine_config.name, &fake.snapshot.pool.as_ref().unwrap().spec.configuration.name);
        fake.asked.clear();
        let idle = fake.decide();
        prop_assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
        prop_assert!(fake.asked.is_empty(), "{:?}", fake.asked);
    }
}
