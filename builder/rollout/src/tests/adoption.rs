//! Which Jobs let a machine adopt what its first config wrote, and what is shown of its files.

use super::requests::{annotations, carry_out, change};
use super::stories::{rolling, running};
use crate::RolloutEffect;
use crate::effect::Action;
use crate::*;
use mosb_api::labels;

#[test]
fn machines_adopt_before_they_reboot_once_somebody_asks_for_it() {
    for asks in [false, true] {
        let mut fleet = rolling(2, "automatic");
        if asks {
            let asked = carry_out(&mut fleet, &RolloutRequest::Adopt);
            assert_eq!(annotations(&asked), [(labels::ADOPT, Some("true"))]);
            assert!(asked.question.is_none());
            assert!(change(&fleet, &RolloutRequest::Adopt).unwrap().is_empty());
        }
        let mut seen = Vec::new();
        for _ in 0..40 {
            let actions = fleet.pass("worker", usize::MAX).actions;
            seen.extend(actions.into_iter().filter_map(|action| match action {
                Action::Effect(RolloutEffect::CreateJob(request)) => {
                    Some((request.verb, request.adopts))
                }
                _ => None,
            }));
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
        }
        assert_eq!(running(&fleet, 2), 2, "{asks}");
        seen.sort();
        seen.dedup();
        let want = [(NodeVerb::Report, false), (NodeVerb::Stage, false), (NodeVerb::Apply, asks)];
        assert_eq!(seen, want, "{asks}");
    }
}

#[test]
fn the_files_that_machines_hide_are_counted() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").hidden_files = 3;
    fleet.node("w1").hidden_files = 4;
    fleet.settle();
    assert_eq!(fleet.evaluate("worker").status.unwrap().hidden_files(), 7);
    // A report of another boot counts for nothing.
    fleet.node("w1").boot_again();
    assert_eq!(fleet.evaluate("worker").status.unwrap().hidden_files(), 3);
}
