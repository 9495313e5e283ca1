//! Decides what an attempt to apply a target does next. Pure: the state of the machine, its record
//! and its journal are arguments.

use mosb_api::rollout::NodeTarget;

use crate::finalization::Finalization;
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};
use crate::target_fit::TargetFit;

/// What the decision depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub target: &'a NodeTarget,
    /// Which try of the target it is, from 1.
    pub attempt: u32,
    pub state: &'a MachineState,
    pub fit: &'a TargetFit,
    pub record: Option<&'a Record>,
    /// How the boot of the record ended, once it was read.
    pub finalization: Option<&'a Finalization>,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The machine runs the image of the target, with its kernel arguments.
    Done,
    /// How this boot ended must be read first.
    ReadJournal {
        boot_id: String,
    },
    Stage,
    /// The image of the target is staged, with its kernel arguments.
    Reboot,
    /// This attempt rebooted the machine, and the target is not what it booted; another try ends
    /// the same.
    WrongImage {
        cause: String,
    },
    /// This attempt rebooted the machine into an image that somebody else staged.
    OtherImage,
    /// This attempt rebooted the machine into the image, and the kernel arguments of the target could
    /// not be staged before that, as another tool was there.
    ArgumentsMissing,
    /// This attempt rebooted the machine, and nothing tried to boot the target.
    NotFinalized,
}

/// The next step of an attempt. An attempt of which the record is from an earlier boot has had its
/// reboot: it ends, well or not.
pub(crate) fn next_step(facts: &Facts<'_>) -> NextStep {
    let Facts { target, attempt, state, fit, record, finalization } = *facts;
    if fit.booted {
        return NextStep::Done;
    }
    let rebooted = record.filter(|record| {
        record.phase == Phase::Rebooting
            && (&record.target, record.attempt) == (target, attempt)
            && record.boot_id != state.boot_id
    });
    let Some(record) = rebooted else {
        return if fit.staged { NextStep::Reboot } else { NextStep::Stage };
    };
    // Otherwise the reboot was for the arguments alone.
    let had_booted = record.booted == Some(target.image.digest());
    if state.runs(&target.image) && !had_booted {
        return NextStep::ArgumentsMissing;
    }
    let was_added = !record.had_image && state.deployments.has_other(target.image.digest());
    let is_other = record.booted.is_some() && record.booted != state.booted_digest();
    match finalization {
        None => NextStep::ReadJournal { boot_id: record.boot_id.clone() },
        Some(Finalization::Failed(last)) => NextStep::WrongImage {
            cause: format!("finalizing the staged image failed, with {last:?}"),
        },
        // What was finalized is then not the target.
        Some(Finalization::Finalized | Finalization::NotSeen) if is_other => NextStep::OtherImage,
        Some(Finalization::Finalized) => fell_back(),
        Some(Finalization::NotSeen) if was_added => fell_back(),
        Some(Finalization::NotSeen) => NextStep::NotFinalized,
    }
}

fn fell_back() -> NextStep {
    NextStep::WrongImage {
        cause: "the image was finalized, and the machine fell back to the one before".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::Deployments;
    use mosb_api::rollout::{Deployment, NodeTool};
    use mosb_image::Digest;

    const THEN: &str = "00000000-0000-0000-0000-000000000001";
    const NOW: &str = "00000000-0000-0000-0000-000000000002";

    fn target(image: &str) -> NodeTarget {
        let image = format!("reg.example/os@{}", Digest::of(image.as_bytes()));
        serde_json::from_value(serde_json::json!({ "image": image })).unwrap()
    }

    fn state(booted: &str, staged: &str, others: &[&str]) -> MachineState {
        let one = |image: &str| {
            let digest = Some(Digest::of(image.as_bytes()));
            (!image.is_empty()).then(|| Deployment { image: "reg.example/os".to_owned(), digest })
        };
        MachineState {
            boot_id: NOW.to_owned(),
            tool: Some(NodeTool::Bootc),
            deployments: Deployments {
                booted: one(booted),
                staged: one(staged),
                others: others.iter().filter_map(|image| one(image)).collect(),
                ..Deployments::default()
            },
            ..MachineState::default()
        }
    }

    /// Of a target without kernel arguments.
    fn fit(state: &MachineState) -> TargetFit {
        let target = target("new");
        TargetFit {
            booted: state.runs(&target.image),
            staged: state.has_staged(&target),
            ..TargetFit::default()
        }
    }

    fn record(image: &str, attempt: u32, boot_id: &str) -> Record {
        Record {
            target: target(image),
            attempt,
            boot_id: boot_id.to_owned(),
            phase: Phase::Rebooting,
            soft_reboot: None,
            had_image: false,
            booted: None,
        }
    }

    /// Attempt 1 of image `new`, on a machine that ran `old`.
    #[test]
    fn each_machine_state_has_one_next_step() {
        let then = || Some(record("new", 1, THEN));
        let ran = |image: &str| {
            Some(Record { booted: Some(Digest::of(image.as_bytes())), ..record("new", 1, THEN) })
        };
        let had_image = || Some(Record { had_image: true, ..record("new", 1, THEN) });
        let failed = || Some(Finalization::Failed("no space".to_owned()));
        let read = NextStep::ReadJournal { boot_id: THEN.to_owned() };
        let wrong = NextStep::WrongImage {
            cause: "finalizing the staged image failed, with \"no space\"".to_owned(),
        };
        let not_seen = || Some(Finalization::NotSeen);
        let finalized = || Some(Finalization::Finalized);
        let applied = Record { phase: Phase::Applied, ..record("new", 1, THEN) };
        for (what, state, record, finalization, want) in [
            ("booted, no record", state("new", "", &["old"]), None, None, NextStep::Done),
            ("booted after its reboot", state("new", "", &["old"]), then(), None, NextStep::Done),
            ("booted, another staged", state("new", "old", &[]), then(), None, NextStep::Done),
            ("nothing yet", state("old", "", &[]), None, None, NextStep::Stage),
            ("another is staged", state("old", "other", &[]), None, None, NextStep::Stage),
            ("staged", state("old", "new", &[]), None, None, NextStep::Reboot),
            (
                "killed before the reboot",
                state("old", "new", &[]),
                Some(record("new", 1, NOW)),
                None,
                NextStep::Reboot,
            ),
            (
                "unstaged before the reboot",
                state("old", "", &[]),
                Some(record("new", 1, NOW)),
                None,
                NextStep::Stage,
            ),
            ("rebooted", state("old", "", &[]), then(), None, read.clone()),
            (
                "rebooted, and staged again by somebody",
                state("old", "new", &[]),
                then(),
                None,
                read,
            ),
            ("finalizing failed", state("old", "", &[]), then(), failed(), wrong.clone()),
            (
                "finalizing failed, image of before",
                state("old", "", &["new"]),
                had_image(),
                failed(),
                wrong.clone(),
            ),
            ("finalized, and gone", state("old", "", &[]), then(), finalized(), fell_back()),
            (
                "finalized, and fell back",
                state("old", "", &["new"]),
                then(),
                finalized(),
                fell_back(),
            ),
            ("fell back, no journal", state("old", "", &["new"]), then(), not_seen(), fell_back()),
            (
                "finalized, and back at what it ran",
                state("old", "", &[]),
                ran("old"),
                finalized(),
                fell_back(),
            ),
            (
                "finalized was what somebody else staged",
                state("third", "", &["old"]),
                ran("old"),
                finalized(),
                NextStep::OtherImage,
            ),
            (
                "another image, and no journal",
                state("third", "", &["old", "new"]),
                ran("old"),
                not_seen(),
                NextStep::OtherImage,
            ),
            (
                "finalizing failed, and another image of the menu was booted",
                state("third", "", &["old"]),
                ran("old"),
                failed(),
                wrong,
            ),
            ("never finalized", state("old", "", &[]), then(), not_seen(), NextStep::NotFinalized),
            (
                "never finalized, the way back has the image",
                state("old", "", &["new"]),
                had_image(),
                not_seen(),
                NextStep::NotFinalized,
            ),
            (
                "never finalized, and staged again by somebody",
                state("old", "new", &[]),
                then(),
                not_seen(),
                NextStep::NotFinalized,
            ),
            (
                "an earlier attempt",
                state("old", "", &[]),
                Some(record("new", 7, THEN)),
                None,
                NextStep::Stage,
            ),
            (
                "an earlier target",
                state("old", "new", &[]),
                Some(record("other", 1, THEN)),
                None,
                NextStep::Reboot,
            ),
            (
                "it ran once, and was changed since",
                state("old", "", &[]),
                Some(applied),
                None,
                NextStep::Stage,
            ),
        ] {
            let facts = Facts {
                target: &target("new"),
                attempt: 1,
                state: &state,
                fit: &fit(&state),
                record: record.as_ref(),
                finalization: finalization.as_ref(),
            };
            assert_eq!(next_step(&facts), want, "{what}");
        }
    }

    /// Attempt 1 of a target with kernel arguments, which neither the booted nor, if it says so, the
    /// staged deployment has.
    #[test]
    fn targets_need_their_kernel_arguments() {
        let then = |booted: &str| {
            let booted = Some(Digest::of(booted.as_bytes()));
            Some(Record { booted, ..record("new", 1, THEN) })
        };
        let lost = || Some(Finalization::NotSeen);
        for (what, state, staged, record, finalization, want) in [
            ("the image runs", state("new", "", &[]), false, None, None, NextStep::Stage),
            ("the image is staged", state("old", "new", &[]), false, None, None, NextStep::Stage),
            ("staged with them", state("new", "new", &[]), true, None, None, NextStep::Reboot),
            (
                "a reboot for the image, without a tool for them before it",
                state("new", "", &["old"]),
                false,
                then("old"),
                None,
                NextStep::ArgumentsMissing,
            ),
            (
                "a reboot for them alone",
                state("new", "", &[]),
                false,
                then("new"),
                None,
                NextStep::ReadJournal { boot_id: THEN.to_owned() },
            ),
            (
                "a power cut",
                state("new", "", &[]),
                false,
                then("new"),
                lost(),
                NextStep::NotFinalized,
            ),
            ("fell back", state("new", "", &["new"]), false, then("new"), lost(), fell_back()),
        ] {
            let facts = Facts {
                target: &target("new"),
                attempt: 1,
                state: &state,
                fit: &TargetFit { booted: false, staged, ..TargetFit::default() },
                record: record.as_ref(),
                finalization: finalization.as_ref(),
            };
            assert_eq!(next_step(&facts), want, "{what}");
        }
    }

    #[test]
    fn same_image_with_another_config_is_another_target() {
        let config = format!("rendered-worker-{}", "0".repeat(32));
        let with_config = NodeTarget { config: Some(config.parse().unwrap()), ..target("new") };
        let record = record("new", 1, THEN);
        let state = state("old", "new", &[]);
        let facts = Facts {
            target: &with_config,
            attempt: 1,
            state: &state,
            fit: &fit(&state),
            record: Some(&record),
            finalization: None,
        };
        assert_eq!(next_step(&facts), NextStep::Reboot);
    }
}
