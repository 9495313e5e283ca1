//! The rows of `docs/reference/behaviours.md` that a decision decides and that no other file beside
//! this one tests. That page says for every row where it is tested, what mosb does otherwise and
//! why, and what other components do.

use super::fake_cluster::*;
use crate::*;
use k8s_openapi::api::core::v1::PodSpec;
use mosb_api::*;
use mosb_build::JobMethod;
use mosb_build::result::{Outcome, PreparedImage};
use mosb_cluster::status::EventReason;
use mosb_image::Digest;
use mosb_plan::plan::diff::{KernelChange, OsSummary};
use mosb_types::ErrorClass;
use mosb_workload::{BuildNodes, Workload};

use BuildCondition::{Building, Prepared, Succeeded};

pub fn is_idle(fake: &mut FakeCluster) {
    fake.asked.clear();
    let decision = fake.decide();
    assert_eq!(decision.actions, [], "{:?}", decision.reason);
    assert!(fake.asked.is_empty(), "{:?}", fake.asked);
    assert_eq!(decision.requeue_after, None);
}

pub fn blocked_by_degraded_pool(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn row_9_a_pause_is_no_part_of_a_build() {
    let mut fake = FakeCluster::built();
    let name = fake.current().metadata.name.clone();
    fake.pool().spec.paused = true;
    is_idle(&mut fake);
    let mut paused = FakeCluster::new();
    paused.pool().spec.paused = true;
    paused.opt_in();
    paused.build();
    assert_eq!(paused.current().metadata.name, name);
    assert_eq!(paused.state(), Some(Succeeded), "row 60: it is built");
}

#[test]
fn row_10_something_is_missing() {
    let mut fake = FakeCluster::opted_in();
    let pool = fake.snapshot.pool.take();
    let decision = fake.settle();
    assert_eq!(decision.reason.code(), "no-pool");
    assert_eq!(fake.blocked(), None, "it may be applied together with it");
    fake.wait(-2);
    fake.settle();
    assert_eq!(fake.blocked(), None, "the API server's clock is ahead");
    fake.wait(2);
    fake.wait(decision.requeue_after.expect("another look").as_secs() as i64 + 1);
    assert_eq!(fake.settle().reason.code(), "no-pool");
    assert_eq!(fake.blocked(), Some(("True".to_owned(), "NoPool".to_owned())));
    assert_eq!(fake.event_count(EventReason::ConfigReconcileFailed), 1);
    is_idle(&mut fake);
    fake.snapshot.pool = pool;
    fake.pool().spec.configuration.name.clear();
    assert_eq!(fake.settle().reason, PoolReason::NotRendered, "install time");
    assert_eq!(fake.blocked().unwrap().0, "False", "there is a pool");
    fake.render(1);
    fake.snapshot.cluster.machine_config_daemon = true;
    fake.pool().status.configuration.name.clear();
    assert_eq!(fake.settle().reason, PoolReason::NotRendered, "its status has no name");
    fake.pool().status.configuration.name = rendered(1);
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
    assert_eq!(fake.blocked().unwrap().0, "False");
    fake.pool().spec.configuration.name = "00-worker".to_owned();
    assert_eq!(fake.settle().reason.code(), "bad-machine-os-config");
}

#[test]
fn row_11_without_a_config_nothing_is_built() {
    let mut fake = FakeCluster::new();
    for n in 1..4 {
        fake.render(n);
        assert_eq!(fake.settle().reason, PoolReason::NotOptedIn);
    }
    assert!(fake.snapshot.builds.is_empty());
    is_idle(&mut fake);
}

#[test]
fn row_12_a_build_its_job_and_what_that_needs_appear() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    assert_eq!(fake.state(), Some(Prepared));
    let build = fake.current().clone();
    let config = fake.snapshot.config.clone().unwrap();
    assert!(build.metadata.is_controlled_by(config.metadata.uid()));
    assert_eq!(build.metadata.finalizers, ["foregroundDeletion"]);
    assert_eq!(build.spec.machine_config.name, rendered(1));
    assert_eq!(build.spec.rendered_image_push_spec, format!("quay.io/acme/os:{}", rendered(1)));
    let label = |key| build.metadata.labels.get(key).map(String::as_str);
    assert_eq!(label(labels::MACHINE_OS_CONFIG), Some("worker"));
    assert_eq!(label(labels::MACHINEOSCONFIG), Some("worker"));
    assert_eq!(label(labels::RENDERED_MACHINE_CONFIG), Some(&*rendered(1)));
    assert_eq!(label(labels::TARGET_MACHINE_CONFIG_POOL), Some("worker"));
    assert_eq!(build.metadata.annotation(labels::JOB_UID), fake.job_uid().as_deref());
    assert_eq!(fake.snapshot.inputs.len(), 3);
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("False", "Building"));
    assert_eq!(fake.decide().reason.code(), "pending");
    is_idle(&mut fake);
}

#[test]
fn rows_13_14_19_another_target_ends_a_running_build() {
    type Change = fn(&mut FakeCluster);
    let changes: [(&str, Change); 3] = [
        ("row 13", |fake| fake.containerfile("RUN true")),
        ("row 14", |fake| fake.render(2)),
        ("row 19", |fake| {
            fake.config().spec.rendered_image_push_spec = "quay.io/acme/other:v1".to_owned();
        }),
    ];
    for (what, change) in changes {
        let mut fake = FakeCluster::opted_in();
        fake.settle();
        fake.run();
        fake.settle();
        let (old, job) = (fake.current().metadata.uid.clone(), fake.job_uid());
        change(&mut fake);
        fake.settle();
        assert_eq!(fake.snapshot.builds.len(), 1, "{what}");
        assert_ne!(fake.current().metadata.uid, old, "{what}");
        assert_ne!(fake.job_uid(), job, "{what}");
        assert_eq!(fake.snapshot.workloads.len(), 1, "{what}");
        assert_eq!(fake.snapshot.inputs.len(), 3, "{what}");
        assert_eq!(fake.event_count(EventReason::BuildInterrupted), 1, "{what}");
        assert_eq!(fake.event_count(EventReason::BuildDeleted), 1, "{what}");
    }
}

#[test]
fn rows_25_to_30_a_job_becomes_a_status() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    assert_eq!(fake.state(), Some(Prepared), "row 25");
    let created = fake.current().status.build_start.clone().unwrap();
    fake.run();
    fake.settle();
    assert_eq!(fake.state(), Some(Building), "row 25");
    is_idle(&mut fake);
    // Row 28: its pod disappears for a moment.
    fake.job().unwrap().pods.clear();
    fake.settle();
    assert_eq!(fake.state(), Some(Building));
    // Row 29: it ends while the controller is down.
    fake.wait(60);
    fake.succeed();
    let tree = fake.settle();
    assert_eq!(tree.reason.code(), "up-to-date");
    let status = &fake.current().status;
    assert_eq!(fake.state(), Some(Succeeded), "row 27");
    assert_eq!(status.build_start, Some(created));
    assert!(status.build_end > status.build_start);
    assert_eq!(status.image(), Some(fake.image()), "row 30");
    assert!(fake.image().starts_with("quay.io/acme/os@sha256:"));
    let config = fake.snapshot.config.clone().unwrap();
    assert_eq!(config.status.observed_generation, config.metadata.generation);
    let pool = fake.snapshot.pool.as_ref().unwrap();
    assert_eq!(
        pool.metadata.annotation(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG),
        Some(fake.image())
    );
    assert_eq!(fake.blocked_by_degraded_pool(), blocked_by_degraded_pool("False", "BuildSuccess"));
    assert_eq!(fake.snapshot.cluster.base_trees.len(), 1);
    assert!(fake.snapshot.workloads.is_empty(), "cleaned up");
    is_idle(&mut fake);
}

#[test]
fn row_37_a_rebuild_is_delete_and_create() {
    let mut fake = FakeCluster::built();
    let (old, image) = (fake.current().clone(), fake.image().to_owned());
    fake.annotate(labels::REBUILD, "");
    fake.settle();
    assert_eq!(fake.current().metadata.name, old.metadata.name);
    assert_ne!(fake.current().metadata.uid, old.metadata.uid);
    assert_eq!(
        (fake.annotation(labels::REBUILD), fake.annotation(labels::REBUILD_OF)),
        (None, None)
    );
    assert_eq!(fake.image(), image, "in service until there is another");
    assert_eq!(fake.event_count(EventReason::RebuildRequested), 1);
    fake.build();
    assert_eq!((fake.made.len(), fake.image()), (2, &*image));
    is_idle(&mut fake);

    // A failed build, with the same inputs.
    fake.containerfile("RUN false");
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    fake.settle();
    fake.annotate(labels::REBUILD, "please");
    fake.build();
    assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 4));
    assert_eq!(fake.annotation(labels::REBUILD), None);

    // Without a current build the request has no effect, and is removed with the next build.
    let mut fresh = FakeCluster::opted_in();
    fresh.annotate(labels::REBUILD, "");
    fresh.build();
    assert_eq!((fresh.made.len(), fresh.annotation(labels::REBUILD)), (1, None));
    is_idle(&mut fresh);
}

#[test]
fn rows_40_41_a_restart_needs_no_memory() {
    // Each pass starts from scratch: here the pool changes and the Job ends in between.
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.succeed();
    fake.render(2);
    fake.settle();
    assert_eq!(fake.snapshot.builds.len(), 1, "row 40: the old one goes");
    assert_eq!(fake.current().spec.machine_config.name, rendered(2));
    fake.run();
    fake.succeed();
    fake.settle();
    assert_eq!(fake.state(), Some(Succeeded), "row 41");
    is_idle(&mut fake);
}

#[test]
fn a_base_tree_is_recorded_only_for_the_builds_own_base_that_it_read() {
    let own = Digest::of(&0_u32.to_be_bytes());
    let other = Digest::of(b"another team's base");
    let (direct, containerfile) = (JobMethod::Direct, JobMethod::Containerfile);
    for (what, planned, base, method, recorded) in [
        ("its own", direct, own, direct, 1),
        ("another base's", direct, other, direct, 0),
        ("read by no Containerfile", containerfile, own, containerfile, 0),
        ("a Containerfile's that says direct", containerfile, own, direct, 0),
        ("a direct one's that says Containerfile", direct, own, containerfile, 0),
    ] {
        let mut fake = FakeCluster::opted_in();
        fake.settle();
        if planned == containerfile {
            fake.run();
            fake.settle();
            fake.report(needs_containerfile());
            fake.settle();
        }
        fake.succeed();
        let build = fake.current().metadata.name.clone();
        let result = fake.snapshot.results.get_mut(&build).unwrap();
        if let Outcome::Succeeded { method: reported, base_tree: Some(tree), .. } =
            &mut result.outcome
        {
            *reported = method;
            tree.base = base;
        }
        fake.settle();
        assert_eq!(fake.state(), Some(Succeeded), "{what}");
        let trees = &fake.snapshot.cluster.base_trees;
        assert_eq!(trees.len(), recorded, "{what}: {trees:?}");
    }
}

#[test]
fn what_of_the_os_changes_is_recorded_before_the_image_serves() {
    let kernel = KernelChange { from: None, to: Some("6.1".to_owned()) };
    let summary = OsSummary { from: Digest::of(b"before"), kernel, packages: Some(1) };
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.succeed();
    let name = fake.current().metadata.name.clone();
    let result = fake.snapshot.results.get_mut(&name).unwrap();
    let Outcome::Succeeded { os_summary, .. } = &mut result.outcome else { panic!("an image") };
    *os_summary = Some(Box::new(summary.clone()));
    let recorded = |fake: &FakeCluster| OsSummary::of(&fake.current().metadata);
    for _ in 0..20 {
        fake.round(usize::MAX);
        assert!(fake.state() != Some(Succeeded) || recorded(&fake).is_some());
    }
    assert_eq!((fake.state(), recorded(&fake)), (Some(Succeeded), Some(summary)));
    is_idle(&mut fake);
}

#[test]
fn only_jobs_on_control_plane_nodes_record_for_the_control_plane() {
    let base = Digest::of(&0_u32.to_be_bytes());
    let control_plane = BuildNodes::ControlPlane { exists: true };
    for (what, selector, recorded) in [
        // The pool became one of control-plane machines since.
        ("any node", "kubernetes.io/os", false),
        ("control-plane nodes", "node-role.kubernetes.io/control-plane", true),
    ] {
        let mut fake = FakeCluster::opted_in();
        fake.settle();
        let Workload::Job(job) = &mut fake.job().unwrap().workload else { panic!("a Job") };
        let pod = PodSpec {
            node_selector: Some([(selector.to_owned(), String::new())].into()),
            ..PodSpec::default()
        };
        job.spec.as_mut().unwrap().template.spec = Some(pod);
        fake.snapshot.build_nodes = control_plane.clone();
        fake.build();
        assert_eq!(fake.state(), Some(Succeeded), "{what}");
        let key = BaseTreeKey::new(&base, &"quay.io/acme/os".parse().unwrap(), &control_plane);
        let trees = fake.snapshot.cluster.base_trees.keys().collect::<Vec<_>>();
        assert_eq!(trees, recorded.then_some(&key).into_iter().collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn a_recorded_tree_that_the_job_could_not_use_is_replaced() {
    let base = Digest::of(&0_u32.to_be_bytes());
    let mut fake = FakeCluster::opted_in();
    let older = Digest::of(b"of an older version");
    let key = BaseTreeKey::new(&base, &"quay.io/acme/os".parse().unwrap(), &BuildNodes::Any);
    fake.snapshot.cluster.base_trees.insert(key.clone(), older);
    fake.build();
    let recorded = fake.snapshot.cluster.base_trees[&key];
    assert_ne!(recorded, older);
    is_idle(&mut fake);
    assert_eq!(fake.snapshot.cluster.base_trees[&key], recorded);
}

#[test]
fn a_prepared_base_is_recorded_only_for_the_inputs_of_its_build() {
    let inputs = Digest::of(b"what is run");
    let push = "quay.io/acme/os".parse().unwrap();
    let key = PreparedBaseKey::new(&push, None, &BuildNodes::Any, &inputs);
    let other = Digest::of(b"what another pool runs");
    let (direct, containerfile) = (JobMethod::Direct, JobMethod::Containerfile);
    for (what, planned, reported, method, recorded) in [
        ("its own", Some(inputs), inputs, containerfile, true),
        ("other inputs", Some(inputs), other, containerfile, false),
        ("of a build that has none", None, inputs, containerfile, false),
        ("a Containerfile's that says direct", Some(inputs), inputs, direct, false),
    ] {
        let mut fake = FakeCluster::opted_in();
        fake.containerfile("RUN true");
        fake.settle();
        fake.run();
        fake.settle();
        fake.succeed();
        let build = fake.snapshot.builds.first_mut().unwrap();
        if let Some(planned) = planned {
            let annotations = &mut build.metadata.annotations;
            annotations.insert(labels::PREPARED_INPUTS.to_owned(), planned.hex());
            annotations.insert(labels::PREPARED_KEY.to_owned(), key.as_str().to_owned());
        }
        let build = build.metadata.name.clone();
        let made_at = fake.now;
        let result = fake.snapshot.results.get_mut(&build).unwrap();
        if let Outcome::Succeeded { method: said, prepared, .. } = &mut result.outcome {
            *said = method;
            let image = Digest::of(b"prepared");
            *prepared = Some(Box::new(PreparedImage { inputs: reported, image, made_at }));
        }
        fake.settle();
        assert_eq!(fake.state(), Some(Succeeded), "{what}");
        let bases = &fake.snapshot.cluster.prepared_bases;
        let want = PreparedBase { image: Digest::of(b"prepared"), made_at, used_at: fake.now };
        assert_eq!(bases.get(&key), recorded.then_some(&want), "{what}");
        is_idle(&mut fake);
    }
}

#[test]
fn a_direct_job_may_find_that_something_must_be_run() {
    let mut fake = FakeCluster::opted_in();
    fake.snapshot.cluster.user_namespaces = Support::No;
    fake.settle();
    let uid = fake.current().metadata.uid.clone();
    fake.run();
    fake.settle();
    fake.report(needs_containerfile());
    fake.settle();
    assert_eq!(fake.current().metadata.uid, uid);
    let methods: Vec<_> = fake.made.iter().map(|(.., method)| *method).collect();
    assert_eq!(methods, [JobMethod::Direct, JobMethod::Containerfile]);
    assert_eq!(fake.current().metadata.annotation(labels::REASON), Some("append-to-base"));
    let conditions = fake.config().status.conditions.clone();
    assert_eq!(condition(&conditions, "UserNamespaces").unwrap().reason, "NotSupported");
    fake.snapshot.cluster.user_namespaces = Support::Forbidden;
    fake.settle();
    let conditions = fake.config().status.conditions.clone();
    assert_eq!(condition(&conditions, "UserNamespaces").unwrap().reason, "Forbidden");
    fake.build();
    assert_eq!(fake.made.len(), 2);
    is_idle(&mut fake);
}

#[test]
fn a_job_that_is_newer_than_what_is_seen_of_its_build_is_left_alone() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.run();
    fake.settle();
    let old = fake.current().clone();
    fake.delete_workload();
    let pause = fake.settle().requeue_after.expect("a next attempt");
    fake.wait(pause.as_secs() as i64 + 1);
    fake.settle();
    // The watch of builds lags behind that of Jobs.
    let at = fake.snapshot.builds.iter_mut().find(|b| b.metadata.uid == old.metadata.uid);
    *at.unwrap() = old;
    let decision = fake.decide();
    assert_eq!(decision.actions, []);
    assert_eq!(decision.reason.code(), "preparing");
}
