//! What commands show of a fake cluster.

use super::fleet::*;
use super::requests::{updated, view};
use super::stories::rolling;
use crate::*;
use mosb_api::labels;
use mosb_api::rollout::RolloutMode;

#[test]
fn builds_are_listed_with_where_they_are() {
    let mut fleet = updated("stage");
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    // The first build is deleted: the history still has its image.
    fleet.builds.retain(|build| build.metadata.name != pin(1).name);
    let views = build_views(&fleet.snapshot("worker"));
    let rows: Vec<_> = views
        .iter()
        .map(|one| {
            let on = (one.staged_on.len(), one.running_on.len());
            (&*one.build, one.in_service, one.pinned, on, one.state.as_deref())
        })
        .collect();
    let want = [
        ("build-2", true, false, (3, 0), Some("Succeeded")),
        ("build-1", false, true, (0, 3), None),
    ];
    let mut sorted = rows.clone();
    sorted.sort();
    sorted.reverse();
    assert_eq!(sorted, want);
    assert!(views.iter().all(|one| one.config.starts_with("rendered-worker-")));
    let times: Vec<_> = views.iter().map(|one| one.time).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "newest first: {times:?}");
}

#[test]
fn the_phase_of_a_pool_is_that_of_its_machines() {
    let off = Fleet::new(3);
    assert_eq!(view(&off).phase, RolloutPhase::Off);
    assert!(view(&off).message.contains("mosb rollout start worker"));
    let staged = updated("stage");
    let shown = view(&staged);
    assert_eq!((shown.phase, shown.mode), (RolloutPhase::Staged, RolloutMode::Stage));
    assert_eq!((shown.machines.staged, shown.machines.all, shown.behind.len()), (3, 3, 3));
    let done = updated("automatic");
    let shown = view(&done);
    assert_eq!((shown.phase, shown.behind.len()), (RolloutPhase::Updated, 0));
    assert_eq!((shown.machines.updated, shown.machines.ready), (3, 3));
    assert!(shown.conditions.iter().any(|one| one.kind == "Updated" && one.status == "True"));

    let mut empty = Fleet::new(0);
    empty.annotate(labels::ROLLOUT, "automatic");
    let shown = view(&empty);
    assert_eq!(shown.phase, RolloutPhase::Blocked, "a label may have a typing error");
    assert!(shown.message.contains("selects no machines"), "{}", shown.message);

    // What the conditions show of a stop.
    let mut fleet = rolling(3, "automatic");
    let mut snapshot = fleet.snapshot("worker");
    for (reason, want) in [
        ("NotEnabled", RolloutPhase::Blocked),
        ("PinNotFound", RolloutPhase::Blocked),
        ("MachineLost", RolloutPhase::Failed),
        ("MachinesFailed", RolloutPhase::Failed),
        ("RegistryFailed", RolloutPhase::Progressing),
    ] {
        snapshot.pool.status.conditions = vec![mosb_api::Condition {
            kind: "RolloutDegraded".to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: "because".to_owned(),
            ..Default::default()
        }];
        let shown = rollout_view(&snapshot, fleet.now);
        assert_eq!(shown.phase, want, "{reason}");
        assert!(shown.message.contains("because"), "{reason}: {}", shown.message);
    }
    fleet.annotate(labels::ROLLOUT_BUILD, "no digest");
    let shown = view(&fleet);
    assert_eq!(shown.phase, RolloutPhase::Blocked);
    assert!(shown.message.contains("mosb.dev/rollout-build"), "{}", shown.message);
}
