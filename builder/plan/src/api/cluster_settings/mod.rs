//! The cluster-wide settings: one ConfigMap of ours, over which the cluster's own objects win.

mod annotation;
mod check;
mod error;
mod job;
mod merged;
mod proxy;
mod registry_sources;
mod rollout;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ImageBuilderType, yaml};
pub use error::ClusterSettingsError;
pub use job::{
    ContainerResources, ControlPlaneBuilds, Deadlines, ImagePullPolicy, JobSettings, Resources,
    StorageDriver, Toleration, UserNamespaces,
};
pub use merged::ClusterObjects;
pub use proxy::{Proxy, ProxyUrl};
pub use registry_sources::RegistrySources;
pub use rollout::RolloutLimits;

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "mosb-config";
/// Its key.
pub const CONFIG_KEY: &str = "config.yaml";

/// What holds for all builds of a cluster: `config.yaml` of ConfigMap `mosb-config`. Every field may be left out.
///
/// Spelt as ControllerConfig spells them. Where the cluster has a ControllerConfig or mirror sets, what they say wins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Pullspec of the base OS image of configs that name none.
    #[serde(rename = "baseOSContainerImage")]
    pub base_os_container_image: Option<String>,
    /// Pullspec of the extensions image of configs that name none.
    #[serde(rename = "baseOSExtensionsContainerImage")]
    pub base_os_extensions_container_image: Option<String>,
    /// The image that build pods run, by digest. Without it, the controller's own.
    pub builder_image: Option<String>,
    /// How build pods reach registries.
    pub proxy: Option<Proxy>,
    /// CAs (PEM) that images trust, and that build pods trust at every registry. An image with them needs a Containerfile build.
    pub additional_trust_bundle: Option<String>,
    /// CAs (PEM) that build pods trust at every registry, beside those of their image. They don't get into images.
    pub registry_trust_bundle: Option<String>,
    /// CAs (PEM) for one registry each, by `host` or `host:port`.
    pub image_registry_bundles: BTreeMap<String, String>,
    /// Which registries may be used, and how.
    pub registry_sources: RegistrySources,
    /// A `policy.json` of containers' tools, as a text: which images may be pulled. Signatures are not checked.
    pub signature_policy: Option<String>,
    /// Where images are pulled from instead.
    pub mirrors: Vec<Mirrors>,
    /// Name of the Secret that images are pulled with; a MachineOSConfig's own pull secret goes over it, registry by registry.
    pub global_pull_secret: String,
    /// Names of Secrets that MachineOSConfigs may name as `baseImagePullSecret`, beside those with the label `mosb.dev/pull-secret`.
    pub pull_secrets: Vec<String>,
    /// What may run builds, as annotation `mosb.dev/builder` spells it.
    pub builders: Vec<ImageBuilderType>,
    /// How build Jobs are made.
    pub job: JobSettings,
    /// How images are brought to machines.
    pub rollout: RolloutLimits,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            base_os_container_image: None,
            base_os_extensions_container_image: None,
            builder_image: None,
            proxy: None,
            additional_trust_bundle: None,
            registry_trust_bundle: None,
            image_registry_bundles: BTreeMap::new(),
            registry_sources: RegistrySources::default(),
            signature_policy: None,
            mirrors: Vec::new(),
            global_pull_secret: "global-pull-secret-copy".to_owned(),
            pull_secrets: Vec::new(),
            builders: vec![ImageBuilderType::Job, ImageBuilderType::CustomPod],
            job: JobSettings::default(),
            rollout: RolloutLimits::default(),
        }
    }
}

/// Mirrors of a registry, a namespace or a repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mirrors {
    /// `host`, `host/namespace`, `host/namespace/repository`, or `*.domain` for the hosts below it.
    pub source: String,
    /// Where to look first, in this order.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// Which references they serve.
    #[serde(default)]
    pub by: MirrorBy,
    /// Whether the source itself is asked when no mirror has an image.
    #[serde(default)]
    pub mirror_source_policy: MirrorSourcePolicy,
}

/// Which references mirrors serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MirrorBy {
    /// Those with a digest.
    #[default]
    Digest,
    /// Those with a tag.
    Tag,
}

/// Whether the source itself is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum MirrorSourcePolicy {
    /// After all mirrors.
    #[default]
    AllowContactingSource,
    /// Never.
    NeverContactSource,
}

impl ClusterSettings {
    /// Reads `config.yaml`. An empty text is the default.
    ///
    /// # Errors
    /// No YAML, a field that there isn't, or a value that can't be right; with the field's path.
    pub fn parse(text: &str) -> Result<Self, ClusterSettingsError> {
        let value = match yaml::parse_one(text.as_bytes()) {
            Ok(value) => value,
            Err(yaml::YamlError::Empty) => return Ok(Self::default()),
            Err(error) => return Err(ClusterSettingsError::Yaml(error)),
        };
        let settings: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let field = error.path().to_string();
            let problem = error.into_inner().to_string();
            ClusterSettingsError::Field { field, problem }
        })?;
        check::check(&settings)?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests;
