//! Credentials of a registry for the tools of the machine. They are never printed and never an
//! argument of a program.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mosb_types::Secret;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// The most bytes of a file with logins; a Secret has at most 1 MiB.
pub(crate) const LOGIN_FILE: u64 = 1024 * 1024;

/// Logins by registry or repository, as `auth.json` has them.
#[derive(Debug)]
pub struct Login(Secret<Map<String, Value>>);

impl Login {
    /// Reads a file of this container.
    ///
    /// # Errors
    /// It can't be read, or has no logins. No message has its content.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let bad = |cause: String| Error::BadLogin { file: file.display().to_string(), cause };
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(LOGIN_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| bad(format!("not readable: {error}")))?;
        let bytes = Secret::new(bytes);
        if bytes.expose().len() as u64 > LOGIN_FILE {
            return Err(bad(format!("more than {LOGIN_FILE} bytes")));
        }
        Self::parse(bytes.expose()).map_err(|cause| bad(cause.to_owned()))
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        // An error of the parser may quote the content.
        let value: Value = serde_json::from_slice(bytes).map_err(|_| "no JSON")?;
        match value {
            Value::Object(mut file) => match file.remove("auths") {
                Some(Value::Object(auths)) => Ok(Self(Secret::new(auths))),
                _ => Err("there is no \"auths\" in it"),
            },
            _ => Err("no JSON object"),
        }
    }

    /// A file with these logins, and those of the machine's own file for other registries.
    pub(crate) fn over(&self, own: Option<&[u8]>) -> Secret<Vec<u8>> {
        let own = own.and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(bytes).ok());
        let mut file = own.unwrap_or_default();
        let logins = self.0.expose();
        // A helper would be asked instead of the login.
        if let Some(Value::Object(helpers)) = file.get_mut("credHelpers") {
            logins.keys().for_each(|registry| {
                helpers.remove(host(registry));
            });
        }
        let auths = file.entry("auths").or_insert_with(|| json!({}));
        if !auths.is_object() {
            *auths = json!({});
        }
        if let Value::Object(auths) = auths {
            auths.extend(logins.clone());
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
    fn a_login_is_not_printed_and_a_bad_file_is_not_quoted() {
        let ours = login(r#"{"auths":{"reg.example":{"auth":"hush"}}}"#);
        assert!(!format!("{ours:?}").contains("hush"));
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["hush", "{hush}", r#"{"hush":1}"#, r#"{"auths":"hush"}"#] {
            std::fs::write(file.path(), text).unwrap();
            let error = Login::read(file.path()).unwrap_err();
            assert!(matches!(error, Error::BadLogin { .. }), "{text}: {error}");
            assert!(!error.to_string().contains("hush"), "{text}: {error}");
        }
        assert!(matches!(Login::read(Path::new("/none")), Err(Error::BadLogin { .. })));
    }
}
