//! A Secret with registry logins, and what is in it.

use super::DockerConfigJson;

/// Credentials, and which Secret they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedSecret {
    /// The Secret's name.
    pub name: String,
    /// What it says, in the canonical form.
    pub credentials: DockerConfigJson,
}
