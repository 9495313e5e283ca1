//! The cluster-wide settings: one ConfigMap of ours, over which the cluster's own objects win.

mod base_stream;
mod boot_images;
mod check;
mod harmless_annotation;
mod job;
mod merged;
mod proxy;
mod registry_sources;
mod rollout_policy;
mod selector_fields;
mod signing;
mod user_data;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use mosb_types::Diagnostic;

use super::ImageBuilderType;
use super::image_checks::ImageCheckSettings;
use super::yaml::{self, YamlError};

pub use base_stream::BaseStream;
pub use boot_images::{BootImageSettings, MachineManager, StubReference};
pub use check::is_host;
pub use job::{
    ContainerResources, ControlPlaneBuilds, Deadlines, ImagePullPolicy, JobSettings, Resources,
    StorageDriver, Toleration, UserNamespaces,
};
pub use merged::ClusterObjects;
pub use proxy::{Proxy, ProxyUrl};
pub use registry_sources::RegistrySources;
pub use rollout_policy::{
    AlertBlock, BlockOn, ConditionStatus, Day, HealthChecks, PodsCheck, PolicyTime, Ring,
    RingMembers, RolloutPolicy, TimeZoneName, Window,
};
pub use signing::SigningSettings;
pub use user_data::{Endpoint, UserDataSettings};

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "mosb-config";
/// The ConfigMap's key.
pub const CONFIG_KEY: &str = "config.yaml";

/// The settings for all builds of a cluster: `config.yaml` of ConfigMap `mosb-config`. Every field is optional.
///
/// Names are those of ControllerConfig. If the cluster has a ControllerConfig or mirror sets, their values win.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Pullspec of the base OS image of configs that name none.
    #[serde(rename = "baseOSContainerImage")]
    pub base_os_container_image: Option<String>,
    /// Pullspec of the extensions image of configs that name none.
    #[serde(rename = "baseOSExtensionsContainerImage")]
    pub base_os_extensions_container_image: Option<String>,
    /// What names the newest base of pools that follow their base (annotation `mosb.dev/follow-base`): a tag,
    /// `host/repository:tag`, or stream metadata as Fedora CoreOS publishes it, `https://host/stable.json`. Without
    /// it, the tag that the base of a pool is named by.
    pub base_stream: Option<String>,
    /// After how many minutes this is looked at again; 1 to 10080.
    pub base_stream_minutes: u16,
    /// The image that build pods run, by digest. Without it, the controller's own.
    pub builder_image: Option<String>,
    /// How build pods reach registries.
    pub proxy: Option<Proxy>,
    /// CAs (PEM) that images trust, and that build pods trust for every registry. They need a Containerfile
    /// build.
    pub additional_trust_bundle: Option<String>,
    /// CAs (PEM) that build pods trust for every registry, in addition to those of their image. They are not
    /// added to images.
    pub registry_trust_bundle: Option<String>,
    /// CAs (PEM) for one registry each, by `host` or `host:port`.
    pub image_registry_bundles: BTreeMap<String, String>,
    /// Which registries may be used, and how.
    pub registry_sources: RegistrySources,
    /// A `policy.json` (containers-policy.json(5)) as text: the images that may be pulled, and the signatures that
    /// they must have. Keys are in it (`keyData`); files with keys are not read.
    pub signature_policy: Option<String>,
    /// How the images of pools are signed.
    pub signing: SigningSettings,
    /// Mirrors that images are pulled from.
    pub mirrors: Vec<Mirrors>,
    /// Name of the Secret for pulling images; a MachineOSConfig's own pull secret overrides it, registry by
    /// registry.
    pub global_pull_secret: String,
    /// Names of Secrets that MachineOSConfigs may use as `baseImagePullSecret`, in addition to those with the
    /// label `mosb.dev/pull-secret`.
    pub pull_secrets: Vec<String>,
    /// The kinds of workloads that may run builds, as in annotation `mosb.dev/builder`.
    pub builders: Vec<ImageBuilderType>,
    /// The settings of build Jobs.
    pub job: JobSettings,
    /// How images are checked before they come into service.
    pub checks: ImageCheckSettings,
    /// How images are brought to machines.
    pub rollout: RolloutLimits,
    /// Rings, windows and checks of roll-outs, by name. The annotation `mosb.dev/rollout-policy` of a
    /// MachineOSConfig names one.
    pub rollout_policies: BTreeMap<String, RolloutPolicy>,
    /// What new machines of pools are given.
    pub user_data: UserDataSettings,
    /// Which machine sets get current boot images.
    pub boot_images: BootImageSettings,
    /// Which old images of pools are kept although nothing needs them. Without it, the controller deletes none.
    pub retention: Option<Retention>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            base_os_container_image: None,
            base_os_extensions_container_image: None,
            base_stream: None,
            base_stream_minutes: 60,
            builder_image: None,
            proxy: None,
            additional_trust_bundle: None,
            registry_trust_bundle: None,
            image_registry_bundles: BTreeMap::new(),
            registry_sources: RegistrySources::default(),
            signature_policy: None,
            signing: SigningSettings::default(),
            mirrors: Vec::new(),
            global_pull_secret: "global-pull-secret-copy".to_owned(),
            pull_secrets: Vec::new(),
            builders: vec![ImageBuilderType::Job, ImageBuilderType::CustomPod],
            job: JobSettings::default(),
            checks: ImageCheckSettings::default(),
            rollout: RolloutLimits::default(),
            rollout_policies: BTreeMap::new(),
            user_data: UserDataSettings::default(),
            boot_images: BootImageSettings::default(),
            retention: None,
        }
    }
}

/// Mirrors of a registry, a namespace or a repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mirrors {
    /// `host`, `host/namespace`, `host/namespace/repository`, or `*.domain` for the hosts below it.
    pub source: String,
    /// The mirrors, in the order in which they are tried.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// The references that they serve.
    #[serde(default)]
    pub by: MirrorBy,
    /// Whether the source itself is contacted if no mirror has an image.
    #[serde(default)]
    pub mirror_source_policy: MirrorSourcePolicy,
    /// The object that they are in, for messages. Empty for the ConfigMap.
    #[serde(skip)]
    pub object: String,
}

impl Mirrors {
    /// What messages call the object that they are in.
    pub fn object_name(&self) -> &str {
        if self.object.is_empty() { "ConfigMap mosb-config" } else { &self.object }
    }
}

/// The references that mirrors serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MirrorBy {
    /// References with a digest.
    #[default]
    Digest,
    /// References with a tag.
    Tag,
}

/// Whether the source itself is contacted.
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
    /// Invalid YAML, an unknown field, or an invalid value; with the field's path.
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

/// Why `config.yaml` of ConfigMap `mosb-config` can't be used. Never quotes what could be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-cluster-settings", class = InvalidInput)]
#[non_exhaustive]
pub enum ClusterSettingsError {
    /// It is not YAML.
    #[error("config.yaml of ConfigMap mosb-config: {0}")]
    Yaml(YamlError),
    /// A field that does not exist or has an invalid value.
    #[error("config.yaml of ConfigMap mosb-config: {field}: {problem}")]
    Field {
        /// Its path, such as `job.tolerations[0].key`.
        field: String,
        /// The problem and the valid values.
        problem: String,
    },
    /// The Secret that `proxy.secret` names.
    #[error("secret {secret} (proxy.secret): {problem}")]
    ProxySecret {
        secret: String,
        /// The problem and the valid values.
        problem: String,
    },
}

/// How images are brought to machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutLimits {
    /// How many machines may stage an image from one registry host at once, over all pools; 1 to 100.
    pub staging_per_registry: u16,
    /// After how many minutes a machine that reboots and is not back counts as lost; 5 to 1440.
    pub node_timeout_minutes: u16,
}

impl Default for RolloutLimits {
    fn default() -> Self {
        Self { staging_per_registry: 3, node_timeout_minutes: 30 }
    }
}

/// Which old images of a pool are kept although nothing needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// So many of the newest images; 1 to 1000.
    pub keep: u16,
    /// All images that were built in the last so many days; 0 to 3650.
    pub days: u16,
}

impl Retention {
    pub const MAX_KEEP: u16 = 1000;
    pub const MAX_DAYS: u16 = 3650;
}

impl Default for Retention {
    fn default() -> Self {
        Self { keep: 5, days: 30 }
    }
}
