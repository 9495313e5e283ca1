//! Registry Secrets in their one form: whatever an administrator made, pods get a
//! `.dockerconfigjson`.

use k8s_openapi::api::core::v1;
use serde_json::{Map, Value, json};

use mosb_image::RepoRef;
use mosb_registry::credentials::{CredentialsError, LoginEntries, auths, covers, parse_logins};
use mosb_types::{Diagnostic, Secret, canonical_json};

/// Key of the logins in a Secret.
pub const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// Logins by registry. Never printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerConfigJson(LoginEntries);

/// An invalid registry Secret. Messages never quote its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("secret {name}: {problem}")]
#[diagnostic(code = "bad-registry-secret", class = InvalidInput)]
pub struct SecretError {
    pub name: String,
    pub problem: SecretProblem,
}

/// The problem of a registry Secret, and the valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretProblem {
    /// No type.
    #[error("it has no type; make it one of {NEW_TYPE}")]
    NoType,
    /// A type of something else.
    #[error(
        "its type is {0}, want {NEW_TYPE} or {OLD_TYPE}; make it with kubectl create secret docker-registry"
    )]
    Type(String),
    /// No data at all.
    #[error("it has no data; put credentials under {0}")]
    NoData(&'static str),
    /// The type's key is missing.
    #[error("it has no {0}, which its type has")]
    NoKey(&'static str),
    /// The type's key holds nothing.
    #[error("{0} is empty; {{}} stands for no credentials")]
    EmptyKey(&'static str),
    /// The other type's key is there too.
    #[error("it has {0}, which its type hasn't; leave out one of the two")]
    OtherKey(&'static str),
    /// The key's value can't be parsed.
    #[error("{key}: {problem}{}", wanted(key, problem))]
    Content { key: &'static str, problem: CredentialsError },
}

const NEW_TYPE: &str = "kubernetes.io/dockerconfigjson";
const OLD_TYPE: &str = "kubernetes.io/dockercfg";
const OLD_KEY: &str = ".dockercfg";

/// The form of a key, for what doesn't have it.
fn wanted(key: &str, problem: &CredentialsError) -> &'static str {
    match problem {
        CredentialsError::Json { .. } if key == OLD_KEY => ": want JSON of logins by registry",
        CredentialsError::Json { .. } => ": want JSON with \"auths\"",
        _ => "",
    }
}

impl DockerConfigJson {
    /// No logins.
    pub fn empty() -> Self {
        Self(LoginEntries::new())
    }

    /// Parses a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    ///
    /// # Errors
    /// The type and the keys don't fit, or [`parse`](Self::parse) fails.
    pub fn from_secret(secret: &v1::Secret) -> Result<Self, SecretError> {
        from_secret(secret).map_err(|problem| SecretError {
            name: secret.metadata.name.clone().unwrap_or_default(),
            problem,
        })
    }

    /// Parses a file of either format, as [`parse_logins`] does. Programs that it names are on the
    /// machine that wrote it, and pods don't have them.
    pub fn parse(text: &[u8]) -> Result<Self, CredentialsError> {
        parse_logins(text).map(Self)
    }

    /// These logins, and those of `global` for registries that these don't name.
    #[must_use]
    pub fn over(&self, global: &Self) -> Self {
        let mut logins = global.0.clone();
        logins.extend(self.0.clone());
        Self(logins)
    }

    /// The logins that are for one of these repositories.
    #[must_use]
    pub fn only_for(&self, repos: &[RepoRef]) -> Self {
        let mut logins = self.0.clone();
        logins.retain(|key, _| repos.iter().any(|repo| covers(key, repo).is_some()));
        Self(logins)
    }

    /// The logins that these repositories are reached with: of several for one repository, the most
    /// specific.
    #[must_use]
    pub fn used_for(&self, repos: &[RepoRef]) -> Self {
        let mut logins = self.0.clone();
        logins.retain(|_, login| login.is_usable());
        let used: Vec<_> = repos
            .iter()
            .map(|repo| {
                let covered = logins.keys().filter_map(|key| covers(key, repo)).max();
                (repo, covered)
            })
            .collect();
        logins.retain(|key, _| {
            used.iter().any(|(repo, covered)| covered.is_some() && covers(key, repo) == *covered)
        });
        Self(logins)
    }

    /// Whether one of these logins is also one of the others, of the same user with the same
    /// password.
    pub fn has_login_of(&self, others: &Self) -> bool {
        let users = |logins: &Self| -> Vec<(String, String)> {
            let users = logins.0.values().flat_map(|login| {
                let tokens = login.tokens().map(|token| (String::new(), token.to_owned()));
                let passwords = login.user_and_password().filter(|(_, it)| !it.is_empty());
                passwords.into_iter().chain(tokens)
            });
            users.collect()
        };
        let others = users(others);
        users(self).iter().any(|user| others.contains(user))
    }

    /// The registries whose login can't be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.0.iter().filter(|(_, login)| login.is_unreadable());
        unreadable.map(|(registry, _)| &**registry)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `auths`, as it is written.
    pub fn auths(&self) -> Secret<Map<String, Value>> {
        auths(&self.0)
    }

    /// `.dockerconfigjson`: the same logins, the same bytes.
    pub fn to_bytes(&self) -> Secret<Vec<u8>> {
        let file = Secret::new(json!({ "auths": self.auths().expose() }));
        Secret::new(canonical_json(file.expose()).to_vec())
    }
}

fn from_secret(secret: &v1::Secret) -> Result<DockerConfigJson, SecretProblem> {
    let (key, other) = match secret.type_.as_deref().unwrap_or_default() {
        NEW_TYPE => (DOCKER_CONFIG_KEY, OLD_KEY),
        OLD_TYPE => (OLD_KEY, DOCKER_CONFIG_KEY),
        "" => return Err(SecretProblem::NoType),
        strange => return Err(SecretProblem::Type(strange.to_owned())),
    };
    let data = secret.data.as_ref().filter(|data| !data.is_empty());
    let data = data.ok_or(SecretProblem::NoData(key))?;
    if data.contains_key(other) {
        return Err(SecretProblem::OtherKey(other));
    }
    let bytes = &data.get(key).ok_or(SecretProblem::NoKey(key))?.0;
    if bytes.is_empty() {
        return Err(SecretProblem::EmptyKey(key));
    }
    DockerConfigJson::parse(bytes).map_err(|problem| SecretProblem::Content { key, problem })
}

#[cfg(test)]
mod tests;
