//! Which machine sets of a kind are managed.

use std::collections::BTreeMap;
use std::fmt;

use crate::{LabelSelector, Selector};

/// The machine sets of one kind that are managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    /// Those with matching labels; an empty selector matches all.
    Partial(Selector),
    None,
}

/// Why a selection can't be used. It selects nothing then, and is reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("selection.mode: {0:?} is none of All, Partial, None")]
    Mode(String),
    #[error("selection.partial: mode Partial needs machineResourceSelector; {{}} selects all")]
    SelectorMissing,
    #[error("selection.partial: only mode Partial has it; remove it, or set mode to Partial")]
    SelectorUnused,
    #[error("selection.partial.machineResourceSelector: {0}")]
    Selector(String),
    #[error("selection.mode: {0} can't be selected by labels; use All or None")]
    PartialRefused(ManagedKind),
}

impl Selection {
    /// Checks the wire form: `mode` as the API spells it, and `partial.machineResourceSelector`.
    ///
    /// # Errors
    /// A mode that does not exist, a selector that is missing, superfluous or invalid, or `Partial` for a
    /// kind that the API refuses it for.
    pub fn new(
        kind: ManagedKind,
        mode: &str,
        selector: Option<&LabelSelector>,
    ) -> Result<Self, SelectionError> {
        let whole = match mode {
            "All" => Self::All,
            "None" => Self::None,
            "Partial" if kind == ManagedKind::ControlPlaneMachineSets => {
                return Err(SelectionError::PartialRefused(kind));
            }
            "Partial" => {
                let wire = selector.ok_or(SelectionError::SelectorMissing)?;
                return Selector::allowing_all(wire).map(Self::Partial).map_err(|problems| {
                    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    SelectionError::Selector(texts.join("; "))
                });
            }
            other => return Err(SelectionError::Mode(other.to_owned())),
        };
        if selector.is_some() { Err(SelectionError::SelectorUnused) } else { Ok(whole) }
    }

    /// Whether a machine set with these labels is managed.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::All => true,
            Self::Partial(selector) => selector.matches(labels),
            Self::None => false,
        }
    }
}

/// A kind of machine set. `machinesets` exist in two groups, so the group is always part of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagedKind {
    /// `machinesets.machine.openshift.io`
    MachineApiMachineSets,
    /// `controlplanemachinesets.machine.openshift.io`
    ControlPlaneMachineSets,
    /// `machinesets.cluster.x-k8s.io`
    ClusterApiMachineSets,
    /// `machinedeployments.cluster.x-k8s.io`
    MachineDeployments,
}

const MACHINE_API: &str = "machine.openshift.io";
const CLUSTER_API: &str = "cluster.x-k8s.io";

impl ManagedKind {
    pub const ALL: [Self; 4] = [
        Self::MachineApiMachineSets,
        Self::ControlPlaneMachineSets,
        Self::ClusterApiMachineSets,
        Self::MachineDeployments,
    ];

    /// The kind with this plural name in this API group.
    pub fn of(resource: &str, api_group: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| (kind.resource(), kind.api_group()) == (resource, api_group))
    }

    /// The plural name, as `resource` of a machine manager has it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::MachineApiMachineSets | Self::ClusterApiMachineSets => "machinesets",
            Self::ControlPlaneMachineSets => "controlplanemachinesets",
            Self::MachineDeployments => "machinedeployments",
        }
    }

    pub fn api_group(self) -> &'static str {
        match self {
            Self::MachineApiMachineSets | Self::ControlPlaneMachineSets => MACHINE_API,
            Self::ClusterApiMachineSets | Self::MachineDeployments => CLUSTER_API,
        }
    }
}

impl fmt::Display for ManagedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource(), self.api_group())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn modes_and_selectors_are_checked_like_the_api() {
        use ManagedKind::{ControlPlaneMachineSets as Cpms, MachineApiMachineSets as Sets};
        let label = json!({ "matchLabels": { "r": "a" } });
        let no_values = json!({ "matchExpressions": [{ "key": "r", "operator": "In" }] });
        let unknown = json!({ "matchExpressions": [{ "key": "r", "operator": "Foo" }] });
        // Which of these are selected: r=a, none.
        for (what, kind, mode, selector, want) in [
            ("all", Sets, "All", None, Ok("an")),
            ("none", Sets, "None", None, Ok("")),
            ("by label", Sets, "Partial", Some(label.clone()), Ok("a")),
            ("empty", Sets, "Partial", Some(json!({})), Ok("an")),
            ("null lists", Sets, "Partial", Some(json!({ "matchLabels": null })), Ok("an")),
            (
                "missing",
                Sets,
                "Partial",
                None,
                Err("needs machineResourceSelector; {} selects all"),
            ),
            ("superfluous", Sets, "All", Some(label.clone()), Err("only mode Partial has it")),
            ("no values", Sets, "Partial", Some(no_values), Err("matchExpressions[0].values: In")),
            (
                "operator",
                Sets,
                "Partial",
                Some(unknown),
                Err("matchExpressions[0].operator: \"Foo\""),
            ),
            ("lower case", Sets, "all", None, Err("\"all\" is none of")),
            ("no mode", Sets, "", None, Err("\"\" is none of")),
            ("control plane", Cpms, "All", None, Ok("an")),
            (
                "control plane by label",
                Cpms,
                "Partial",
                Some(label),
                Err("can't be selected by labels"),
            ),
        ] {
            let selector = selector.map(|wire: Value| serde_json::from_value(wire).unwrap());
            let got = Selection::new(kind, mode, selector.as_ref());
            let labels = BTreeMap::from([("r".to_owned(), "a".to_owned())]);
            let selected = |selection: Selection| -> String {
                [("a", labels.clone()), ("n", BTreeMap::new())]
                    .into_iter()
                    .filter_map(|(name, labels)| selection.selects(&labels).then_some(name))
                    .collect()
            };
            match (got.map(selected).map_err(|error| error.to_string()), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{what}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{what}: {got}"),
                (got, want) => panic!("{what}: {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn a_kind_is_named_by_resource_and_group() {
        for kind in ManagedKind::ALL {
            assert_eq!(ManagedKind::of(kind.resource(), kind.api_group()), Some(kind), "{kind}");
        }
        for (resource, group) in [
            ("machinesets", ""),
            ("MachineSet", MACHINE_API),
            ("controlplanemachinesets", CLUSTER_API),
            ("machinedeployments", MACHINE_API),
        ] {
            assert_eq!(ManagedKind::of(resource, group), None, "{resource}.{group}");
        }
    }
}
