//! The MachineConfig, lenient as the wire has it, and the rendered one, checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::labels;
use super::metadata::Metadata;
use super::names::{NameError, PoolName, RenderedName};
use super::settings::{FieldError, KernelType, MachineSettings};
use mosb_types::{canonical_value, null_is_empty};

/// The group of all kinds.
pub const GROUP: &str = "machineconfiguration.openshift.io";
/// The API version of all kinds of the group.
pub const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
/// The largest rendered config that the renderer makes: bytes of its JSON.
pub const RENDERED_LIMIT: usize = 1_572_864;

/// A MachineConfig as the API serves it (`machineconfiguration.openshift.io/v1`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfig {
    /// `machineconfiguration.openshift.io/v1`.
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    /// Name, labels, annotations, owners.
    #[serde(default)]
    pub metadata: Metadata,
    /// Everything, also fields that we don't know; an API server drops a null.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub spec: Map<String, Value>,
}

/// A rendered MachineConfig whose name, pool and settings are checked.
///
/// Two of them are equal if the image made of them is: uid, resourceVersion, managedFields and
/// times are not part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedConfig {
    name: RenderedName,
    pool: PoolName,
    object: Arc<Value>,
    current: Bytes,
    /// `spec.osImageURL`, unchanged.
    pub os_image_url: Option<String>,
    /// `spec.baseOSExtensionsContainerImage`, unchanged.
    pub extensions_image: Option<String>,
    /// `spec.kernelArguments`: applied by the node, not in the image.
    pub kernel_arguments: Vec<String>,
    pub extensions: Vec<String>,
    pub kernel_type: KernelType,
    /// `spec.fips`: decided at installation.
    pub fips: bool,
}

/// Why an object is not a rendered MachineConfig. The caller adds the object's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderedConfigError {
    /// The config of another tool.
    #[error("{0}")]
    Foreign(&'static str),
    #[error("it is {found}; give a rendered MachineConfig ({API_VERSION})")]
    Kind {
        /// Kind and API version as they are.
        found: String,
    },
    /// Its shape is not that of a MachineConfig.
    #[error("not a MachineConfig: {0}")]
    Shape(String),
    #[error("metadata.name {0}")]
    Name(NameError),
    #[error("metadata.ownerReferences: pool name {0}")]
    Owner(NameError),
    /// A field of the spec.
    #[error("{name}: spec.{field}: {problem}")]
    Field {
        name: String,
        field: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// Larger than any API server takes.
    #[error(
        "{name}: {size} bytes of JSON; a rendered MachineConfig has at most {RENDERED_LIMIT}: move large files out of the config"
    )]
    TooLarge { name: String, size: usize },
}

impl RenderedConfig {
    /// Checks an object as it was read.
    ///
    /// # Errors
    /// Another kind, a name that isn't rendered, a field of a wrong type or value.
    pub fn from_value(value: Value) -> Result<Self, RenderedConfigError> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("kind") != "MachineConfig" || text("apiVersion") != API_VERSION {
            if let Some(what) = foreign_config(&value) {
                return Err(RenderedConfigError::Foreign(what));
            }
            let found = match (value.is_object(), text("kind"), text("apiVersion")) {
                (false, ..) => "not an object with fields".to_owned(),
                (true, "", _) => "an object without a kind".to_owned(),
                (true, kind, version) => format!("of kind {kind:?} ({version:?})"),
            };
            return Err(RenderedConfigError::Kind { found });
        }
        let object: MachineConfig = serde_json::from_value(value)
            .map_err(|cause| RenderedConfigError::Shape(cause.to_string()))?;
        let name: RenderedName = object.metadata.name.parse().map_err(RenderedConfigError::Name)?;
        let owner =
            object.metadata.owner_references.iter().find(|owner| owner.kind == "MachineConfigPool");
        let pool = match owner {
            Some(owner) => owner.name.parse().map_err(RenderedConfigError::Owner)?,
            None => name.pool(),
        };
        let settings = MachineSettings::read(&object.spec).map_err(|mut problems| {
            let FieldError { field, problem } = problems.remove(0);
            RenderedConfigError::Field { name: name.to_string(), field, problem }
        })?;
        let current = as_current_config(object);
        let rendered = Self {
            os_image_url: settings.os_image_url,
            extensions_image: settings.extensions_image,
            kernel_arguments: settings.kernel_arguments,
            extensions: settings.extensions,
            kernel_type: settings.kernel_type,
            fips: settings.fips,
            current: canonical_value(&current).into(),
            object: Arc::new(current),
            name,
            pool,
        };
        let size = rendered.current.len();
        if size > RENDERED_LIMIT {
            return Err(RenderedConfigError::TooLarge { name: rendered.name.to_string(), size });
        }
        Ok(rendered)
    }

    /// Whether packages or another kernel are installed.
    pub fn installs_packages(&self) -> bool {
        !self.extensions.is_empty() || self.kernel_type != KernelType::Default
    }

    /// `rendered-<pool>-<32 hex digits>`.
    pub fn name(&self) -> &RenderedName {
        &self.name
    }

    /// From the owner reference, else from the name.
    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// `spec.config` unchanged; `None` if there is none.
    pub fn ignition(&self) -> Option<&Value> {
        self.object.pointer("/spec/config").filter(|config| !config.is_null())
    }

    /// What `/etc/machine-config-daemon/currentconfig` holds, as a value: API version, kind, name,
    /// labels, the two annotations, spec.
    pub fn as_value(&self) -> &Value {
        &self.object
    }

    /// The bytes of `/etc/machine-config-daemon/currentconfig`: canonical JSON, the same in every
    /// cluster.
    pub fn current_config(&self) -> Bytes {
        self.current.clone()
    }

    /// The release the config belongs to, if it says.
    pub fn release_version(&self) -> Option<&str> {
        self.annotation(labels::RELEASE_IMAGE_VERSION)
    }

    /// An annotation that is part of the config.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }
}

/// What an object without a kind is, if it is the config of another tool that users have in the
/// place of a MachineConfig, and how to make a MachineConfig of it.
pub fn foreign_config(value: &Value) -> Option<&'static str> {
    let has = |key: &str| value.get(key).is_some();
    if has("kind") {
        return None;
    }
    match value.get("variant").and_then(Value::as_str) {
        Some("openshift") => Some(
            "it is a Butane config; translate it with `butane --strict`, which makes a MachineConfig",
        ),
        Some(_) if has("version") => Some(
            "it is a Butane config; translate it with `butane --strict`, and put the result into spec.config of a MachineConfig, as README.md shows (\"A first real build\")",
        ),
        _ if value.pointer("/ignition/version").is_some()
            || value.pointer("/ignition/config").is_some() =>
        {
            Some(
                "it is an Ignition config; put it into spec.config of a MachineConfig, as README.md shows (\"A first real build\")",
            )
        }
        _ => None,
    }
}

/// The spec, which is most of it, is moved.
fn as_current_config(object: MachineConfig) -> Value {
    let copied = [labels::GENERATED_BY_CONTROLLER_VERSION, labels::RELEASE_IMAGE_VERSION];
    let annotations: BTreeMap<_, _> = object
        .metadata
        .annotations
        .iter()
        .filter(|(key, _)| copied.contains(&key.as_str()))
        .collect();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(object.metadata.name));
    if !object.metadata.labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(object.metadata.labels));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let mut current =
        json!({ "apiVersion": object.api_version, "kind": object.kind, "metadata": metadata });
    current["spec"] = Value::Object(object.spec);
    current
}

#[cfg(test)]
mod tests;
