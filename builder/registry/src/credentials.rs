//! Files with logins, as podman, docker and Kubernetes write them: `.dockerconfigjson` (`auths`,
//! `credHelpers`, `credsStore`) and the older `.dockercfg` (the bare map).

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use mosb_image::RepoRef;
use mosb_types::Secret;

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

/// What one file holds. As in containers' tools, an entry that can't be used is an error only for
/// the registry that it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DockerConfig {
    logins: BTreeMap<String, Result<Login, CredentialsError>>,
    helpers: BTreeMap<String, String>,
    store: Option<String>,
}

/// What a file says about a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialEntry<'a> {
    Login(&'a Login),
    /// The helper `docker-credential-<name>` is to be asked.
    Helper(&'a str),
}

/// Why a file, or an entry of it, can't be used. Never quotes a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Not JSON of the wanted form; where, not what.
    #[error("not a docker config: line {line}, column {column}: want JSON with \"auths\"")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// `auth` of an entry.
    #[error("the auth of {0:?} is not base64 of user:password; log in again")]
    Auth(String),
    /// A helper's name could be a path.
    #[error("{0:?} can't be a credential helper: must be letters, digits, . _ -")]
    HelperName(String),
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(default)]
    auths: Option<BTreeMap<String, RawAuth>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize, Default)]
struct RawAuth {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
    #[serde(default)]
    registrytoken: Option<String>,
}

impl DockerConfig {
    /// Reads either format.
    pub fn parse(text: &[u8]) -> Result<Self, CredentialsError> {
        // serde's own message may quote the value that it didn't like.
        let place =
            |e: serde_json::Error| CredentialsError::Json { line: e.line(), column: e.column() };
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        let value: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(place)?;
        let is_new =
            ["auths", "credHelpers", "credsStore"].iter().any(|key| value.contains_key(*key));
        let raw = if is_new {
            serde_json::from_slice(text).map_err(place)?
        } else {
            // A docker config may hold settings only; an entry of the old format is an object with
            // a login.
            let auths = value
                .into_iter()
                .filter_map(|(key, value)| Some((key, serde_json::from_value(value).ok()?)))
                .collect();
            RawConfig { auths: Some(auths), helpers: None, store: None }
        };
        let mut logins = BTreeMap::new();
        for (key, auth) in raw.auths.unwrap_or_default() {
            if let Some(login) = login(&key, auth).transpose() {
                logins.insert(normal_key(&key), login);
            }
        }
        let helpers: BTreeMap<_, _> = raw
            .helpers
            .unwrap_or_default()
            .into_iter()
            .map(|(key, helper)| (normal_key(&key), helper))
            .collect();
        let store = raw.store.filter(|store| !store.is_empty());
        Ok(Self { logins, helpers, store })
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
        let mut key = format!("{host}/{repository}");
        loop {
            match self.logins.get(&key) {
                Some(Ok(login)) => return Ok(Some(CredentialEntry::Login(login))),
                Some(Err(error)) => return Err(error.clone()),
                None => {}
            }
            match key.rfind('/') {
                Some(slash) => key.truncate(slash),
                None => break,
            }
        }
        self.store.as_deref().map(helper).transpose()
    }
}

fn helper(name: &str) -> Result<CredentialEntry<'_>, CredentialsError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if !name.bytes().all(fine) {
        return Err(CredentialsError::HelperName(name.to_owned()));
    }
    Ok(CredentialEntry::Helper(name))
}

/// The path of a repository below `/v2/`; Docker Hub's own images are filed under `library/`.
pub(super) fn path_in_registry(repo: &RepoRef) -> Cow<'_, str> {
    let name = repo.repository();
    match normal_host(repo.host()) {
        "docker.io" if !name.contains('/') => format!("library/{name}").into(),
        _ => name.into(),
    }
}

/// How many bytes of `host/repository` the key of a login covers; none if the login is not for this
/// repository. The one that covers most is used.
pub fn covers(key: &str, repo: &RepoRef) -> Option<usize> {
    let (key, host) = (normal_key(key), normal_host(repo.host()));
    let name = format!("{host}/{}", path_in_registry(repo));
    let rest = name.strip_prefix(&*key)?;
    (!key.is_empty() && (rest.is_empty() || rest.starts_with('/'))).then_some(key.len())
}

fn login(key: &str, raw: RawAuth) -> Result<Option<Login>, CredentialsError> {
    let given = |text: Option<String>| text.filter(|t| !t.is_empty());
    if let Some(token) = given(raw.registrytoken) {
        return Ok(Some(Login::Token(Secret::new(token))));
    }
    if let Some(token) = given(raw.identitytoken) {
        return Ok(Some(Login::Identity(Secret::new(token))));
    }
    if let Some(auth) = given(raw.auth) {
        let wrong = || CredentialsError::Auth(key.to_owned());
        let (user, password) = user_and_password(&auth).ok_or_else(wrong)?;
        return Ok(Some(Login::Password {
            user: Secret::new(user),
            password: Secret::new(password),
        }));
    }
    Ok(match (given(raw.username), raw.password) {
        (Some(user), Some(password)) => {
            Some(Login::Password { user: Secret::new(user), password: Secret::new(password) })
        }
        _ => None,
    })
}

/// What `auth` of a login says; none if it is no base64 of `user:password`. Line breaks in base64
/// mean nothing to containers' tools and to Kubernetes.
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
pub(super) fn basic(user: &Secret<String>, password: &Secret<String>) -> Secret<String> {
    let pair = Secret::new(format!("{}:{}", user.expose(), password.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
}

/// The one name of Docker Hub among its many.
pub(super) fn normal_host(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => "docker.io",
        other => other,
    }
}

/// Keys are `host`, `host/namespace`, or URLs of old (`https://index.docker.io/v1/`), of which only
/// the host counts.
fn normal_key(key: &str) -> String {
    let url = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://"));
    match url {
        Some(rest) => normal_host(rest.split('/').next().unwrap_or(rest)).to_owned(),
        None => {
            let key = key.trim_end_matches('/');
            match key.split_once('/') {
                Some((host, "v1" | "v2")) => normal_host(host).to_owned(),
                Some((host, path)) => format!("{}/{path}", normal_host(host)),
                None => normal_host(key).to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(user: &str, password: &str) -> Login {
        Login::Password {
            user: Secret::new(user.to_owned()),
            password: Secret::new(password.to_owned()),
        }
    }

    #[test]
    fn the_most_specific_login_is_found() {
        let config = DockerConfig::parse(
            br#"{"auths": {
                "quay.io": {"auth": "aG9zdDpw"},
                "quay.io/acme": {"auth": "YWNtZTpwOnc="},
                "quay.io/acme/os": {"auth": "b3M6cA"},
                "https://index.docker.io/v1/": {"username": "hub", "password": "p"},
                "localhost:5000": {"identitytoken": "idt"},
                "reg.example:5000/": {"registrytoken": "rt", "auth": "eDp5"},
                "empty.example": {}
            }, "credHelpers": {"gcr.io": "gcloud"}, "HttpHeaders": {"x": "y"}}"#,
        )
        .unwrap();
        let identity = Login::Identity(Secret::new("idt".to_owned()));
        let token = Login::Token(Secret::new("rt".to_owned()));
        for (host, repository, want) in [
            ("quay.io", "other/os", Some(password("host", "p"))),
            ("quay.io", "acme/other", Some(password("acme", "p:w"))),
            ("quay.io", "acmes", Some(password("host", "p"))),
            ("quay.io", "acme/os", Some(password("os", "p"))),
            ("quay.io", "acme/os/deeper", Some(password("os", "p"))),
            ("docker.io", "library/busybox", Some(password("hub", "p"))),
            ("registry-1.docker.io", "library/busybox", Some(password("hub", "p"))),
            ("localhost:5000", "os", Some(identity)),
            ("reg.example:5000", "os", Some(token)),
            ("localhost", "os", None),
            ("empty.example", "os", None),
        ] {
            assert_eq!(
                config.find(host, repository),
                Ok(want.as_ref().map(CredentialEntry::Login)),
                "{host}/{repository}"
            );
        }
        assert_eq!(config.find("gcr.io", "a/b"), Ok(Some(CredentialEntry::Helper("gcloud"))));
    }

    #[test]
    fn both_formats_and_nothing_are_read() {
        let old = DockerConfig::parse(br#"{"quay.io": {"auth": "YTpi", "email": "x"}}"#).unwrap();
        assert_eq!(old.find("quay.io", "x"), Ok(Some(CredentialEntry::Login(&password("a", "b")))));
        let store =
            DockerConfig::parse(br#"{"auths": {"quay.io": {}}, "credsStore": "pass"}"#).unwrap();
        assert_eq!(store.find("quay.io", "x"), Ok(Some(CredentialEntry::Helper("pass"))));
        for nothing in ["", " \n", "{}", r#"{"auths": null}"#, r#"{"detachKeys": "ctrl-x"}"#] {
            let config = DockerConfig::parse(nothing.as_bytes()).unwrap();
            assert_eq!(config.find("quay.io", "x"), Ok(None), "{nothing:?}");
        }
    }

    #[test]
    fn an_unusable_file_is_an_error_that_does_not_quote_it() {
        for (what, text, want) in [
            ("not JSON", "hunter2", CredentialsError::Json { line: 1, column: 1 }),
            ("a list", "[\"hunter2\"]", CredentialsError::Json { line: 1, column: 0 }),
        ] {
            let error = DockerConfig::parse(text.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{what}");
            assert_eq!(error, want, "{what}");
        }
        let error = DockerConfig::parse(br#"{"auths": {"a.io": "hunter2"}}"#).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn an_odd_entry_harms_only_its_own_registry() {
        let wrong = |key: &str| Err(CredentialsError::Auth(key.to_owned()));
        let config = DockerConfig::parse(
            br#"{"auths": {
                "fake": {"auth": "bar"},
                "a.io": {"auth": "hunter2!"},
                "b.io/x": {"auth": "aHVudGVyMg=="},
                "c.io": {"auth": "dTpw\n"},
                "d.io": {"auth": "dT\r\npw"}
            }, "credHelpers": {"e.io": "../sh"}}"#,
        )
        .unwrap();
        let login = password("u", "p");
        for (host, repository, want) in [
            ("registry.example.com", "os", Ok(None)),
            ("a.io", "os", wrong("a.io")),
            ("b.io", "os", Ok(None)),
            ("b.io", "x/os", wrong("b.io/x")),
            ("c.io", "os", Ok(Some(CredentialEntry::Login(&login)))),
            ("d.io", "os", Ok(Some(CredentialEntry::Login(&login)))),
            ("e.io", "os", Err(CredentialsError::HelperName("../sh".to_owned()))),
        ] {
            assert_eq!(config.find(host, repository), want, "{host}/{repository}");
        }
    }
}
