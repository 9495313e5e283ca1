//! A Secret with registry logins, and its parsed content.

use super::DockerConfigJson;

/// Credentials, and which Secret they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSecret {
    pub name: String,
    /// The logins in the canonical form.
    pub credentials: DockerConfigJson,
}
