//! Which machine sets are managed, and who chose it.

use super::{MachineConfiguration, ManagedKind, Selection, SelectionError};
use crate::cluster_settings::BootImageSettings;

/// What is chosen for one kind of machine set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub selection: Selection,
    pub source: ChoiceSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceSource {
    /// An entry of `bootImages.machineManagers` in the settings.
    Settings,
    /// `bootImages.machineManagers: []` in the settings: nothing is managed.
    SettingsEmpty,
    /// An entry of the MachineConfiguration.
    MachineConfiguration,
    /// `managedBootImages.machineManagers: []` in the MachineConfiguration: nothing is managed.
    MachineConfigurationEmpty,
    /// Nobody chose. OpenShift's own controller would manage all machine sets of this platform; mosb does
    /// not, because nobody asked for it.
    PlatformDefault,
    Nobody,
}

/// A choice that can't be used. Nothing of its kind is managed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: entry {kind}: {source}")]
pub struct ChoiceError {
    /// Where the entry is.
    pub object: &'static str,
    pub kind: ManagedKind,
    pub source: SelectionError,
}

/// The choice for machine sets of `kind`. The settings take precedence; the MachineConfiguration counts if they
/// have no entry of the kind, unless their list is given and empty. `is_default` is
/// [`is_default_platform`](super::is_default_platform).
///
/// # Errors
/// The entry in the MachineConfiguration is invalid. Those of the settings are always valid.
pub fn choose(
    kind: ManagedKind,
    settings: &BootImageSettings,
    machine_configuration: Option<&MachineConfiguration>,
    is_default: bool,
) -> Result<Choice, ChoiceError> {
    let chosen = |selection, source| Ok(Choice { selection, source });
    if settings.are_off() {
        return chosen(Selection::None, ChoiceSource::SettingsEmpty);
    }
    let mut managers = settings.machine_managers.iter().flatten();
    if let Some(manager) = managers.find(|one| one.kind == kind) {
        return chosen(manager.selection.clone(), ChoiceSource::Settings);
    }
    let Some(object) = machine_configuration else {
        return chosen(Selection::None, ChoiceSource::Nobody);
    };
    let managed = &object.spec.managed_boot_images;
    if managed.is_explicitly_empty() {
        return chosen(Selection::None, ChoiceSource::MachineConfigurationEmpty);
    }
    if let Some(entry) = managed.entry(kind) {
        let partial = entry.selection.partial.as_ref();
        let selector = partial.and_then(|partial| partial.machine_resource_selector.as_ref());
        return match Selection::new(kind, &entry.selection.mode, selector) {
            Ok(selection) => chosen(selection, ChoiceSource::MachineConfiguration),
            Err(source) => {
                Err(ChoiceError { object: "MachineConfiguration cluster", kind, source })
            }
        };
    }
    let by_default = kind == ManagedKind::MachineApiMachineSets && is_default;
    let source = if by_default { ChoiceSource::PlatformDefault } else { ChoiceSource::Nobody };
    chosen(Selection::None, source)
}

impl ChoiceSource {
    /// One word for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::SettingsEmpty => "settings-empty",
            Self::MachineConfiguration => "machine-configuration",
            Self::MachineConfigurationEmpty => "machine-configuration-empty",
            Self::PlatformDefault => "platform-default",
            Self::Nobody => "nobody",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterSettings;
    use serde_json::{Value, json};

    fn object(managed: &Value) -> MachineConfiguration {
        serde_json::from_value(json!({ "spec": { "managedBootImages": managed } })).unwrap()
    }

    fn entry(resource: &str, mode: &str) -> Value {
        json!({ "resource": resource, "apiGroup": "machine.openshift.io", "selection": { "mode": mode } })
    }

    #[test]
    fn settings_precede_machine_configuration_and_absent_isnt_empty() {
        use ChoiceSource as Source;
        use ManagedKind::{ControlPlaneMachineSets as Cpms, MachineApiMachineSets as Sets};
        let list = |entries: Value| Some(json!({ "machineManagers": entries }));
        let all = || list(json!([entry("machinesets", "All")]));
        let none = || list(json!([entry("machinesets", "None")]));
        let cpms = || list(json!([entry("controlplanemachinesets", "All")]));
        let of_settings = |group: &str, mode: &str| {
            format!("[{{resource: machinesets, apiGroup: {group}, selection: {{mode: {mode}}}}}]")
        };
        let ours = of_settings("machine.openshift.io", "All");
        let off = of_settings("machine.openshift.io", "Disabled");
        let other = of_settings("cluster.x-k8s.io", "All");
        for (what, kind, settings, object_, is_default, selection, source) in [
            ("nothing", Sets, "null", None, false, Selection::None, Source::Nobody),
            ("no object", Sets, "null", None, true, Selection::None, Source::Nobody),
            (
                "absent",
                Sets,
                "null",
                Some(json!({})),
                true,
                Selection::None,
                Source::PlatformDefault,
            ),
            (
                "null",
                Sets,
                "null",
                Some(json!(null)),
                true,
                Selection::None,
                Source::PlatformDefault,
            ),
            (
                "absent elsewhere",
                Sets,
                "null",
                Some(json!({})),
                false,
                Selection::None,
                Source::Nobody,
            ),
            (
                "absent, control plane",
                Cpms,
                "null",
                Some(json!({})),
                true,
                Selection::None,
                Source::Nobody,
            ),
            (
                "empty",
                Sets,
                "null",
                list(json!([])),
                true,
                Selection::None,
                Source::MachineConfigurationEmpty,
            ),
            ("entry", Sets, "null", all(), false, Selection::All, Source::MachineConfiguration),
            (
                "entry None",
                Sets,
                "null",
                none(),
                true,
                Selection::None,
                Source::MachineConfiguration,
            ),
            ("other entry", Sets, "null", cpms(), true, Selection::None, Source::PlatformDefault),
            ("its entry", Cpms, "null", cpms(), true, Selection::All, Source::MachineConfiguration),
            ("settings", Sets, &ours, None, false, Selection::All, Source::Settings),
            ("settings first", Sets, &ours, none(), false, Selection::All, Source::Settings),
            ("settings off", Sets, &off, all(), true, Selection::None, Source::Settings),
            (
                "settings for others",
                Sets,
                &other,
                all(),
                false,
                Selection::All,
                Source::MachineConfiguration,
            ),
            ("settings empty", Sets, "[]", all(), true, Selection::None, Source::SettingsEmpty),
        ] {
            let text = format!("bootImages: {{machineManagers: {settings}}}");
            let settings = ClusterSettings::parse(&text).unwrap().boot_images;
            let object = object_.as_ref().map(object);
            let choice = choose(kind, &settings, object.as_ref(), is_default).unwrap();
            assert_eq!(choice, Choice { selection, source }, "{what}");
        }
    }

    #[test]
    fn invalid_entry_is_error_and_names_its_object() {
        let broken = json!({ "machineManagers": [
            { "resource": "machinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": "Partial", "partial": {
                "machineResourceSelector": { "matchExpressions": [{ "key": "a", "operator": "Foo" }] } } } },
            entry("controlplanemachinesets", "Some"),
        ] });
        let object = object(&broken);
        let settings = BootImageSettings::default();
        for (kind, want) in [
            (
                ManagedKind::MachineApiMachineSets,
                "MachineConfiguration cluster: entry machinesets.machine.openshift.io: \
                 selection.partial.machineResourceSelector: matchExpressions[0].operator: \"Foo\" is none of",
            ),
            (ManagedKind::ControlPlaneMachineSets, "selection.mode: \"Some\" is none of"),
        ] {
            let error = choose(kind, &settings, Some(&object), true).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
