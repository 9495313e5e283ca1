//! The annotations and the cordon of a roll-out on one Node, written by one patch.

use std::collections::BTreeMap;

use serde_json::json;

use super::snapshot::Machine;
use crate::effect::Action;
use mosb_api::labels;
use mosb_api::rollout::{
    ConfirmedTarget, Fallback, NodeReport, NodeTarget, Slot, Soak, StagedMark,
};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_reconcile::write::Patch;

/// Maximum characters of the annotation `reason`.
const REASON: usize = 1024;

/// The state of a node as the Machine Config Operator names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeState {
    Working,
    Rebooting,
    Done,
    Degraded,
    Unreconcilable,
}

impl NodeState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Working => "Working",
            Self::Rebooting => "Rebooting",
            Self::Done => "Done",
            Self::Degraded => "Degraded",
            Self::Unreconcilable => "Unreconcilable",
        }
    }

    /// Whether a Node with this annotation is one that can't follow its pool.
    pub fn is_degraded(annotation: Option<&str>) -> bool {
        [Self::Degraded, Self::Unreconcilable].iter().any(|one| annotation == Some(one.as_str()))
    }
}

/// What a Node should have; what is not set stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodePatch {
    annotations: BTreeMap<&'static str, Option<String>>,
    unschedulable: Option<bool>,
}

impl NodePatch {
    fn set(&mut self, key: &'static str, value: Option<String>) {
        self.annotations.insert(key, value);
    }

    pub fn slot(&mut self, slot: Option<&Slot>) {
        let json = |slot: &Slot| serde_json::to_string(slot).expect("a slot is JSON");
        self.set(labels::NODE_SLOT, slot.map(json));
    }

    pub fn disable_scale_down(&mut self, is_disabled: bool) {
        self.set(labels::SCALE_DOWN_DISABLED, is_disabled.then(|| "true".to_owned()));
    }

    pub fn staged(&mut self, mark: Option<&StagedMark>) {
        let json = |mark: &StagedMark| serde_json::to_string(mark).expect("a mark is JSON");
        self.set(labels::NODE_STAGED, mark.map(json));
    }

    pub fn fallback(&mut self, record: Option<&Fallback>) {
        let json = |record: &Fallback| serde_json::to_string(record).expect("a record is JSON");
        self.set(labels::NODE_FALLBACK, record.map(json));
    }

    pub fn confirmed(&mut self, record: &ConfirmedTarget) {
        let json = serde_json::to_string(record).expect("a record is JSON");
        self.set(labels::NODE_CONFIRMED, Some(json));
    }

    pub fn soak(&mut self, record: Option<&Soak>) {
        let json = |record: &Soak| serde_json::to_string(record).expect("a record is JSON");
        self.set(labels::NODE_SOAK, record.map(json));
    }

    pub fn report(&mut self, report: &NodeReport) {
        // Errors differ each time, and are in the reason.
        let report = NodeReport { error: None, ..report.clone() };
        self.set(labels::NODE_REPORT, Some(report.to_json()));
    }

    pub fn current(&mut self, image: Option<String>, config: Option<String>) {
        self.set(labels::NODE_CURRENT_IMAGE, image);
        self.set(labels::NODE_CURRENT_CONFIG, config);
    }

    pub fn desired(&mut self, image: Option<String>, config: Option<String>) {
        self.set(labels::NODE_DESIRED_IMAGE, image);
        self.set(labels::NODE_DESIRED_CONFIG, config);
    }

    pub fn desired_target(&mut self, target: &NodeTarget) {
        let config = target.config.as_ref().map(ToString::to_string);
        self.desired(Some(target.image.to_string()), config);
    }

    pub fn state(&mut self, state: NodeState, reason: &str) {
        let reason: String = reason.chars().take(REASON).collect();
        self.set(labels::NODE_STATE, Some(state.as_str().to_owned()));
        self.set(labels::NODE_REASON, (!reason.is_empty()).then_some(reason));
    }

    pub fn cordon(&mut self, unschedulable: bool) {
        self.unschedulable = Some(unschedulable);
    }

    /// The write; none if the node has it all.
    pub fn action(&self, machine: &Machine) -> Option<Action> {
        let mut patch = Patch::default();
        for (key, value) in &self.annotations {
            let old = machine.node.metadata.annotations.get(*key);
            match value {
                Some(value) if old != Some(value) => patch.set(key, value.clone()),
                None if old.is_some() => patch.remove(key),
                Some(_) | None => {}
            }
        }
        if let Some(unschedulable) =
            self.unschedulable.filter(|is| *is != machine.node.unschedulable)
        {
            patch.spec = json!({ "unschedulable": unschedulable });
        }
        let is_changed = !patch.annotations.is_empty() || !patch.spec.is_null();
        is_changed.then(|| object::patch(kinds::NODE, &machine.node.metadata, patch))
    }
}
