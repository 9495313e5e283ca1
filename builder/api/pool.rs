//! The MachineConfigPool, and what else decides how a pool is rendered, as the wire has them.

use serde::Deserialize;

use super::machine_config::{Metadata, null_is_empty};
use super::selector::LabelSelector;

/// A MachineConfigPool (`machineconfiguration.openshift.io/v1`), as far as it decides what is rendered.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MachineConfigPool {
    /// Name, labels, uid.
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_empty")]
    pub spec: PoolSpec,
}

/// `spec` of a MachineConfigPool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSpec {
    /// Which MachineConfigs are the pool's.
    pub machine_config_selector: Option<LabelSelector>,
    /// The stream of OS images that the pool follows, instead of the release's own image.
    pub os_image_stream: Option<OsImageStream>,
}

/// A reference to an OS image stream.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct OsImageStream {
    /// Its name.
    pub name: String,
}

/// The ControllerConfig `machine-config-controller`, as far as it is read here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ControllerConfig {
    /// Annotations, generation.
    pub metadata: Metadata,
    /// What the release says.
    #[serde(deserialize_with = "null_is_empty")]
    pub spec: ControllerConfigSpec,
    /// How far the cluster has got with it; a manifest has none.
    pub status: Option<Status>,
}

/// `spec` of the ControllerConfig.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerConfigSpec {
    /// Pullspec of the release's base OS image.
    #[serde(rename = "baseOSContainerImage", deserialize_with = "null_is_empty")]
    pub base_os_image: String,
    /// Pullspec of the release's extensions image.
    #[serde(
        rename = "baseOSExtensionsContainerImage",
        deserialize_with = "null_is_empty"
    )]
    pub extensions_image: String,
}

/// A KubeletConfig or ContainerRuntimeConfig: what the cluster turns into a MachineConfig of the pools that it selects.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PoolSettings {
    /// `KubeletConfig` or `ContainerRuntimeConfig`.
    pub kind: String,
    /// Name, generation.
    pub metadata: Metadata,
    /// Whom it is for.
    #[serde(deserialize_with = "null_is_empty")]
    pub spec: PoolSettingsSpec,
    /// How far the cluster has got with it; a manifest has none.
    pub status: Option<Status>,
}

/// `spec` of a KubeletConfig or ContainerRuntimeConfig.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSettingsSpec {
    /// By the labels of the pool.
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// What a controller says of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that it speaks of.
    pub observed_generation: Option<i64>,
    /// Oldest first.
    #[serde(deserialize_with = "null_is_empty")]
    pub conditions: Vec<Condition>,
}

/// One of `status.conditions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Of a fixed set for each kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl ControllerConfig {
    /// Why a cluster is not through with it; a manifest, which says nothing, is taken as it is.
    pub fn unfinished(&self) -> Option<&'static str> {
        let status = self.status.as_ref()?;
        let is = |kind: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.kind == kind && condition.status == "True")
        };
        if status.observed_generation != self.metadata.generation {
            return Some("the cluster has not looked at its newest generation yet");
        }
        if is("TemplateControllerFailing") {
            return Some("the cluster's template controller fails");
        }
        if !is("TemplateControllerCompleted") || is("TemplateControllerRunning") {
            return Some("the cluster's template controller is not through with it");
        }
        None
    }
}

impl PoolSettings {
    /// Whether the cluster has made a MachineConfig of its newest generation.
    pub fn is_finished(&self) -> bool {
        self.status.as_ref().is_some_and(|status| {
            let last = status.conditions.last();
            status.observed_generation == self.metadata.generation
                && last.is_some_and(|last| last.kind == "Success" && last.status == "True")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_controller_config_is_taken_when_the_cluster_is_through_with_it() {
        let status = |observed: Value, conditions: &[(&str, &str)]| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(kind, status)| json!({ "type": kind, "status": status }))
                .collect();
            json!({ "observedGeneration": observed, "conditions": conditions })
        };
        let completed = ("TemplateControllerCompleted", "True");
        for (what, status, good) in [
            ("a manifest", json!(null), true),
            ("completed", status(json!(3), &[completed]), true),
            ("older", status(json!(2), &[completed]), false),
            ("nothing said", status(json!(3), &[]), false),
            (
                "running",
                status(
                    json!(3),
                    &[completed, ("TemplateControllerRunning", "True")],
                ),
                false,
            ),
            (
                "ran",
                status(
                    json!(3),
                    &[completed, ("TemplateControllerRunning", "False")],
                ),
                true,
            ),
            (
                "failing",
                status(
                    json!(3),
                    &[completed, ("TemplateControllerFailing", "True")],
                ),
                false,
            ),
        ] {
            let config: ControllerConfig = serde_json::from_value(
                json!({ "metadata": { "generation": 3 }, "spec": null, "status": status }),
            )
            .unwrap();
            assert_eq!(config.unfinished().is_none(), good, "{what}");
        }
    }

    #[test]
    fn pool_settings_are_finished_when_the_last_condition_says_so() {
        for (what, status, want) in [
            ("a manifest", json!(null), false),
            (
                "done",
                json!({ "observedGeneration": 2, "conditions": [{ "type": "Failure", "status": "False" }, { "type": "Success", "status": "True" }] }),
                true,
            ),
            (
                "failed since",
                json!({ "observedGeneration": 2, "conditions": [{ "type": "Success", "status": "True" }, { "type": "Failure", "status": "False" }] }),
                false,
            ),
            (
                "older",
                json!({ "observedGeneration": 1, "conditions": [{ "type": "Success", "status": "True" }] }),
                false,
            ),
        ] {
            let settings: PoolSettings = serde_json::from_value(
                json!({ "kind": "KubeletConfig", "metadata": { "generation": 2 }, "status": status }),
            )
            .unwrap();
            assert_eq!(settings.is_finished(), want, "{what}");
        }
    }
}
