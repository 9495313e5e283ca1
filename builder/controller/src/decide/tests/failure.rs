//! What goes wrong (reference §8.3, failure, interruption, recovery).

use super::rows::{degraded, is_idle};
use super::world::*;
use crate::status::EventReason;
use crate::workload::InputKind;
use crate::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;
use serde_json::json;
use std::time::Duration;

use BuildCondition::{Building, Failed, Succeeded};

#[test]
fn a_run_line_that_failed_is_tried_again_only_where_the_settings_say_so() {
    let mut world = World::opted_in();
    world.seen.cluster.run_retries = 1;
    world.settle();
    world.run();
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    let decision = world.settle();
    assert_eq!(decision.reason.code(), "waiting", "{}", decision.reason);
    assert_eq!(decision.requeue_after, Some(Duration::from_secs(30)));
    assert_eq!(world.state(), Some(Building));
    let failures = world.current().metadata.annotation(labels::FAILURES);
    assert_eq!(failures, Some("1"));
    // A controller that starts anew finds all of it on the build.
    world.wait(31);
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    world.settle();
    assert_eq!(world.state(), Some(Failed), "the one retry was spent");
    is_idle(&mut world);
}

#[test]
fn a_digest_is_not_believed() {
    let mut world = World::opted_in();
    world.settle();
    world.succeed();
    world.registry_problem = Some(problem(ErrorClass::Transient, "the registry does not answer"));
    assert_eq!(world.settle().reason.to_string(), "the registry does not answer");
    assert_eq!((world.state(), world.image()), (Some(Building), ""));
    world.registry_problem = None;
    let images = std::mem::take(&mut world.images);
    world.round(usize::MAX);
    assert_eq!(world.image(), "");
    assert_eq!(world.decide().reason.code(), "waiting", "the registry has none");
    world.images = images;
    world.build();
    assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 2));
}

/// Each kind is watched by a connection of its own: that of the results may stand still while the Job is seen to end.
#[test]
fn a_success_that_no_watch_has_shown_is_no_loss() {
    for reason in ["BackoffLimitExceeded", "DeadlineExceeded"] {
        let mut world = World::opted_in();
        world.settle();
        world.run();
        world.settle();
        world.succeed();
        let told = world.seen.results.pop_first().map(|(_, result)| result);
        world.unseen = told;
        world.lose(reason, json!({}));
        world.api_problem = Some(problem(ErrorClass::Transient, "the API server did not answer"));
        let decision = world.settle();
        assert_eq!(decision.reason.to_string(), "the API server did not answer");
        assert_eq!(world.state(), Some(Building), "{reason}");
        world.api_problem = None;
        world.settle();
        assert_eq!((world.state(), world.made.len()), (Some(Succeeded), 1), "{reason}");
        assert_eq!(world.told(EventReason::JobFailed), 0, "{reason}");
    }
}

#[test]
fn a_problem_is_reported_once_whatever_its_words_are() {
    let mut world = World::opted_in();
    let refused =
        |words: &str| Some(problem(ErrorClass::Rejected, &format!("registry.test/os:1: {words}")));
    world.problem = refused("correlation 1");
    let events = |world: &mut World| -> Vec<String> {
        let actions = world.decide().actions;
        let names = actions.iter().filter_map(|action| match action {
            Action::Event(event) => Some(event.name.clone()),
            _ => None,
        });
        names.collect()
    };
    let first = events(&mut world);
    world.settle();
    let message = |world: &World| {
        let conditions = &world.seen.config.as_ref().unwrap().status.conditions;
        let blocked = condition(conditions, crate::status::BLOCKED).unwrap();
        blocked.message.clone()
    };
    assert_eq!(message(&world), "registry.test/os:1: correlation 1");
    world.seen.earlier_problem = Some(EarlierProblem {
        cause: world.problem.as_ref().unwrap().cause(),
        lasted: std::time::Duration::from_secs(1),
    });
    world.problem = refused("correlation 2");
    assert_eq!(world.decide().actions, [], "in other words");

    // The inputs changed, so that the engine does not compare.
    world.seen.earlier_problem = None;
    let told = events(&mut world);
    assert_eq!((told.len(), &told), (1, &first), "named by the cause");
    world.problem = refused("correlation 3");
    assert_eq!(events(&mut world), told, "in any words");
    world.problem = Some(problem(ErrorClass::Rejected, "registry.test/other:1: refused"));
    assert_ne!(events(&mut world), told, "another object");
    world.settle();
    assert_eq!(message(&world), "registry.test/other:1: refused");
}

#[test]
fn a_problem_that_may_pass_is_reported_when_it_does_not() {
    let mut world = World::opted_in();
    world.problem = Some(problem(ErrorClass::Transient, "registry.test: no answer in time"));
    world.settle();
    assert_eq!(world.blocked(), None);
    for (lasted, is_blocked) in [(59, false), (60, true)] {
        world.seen.earlier_problem = Some(EarlierProblem {
            cause: world.problem.as_ref().unwrap().cause(),
            lasted: std::time::Duration::from_secs(lasted),
        });
        world.settle();
        assert_eq!(world.blocked().is_some(), is_blocked, "after {lasted} s");
    }
    world.seen.earlier_problem = None;
    world.problem = None;
    world.build();
    assert_eq!(world.blocked().map(|(status, _)| status), Some("False".to_owned()));
}

#[test]
fn rows_31_32_39_what_failed_is_kept_until_something_changes() {
    let mut world = World::built();
    world.containerfile("RUN dnf install usbguard");
    world.settle();
    let image = world.image().to_owned();
    world.run();
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    assert_eq!(world.settle().reason.code(), "failed");
    assert_eq!(world.state(), Some(Failed));
    assert_eq!((world.seen.runners.len(), world.seen.inputs.len()), (1, 3), "row 31");
    assert_eq!(world.degraded(), degraded("True", "BuildFailed"));
    assert_eq!(world.image(), image, "the last good one");
    let status = &world.current().status;
    let message = &condition(&status.conditions, "Failed").unwrap().message;
    assert_eq!(
        message,
        "image-build: dnf ended with 1 (program-failed)\nIts last lines:\nno package usbguard"
    );
    let (_, note) =
        world.events.iter().find(|(reason, _)| *reason == EventReason::BuildFailed).unwrap();
    assert!(note.contains("kubectl -n ns logs job/build-worker-"), "{note}");
    assert_eq!(world.told(EventReason::BuildDegraded), 1);
    is_idle(&mut world);
    world.wait(100_000);
    is_idle(&mut world);

    let old = world.current().metadata.uid.clone();
    world.containerfile("RUN true");
    world.settle();
    assert_ne!(world.current().metadata.uid, old, "row 32");
    assert_eq!(
        (world.seen.runners.len(), world.seen.inputs.len(), world.seen.builds.len()),
        (1, 3, 2)
    );
    assert_eq!(world.degraded(), degraded("False", "Building"), "row 34");
    world.run();
    world.settle();
    world.succeed();
    world.settle();
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    is_idle(&mut world);
}

#[test]
fn rows_33_34_a_wrong_containerfile_fails_without_a_job() {
    let mut world = World::opted_in();
    world.containerfile("FRO scratch");
    world.bad_containerfile = true;
    world.settle();
    assert_eq!((world.state(), world.made.len()), (Some(Failed), 0));
    assert_eq!(world.degraded(), degraded("True", "BuildFailed"));
    let name = world.current().metadata.name.clone();
    let pool = world.seen.pool.as_ref().unwrap();
    let told = &condition(&pool.status.conditions, "ImageBuildDegraded").unwrap().message;
    for part in ["pool worker", &name, "line 1: FRO is no instruction"] {
        assert!(told.contains(part), "{told}");
    }
    is_idle(&mut world);
    world.bad_containerfile = false;
    world.containerfile("FROM scratch");
    world.settle();
    assert_eq!(world.degraded(), degraded("False", "Building"));
    world.build();
    assert_eq!(world.degraded(), degraded("False", "BuildSuccess"));
    assert_eq!(world.seen.builds.len(), 1);
    assert_eq!(world.told(EventReason::BuildRecovered), 0, "it was building since");
}

#[test]
fn rows_35_36_what_is_taken_away_is_made_again() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory" });
    let lost = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager" }] });
    type Take = Box<dyn Fn(&mut World)>;
    let takes: [(&str, Take, EventReason); 3] = [
        ("a deleted runner", Box::new(World::delete_runner), EventReason::JobDeleted),
        (
            "an evicted pod",
            Box::new(move |world| world.lose("BackoffLimitExceeded", evicted.clone())),
            EventReason::JobFailed,
        ),
        (
            "a lost node",
            Box::new(move |world| world.lose("BackoffLimitExceeded", lost.clone())),
            EventReason::JobFailed,
        ),
    ];
    let by_each = ImageBuilderType::ALL.map(|builder| takes.each_ref().map(|row| (builder, row)));
    for (builder, (what, take, told)) in by_each.into_iter().flatten() {
        let (what, told) = (format!("{builder}: {what}"), *told);
        let mut world = World::built_by(builder);
        world.settle();
        let uid = world.current().metadata.uid.clone();
        for n in 1..12 {
            world.run();
            world.settle();
            take(&mut world);
            let decision = world.settle();
            assert_eq!(decision.reason.code(), "waiting", "{what}");
            assert_eq!(world.state(), Some(Building), "{what}");
            assert_eq!(world.told(told), n, "{what}");
            assert!(world.seen.runners.is_empty(), "{what}");
            let pause = decision.requeue_after.expect("it is tried again").as_secs();
            assert!(pause <= 300, "{what}: {pause}");
            world.wait(pause as i64 + 1);
            world.settle();
            let attempt = world.current().metadata.annotation(labels::ATTEMPT).map(str::to_owned);
            assert_eq!(attempt, Some((n + 1).to_string()), "{what}");
        }
        world.build();
        assert_eq!(
            (world.state(), &world.current().metadata.uid),
            (Some(Succeeded), &uid),
            "{what}"
        );
    }
}

#[test]
fn a_clock_that_was_set_back_is_not_waited_for() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory" });
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.settle();
    world.lose("BackoffLimitExceeded", evicted);
    assert_eq!(world.settle().reason.code(), "waiting");
    world.wait(-3600);
    world.settle();
    assert_eq!(world.seen.runners.len(), 1, "the next attempt");
    let attempt = world.current().metadata.annotation(labels::ATTEMPT);
    assert_eq!(attempt, Some("2"));
}

#[test]
fn a_fault_is_tried_again_as_its_class_says() {
    let oom = json!({ "containerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] });
    type Fail = Box<dyn Fn(&mut World)>;
    let told = |class| -> Fail { Box::new(move |world: &mut World| world.tell(failed(class))) };
    let lost = |reason: &'static str, pod: serde_json::Value| -> Fail {
        Box::new(move |world: &mut World| world.lose(reason, pod.clone()))
    };
    // How many there are in the end: pods of ours tell why, Builds hardly.
    let rows = [
        ("a user's error", told(ErrorClass::InvalidInput), [1, 1]),
        ("the build itself", told(ErrorClass::Rejected), [1, 1]),
        ("our error", told(ErrorClass::Internal), [2, 3]),
        ("a registry that is away", told(ErrorClass::Transient), [20, 3]),
        ("a hung build", lost("DeadlineExceeded", json!({})), [1, 1]),
        ("out of memory", lost("BackoffLimitExceeded", oom), [2, 2]),
        ("silent", lost("BackoffLimitExceeded", json!({ "phase": "Failed" })), [3, 3]),
    ];
    let by_each = ImageBuilderType::ALL.map(|builder| rows.each_ref().map(|row| (builder, row)));
    for (builder, (what, fail, runners)) in by_each.into_iter().flatten() {
        let what = format!("{builder}: {what}");
        let runners = runners[usize::from(builder == ImageBuilderType::OpenShiftImage)];
        let mut world = World::built_by(builder);
        for _ in 0..20 {
            let decision = world.settle();
            if let Some(pause) = decision.requeue_after {
                world.wait(pause.as_secs() as i64 + 1);
                world.settle();
            }
            if world.current().status.is_terminal() {
                break;
            }
            world.run();
            world.settle();
            fail(&mut world);
        }
        world.settle();
        assert_eq!(world.made.len(), runners, "{what}");
        assert_eq!(world.current().status.is_terminal(), runners < 20, "{what}");
    }
}

#[test]
fn row_38_a_deleted_build_is_made_again() {
    for ends in [false, true] {
        let mut world = World::opted_in();
        match ends {
            true => _ = world.build(),
            false => _ = world.settle(),
        }
        let old = world.current().metadata.clone();
        world.delete_build(&old.name);
        world.settle();
        assert_eq!(world.current().metadata.name, old.name);
        assert_ne!(world.current().metadata.uid, old.uid);
        assert_eq!(world.made.len(), 2);
        world.build();
        assert_eq!(world.state(), Some(Succeeded));
    }
}

#[test]
fn what_can_t_be_built_is_told() {
    type Spoil = fn(&mut World);
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
                w.seen.cluster.nested_digests_refused = true;
            },
            "nested-repository",
        ),
        (
            "a mixed pool",
            |w| _ = w.seen.pool_platforms.insert("linux/arm64".parse().unwrap()),
            "mixed-platforms",
        ),
        (
            "no node, and Containerfiles of architectures",
            |w| {
                w.seen.pool_platforms.clear();
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
        let mut world = World::opted_in();
        spoil(&mut world);
        let decision = world.settle();
        assert_eq!(decision.reason.code(), code, "{what}");
        assert!(world.seen.builds.is_empty(), "{what}");
        assert_eq!(world.blocked().unwrap().0, "True", "{what}");
        assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1, "{what}");
        world.settle();
        assert_eq!(world.told(EventReason::ConfigReconcileFailed), 1, "{what}: once");
    }
    let mut nested = World::opted_in();
    nested.config().spec.rendered_image_push_spec = "quay.io/acme/team/os:v1".to_owned();
    nested.settle();
    assert_eq!(nested.blocked(), None, "our CRDs take it");
    let mut away = World::opted_in();
    away.problem = Some(problem(ErrorClass::Transient, "no answer"));
    let decision = away.settle();
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(away.blocked(), None, "that passes");
}

#[test]
fn what_runs_goes_on_where_only_nodes_went_or_came() {
    let mut world = World::opted_in();
    world.settle();
    let uid = world.seen.builds[0].metadata.uid().to_owned();
    let other = "linux/arm64".parse().unwrap();
    world.seen.pool_platforms.insert(other);
    assert_eq!(world.settle().reason.code(), "mixed-platforms");
    assert_eq!(world.blocked().unwrap().0, "True");
    world.seen.pool_platforms.pop_last();
    world.build();
    assert_eq!(world.seen.builds[0].metadata.uid(), uid);
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_wrong_wish_ends_what_runs_for_an_older_one() {
    let mut world = World::opted_in();
    world.settle();
    world.problem = Some(problem(ErrorClass::InvalidInput, "no such extension"));
    world.render(2);
    world.settle();
    assert!(world.seen.builds.is_empty());
    world.problem = None;
    world.build();
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn a_problem_while_a_build_is_prepared_is_told_and_stays_told() {
    let mut world = World::opted_in();
    world.round(usize::MAX);
    world.problem = Some(problem(ErrorClass::InvalidInput, "secret push is missing; create it"));
    let decision = world.settle();
    assert_eq!(decision.reason.code(), "problem");
    assert_eq!(world.blocked().unwrap(), ("True".to_owned(), "Problem".to_owned()));
    world.problem = None;
    world.build();
    assert_eq!(world.blocked().unwrap().0, "False");
}

#[test]
fn what_is_not_ours_stays_in_the_way() {
    let mut world = World::opted_in();
    while world.seen.runners.is_empty() {
        world.round(usize::MAX);
    }
    let name = format!("mc-{}", world.seen.builds[0].metadata.name);
    world.seen.inputs.push(SeenInput {
        kind: InputKind::ConfigMap,
        name: name.clone(),
        uid: "theirs".to_owned(),
        runner_uid: String::new(),
        build: "another".to_owned(),
        going_away: false,
    });
    let decision = world.settle();
    assert!(decision.reason.to_string().starts_with(&format!("ConfigMap {name} ")));
    assert_eq!(world.blocked().unwrap().0, "True");
    assert!(world.seen.inputs.iter().any(|one| one.uid == "theirs"));
}

#[test]
fn another_jobs_leftovers_go_first() {
    let mut world = World::opted_in();
    while world.seen.runners.is_empty() {
        world.round(usize::MAX);
    }
    let name = world.seen.builds[0].metadata.name.clone();
    world.seen.inputs.push(SeenInput {
        kind: InputKind::Secret,
        name: format!("final-{name}"),
        uid: "old".to_owned(),
        runner_uid: "an older Job".to_owned(),
        build: name,
        going_away: false,
    });
    world.build();
    assert_eq!(world.state(), Some(Succeeded));
}

/// The build of control-plane machines waits for one of them, says so, and never counts the time.
#[test]
fn a_build_waits_for_a_control_plane_node() {
    let mut world = World::opted_in();
    world.seen.build_nodes = BuildNodes::ControlPlane { exists: false };
    let decision = world.settle();
    assert_eq!(decision.reason.code(), "no-control-plane-node");
    assert!(world.seen.runners.is_empty(), "nothing runs");
    let blocked = ("True".to_owned(), "NoControlPlaneNode".to_owned());
    assert_eq!(world.blocked(), Some(blocked.clone()));

    world.seen.build_nodes = BuildNodes::ControlPlane { exists: true };
    world.settle();
    let cordoned = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/2 nodes are available" }] });
    world.pod_is(cordoned.clone());
    assert_eq!(world.settle().reason.code(), "no-control-plane-node");
    assert_eq!(world.blocked(), Some(blocked));

    // The same of any other pool is no more than said.
    let mut other = world.clone();
    other.seen.build_nodes = BuildNodes::Any;
    assert_eq!(other.settle().reason.code(), "pending");

    world.run();
    world.settle();
    world.succeed();
    world.build();
    let unblocked = ("False".to_owned(), "AsExpected".to_owned());
    assert_eq!(world.blocked(), Some(unblocked));
    assert_eq!(world.state(), Some(Succeeded));
}
