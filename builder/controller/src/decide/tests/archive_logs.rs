//! What a pod said is kept before nobody can ask it any more.

use super::rows::is_idle;
use super::world::*;
use crate::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;
use serde_json::json;

/// A build whose pod runs.
fn running() -> World {
    let mut world = World::opted_in();
    world.settle();
    world.run();
    world.settle();
    assert_eq!(world.logs, [], "while it runs it can be asked");
    world
}

/// The place of a step among those of the next decision.
fn place(world: &mut World, is: impl Fn(&Action) -> bool) -> Option<usize> {
    world.decide().actions.iter().position(is)
}

#[test]
fn before_a_job_goes_and_before_a_build_is_told_to_have_failed() {
    let evicted = json!({ "reason": "Evicted", "message": "low on memory",
        "containerStatuses": [{ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 137 } } }] });
    type End = Box<dyn Fn(&mut World)>;
    let ends: [(&str, End); 4] = [
        ("succeeded", Box::new(World::succeed)),
        ("failed", Box::new(|world| world.tell(failed(ErrorClass::Rejected)))),
        ("evicted", Box::new(move |world| world.lose("BackoffLimitExceeded", evicted.clone()))),
        ("to be built with the Containerfile", Box::new(|world| world.tell(needs_containerfile()))),
    ];
    for (what, end) in ends {
        let mut world = running();
        let uid = world.current().metadata.uid().to_owned();
        end(&mut world);
        // Wherever it is killed: what was to be kept is kept before it matters.
        let keeps = |action: &Action| matches!(action, Action::ArchiveLogs(_));
        let kept = place(&mut world, keeps).expect(what);
        let matters = |action: &Action| match action {
            Action::DeleteRunner { .. } | Action::AnnotateBuild(_) => true,
            Action::WriteBuildStatus { status, .. } => {
                status.is_terminal() && status.image().is_none()
            }
            _ => false,
        };
        assert!(place(&mut world, matters).is_some_and(|at| kept < at), "{what}");
        world.round(kept + 1);
        world.settle();
        // Once, or again where the rest was not done.
        assert!(!world.logs.is_empty() && world.logs.len() <= 2, "{what}");
        assert!(world.logs.iter().all(|kept| *kept == (uid.clone(), 1)), "{what}");
        let count = world.logs.len();
        world.settle();
        assert_eq!(world.logs.len(), count, "{what}");
    }
}

#[test]
fn a_pod_that_said_nothing_leaves_nothing() {
    let mut world = World::opted_in();
    world.settle();
    world.lose("BackoffLimitExceeded", json!({ "phase": "Failed" }));
    world.settle();
    assert_eq!(world.logs, []);
    let mut world = World::built();
    assert_eq!(world.logs.len(), 1);
    is_idle(&mut world);
    world.annotate(labels::REBUILD, "");
    world.build();
    assert_eq!(world.logs.len(), 2);
    assert_ne!(world.logs[0].0, world.logs[1].0, "another build");
}
