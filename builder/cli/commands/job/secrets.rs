//! What must not be repeated from the output of a program: the credentials that it was given.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// In the place of a credential.
const HIDDEN: &str = "[secret]";
/// Shorter ones would be found in any text.
const SHORTEST: usize = 5;

/// Texts to be hidden.
#[derive(Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Everything in docker config files that may be a credential; a file that can't be read is told by who needs it.
    pub fn of<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut secrets = Self::default();
        for file in files {
            let value = std::fs::read(file)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if let Some(Value::Object(entries)) = value.as_ref().and_then(|v| v.get("auths")) {
                entries.values().for_each(|entry| secrets.add(entry));
            }
        }
        // A longer one may hold a shorter one.
        secrets.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
        secrets.0.dedup();
        secrets
    }

    fn add(&mut self, entry: &Value) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        let auth = text("auth");
        let decoded = auth
            .as_ref()
            .and_then(|auth| String::from_utf8(STANDARD.decode(auth).ok()?).ok());
        let password = decoded
            .as_ref()
            .and_then(|decoded| Some(decoded.split_once(':')?.1.to_owned()));
        let others = ["password", "identitytoken", "registrytoken"].map(text);
        let all = [auth, decoded, password]
            .into_iter()
            .chain(others)
            .flatten();
        self.0.extend(all.filter(|text| text.len() >= SHORTEST));
    }

    /// A line without them.
    pub fn hide(&self, line: &str) -> String {
        let hide = |line: String, secret: &String| line.replace(secret.as_str(), HIDDEN);
        self.0.iter().fold(line.to_owned(), hide)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({HIDDEN})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_is_a_credential_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let auth = STANDARD.encode("builder:canary-1");
        let config = json!({ "auths": { "quay.io": { "auth": &auth, "identitytoken": "canary-2" }, "x": { "password": "abc" } } });
        std::fs::write(&file, config.to_string()).unwrap();
        let secrets = Secrets::of([&*file, Path::new("/none")]);
        for (line, want) in [
            (format!("a {auth} b"), "a [secret] b"),
            ("-u builder:canary-1 x".to_owned(), "-u [secret] x"),
            ("canary-1canary-2".to_owned(), "[secret][secret]"),
            ("abc quay.io builder".to_owned(), "abc quay.io builder"),
        ] {
            assert_eq!(secrets.hide(&line), want);
        }
        assert!(!format!("{secrets:?}").contains("canary"));
    }
}
