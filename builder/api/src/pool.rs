//! The MachineConfigPool, and what else decides how a pool is rendered, as the wire has them.

use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use super::metadata::{Condition, Metadata};
use super::selector::LabelSelector;
use mosb_types::null_is_empty;

/// A MachineConfigPool (`machineconfiguration.openshift.io/v1`), as far as it decides what is
/// rendered and built.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineConfigPool {
    pub metadata: Metadata,
    pub spec: PoolSpec,
    pub status: PoolStatus,
}

/// `spec` of a MachineConfigPool.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSpec {
    /// Selects the pool's MachineConfigs.
    pub machine_config_selector: Option<LabelSelector>,
    /// The stream of OS images that the pool follows, instead of the release's own image.
    pub os_image_stream: Option<OsImageStream>,
    /// The rendered config that the pool's machines should have.
    pub configuration: PoolConfiguration,
    /// Whether the roll-out to machines is paused; builds continue.
    pub paused: bool,
    /// Selects the pool's nodes.
    pub node_selector: Option<LabelSelector>,
    /// How many machines may be unavailable at once: a number, or a percentage of the pool.
    pub max_unavailable: Option<IntOrString>,
}

/// By hand, because `IntOrString` has none.
impl Hash for PoolSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            machine_config_selector,
            os_image_stream,
            configuration,
            paused,
            node_selector,
            max_unavailable,
        } = self;
        (machine_config_selector, os_image_stream, configuration, paused, node_selector)
            .hash(state);
        match max_unavailable {
            None => 0_u8.hash(state),
            Some(IntOrString::Int(number)) => (1_u8, number).hash(state),
            Some(IntOrString::String(text)) => (2_u8, text).hash(state),
        }
    }
}

/// `spec.configuration` or `status.configuration` of a MachineConfigPool: a rendered config and
/// its sources.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PoolConfiguration {
    /// Name of the rendered MachineConfig; empty while the cluster is being installed.
    pub name: String,
    /// The MachineConfigs it was rendered from.
    pub source: Vec<ConfigurationSource>,
}

/// A MachineConfig that is part of a rendered one.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ConfigurationSource {
    pub name: String,
}

/// `status` of a MachineConfigPool.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// The rendered config that the pool's machines have.
    pub configuration: PoolConfiguration,
    /// An atomic list with several writers.
    pub conditions: Vec<Condition>,
    pub machine_count: i64,
    /// Number of machines that have the desired config and image.
    pub updated_machine_count: i64,
    /// Updated machines that are Ready.
    pub ready_machine_count: i64,
    pub unavailable_machine_count: i64,
    pub degraded_machine_count: i64,
    /// The generation of the pool that the status describes.
    pub observed_generation: Option<i64>,
}

/// A reference to an OS image stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct OsImageStream {
    pub name: String,
}

/// The ControllerConfig `machine-config-controller`, as far as it is read here.
#[null_is_empty]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ControllerConfig {
    pub metadata: Metadata,
    pub spec: ControllerConfigSpec,
    /// Absent in a manifest.
    pub status: Option<Status>,
}

/// `spec` of the ControllerConfig.
#[null_is_empty]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerConfigSpec {
    /// Pullspec of the release's base OS image.
    #[serde(rename = "baseOSContainerImage")]
    pub base_os_image: String,
    /// Pullspec of the release's extensions image.
    #[serde(rename = "baseOSExtensionsContainerImage")]
    pub extensions_image: String,
    /// The cluster's proxy, if it has one.
    pub proxy: Option<Proxy>,
    /// The administrator's own certificates, base64 of PEM.
    pub additional_trust_bundle: String,
    /// Certificates of registries, from the release.
    pub image_registry_bundle_data: Vec<RegistryBundle>,
    /// Certificates of registries, from the administrator.
    pub image_registry_bundle_user_data: Vec<RegistryBundle>,
    /// The cluster's root certificates, base64 of PEM.
    #[serde(rename = "rootCAData")]
    pub root_ca_data: String,
}

/// The proxy in a ControllerConfig.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    /// For `http` URLs.
    pub http_proxy: String,
    /// For `https` URLs.
    pub https_proxy: String,
    /// Hosts and networks that are contacted without the proxy.
    pub no_proxy: String,
}

/// The certificates of one registry.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RegistryBundle {
    /// `host`, or `host..port`.
    pub file: String,
    /// Base64 of PEM.
    pub data: String,
}

/// A KubeletConfig or ContainerRuntimeConfig, which the cluster converts to a MachineConfig for
/// each pool that it selects.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PoolSettings {
    /// `KubeletConfig` or `ContainerRuntimeConfig`.
    pub kind: String,
    pub metadata: Metadata,
    pub spec: PoolSettingsSpec,
    /// Absent in a manifest.
    pub status: Option<Status>,
}

/// `spec` of a KubeletConfig or ContainerRuntimeConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSettingsSpec {
    /// Matches labels of pools.
    pub machine_config_pool_selector: Option<LabelSelector>,
}

/// The status that a controller reports for an object.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that the status is for.
    pub observed_generation: Option<i64>,
    /// Oldest first.
    pub conditions: Vec<Condition>,
}

impl ControllerConfig {
    /// Why the cluster has not processed the object yet; `None` if it has, or for a manifest, which has
    /// no status.
    pub fn unfinished(&self) -> Option<&'static str> {
        let status = self.status.as_ref()?;
        let is = |kind: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.kind == kind && condition.status == "True")
        };
        if status.observed_generation != self.metadata.generation {
            return Some("the cluster has not observed its newest generation yet");
        }
        if is("TemplateControllerFailing") {
            return Some("the cluster's template controller fails");
        }
        if !is("TemplateControllerCompleted") || is("TemplateControllerRunning") {
            return Some("the cluster's template controller has not finished with it");
        }
        None
    }
}

impl PoolSettings {
    /// Whether the cluster has processed the newest generation.
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
    use std::hash::DefaultHasher;

    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn pools_with_other_limits_have_other_hashes() {
        let hash = |of: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            of(&mut hasher);
            hasher.finish()
        };
        let none = PoolSpec::default();
        let five = PoolSpec { max_unavailable: Some(IntOrString::Int(5)), ..none.clone() };
        let five = hash(&|hasher| five.hash(hasher));
        assert_ne!(hash(&|hasher| (&none, 5_i32).hash(hasher)), five);
    }

    #[test]
    fn controller_config_is_used_once_cluster_completed_it() {
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
                status(json!(3), &[completed, ("TemplateControllerRunning", "True")]),
                false,
            ),
            ("ran", status(json!(3), &[completed, ("TemplateControllerRunning", "False")]), true),
            (
                "failing",
                status(json!(3), &[completed, ("TemplateControllerFailing", "True")]),
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
    fn pool_settings_finish_with_a_true_last_condition() {
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
