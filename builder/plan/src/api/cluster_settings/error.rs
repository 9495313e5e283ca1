//! What is wrong with the settings.

use crate::api::yaml::YamlError;
use mosb_types::Diagnostic;

/// Why `config.yaml` of ConfigMap `mosb-config` can't be used. Never quotes what could be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-cluster-settings", class = InvalidInput)]
#[non_exhaustive]
pub enum ClusterSettingsError {
    /// No YAML.
    #[error("config.yaml of ConfigMap mosb-config: {0}")]
    Yaml(YamlError),
    /// A field that there isn't, or with a wrong value.
    #[error("config.yaml of ConfigMap mosb-config: {field}: {problem}")]
    Field {
        /// Its path, such as `job.tolerations[0].key`.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The Secret that `proxy.secret` names.
    #[error("secret {secret} (proxy.secret): {problem}")]
    ProxySecret {
        secret: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}
