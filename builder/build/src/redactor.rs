//! Removes credentials from the output of programs that were given them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::Value;

use mosb_registry::credentials::user_and_password;

/// Replaces a credential.
const PLACEHOLDER: &str = "[secret]";
/// Shorter secrets would match in any text.
const MIN_SECRET_LEN: usize = 5;

/// Replaces credentials in text.
#[derive(Default)]
pub struct Redactor(Vec<String>);

impl Redactor {
    /// Redacts everything in docker config files that may be a credential. A file that can't be
    /// parsed is ignored here; the code that logs in with it reports the error.
    pub fn from_logins(files: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut redactor = Self::default();
        for file in files {
            redactor.add_logins(&file);
        }
        redactor.sorted()
    }

    /// Redacts everything in Secrets: logins, and each line of anything else.
    pub fn from_secrets(secrets: impl IntoIterator<Item = BTreeMap<String, ByteString>>) -> Self {
        let mut redactor = Self::default();
        for value in secrets.into_iter().flat_map(BTreeMap::into_values) {
            if !redactor.add_logins(&value.0) {
                let text = String::from_utf8_lossy(&value.0);
                text.lines().for_each(|line| redactor.add_line(line.trim()));
            }
        }
        redactor.sorted()
    }

    /// Redacts these lines too, such as a URL with a password, and the password in it.
    #[must_use]
    pub fn with_lines<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) -> Self {
        lines.into_iter().for_each(|line| self.add_line(line));
        self.sorted()
    }

    fn sorted(mut self) -> Self {
        self.0.retain(|text| text.len() >= MIN_SECRET_LEN);
        // A longer secret may contain a shorter one.
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
        self
    }

    /// Returns whether the file was a docker config.
    fn add_logins(&mut self, file: &[u8]) -> bool {
        let value = serde_json::from_slice::<Value>(file).ok();
        let Some(Value::Object(entries)) = value.as_ref().and_then(|value| value.get("auths"))
        else {
            return false;
        };
        entries.values().for_each(|entry| self.add_login(entry));
        true
    }

    fn add_login(&mut self, entry: &Value) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        let auth = text("auth");
        if let Some((user, password)) = auth.as_deref().and_then(user_and_password) {
            self.0.extend([format!("{user}:{password}"), password]);
        }
        let others = ["password", "identitytoken", "registrytoken"].map(text);
        self.0.extend(others.into_iter().chain([auth]).flatten());
    }

    /// A line of a key, or a URL with a password.
    fn add_line(&mut self, line: &str) {
        // The first and last line of every PEM file.
        if line.starts_with("-----") {
            return;
        }
        self.0.push(line.to_owned());
        let inside = line.split_once("://").and_then(|(_, rest)| {
            let (user, _) = rest.rsplit_once('@')?;
            user.split_once(':')
        });
        self.0.extend(inside.map(|(_, word)| word.to_owned()));
    }

    /// Length of the longest secret, in bytes.
    pub fn longest_secret(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// The text with each secret replaced.
    pub fn redact(&self, line: &str) -> String {
        let mut text = line.to_owned();
        for secret in &self.0 {
            // A search alone copies nothing.
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), PLACEHOLDER);
            }
        }
        text
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({PLACEHOLDER})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    #[test]
    fn credentials_are_redacted() {
        let auth = STANDARD.encode("builder:canary-1");
        let config = json!({ "auths": { "quay.io": { "auth": &auth, "identitytoken": "canary-2" }, "x": { "password": "abc" } } });
        let key = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5LTM\n-----END PRIVATE KEY-----\n";
        let proxy = "http://proxy:canary-4@proxy.example:3128";
        let logins = Redactor::from_logins([config.to_string().into_bytes(), Vec::new()]);
        let data =
            [(".dockerconfigjson", &*config.to_string()), ("tls.key", key), ("HTTPS_PROXY", proxy)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
        let secrets = Redactor::from_secrets([data.into()]);
        for (line, want) in [
            (format!("a {auth} b"), "a [secret] b"),
            ("-u builder:canary-1 x".to_owned(), "-u [secret] x"),
            ("canary-1canary-2".to_owned(), "[secret][secret]"),
            ("abc quay.io builder".to_owned(), "abc quay.io builder"),
        ] {
            assert_eq!(logins.redact(&line), want);
            assert_eq!(secrets.redact(&line), want);
        }
        for (line, want) in [
            ("got Y2FuYXJ5LTM", "got [secret]"),
            ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
            (proxy, "[secret]"),
            ("password canary-4 refused", "password [secret] refused"),
        ] {
            assert_eq!(secrets.redact(line), want);
            assert_eq!(logins.redact(line), line);
        }
        assert!(!format!("{secrets:?}").contains("canary"));
    }
}
