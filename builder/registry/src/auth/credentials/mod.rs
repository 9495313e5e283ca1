//! Files with logins, as podman, docker and Kubernetes write them: `.dockerconfigjson` (`auths`,
//! `credHelpers`, `credsStore`) and the older `.dockercfg` (the bare map).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub use crate::auth::login_key::covers;
use crate::auth::login_key::{covered, normal_host, normal_key};
use mosb_types::{Diagnostic, Secret};

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    Password { user: Secret<String>, password: Secret<String> },
    /// A refresh token for the token server (`identitytoken`).
    Identity(Secret<String>),
    /// A token for the registry itself (`registrytoken`).
    Token(Secret<String>),
}

/// One entry of `auths`: the fields that logins have, each a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginEntry(Secret<Map<String, Value>>);

/// The entries of `auths`, by host, repository or URL.
pub type LoginEntries = BTreeMap<String, LoginEntry>;

/// What one file holds. As in containers' tools, an entry that can't be used is an error only for
/// the registry that it is for.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    logins: LoginEntries,
    /// The entries that can't be used, and why.
    odd: BTreeMap<String, CredentialsError>,
    helpers: BTreeMap<String, String>,
    store: Option<String>,
}

/// What a file says about a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialEntry<'a> {
    Login(Login),
    /// The helper `docker-credential-<name>` is to be asked.
    Helper(&'a str),
}

/// Why a file, or an entry of it, can't be used. Never quotes a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-credentials", class = InvalidInput)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Not JSON of the wanted form; where, not what.
    #[error("not a docker config: line {line}, column {column}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A value of the wrong type.
    #[error("{place}: want {want}")]
    Shape {
        /// Path in the JSON document.
        place: String,
        want: &'static str,
    },
    /// An entry has a field that logins don't have, and none that they have.
    #[error("{place}: logins have no such field; write username and password, or auth")]
    UnknownField {
        /// Path in the JSON document.
        place: String,
    },
    /// `auth` of an entry.
    #[error("the auth of {0:?} is not base64 of user:password; log in again")]
    Auth(String),
    /// A helper's name could be a path.
    #[error("{0:?} can't be a credential helper: must be letters, digits, . _ -")]
    HelperName(String),
}

impl CredentialsError {
    /// The error of a file that may be something else, so that even its keys may be secrets.
    pub fn without_names(&self) -> String {
        match self {
            Self::Json { line, column } => {
                format!("it is not JSON of logins (line {line}, column {column})")
            }
            Self::Shape { want, .. } => format!("it needs {want} where it has something else"),
            Self::UnknownField { .. } => {
                "a login has neither username and password nor auth".to_owned()
            }
            Self::Auth(_) => "an auth is not base64 of user:password".to_owned(),
            Self::HelperName(_) => "a name of a credential helper is not one".to_owned(),
        }
    }
}

/// Fields of a login that are a secret of their own, without a user.
const TOKENS: [&str; 2] = ["identitytoken", "registrytoken"];
/// The other fields of a login.
const FIELDS: [&str; 4] = ["username", "password", "email", "auth"];
/// Settings of docker and podman beside `auths`; a file with one of them is not a `.dockercfg`.
const SETTINGS: [&str; 3] = ["credHelpers", "credsStore", "HttpHeaders"];

/// A file of either format, before its entries are checked.
struct RawConfig {
    auths: Secret<Map<String, Value>>,
    /// What is beside `auths`. The older format has nothing else.
    settings: Option<Map<String, Value>>,
}

impl RawConfig {
    fn parse(text: &[u8]) -> Result<Self, CredentialsError> {
        let mut file: Map<String, Value> = serde_json::from_slice(text).map_err(invalid_json)?;
        let is_new = file.keys().any(|key| key == "auths" || SETTINGS.contains(&&**key));
        if !is_new {
            return Ok(Self { auths: Secret::new(file), settings: None });
        }
        let auths = match file.remove("auths").unwrap_or_default() {
            Value::Object(auths) => auths,
            Value::Null => Map::new(),
            _ => return Err(shape("auths", "an object")),
        };
        Ok(Self { auths: Secret::new(auths), settings: Some(file) })
    }
}

// serde's own message may quote the value that it rejects.
fn invalid_json(error: serde_json::Error) -> CredentialsError {
    CredentialsError::Json { line: error.line(), column: error.column() }
}

fn shape(place: impl Into<String>, want: &'static str) -> CredentialsError {
    CredentialsError::Shape { place: place.into(), want }
}

/// Parses the logins of either format.
///
/// An `auth` that can't be decoded is not an error here: it is one of the registry that it is for,
/// when that is asked.
///
/// # Errors
/// What podman can't read. It ignores unknown fields, beside `auths` and in a login.
pub fn parse_logins(text: &[u8]) -> Result<LoginEntries, CredentialsError> {
    let raw = RawConfig::parse(text)?;
    let entry = |(key, value): (&String, &Value)| Ok((key.clone(), LoginEntry::new(key, value)?));
    raw.auths.expose().iter().map(entry).collect()
}

/// `auths`, as it is written.
pub fn auths(logins: &LoginEntries) -> Secret<Map<String, Value>> {
    let entry =
        |(key, login): (&String, &LoginEntry)| (key.clone(), login.0.expose().clone().into());
    Secret::new(logins.iter().map(entry).collect())
}

impl DockerConfig {
    /// Reads either format.
    pub fn parse(text: &[u8]) -> Result<Self, CredentialsError> {
        let is_blank = text.iter().all(u8::is_ascii_whitespace);
        let RawConfig { auths, settings } = RawConfig::parse(if is_blank { b"{}" } else { text })?;
        let (mut logins, mut odd) = (LoginEntries::new(), BTreeMap::new());
        for (key, value) in auths.expose() {
            match LoginEntry::new(key, value) {
                Ok(entry) => {
                    logins.insert(key.clone(), entry);
                }
                Err(CredentialsError::UnknownField { .. }) => {}
                Err(error) => {
                    odd.insert(key.clone(), error);
                }
            }
        }
        let mut settings = settings.unwrap_or_default();
        let mut setting = |name| settings.remove(name).unwrap_or_default();
        let helpers = setting("credHelpers");
        let helpers: Option<BTreeMap<String, String>> = serde_json::from_value(helpers)
            .map_err(|_| shape("credHelpers", "names of programs, by registry"))?;
        let store: Option<String> = serde_json::from_value(setting("credsStore"))
            .map_err(|_| shape("credsStore", "the name of a program"))?;
        let helpers = helpers.into_iter().flatten();
        Ok(Self {
            logins,
            odd,
            helpers: helpers.map(|(key, helper)| (normal_key(&key), helper)).collect(),
            store: store.filter(|store| !store.is_empty()),
        })
    }

    /// What is written about a repository of a registry: the helper of the host, the most specific
    /// login, the store.
    ///
    /// # Errors
    /// The entry for this repository can't be used.
    pub fn find(
        &self,
        host: &str,
        repository: &str,
    ) -> Result<Option<CredentialEntry<'_>>, CredentialsError> {
        let host = normal_host(host);
        if let Some(name) = self.helpers.get(host).filter(|name| !name.is_empty()) {
            return helper(name).map(Some);
        }
        let name = format!("{host}/{repository}");
        let usable = self.logins.iter().filter(|(_, entry)| entry.is_usable());
        let odd = self.odd.iter().map(|(key, error)| (key, Err(error)));
        let entries = usable.map(|(key, entry)| (key, Ok(entry))).chain(odd);
        let covering = entries.filter_map(|(key, entry)| Some((covered(key, &name)?, key, entry)));
        if let Some((_, key, entry)) = covering.max_by_key(|(length, ..)| *length) {
            let login = entry.map_err(Clone::clone)?.login();
            let login = login.ok_or_else(|| CredentialsError::Auth(key.clone()))?;
            return Ok(Some(CredentialEntry::Login(login)));
        }
        self.store.as_deref().map(helper).transpose()
    }
}

impl LoginEntry {
    fn new(registry: &str, entry: &Value) -> Result<Self, CredentialsError> {
        let none = Map::new();
        let entry = match entry {
            Value::Object(entry) => entry,
            Value::Null => &none,
            _ => {
                let want = "an object with username and password, or auth";
                return Err(shape(format!("{registry:?}"), want));
            }
        };
        let place = |field: &String| format!("{registry:?}.{field}");
        let is_known = |field: &str| FIELDS.iter().chain(&TOKENS).any(|known| *known == field);
        let fields = || entry.iter().filter(|(_, value)| !value.is_null());
        let mut known = fields().filter(|(field, _)| is_known(field)).peekable();
        if known.peek().is_none()
            // Such as a misspelt one.
            && let Some((field, _)) = fields().next()
        {
            return Err(CredentialsError::UnknownField { place: place(field) });
        }
        // Nobody logs in with the email.
        let known: Vec<_> =
            known.filter(|(field, value)| *field != "email" || value.is_string()).collect();
        if let Some((field, _)) = known.iter().find(|(_, value)| !value.is_string()) {
            return Err(shape(place(field), "a text"));
        }
        let copied = known.into_iter().map(|(field, value)| (field.clone(), value.clone()));
        Ok(Self(Secret::new(copied.collect())))
    }

    /// A field that is not empty.
    fn field(&self, name: &str) -> Option<&str> {
        self.0.expose().get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// User and password. Without a user there is nothing to log in with; the password may be empty.
    pub fn user_and_password(&self) -> Option<(String, String)> {
        if let Some(auth) = self.field("auth") {
            return user_and_password(auth);
        }
        let password = self.0.expose().get("password").and_then(Value::as_str)?;
        Some((self.field("username")?.to_owned(), password.to_owned()))
    }

    /// Tokens, which have no user.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        TOKENS.iter().filter_map(|name| self.field(name))
    }

    /// Whether there is something to log in with, be it readable or not.
    pub fn is_usable(&self) -> bool {
        self.field("auth").is_some() || self.login().is_some()
    }

    /// How to log in; none if there is nothing to log in with, or `auth` can't be decoded.
    pub fn login(&self) -> Option<Login> {
        let secret = |text: &str| Secret::new(text.to_owned());
        if let Some(token) = self.field("registrytoken") {
            return Some(Login::Token(secret(token)));
        }
        if let Some(token) = self.field("identitytoken") {
            return Some(Login::Identity(secret(token)));
        }
        let (user, password) = self.user_and_password()?;
        Some(Login::Password { user: Secret::new(user), password: Secret::new(password) })
    }

    /// Whether `auth` is there and can't be decoded.
    pub fn is_unreadable(&self) -> bool {
        self.field("auth").is_some_and(|auth| user_and_password(auth).is_none())
    }
}

fn helper(name: &str) -> Result<CredentialEntry<'_>, CredentialsError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if !name.bytes().all(fine) {
        return Err(CredentialsError::HelperName(name.to_owned()));
    }
    Ok(CredentialEntry::Helper(name))
}

/// Decodes `auth` of a login; none if it is not base64 of `user:password`. Containers' tools and
/// Kubernetes ignore line breaks in base64.
pub fn user_and_password(auth: &str) -> Option<(String, String)> {
    let auth: String = auth.trim().chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let auth = auth.trim_end_matches('=');
    let text = String::from_utf8(STANDARD_LENIENT.decode(auth).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    // docker pads with NULs on some machines.
    let password = password.trim_end_matches('\0');
    Some((user.to_owned(), password.to_owned()))
}

/// Padding is written by some and left out by others.
const STANDARD_LENIENT: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    base64::engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

/// `Basic` credentials as a header has them.
pub(crate) fn basic(user: &Secret<String>, password: &Secret<String>) -> Secret<String> {
    let pair = Secret::new(format!("{}:{}", user.expose(), password.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
}

#[cfg(test)]
mod tests;
