//! The MachineConfiguration of OpenShift, as far as it is about boot images.

use serde::Deserialize;
use serde_json::Value;

use super::ManagedKind;
use crate::{Condition, LabelSelector, Metadata};
use mosb_types::null_is_empty;

/// A MachineConfiguration (`operator.openshift.io/v1`, cluster-scoped) as the API serves it. Only the object
/// [`MachineConfiguration::NAME`] counts.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineConfiguration {
    pub metadata: Metadata,
    /// What the administrator wants.
    pub spec: MachineConfigurationSpec,
    /// What the Machine Config Operator does.
    pub status: MachineConfigurationStatus,
}

/// `spec` of a MachineConfiguration.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigurationSpec {
    pub managed_boot_images: MachineManagers,
    pub boot_image_skew_enforcement: Option<BootImageSkewEnforcement>,
}

/// `status` of a MachineConfiguration.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigurationStatus {
    /// The generation that the Machine Config Operator has seen.
    pub observed_generation: Option<i64>,
    pub conditions: Vec<Condition>,
    /// What a machine-config-controller acts upon, defaults included.
    pub managed_boot_images_status: MachineManagers,
    pub boot_image_skew_enforcement_status: Option<BootImageSkewEnforcement>,
}

/// `managedBootImages` and `managedBootImagesStatus`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineManagers {
    /// An absent list is not a choice; an empty one opts out of everything.
    pub machine_managers: Option<Vec<MachineManagerEntry>>,
}

/// One of `machineManagers`.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineManagerEntry {
    /// Plural name of the kind.
    pub resource: String,
    pub api_group: String,
    pub selection: EntrySelection,
}

/// `selection` of an entry.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EntrySelection {
    /// `All`, `Partial` or `None`.
    pub mode: String,
    pub partial: Option<EntryPartial>,
}

/// `selection.partial` of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryPartial {
    pub machine_resource_selector: Option<LabelSelector>,
}

/// `bootImageSkewEnforcement` and `bootImageSkewEnforcementStatus`: how old boot images may be.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BootImageSkewEnforcement {
    /// `Automatic` (status only), `Manual` or `None`.
    pub mode: String,
    pub automatic: Option<SkewLimit>,
    pub manual: Option<SkewLimit>,
}

/// The boot image in use, as the administrator or the Machine Config Operator says it.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SkewLimit {
    /// Of `manual`: `OCPVersion` or `RHCOSVersion`.
    pub mode: String,
    #[serde(rename = "ocpVersion")]
    pub ocp_version: String,
    #[serde(rename = "rhcosVersion")]
    pub rhcos_version: String,
}

impl MachineConfiguration {
    /// The only name that counts.
    pub const NAME: &'static str = "cluster";

    /// Whether a machine-config-controller, where one runs, owns this kind: its status enrols machine sets
    /// of it. A mode that is not known counts, because two writers do harm.
    pub fn is_enrolled_in_status(&self, kind: ManagedKind) -> bool {
        let entry = self.status.managed_boot_images_status.entry(kind);
        entry.is_some_and(|entry| entry.selection.mode != "None")
    }
}

impl MachineManagers {
    /// The entry of this kind.
    pub fn entry(&self, kind: ManagedKind) -> Option<&MachineManagerEntry> {
        let entries = self.machine_managers.as_deref().unwrap_or_default();
        entries.iter().find(|one| ManagedKind::of(&one.resource, &one.api_group) == Some(kind))
    }

    /// Whether the list is given, and empty.
    pub fn is_explicitly_empty(&self) -> bool {
        self.machine_managers.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Whether OpenShift manages the MachineSets of this platform if nobody chooses: AWS, GCP, vSphere, and Azure
/// but not Azure Stack Hub. `infrastructure` is the object of that kind.
pub fn is_default_platform(infrastructure: &Value) -> bool {
    let status = &infrastructure["status"]["platformStatus"];
    match status["type"].as_str() {
        Some("AWS" | "GCP" | "VSphere") => true,
        Some("Azure") => status["azure"]["cloudName"] != "AzureStackCloud",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_write_is_read_leniently() {
        let read: MachineConfiguration = serde_json::from_value(json!({
            "metadata": { "name": "cluster", "generation": 3 },
            "spec": { "managementState": "Managed", "managedBootImages": null, "bootImageSkewEnforcement": null },
            "status": {
                "observedGeneration": 3, "conditions": null,
                "managedBootImagesStatus": { "machineManagers": [
                    { "resource": "machinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": "Later" } },
                    { "resource": "controlplanemachinesets", "apiGroup": "machine.openshift.io", "selection": { "mode": "None" } },
                    { "resource": "machinesets", "apiGroup": null, "selection": null },
                ] },
                "bootImageSkewEnforcementStatus": { "mode": "Automatic", "automatic": { "ocpVersion": "4.20.1" } },
            },
        }))
        .unwrap();
        assert_eq!(read.spec, MachineConfigurationSpec::default());
        assert_eq!(read.status.observed_generation, read.metadata.generation);
        let skew = read.status.boot_image_skew_enforcement_status.as_ref().unwrap();
        assert_eq!(skew.automatic.as_ref().unwrap().ocp_version, "4.20.1");
        let enrolled: Vec<ManagedKind> =
            ManagedKind::ALL.into_iter().filter(|kind| read.is_enrolled_in_status(*kind)).collect();
        assert_eq!(enrolled, [ManagedKind::MachineApiMachineSets]);
        assert_eq!(
            serde_json::from_value::<MachineConfiguration>(json!({ "spec": null })).unwrap(),
            MachineConfiguration::default()
        );
    }

    #[test]
    fn platforms_with_a_default() {
        for (status, want) in [
            (json!({ "type": "AWS" }), true),
            (json!({ "type": "GCP" }), true),
            (json!({ "type": "VSphere" }), true),
            (json!({ "type": "Azure" }), true),
            (json!({ "type": "Azure", "azure": { "cloudName": "AzurePublicCloud" } }), true),
            (json!({ "type": "Azure", "azure": { "cloudName": "AzureStackCloud" } }), false),
            (json!({ "type": "BareMetal" }), false),
            (json!({ "type": "None" }), false),
            (json!(null), false),
        ] {
            let object = json!({ "status": { "platformStatus": status } });
            assert_eq!(is_default_platform(&object), want, "{status}");
        }
    }
}
