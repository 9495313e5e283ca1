//! Registry Secrets in their one form: whatever an administrator made, pods get a
//! `.dockerconfigjson`.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1;
use serde_json::{Map, Value, json};

use mosb_image::RepoRef;
use mosb_registry::credentials::{covers, user_and_password};
use mosb_types::Diagnostic;
use mosb_types::Secret;
use mosb_types::canonical_json;

/// Key of the logins in a Secret.
pub const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// Logins by registry. Never printed.
#[derive(Debug, Clone, PartialEq)]
pub struct DockerConfigJson(Secret<BTreeMap<String, Map<String, Value>>>);

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
    /// No JSON object.
    #[error("{key}: no JSON of logins (line {line}, column {column})")]
    Json {
        key: &'static str,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A value of the wrong type.
    #[error("{key}: {place}: want {want}")]
    Shape {
        key: &'static str,
        /// Path in the JSON document.
        place: String,
        want: &'static str,
    },
    /// A field that logins don't have, and none that they have.
    #[error("{key}: {place}: logins have no such field; write username and password, or auth")]
    UnknownField {
        key: &'static str,
        /// Path in the JSON document.
        place: String,
    },
}

const NEW_TYPE: &str = "kubernetes.io/dockerconfigjson";
const OLD_TYPE: &str = "kubernetes.io/dockercfg";
const OLD_KEY: &str = ".dockercfg";
/// Fields of a login that are a secret of their own, without a user.
const TOKENS: [&str; 2] = ["identitytoken", "registrytoken"];
/// The other fields of a login.
const FIELDS: [&str; 4] = ["username", "password", "email", "auth"];
/// Settings of docker and podman without `auths`; a file with one of them is no `.dockercfg`. The
/// programs that they name are on the machine that wrote the file, and pods haven't them.
const SETTINGS: [&str; 3] = ["credHelpers", "credsStore", "HttpHeaders"];

impl DockerConfigJson {
    /// No logins.
    pub fn empty() -> Self {
        Self(Secret::new(BTreeMap::new()))
    }

    /// Parses a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    ///
    /// An `auth` that can't be decoded stays: it is an error of the registry that it is for, once
    /// that is asked.
    ///
    /// # Errors
    /// What podman can't read. It ignores fields that it doesn't know, beside `auths` and in a login.
    pub fn from_secret(secret: &v1::Secret) -> Result<Self, SecretError> {
        parse(secret).map(|logins| Self(Secret::new(logins))).map_err(|problem| SecretError {
            name: secret.metadata.name.clone().unwrap_or_default(),
            problem,
        })
    }

    /// These logins, and those of `global` for registries that these don't name.
    #[must_use]
    pub fn over(&self, global: &Self) -> Self {
        let mut logins = global.0.expose().clone();
        logins.extend(self.0.expose().clone());
        Self(Secret::new(logins))
    }

    /// The logins that are for one of these repositories.
    #[must_use]
    pub fn only_for(&self, repos: &[RepoRef]) -> Self {
        let mut logins = self.0.expose().clone();
        logins.retain(|key, _| repos.iter().any(|repo| covers(key, repo).is_some()));
        Self(Secret::new(logins))
    }

    /// The logins that these repositories are reached with: of several for one repository, the most
    /// specific.
    #[must_use]
    pub fn used_for(&self, repos: &[RepoRef]) -> Self {
        let usable = |login: &Map<String, Value>| {
            ["auth", "username"].iter().chain(&TOKENS).any(|field| {
                let value = login.get(*field).and_then(Value::as_str);
                value.is_some_and(|value| !value.is_empty())
            })
        };
        let mut logins = self.0.expose().clone();
        logins.retain(|_, login| usable(login));
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
        Self(Secret::new(logins))
    }

    /// Whether one of these logins is also one of the others, of the same user with the same
    /// password.
    pub fn has_login_of(&self, others: &Self) -> bool {
        let users = |logins: &Self| -> Vec<(String, String)> {
            logins.0.expose().values().flat_map(users_of).collect()
        };
        let others = users(others);
        users(self).iter().any(|user| others.contains(user))
    }

    /// The registries whose login can't be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        let is_unreadable = |login: &Map<String, Value>| {
            let auth = login.get("auth").and_then(Value::as_str).unwrap_or_default();
            !auth.is_empty() && user_and_password(auth).is_none()
        };
        let logins = self.0.expose().iter();
        logins.filter(move |(_, login)| is_unreadable(login)).map(|(registry, _)| &**registry)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.expose().is_empty()
    }

    /// `.dockerconfigjson`: the same logins, the same bytes.
    pub fn to_bytes(&self) -> Secret<Vec<u8>> {
        Secret::new(canonical_json(&json!({ "auths": self.0.expose() })).to_vec())
    }
}

/// User and password of a login, and its tokens, which have no user.
fn users_of(login: &Map<String, Value>) -> Vec<(String, String)> {
    let field = |name: &str| login.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
    let user = match field("auth") {
        Some(auth) => user_and_password(auth),
        None => field("username")
            .zip(field("password"))
            .map(|(user, password)| (user.to_owned(), password.to_owned())),
    };
    let tokens = TOKENS.iter().filter_map(|name| Some((String::new(), field(name)?.to_owned())));
    user.into_iter().chain(tokens).collect()
}

fn parse(secret: &v1::Secret) -> Result<BTreeMap<String, Map<String, Value>>, SecretProblem> {
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
    // serde's own message may quote the input.
    let mut config: Map<String, Value> = serde_json::from_slice(bytes)
        .map_err(|e| SecretProblem::Json { key, line: e.line(), column: e.column() })?;
    let is_new = config.keys().any(|field| field == "auths" || SETTINGS.contains(&&**field));
    let auths = if is_new {
        match config.remove("auths").unwrap_or_default() {
            Value::Object(auths) => auths,
            Value::Null => Map::new(),
            _ => return Err(shape(key, "auths", "an object")),
        }
    } else {
        config
    };
    auths
        .into_iter()
        .map(|(registry, login)| Ok((registry.clone(), checked(key, &registry, login)?)))
        .collect()
}

fn shape(key: &'static str, place: impl fmt::Display, want: &'static str) -> SecretProblem {
    SecretProblem::Shape { key, place: place.to_string(), want }
}

fn checked(
    key: &'static str,
    registry: &str,
    login: Value,
) -> Result<Map<String, Value>, SecretProblem> {
    let mut login = match login {
        Value::Object(login) => login,
        Value::Null => Map::new(),
        _ => {
            return Err(shape(
                key,
                format_args!("{registry:?}"),
                "an object with username and password, or auth",
            ));
        }
    };
    login.retain(|_, value| !value.is_null());
    let is_known = |field: &str| FIELDS.iter().chain(&TOKENS).any(|known| *known == field);
    let place = |field: &str| format!("{registry:?}.{field}");
    let unknown = login.keys().find(|field| !is_known(field)).map(|field| place(field));
    login.retain(|field, _| is_known(field));
    match unknown {
        // Such as a misspelt one.
        Some(place) if login.is_empty() => return Err(SecretProblem::UnknownField { key, place }),
        Some(_) | None => {}
    }
    match login.iter().find(|(_, value)| !value.is_string()) {
        Some((field, _)) => Err(shape(key, place(field), "a text")),
        None => Ok(login),
    }
}

#[cfg(test)]
mod tests;
