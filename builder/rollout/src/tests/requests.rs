//! What a roll-out does with what commands ask for.

use super::fleet::*;
use super::stories::{rolling, running};
use crate::*;
use mosb_api::rollout::PinnedBuild;
use mosb_api::{Metadata, labels};
use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};
use mosb_types::Diagnostic as _;
use serde_json::json;

fn undo(to: &str) -> RolloutRequest {
    RolloutRequest::Undo(Some(to.parse().unwrap()))
}

pub fn change(
    fleet: &Fleet,
    request: &RolloutRequest,
) -> Result<RolloutChange, RolloutRequestError> {
    let stock = image(STOCK_IMAGE).to_string();
    request.change(&fleet.snapshot("worker"), true, Some(&stock))
}

/// Writes a change as the command does.
pub fn carry_out(fleet: &mut Fleet, request: &RolloutRequest) -> RolloutChange {
    let change = change(fleet, request).unwrap();
    for (key, value) in &change.annotations {
        match value {
            Some(value) => fleet.annotate(key, value),
            None => {
                let config = fleet.configs.get_mut("worker").unwrap();
                config.metadata.annotations.remove(*key);
            }
        }
    }
    for retry in &change.retries {
        let version = fleet.next_version();
        let metadata = &mut fleet.node(&retry.node).machine.metadata;
        assert_eq!(metadata.resource_version(), retry.resource_version);
        metadata.annotations.remove(labels::NODE_FALLBACK);
        if let Some(slot) = &retry.slot {
            let slot = serde_json::to_string(slot).unwrap();
            metadata.annotations.insert(labels::NODE_SLOT.to_owned(), slot);
        }
        metadata.resource_version = Some(version);
    }
    if let Some(paused) = change.paused {
        fleet.pool().spec.paused = paused;
    }
    change
}

pub fn annotations(change: &RolloutChange) -> Vec<(&str, Option<&str>)> {
    change.annotations.iter().map(|(key, value)| (*key, value.as_deref())).collect()
}

pub fn view(fleet: &Fleet) -> RolloutView {
    rollout_view(&fleet.snapshot("worker"), fleet.now)
}

/// Build 1 was in service, build 2 is, and all machines run it.
pub fn updated(mode: &str) -> Fleet {
    let mut fleet = rolling(3, mode);
    fleet.settle();
    fleet
}

#[test]
fn start_rolls_out_once_what_is_in_service_unless_that_happens_anyway() {
    for mode in ["none", "stage"] {
        let mut fleet = Fleet::new(3);
        fleet.annotate(labels::ROLLOUT, mode);
        fleet.serve("worker", 2);
        let started = carry_out(&mut fleet, &RolloutRequest::Start);
        let two = pin(2).to_string();
        assert_eq!(annotations(&started), [(labels::ROLLOUT_ONCE, Some(&*two))], "{mode}");
        let question = started.question.unwrap();
        assert!(question.starts_with("3 machines of pool worker"), "{question}");
        let again = change(&fleet, &RolloutRequest::Start).unwrap();
        assert!(again.is_empty() && again.question.is_none(), "{again:?}");
        assert_eq!(view(&fleet).phase, RolloutPhase::Progressing);
        fleet.settle();
        assert_eq!((running(&fleet, 2), view(&fleet).phase), (3, RolloutPhase::Updated));
    }
    let fleet = updated("automatic");
    let needless = change(&fleet, &RolloutRequest::Start).unwrap();
    assert!(needless.is_empty() && needless.question.is_none());
    assert!(needless.notes[0].starts_with("nothing is needed"), "{needless:?}");
}

#[test]
fn undo_goes_back_by_one_and_stays_until_start() {
    for mode in ["automatic", "stage"] {
        let mut fleet = updated(mode);
        if mode == "stage" {
            carry_out(&mut fleet, &RolloutRequest::Start);
            fleet.settle();
        }
        assert_eq!(running(&fleet, 2), 3, "{mode}");
        let undone = carry_out(&mut fleet, &RolloutRequest::Undo(None));
        let one = pin(1).to_string();
        let mut want = vec![(labels::ROLLOUT_BUILD, Some(&*one))];
        if mode == "stage" {
            want.push((labels::ROLLOUT_ONCE, Some(&*one)));
        }
        assert_eq!(annotations(&undone), want, "{mode}");
        let twice = change(&fleet, &RolloutRequest::Undo(None)).unwrap();
        assert!(twice.is_empty(), "{mode}: {twice:?}");
        assert!(undone.question.is_some() && undone.notes[0].contains("pinned"), "{undone:?}");
        fleet.settle();
        assert_eq!(running(&fleet, 1), 3, "{mode}");
        let shown = view(&fleet);
        let target = shown.target.unwrap();
        assert_eq!((target.build, target.newer), (pin(1), Some(pin(2))), "{mode}");
        assert!(target.is_pinned && shown.phase == RolloutPhase::Updated, "{mode}");
        // It goes no further back, and a newer image does not get through.
        let again = change(&fleet, &RolloutRequest::Undo(None)).unwrap();
        assert!(again.is_empty(), "{mode}: {again:?}");
        fleet.serve("worker", 3);
        fleet.settle();
        assert_eq!(running(&fleet, 1), 3, "{mode}");
        // Start takes the pin away.
        let started = carry_out(&mut fleet, &RolloutRequest::Start);
        assert_eq!(started.annotations[labels::ROLLOUT_BUILD], None, "{mode}");
        assert!(started.notes[0].contains("no longer pinned"), "{started:?}");
        fleet.settle();
        assert_eq!(running(&fleet, 3), 3, "{mode}");
    }
}

#[test]
fn undo_to_what_all_machines_run_already_is_written_once() {
    let mut fleet = rolling(3, "stage");
    fleet.settle();
    assert_eq!(running(&fleet, 1), 3);
    assert!(!carry_out(&mut fleet, &RolloutRequest::Undo(None)).is_empty());
    let twice = change(&fleet, &RolloutRequest::Undo(None)).unwrap();
    assert!(twice.is_empty(), "{twice:?}");
}

/// The build that an undo pins the pool to.
fn undone(fleet: &Fleet) -> Option<PinnedBuild> {
    change(fleet, &RolloutRequest::Undo(None)).unwrap().build
}

#[test]
fn undo_goes_to_an_image_that_the_machines_ran_and_not_to_one_that_was_undone() {
    // Machines run 1; 2 and 3 come into service, and only 3 is rolled out.
    let mut fleet = Fleet::new(3);
    fleet.annotate(labels::ROLLOUT, "none");
    fleet.settle();
    for number in [2, 3] {
        fleet.serve("worker", number);
        fleet.settle();
    }
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!(running(&fleet, 3), 3);
    assert_eq!(undone(&fleet), Some(pin(1)), "2 was never on a machine");

    // 3 is taken back, and then 4 is bad as well.
    carry_out(&mut fleet, &RolloutRequest::Undo(None));
    fleet.settle();
    fleet.serve("worker", 4);
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((running(&fleet, 4), undone(&fleet)), (3, Some(pin(1))), "3 was undone");

    // Pinned to an older image by name: an undo is not a step forward.
    carry_out(&mut fleet, &undo(&pin(2).to_string()));
    fleet.settle();
    let again = change(&fleet, &RolloutRequest::Undo(None)).unwrap();
    assert!(again.is_empty() && again.notes[0].contains("--to"), "{again:?}");
    assert_eq!((running(&fleet, 2), again.build), (3, Some(pin(2))));
}

#[test]
fn one_lying_report_does_not_choose_where_undo_goes() {
    // Machines run 1; 2 and 3 come into service and are only staged.
    for liars in [1, 2] {
        let mut fleet = rolling(3, "stage");
        fleet.settle();
        for node in ["w0", "w1"].iter().take(liars) {
            fleet.node(node).reboot();
            fleet.node(node).boot_up();
        }
        fleet.settle();
        fleet.serve("worker", 3);
        fleet.settle();
        let asked = change(&fleet, &RolloutRequest::Undo(None)).unwrap();
        if liars == 1 {
            assert_eq!(asked.build, Some(pin(1)));
            let question = asked.question.unwrap();
            assert!(question.contains("these report another image: w0;"), "{question}");
        } else {
            // More than one machine reports it.
            assert_eq!(asked.build, Some(pin(2)));
        }
    }
}

#[test]
fn undo_in_the_middle_goes_back_to_what_ran_before() {
    let mut fleet = rolling(3, "automatic");
    while running(&fleet, 2) < 1 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    assert_eq!(undone(&fleet), Some(pin(1)));
    carry_out(&mut fleet, &RolloutRequest::Undo(None));
    fleet.settle();
    assert_eq!(running(&fleet, 1), 3);
    fleet.serve("worker", 3);
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((running(&fleet, 3), undone(&fleet)), (3, Some(pin(1))));
}

#[test]
fn undo_takes_a_build_by_name_or_digest_and_the_stock_image_by_digest() {
    let mut fleet = updated("automatic");
    // A rebuild: build 1 again, with the image that number 4 has.
    let mut rebuilt = fleet.builds[0].clone();
    rebuilt.status.digested_image_push_spec = image(4).to_string();
    fleet.builds[0] = rebuilt;
    let pinned = |to: &str| change(&fleet, &undo(to)).map(|change| change.build.unwrap());
    assert_eq!(pinned("build-2"), Ok(pin(2)));
    let first = pin(1).to_string();
    assert_eq!(pinned(&first), Ok(pin(1)), "only the history has it");
    let code = |to: &str| pinned(to).unwrap_err().code();
    assert_eq!(code("build-1"), "several-images");
    assert_eq!(code("build-9"), "no-such-build");
    assert_eq!(
        code(&PinnedBuild { name: "build-2".to_owned(), ..pin(1) }.to_string()),
        "no-such-build"
    );
    assert_eq!(pinned("stock"), Ok(pin(STOCK_IMAGE)));
    assert_eq!(pinned(&pin(STOCK_IMAGE).to_string()), Ok(pin(STOCK_IMAGE)));
    let other = PinnedBuild { name: "stock".to_owned(), ..pin(1) };
    assert_eq!(code(&other.to_string()), "no-stock-digest");

    let snapshot = fleet.snapshot("worker");
    let tagged = |to: &str| undo(to).change(&snapshot, true, Some("reg.example/base:stable"));
    let error = tagged("stock").unwrap_err().to_string();
    assert!(error.contains("mosb inspect reg.example/base:stable"), "{error}");
    let given = tagged(&pin(STOCK_IMAGE).to_string()).unwrap();
    assert_eq!(given.build, Some(pin(STOCK_IMAGE)));
    let missing = undo("stock").change(&snapshot, true, None).unwrap_err();
    assert_eq!(missing.code(), "no-stock-digest");
    for wrong in ["", "Build", "build-1@", "build-1@sha256:00", "a b"] {
        assert!(wrong.parse::<UndoTo>().is_err(), "{wrong:?}");
    }

    // The machines get it.
    carry_out(&mut fleet, &undo("stock"));
    fleet.settle();
    assert_eq!(running(&fleet, STOCK_IMAGE), 3);
    let shown = view(&fleet);
    assert_eq!((shown.phase, shown.target.unwrap().build), (RolloutPhase::Updated, pin(0)));
}

#[test]
fn a_pause_lets_nothing_begin_and_resume_asks_about_what_is_behind() {
    let mut fleet = rolling(3, "automatic");
    let paused = carry_out(&mut fleet, &RolloutRequest::Pause);
    assert_eq!((paused.paused, paused.question.is_none()), (Some(true), true));
    assert!(change(&fleet, &RolloutRequest::Pause).unwrap().is_empty());
    fleet.settle();
    let shown = view(&fleet);
    assert_eq!((running(&fleet, 1), shown.phase), (3, RolloutPhase::Paused));
    assert!(shown.message.contains("mosb rollout resume worker"), "{}", shown.message);
    // Nothing reboots before the pause ends, so nobody is asked.
    let undone = change(&fleet, &undo(&pin(2).to_string())).unwrap();
    assert!(undone.question.is_none() && undone.notes[0].contains("paused"), "{undone:?}");
    let resumed = carry_out(&mut fleet, &RolloutRequest::Resume);
    assert!(resumed.question.unwrap().contains("at most 1 at once"));
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3);
    assert!(change(&fleet, &RolloutRequest::Resume).unwrap().is_empty());
    carry_out(&mut fleet, &RolloutRequest::Pause);
    let harmless = change(&fleet, &RolloutRequest::Resume).unwrap();
    assert_eq!(harmless.question, None, "all machines run it");
}

#[tokio::test]
async fn undo_to_stock_needs_no_config_of_a_machine() {
    let mut fleet = updated("automatic");
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_CURRENT_CONFIG.to_owned(), "old".to_owned());
    let os_image = image(STOCK_IMAGE).to_string();
    let api = FakeApi::new(move |request| {
        if request.path.ends_with("/machineconfigs/old") {
            return FakeAnswer::failure(403);
        }
        let spec = json!({ "osImageURL": os_image });
        json!({ "metadata": { "name": "x" }, "spec": spec }).into()
    });
    let change = decide_request(&api.client, &fleet.snapshot("worker"), &undo("stock")).await;
    let change = change.unwrap().unwrap();
    assert_eq!(change.build, Some(pin(STOCK_IMAGE)));
    let note = change.notes.iter().find(|note| note.contains("machineconfig old")).unwrap();
    assert!(note.contains("is not known"), "{note}");
}

#[test]
fn requests_that_nobody_would_carry_out_are_refused() {
    let requests = [RolloutRequest::Start, RolloutRequest::Pause, RolloutRequest::Resume];
    for request in requests.iter().chain([&RolloutRequest::Undo(None), &undo("stock")]) {
        let code = |snapshot: &RolloutSnapshot, is_enabled| {
            let error = request.change(snapshot, is_enabled, None).unwrap_err();
            assert!(error.to_string().contains("worker"), "{error}");
            error.code()
        };
        let snapshot = Fleet::new(1).snapshot("worker");
        assert_eq!(code(&snapshot, false), "rollout-not-enabled", "{request:?}");
        let none = RolloutSnapshot { config: None, ..snapshot.clone() };
        assert_eq!(code(&none, true), "not-opted-in", "{request:?}");
        let rivals = vec![Metadata::default(), Metadata::default()];
        let rivals = RolloutSnapshot { rivals, ..none.clone() };
        assert_eq!(code(&rivals, true), "rivals", "{request:?}");
        let other = Some("Deployment mcc".to_owned());
        let other = RolloutSnapshot { other_controller: other, ..none };
        assert_eq!(code(&other, true), "other-rollout", "{request:?}");
    }
    let mut fleet = Fleet::new(1);
    fleet.configs.get_mut("worker").unwrap().status = Default::default();
    let code = |request| change(&fleet, &request).unwrap_err().code();
    assert_eq!(code(RolloutRequest::Start), "nothing-in-service");
    assert_eq!(code(RolloutRequest::Undo(None)), "no-earlier-build");
    fleet.annotate(labels::ROLLOUT, "Automatic");
    let snapshot = fleet.snapshot("worker");
    let error = undo("stock").change(&snapshot, true, Some(&image(0).to_string())).unwrap_err();
    assert_eq!(error.code(), "bad-annotation");
}

#[test]
fn undo_to_an_image_out_of_service_is_refused() {
    let mut fleet = updated("automatic");
    let mut held = fleet.builds[1].clone();
    held.metadata.name = pin(7).name;
    held.metadata.annotations.remove(labels::STAGE);
    held.status.digested_image_push_spec = image(7).to_string();
    fleet.builds.push(held);
    let error = change(&fleet, &undo(&pin(7).name)).unwrap_err();
    assert_eq!(error.code(), "not-in-service");
    assert!(error.to_string().contains("its checks are outstanding"), "{error}");
}
