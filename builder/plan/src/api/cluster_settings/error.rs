//! What is wrong with the settings.

use crate::api::yaml::YamlError;
use mosb_types::Diagnostic;

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
