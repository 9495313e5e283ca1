//! Decides what happens to each machine set. Pure: a snapshot and a time give the plan.
//!
//! Every set gets at most one write: the next of its order. So whatever ends a pass, the next one
//! goes on from what exists.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::eligibility;
use super::judge::{Judgement, image_in_use, judge};
use super::limits::{Limits, Sharing};
use super::machine_set::{MachineSet, SET_KINDS, managed_kind};
use super::next_write::next_write;
use super::obstacle::{Failure, Obstacle};
use super::plan::{BootImagePlan, Outcome, SetPlan};
use super::rolling::rolling_clusters;
use super::snapshot::{BootImageSnapshot, GoldenState};
use super::stability::cluster_wait;
use super::stub_expiry::expiries;
use super::unread::Unread;
use mosb_api::boot_images::{
    MachineConfiguration, ManagedKind, Selection, choose, is_default_platform,
};
use mosb_api::cluster_settings::BootImageSettings;
use mosb_boot_image::{Golden, Skip, Verdict};

/// The plan for all machine sets that are selected.
pub fn decide(snapshot: &BootImageSnapshot, now: Timestamp) -> BootImagePlan {
    let mut plan = BootImagePlan::default();
    let settings = match &snapshot.settings {
        Ok(settings) => settings,
        Err(message) => {
            plan.errors.push(Failure::new("settings", message.clone()));
            return plan;
        }
    };
    let unread = Unread::new(snapshot);
    let object = unread.machine_configuration.as_ref();
    let selections = selections(snapshot, settings, object, &mut plan.errors);
    let selected = selected_sets(snapshot, &selections);
    plan.is_on = selections.values().any(|selection| *selection != Selection::None);
    if plan.is_on {
        plan.errors.extend(unread.failures().cloned());
    } else if !settings.are_off() {
        plan.errors.extend(unread.choice().cloned());
    }
    if selected.is_empty() {
        return plan;
    }
    let golden = match golden(snapshot) {
        Ok(golden) => Some(golden),
        Err(failure) => {
            plan.errors.push(failure);
            None
        }
    };
    let theirs = kinds_of_other_controller(snapshot, object);
    let judged: Vec<_> = selected
        .iter()
        .map(|set| {
            let evaluated = if theirs.contains(&set.kind) {
                Err(Skip::OtherController.into())
            } else {
                unread.check(*set).and_then(|()| evaluate(*set, snapshot, settings, golden))
            };
            (*set, evaluated)
        })
        .collect();
    let mut limits = Limits {
        cluster_wait: golden.and_then(|golden| cluster_wait(snapshot, golden)),
        rolling: rolling_clusters(snapshot),
        sharing: sharing(snapshot, &judged),
        stubs_in_work: BTreeSet::new(),
        lookups: BTreeSet::new(),
    };
    for (set, evaluated) in judged {
        let mut one = SetPlan::new(set);
        one.image = image_in_use(set, snapshot, settings).map(|image| image.to_string());
        match evaluated {
            Ok(judgement) => {
                one.fill(&judgement);
                let context = (snapshot, settings, golden.expect("a judged set has a golden"));
                match next_write(set, &judgement, context, &mut limits, now) {
                    Ok(next) => {
                        one.outcome = match (&judgement.verdict, next.failed) {
                            (_, Some(obstacle)) => Outcome::from(obstacle),
                            (Verdict::Current(_), None) => Outcome::Current,
                            _ => Outcome::Updating,
                        };
                        one.write = next.write;
                    }
                    Err(obstacle) => one.outcome = Outcome::from(obstacle),
                }
            }
            Err(obstacle) => one.outcome = Outcome::from(obstacle),
        }
        plan.sets.push(one);
    }
    let ours = selected.into_iter().filter(|set| !theirs.contains(&set.kind));
    plan.stub_expiries = expiries(ours, snapshot, &mut limits.lookups, now);
    plan.lookups = limits.lookups.into_iter().collect();
    plan
}

/// What is selected of each kind; nothing of a kind whose entry is invalid.
fn selections(
    snapshot: &BootImageSnapshot,
    settings: &BootImageSettings,
    object: Option<&MachineConfiguration>,
    errors: &mut Vec<Failure>,
) -> BTreeMap<ManagedKind, Selection> {
    let infrastructure = snapshot.infrastructure.as_ref();
    let is_default = infrastructure
        .is_some_and(|one| is_default_platform(&serde_json::json!({ "status": one.status })));
    let choose_one = |kind| match choose(kind, settings, object, is_default) {
        Ok(choice) => (kind, choice.selection),
        Err(error) => {
            errors.push(Failure::new("bad-selection", error.to_string()));
            (kind, Selection::None)
        }
    };
    ManagedKind::ALL.into_iter().map(choose_one).collect()
}

/// The kinds that a machine-config-controller that runs manages.
fn kinds_of_other_controller(
    snapshot: &BootImageSnapshot,
    object: Option<&MachineConfiguration>,
) -> BTreeSet<ManagedKind> {
    let object = object.filter(|_| snapshot.other_controller.is_some());
    let kinds = ManagedKind::ALL.into_iter();
    kinds.filter(|kind| object.is_some_and(|one| one.is_enrolled_in_status(*kind))).collect()
}

/// The sets that the selections match, by kind, namespace and name.
fn selected_sets<'s>(
    snapshot: &'s BootImageSnapshot,
    selections: &BTreeMap<ManagedKind, Selection>,
) -> Vec<MachineSet<'s>> {
    let mut sets = Vec::new();
    for kind in SET_KINDS {
        let selection = managed_kind(kind).and_then(|kind| selections.get(&kind));
        let Some(selection) = selection.filter(|one| **one != Selection::None) else { continue };
        let objects = snapshot.list(kind).into_iter();
        let selected = objects.filter(|object| selection.selects(&object.labels));
        sets.extend(selected.filter_map(MachineSet::new));
    }
    sets
}

fn golden(snapshot: &BootImageSnapshot) -> Result<&Golden, Failure> {
    let name = &snapshot.golden_name;
    match &snapshot.golden {
        GoldenState::Found(golden) => Ok(golden),
        GoldenState::Unreadable(message) => {
            Err(Failure::new("golden-unreadable", format!("ConfigMap {name}: {message}")))
        }
        GoldenState::Missing => Err(Failure::new(
            "golden-missing",
            format!(
                "ConfigMap {name} does not exist; it comes with an OpenShift release, elsewhere `mosb boot-images golden` prints one"
            ),
        )),
    }
}

fn evaluate<'s>(
    set: MachineSet<'_>,
    snapshot: &'s BootImageSnapshot,
    settings: &BootImageSettings,
    golden: Option<&'s Golden>,
) -> Result<Judgement<'s>, Obstacle> {
    eligibility::check(set, snapshot)?;
    let golden =
        golden.ok_or_else(|| Obstacle::Wait("there are no images to follow".to_owned()))?;
    let judgement = judge(set, snapshot, settings, golden)?;
    if let Verdict::Skip(skip) = judgement.verdict {
        return Err(skip.into());
    }
    Ok(judgement)
}

/// The sets that use each stub and keep an image that mosb does not replace.
fn sharing(
    snapshot: &BootImageSnapshot,
    judged: &[(MachineSet<'_>, Result<Judgement<'_>, Obstacle>)],
) -> Sharing {
    let follows = |(set, judgement): &(MachineSet<'_>, Result<Judgement<'_>, Obstacle>)| {
        judgement.is_ok().then(|| set.to_string())
    };
    let following: BTreeSet<String> = judged.iter().filter_map(follows).collect();
    let objects = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let sets = objects.filter_map(MachineSet::new);
    Sharing::new(sets.filter(|set| !following.contains(&set.to_string())))
}
