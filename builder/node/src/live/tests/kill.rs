//! A command that was killed anywhere is run again.

use super::machine::*;
use crate::live::live_plan::{LivePlan, Step};
use crate::report::is_live_incomplete;
use mosb_api::rollout::NodeTarget;

/// Runs the first steps of a plan only, then what comes next, for each number of steps.
fn killed_anywhere(
    what: &str,
    prepare: impl Fn(&Fixture),
    then: impl Fn(&Fixture, usize, &[Step<'_>]),
) {
    let total = Fixture::new(BEFORE, AFTER).live(BOOT).steps().len();
    assert!(total > 8, "{what}: {total}");
    for done in 0..=total {
        let machine = Fixture::new(BEFORE, AFTER);
        prepare(&machine);
        let plan = machine.live(BOOT);
        let steps = plan.steps();
        for step in &steps[..done] {
            plan.carry_out(&machine.root, step).unwrap();
        }
        // A write that was killed.
        if let Some(Step::Entry(path)) = steps.get(done)
            && let Some(folder) = machine.at("etc").join(path).parent()
            && folder.is_dir()
        {
            put(&machine.at("etc").join(format!("{path}.mosb-new")), "half");
        }
        then(&machine, done, &steps);
    }
}

#[test]
fn a_killed_apply_is_run_again() {
    killed_anywhere(
        "again",
        |_| (),
        |machine, done, _| {
            let (a, b) = (reports_incomplete(machine, "a"), reports_incomplete(machine, "b"));
            assert_eq!((a, b), (done > 0, done > 0), "killed after {done}");
            assert_eq!(machine.apply(LATER), Some(true), "killed after {done}");
            // The target is recorded after its files.
            let (a, b) = (reports_incomplete(machine, "a"), reports_incomplete(machine, "b"));
            assert_eq!((a, b), (true, false), "killed after {done}");
            assert_eq!(machine.etc(), machine.image_etc("b"), "killed after {done}");
            assert!(machine.record().unwrap().has_all(digest("b"), LATER));
            assert_eq!(machine.apply(LATER), None);
        },
    );
    killed_anywhere(
        "back",
        |_| (),
        |machine, done, _| {
            let restored = machine.restore();
            assert_eq!(restored, (done > 0).then_some(true), "killed after {done}");
            assert_eq!(machine.etc(), machine.image_etc("a"), "killed after {done}");
            assert_eq!(machine.record(), None);
            assert!(!reports_incomplete(machine, "a"), "killed after {done}");
        },
    );
}

/// Whether a machine whose last target has this image reports that it has other files.
fn reports_incomplete(machine: &Fixture, image: &str) -> bool {
    let image = format!("reg.example/os@{}", digest(image));
    let target: NodeTarget = serde_json::from_value(serde_json::json!({ "image": image })).unwrap();
    is_live_incomplete(&machine.root, Some(&target), LATER).unwrap()
}

#[test]
fn a_killed_return_is_run_again() {
    let total = {
        let machine = Fixture::new(BEFORE, AFTER);
        machine.apply(BOOT);
        live(LivePlan::to_booted(&machine.root, digest("a"), BOOT).unwrap().unwrap()).steps().len()
    };
    for done in 0..=total {
        for back in [true, false] {
            let machine = Fixture::new(BEFORE, AFTER);
            machine.apply(BOOT);
            let plan =
                live(LivePlan::to_booted(&machine.root, digest("a"), BOOT).unwrap().unwrap());
            for step in &plan.steps()[..done] {
                plan.carry_out(&machine.root, step).unwrap();
            }
            assert!(done == 0 || !machine.record().unwrap().has_all(digest("b"), BOOT));
            let (done_again, image) =
                if back { (machine.restore(), "a") } else { (machine.apply(BOOT), "b") };
            assert_eq!(done_again, (back || done > 0).then_some(true), "{done} {back}");
            assert_eq!(machine.etc(), machine.image_etc(image), "{done} {back}");
        }
    }
}
