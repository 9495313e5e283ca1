//! What a registry says in the body of an error answer: bounded, printable, and only the fields meant for readers.

use std::fmt;

use serde::Deserialize;

/// The registry's own words, or none. Printed as `: words`, to stand behind a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said(String);

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<OneError>,
}

#[derive(Deserialize)]
struct OneError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Characters shown of a registry's message.
const SHOWN: usize = 200;

impl Said {
    /// Code and message of an OCI error body (OCI distribution spec, error codes); nothing of any other body.
    pub fn from_body(body: &[u8]) -> Self {
        let Ok(Errors { errors }) = serde_json::from_slice(body) else {
            return Self::default();
        };
        let words = errors
            .iter()
            .take(3)
            .map(|e| match (&*e.code, &*e.message) {
                (code, "") => code.to_owned(),
                ("", message) => message.to_owned(),
                (code, message) => format!("{code}: {message}"),
            })
            .collect::<Vec<_>>()
            .join("; ");
        Self(
            words
                .chars()
                .filter(|c| !c.is_control())
                .take(SHOWN)
                .collect(),
        )
    }

    /// Whether one of the errors has this code.
    pub fn has_code(body: &[u8], codes: &[&str]) -> bool {
        serde_json::from_slice::<Errors>(body)
            .is_ok_and(|all| all.errors.iter().any(|e| codes.contains(&&*e.code)))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_message_are_repeated() {
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "x".repeat(1000));
        for (what, body, want) in [
            ("html", "<html>token=abc</html>", String::new()),
            ("empty", "", String::new()),
            (
                "an error",
                r#"{"errors":[{"code":"DENIED","message":"no\nway\u001b[31m","detail":"secret"}]}"#,
                ": DENIED: noway[31m".to_owned(),
            ),
            (
                "only a code",
                r#"{"errors":[{"code":"DENIED"}]}"#,
                ": DENIED".to_owned(),
            ),
            ("long", &long, format!(": {}", "x".repeat(SHOWN))),
        ] {
            assert_eq!(Said::from_body(body.as_bytes()).to_string(), want, "{what}");
        }
        assert!(Said::has_code(
            br#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#,
            &["BLOB_UNKNOWN"]
        ));
        assert!(!Said::has_code(b"BLOB_UNKNOWN", &["BLOB_UNKNOWN"]));
    }
}
