//! Problems of a config, and how they are reported.

use super::fake_cluster::*;
use crate::*;
use mosb_api::*;
use mosb_cluster::status::EventReason;
use mosb_reconcile::EarlierProblem;
use mosb_types::ErrorClass;

#[test]
fn a_problem_is_reported_once_whatever_its_words_are() {
    let mut fake = FakeCluster::opted_in();
    let refused =
        |words: &str| Some(problem(ErrorClass::Rejected, &format!("registry.test/os:1: {words}")));
    fake.problem = refused("correlation 1");
    let events = |fake: &mut FakeCluster| -> Vec<String> {
        let actions = fake.decide().actions;
        let names = actions.iter().filter_map(|action| match action {
            Action::Event(event) => Some(event.name.clone()),
            _ => None,
        });
        names.collect()
    };
    let first = events(&mut fake);
    fake.settle();
    let message = |fake: &FakeCluster| {
        let conditions = &fake.snapshot.config.as_ref().unwrap().status.conditions;
        let blocked = condition(conditions, mosb_cluster::status::BLOCKED).unwrap();
        blocked.message.clone()
    };
    assert_eq!(message(&fake), "registry.test/os:1: correlation 1");
    assert_eq!(fake.blocked().unwrap().1, REJECTED);
    fake.snapshot.earlier_problem = Some(EarlierProblem {
        cause: fake.problem.as_ref().unwrap().cause(),
        lasted: std::time::Duration::from_secs(1),
    });
    fake.problem = refused("correlation 2");
    assert_eq!(fake.decide().actions, [], "in other words");

    // The inputs changed, so the reconciler does not compare.
    fake.snapshot.earlier_problem = None;
    let found = events(&mut fake);
    assert_eq!((found.len(), &found), (1, &first), "named by the cause");
    fake.problem = refused("correlation 3");
    assert_eq!(events(&mut fake), found, "in any words");
    fake.problem = Some(problem(ErrorClass::Rejected, "registry.test/other:1: refused"));
    assert_ne!(events(&mut fake), found, "another object");
    fake.settle();
    assert_eq!(message(&fake), "registry.test/other:1: refused");
}

#[test]
fn a_problem_that_may_pass_is_reported_when_it_does_not() {
    let mut fake = FakeCluster::opted_in();
    fake.problem = Some(problem(ErrorClass::Transient, "registry.test: no answer in time"));
    fake.settle();
    assert_eq!(fake.blocked(), None);
    for (lasted, is_blocked) in [(59, false), (60, true)] {
        fake.snapshot.earlier_problem = Some(EarlierProblem {
            cause: fake.problem.as_ref().unwrap().cause(),
            lasted: std::time::Duration::from_secs(lasted),
        });
        fake.settle();
        assert_eq!(fake.blocked().is_some(), is_blocked, "after {lasted} s");
    }
    fake.snapshot.earlier_problem = None;
    fake.problem = None;
    fake.build();
    assert_eq!(fake.blocked().map(|(status, _)| status), Some("False".to_owned()));
}

#[test]
fn configs_that_cannot_be_built_are_reported() {
    type Spoil = fn(&mut FakeCluster);
    let rows: [(&str, Spoil, &str); 9] = [
        (
            "a push spec that no registry takes",
            |w| w.config().spec.rendered_image_push_spec = "quay.io/Acme/os:v1".to_owned(),
            "bad-machine-os-config",
        ),
        (
            "no tag",
            |w| w.config().spec.rendered_image_push_spec = "quay.io/acme/os".to_owned(),
            "bad-machine-os-config",
        ),
        (
            "no room for the name",
            |w| {
                w.config().spec.rendered_image_push_spec = format!("quay.io/{}:v1", "a".repeat(400))
            },
            "bad-machine-os-config",
        ),
        (
            "another builder type",
            |w| w.config().spec.image_builder.image_builder_type = "Pod".to_owned(),
            "bad-machine-os-config",
        ),
        ("another word", |w| w.annotate(labels::BUILD_ON, "always"), "bad-machine-os-config"),
        (
            "a nested repository",
            |w| {
                w.config().spec.rendered_image_push_spec = "quay.io/acme/team/os:v1".to_owned();
                w.snapshot.cluster.nested_digests_refused = true;
            },
            "nested-repository",
        ),
        (
            "a mixed pool",
            |w| w.nodes(&[("linux/amd64", &["a"]), ("linux/arm64", &["b"])]),
            "mixed-platforms",
        ),
        (
            "no node, and Containerfiles of architectures",
            |w| {
                w.snapshot.pool_platforms.clear();
                w.config().spec.container_file = vec![ContainerFile {
                    containerfile_arch: "ARM64".to_owned(),
                    content: "RUN true".to_owned(),
                }];
            },
            "no-node",
        ),
        (
            "a missing secret",
            |w| {
                w.problem =
                    Some(problem(ErrorClass::InvalidInput, "secret push is missing; create it"))
            },
            "problem",
        ),
    ];
    for (what, spoil, code) in rows {
        let mut fake = FakeCluster::opted_in();
        spoil(&mut fake);
        let decision = fake.settle();
        assert_eq!(decision.reason.code(), code, "{what}");
        assert!(fake.snapshot.builds.is_empty(), "{what}");
        assert_eq!(fake.blocked().unwrap().0, "True", "{what}");
        assert_eq!(fake.event_count(EventReason::ConfigReconcileFailed), 1, "{what}");
        fake.settle();
        assert_eq!(fake.event_count(EventReason::ConfigReconcileFailed), 1, "{what}: once");
    }
    let mut nested = FakeCluster::opted_in();
    nested.config().spec.rendered_image_push_spec = "quay.io/acme/team/os:v1".to_owned();
    nested.settle();
    assert_eq!(nested.blocked(), None, "our CRDs take it");
    let mut away = FakeCluster::opted_in();
    away.problem = Some(problem(ErrorClass::Transient, "no answer"));
    let decision = away.settle();
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(away.blocked(), None, "that passes");
}

#[test]
fn a_running_build_continues_when_only_nodes_change() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    let uid = fake.snapshot.builds[0].metadata.uid().to_owned();
    fake.nodes(&[("linux/amd64", &["a"]), ("linux/arm64", &["b"])]);
    assert_eq!(fake.settle().reason.code(), "mixed-platforms");
    assert_eq!(fake.blocked().unwrap().0, "True");
    fake.nodes(&[("linux/amd64", &[])]);
    fake.build();
    assert_eq!(fake.snapshot.builds[0].metadata.uid(), uid);
    assert_eq!(fake.blocked().unwrap().0, "False");
}

#[test]
fn a_tag_of_another_platform_is_refused_before_the_job() {
    let mut fake = FakeCluster::opted_in();
    fake.nodes(&[("linux/amd64", &[])]);
    fake.build();
    let image = fake.image().to_owned();
    fake.nodes(&[("linux/arm64", &[])]);
    fake.containerfile("RUN true");
    let PoolReason::Problem(problem) = fake.settle().reason else { panic!("{:?}", fake.blocked()) };
    assert_eq!(problem.reason, "tag-of-another-platform");
    let message = problem.message;
    assert!(message.contains("linux/amd64") && message.contains("linux/arm64"), "{message}");
    assert_eq!(fake.blocked().unwrap().0, "True");
    assert_eq!(fake.snapshot.builds.len(), 1, "no other build");
    // Nothing has the tag then.
    fake.images.remove(&image.parse().unwrap());
    fake.build();
    assert_ne!(fake.image(), image);
}

#[test]
fn a_node_of_another_platform_is_left_out_and_named() {
    let mut fake = FakeCluster::opted_in();
    let left_out = |fake: &FakeCluster| {
        let conditions = &fake.snapshot.config.as_ref().unwrap().status.conditions;
        condition(conditions, "MixedPlatforms").map(|one| (one.status.clone(), one.message.clone()))
    };
    let platform = |fake: &FakeCluster| {
        let builds = fake.snapshot.builds.iter();
        let newest = builds.max_by_key(|build| build.spec.machine_config.name.clone()).unwrap();
        newest.metadata.annotation(labels::PLATFORM).unwrap().to_owned()
    };
    fake.nodes(&[("linux/amd64", &["a", "b"]), ("linux/arm64", &["c"])]);
    fake.build();
    assert_eq!(platform(&fake), "linux/amd64", "that of most nodes");
    let (status, message) = left_out(&fake).unwrap();
    assert_eq!(status, "True");
    assert!(message.contains("these nodes get none: c (linux/arm64); take them"), "{message}");
    // The kubelets of two nodes can't change what the third one gets.
    fake.nodes(&[("linux/amd64", &["a"]), ("linux/arm64", &["b", "c"])]);
    fake.render(2);
    fake.build();
    assert_eq!(platform(&fake), "linux/amd64", "that of the image in service");
    fake.nodes(&[("linux/arm64", &[])]);
    fake.render(3);
    fake.build();
    assert_eq!(platform(&fake), "linux/arm64", "no other is left");
    assert_eq!(left_out(&fake).unwrap().0, "False");
}

#[test]
fn an_invalid_target_ends_what_runs_for_an_older_one() {
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    fake.problem = Some(problem(ErrorClass::InvalidInput, "no such extension"));
    fake.render(2);
    fake.settle();
    assert!(fake.snapshot.builds.is_empty());
    fake.problem = None;
    fake.build();
    assert_eq!(fake.blocked().unwrap().0, "False");
}

#[test]
fn a_problem_while_a_build_is_prepared_is_reported_until_it_is_solved() {
    let mut fake = FakeCluster::opted_in();
    fake.round(usize::MAX);
    fake.problem = Some(problem(ErrorClass::InvalidInput, "secret push is missing; create it"));
    let decision = fake.settle();
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(fake.blocked().unwrap(), ("True".to_owned(), INVALID_INPUT.to_owned()));
    fake.problem = None;
    fake.build();
    assert_eq!(fake.blocked().unwrap().0, "False");
}
