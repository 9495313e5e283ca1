//! What an image is pulled with: a login, and mirrors, CAs and proxy of the cluster's settings.
//! Credentials are never printed and never an argument of a program.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mosb_build::{DockerConfigJson, MAX_PULL_SETTINGS, PullSettings, Redactor};
use mosb_types::Secret;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// What an image is pulled with, beside what the machine has.
#[derive(Debug, Default)]
pub struct PullAccess {
    pub(crate) login: Option<Login>,
    pub(crate) settings: PullSettings,
}

impl PullAccess {
    /// Reads files of this container: logins as `auth.json` has them, and [`PullSettings`] as JSON.
    ///
    /// # Errors
    /// One can't be read, or is not what it should be. No message has its content.
    pub fn read(login: Option<&Path>, settings: Option<&Path>) -> Result<Self, Error> {
        Ok(Self {
            login: login.map(Login::read).transpose()?,
            settings: settings.map(read_settings).transpose()?.unwrap_or_default(),
        })
    }

    /// Whether the machine pulls as it would without mosb.
    pub(crate) fn is_empty(&self) -> bool {
        self.login.is_none() && self.settings.is_empty()
    }

    /// Removes passwords from the output of what pulls.
    pub(crate) fn redactor(&self) -> Redactor {
        let login = self.login.as_ref().map(|login| login.to_bytes().expose().clone());
        Redactor::from_logins(login).with_lines(self.settings.proxy_urls())
    }
}

fn read_settings(file: &Path) -> Result<PullSettings, Error> {
    let bad = |cause| Error::BadPullSettings { file: file.display().to_string(), cause };
    let mut bytes = Vec::new();
    let opened = File::open(file);
    opened
        .and_then(|opened| opened.take(MAX_PULL_SETTINGS as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| bad(format!("not readable: {error}")))?;
    PullSettings::parse(Secret::new(bytes).expose()).map_err(bad)
}

/// The most bytes of a file with logins; a Secret has at most 1 MiB.
pub(crate) const LOGIN_FILE: u64 = 1024 * 1024;

/// Logins by registry or repository, as `auth.json` has them.
#[derive(Debug)]
pub(crate) struct Login(DockerConfigJson);

impl Login {
    /// Reads a file of this container.
    ///
    /// # Errors
    /// It can't be read, or has no logins. No message has its content.
    pub(crate) fn read(file: &Path) -> Result<Self, Error> {
        let bad = |cause: String| Error::BadLogin { file: file.display().to_string(), cause };
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(LOGIN_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| bad(format!("not readable: {error}")))?;
        let bytes = Secret::new(bytes);
        if bytes.expose().len() as u64 > LOGIN_FILE {
            return Err(bad(format!("more than {LOGIN_FILE} bytes")));
        }
        Self::parse(bytes.expose()).map_err(bad)
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let logins = DockerConfigJson::parse(bytes).map_err(|error| error.without_names())?;
        // A Job for an image that needs no login has an empty `auths`. In any other file, it is a
        // mistake, which would show only when the image can't be pulled.
        let has_auths = || {
            let file = serde_json::from_slice::<Map<String, Value>>(bytes);
            file.is_ok_and(|file| file.get("auths").is_some_and(Value::is_object))
        };
        if logins.is_empty() && !has_auths() {
            return Err("it has no logins".to_owned());
        }
        Ok(Self(logins))
    }

    /// A file with these logins, and those of the machine's own file for other registries.
    pub(crate) fn over(&self, own: Option<&[u8]>) -> Secret<Vec<u8>> {
        let own = own.and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(bytes).ok());
        let mut file = own.unwrap_or_default();
        let logins = self.0.auths();
        // A helper would be asked instead of the login.
        if let Some(Value::Object(helpers)) = file.get_mut("credHelpers") {
            logins.expose().keys().for_each(|registry| {
                helpers.remove(host(registry));
            });
        }
        let auths = file.entry("auths").or_insert_with(|| json!({}));
        if !auths.is_object() {
            *auths = json!({});
        }
        if let Value::Object(auths) = auths {
            auths.extend(logins.expose().clone());
        }
        let file = Secret::new(file);
        Secret::new(serde_json::to_vec(file.expose()).expect("a JSON value is JSON"))
    }

    /// As [`over`](Self::over) without a file of the machine.
    pub(crate) fn to_bytes(&self) -> Secret<Vec<u8>> {
        self.over(None)
    }
}

/// The host of a key: `host`, `host/repository`, or a URL.
fn host(registry: &str) -> &str {
    let name = registry.split_once("://").map_or(registry, |(_, name)| name);
    name.split('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_are_named_and_not_quoted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"proxy":{"httpsProxy":"http://u:hush-hush@p:1"}}"#)
            .unwrap();
        let access = PullAccess::read(None, Some(file.path())).unwrap();
        assert!(!access.is_empty());
        assert!(!format!("{access:?}").contains("hush"));
        assert_eq!(access.redactor().redact("proxy hush-hush refused"), "proxy [secret] refused");
        std::fs::write(file.path(), r#"{"proxy":{"httpsProxy":"hush"}}"#).unwrap();
        for path in [file.path(), Path::new("/none")] {
            let error = PullAccess::read(None, Some(path)).unwrap_err();
            assert!(matches!(error, Error::BadPullSettings { .. }), "{error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        assert!(PullAccess::read(None, None).unwrap().is_empty());
    }

    fn login(text: &str) -> Login {
        Login::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn logins_of_the_machine_stay_for_other_registries() {
        let ours = login(r#"{"auths":{"reg.example/os":{"auth":"b3VyczpodXNo"}}}"#);
        let own = json!({
            "auths": { "reg.example/os": { "auth": "b2xk" }, "quay.io": { "auth": "cXVheQ==" } },
            "credHelpers": { "reg.example": "secretservice", "ghcr.io": "pass" },
        });
        let merged = |own: Option<&[u8]>| -> Value {
            serde_json::from_slice(ours.over(own).expose()).unwrap()
        };
        assert_eq!(
            merged(Some(own.to_string().as_bytes())),
            json!({
                "auths": {
                    "reg.example/os": { "auth": "b3VyczpodXNo" },
                    "quay.io": { "auth": "cXVheQ==" },
                },
                "credHelpers": { "ghcr.io": "pass" },
            })
        );
        let alone = json!({ "auths": { "reg.example/os": { "auth": "b3VyczpodXNo" } } });
        for own in [None, Some(&b"not json"[..]), Some(b"[]"), Some(br#"{"auths":[]}"#)] {
            assert_eq!(merged(own), alone);
        }
    }

    #[test]
    fn logins_and_bad_files_are_not_printed() {
        let ours = login(r#"{"auths":{"reg.example":{"auth":"hush"}}}"#);
        assert!(!format!("{ours:?}").contains("hush"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let no_logins = "it has no logins";
        let no_login = "a login has neither username and password nor auth";
        for (text, want) in [
            ("hush", "it is not JSON of logins"),
            ("{hush}", "it is not JSON of logins"),
            (r#"{"hush":1}"#, "it needs an object with username and password, or auth"),
            (r#"{"auths":"hush"}"#, "it needs an object"),
            (r#"{"auths":{"hush":{"auth":1}}}"#, "it needs a text"),
            (r#"{"auths":{"hush":{"token":"hush"}}}"#, no_login),
            ("{}", no_logins),
            (r#"{"credsStore":"hush"}"#, no_logins),
            (r#"{"auths":null}"#, no_logins),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let Err(Error::BadLogin { cause, .. }) = Login::read(file.path()) else {
                panic!("{text}");
            };
            assert!(cause.starts_with(want) && !cause.contains("hush"), "{text}: {cause}");
        }
        std::fs::write(file.path(), DockerConfigJson::empty().to_bytes().expose()).unwrap();
        assert!(Login::read(file.path()).is_ok(), "of a Job for a public image");
        assert!(matches!(Login::read(Path::new("/none")), Err(Error::BadLogin { .. })));
    }
}
