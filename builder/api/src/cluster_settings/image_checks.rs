//! How images are checked before they come into service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::image_checks::{CheckMode, CheckName};

/// How images are checked before they come into service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ImageCheckSettings {
    /// What a failed check does, by its name: `block` keeps the image out of service, `warn` reports it, and `off`
    /// makes no check. A MachineOSConfig's annotation `mosb.dev/checks` overrides it.
    pub modes: BTreeMap<CheckName, CheckMode>,
    /// The most MiB that all layers of an image may have, as a registry stores them (check `size`); at least 1.
    #[serde(rename = "maxSizeMiB")]
    pub max_size_mib: Option<u32>,
    /// Versions that packages must have if an image has them, by name (check `packages-held`): the whole version, or
    /// its beginning up to a separator, as `mosb inspect --packages` prints it.
    pub held_packages: BTreeMap<String, String>,
}
