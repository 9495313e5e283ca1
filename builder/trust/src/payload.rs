//! What is signed of an image: the simple signing payload, as cosign writes and containers/image
//! reads it.

use mosb_image::Digest;
use mosb_types::{JsonObject, canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most bytes of a payload, as in containers/image.
pub const PAYLOAD_LIMIT: u64 = 4 << 20;
/// The media type of a payload.
pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// `critical.type`.
const KIND: &str = "cosign container image signature";

/// The image that a signature is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The name that the signer gives it (`docker-reference`), in any form.
    pub reference: String,
    /// The digest of its manifest.
    pub digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error("more than {PAYLOAD_LIMIT} bytes")]
    TooLarge,
    #[error("not a payload of a signature: {0}")]
    Json(String),
    #[error("a payload of type {0:?}")]
    Kind(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    critical: JsonObject<Critical>,
    /// Required, and may be null.
    #[serde(deserialize_with = "Option::deserialize")]
    optional: Option<JsonObject<Optional>>,
}

/// Exactly these fields: containers/image refuses one more.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: JsonObject<Identity>,
    image: JsonObject<Image>,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: Digest,
}

/// What is neither checked nor used, but must have the right types.
#[derive(Serialize, Deserialize)]
struct Optional {
    creator: Option<String>,
    timestamp: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Payload {
    /// Reads a payload.
    ///
    /// # Errors
    /// It is too large, or has another shape than containers/image takes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PayloadError> {
        if bytes.len() as u64 > PAYLOAD_LIMIT {
            return Err(PayloadError::TooLarge);
        }
        let JsonObject(raw): JsonObject<Raw> =
            serde_json::from_slice(bytes).map_err(|error| PayloadError::Json(error.to_string()))?;
        let Critical { identity, image, kind } = raw.critical.0;
        if kind != KIND {
            return Err(PayloadError::Kind(kind));
        }
        let timestamp = raw.optional.and_then(|JsonObject(optional)| optional.timestamp);
        if timestamp.is_some_and(|timestamp| timestamp.fract() != 0.0) {
            return Err(PayloadError::Json("its timestamp is not a whole number".to_owned()));
        }
        Ok(Self { reference: identity.0.reference, digest: image.0.digest })
    }

    /// The bytes that are signed: one text for one image and name, without a time.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical_json(&Raw {
            critical: JsonObject(Critical {
                identity: JsonObject(Identity { reference: self.reference.clone() }),
                image: JsonObject(Image { digest: self.digest }),
                kind: KIND.to_owned(),
            }),
            optional: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn text(critical: &str, optional: &str) -> String {
        format!(r#"{{"critical":{{{critical}}},{optional}}}"#)
    }

    fn critical() -> String {
        format!(
            r#""identity":{{"docker-reference":"quay.io/a:1"}},"image":{{"docker-manifest-digest":"{DIGEST}"}},"type":"{KIND}""#
        )
    }

    #[test]
    fn payloads_are_read_as_containers_image_reads_them() {
        let critical = critical();
        let null = r#""optional":null"#;
        for (what, input, want) in [
            ("ours", text(&critical, null), true),
            ("an object", text(&critical, r#""optional":{}"#), true),
            (
                "creator",
                text(&critical, r#""optional":{"creator":"x","timestamp":1,"a":[1]}"#),
                true,
            ),
            ("spaces", format!(" {}\n", text(&critical, null)), true),
            ("no optional", format!(r#"{{"critical":{{{critical}}}}}"#), false),
            ("a text as optional", text(&critical, r#""optional":"x""#), false),
            ("a number as creator", text(&critical, r#""optional":{"creator":1}"#), false),
            ("a half second", text(&critical, r#""optional":{"timestamp":1.5}"#), false),
            ("a text as time", text(&critical, r#""optional":{"timestamp":"1"}"#), false),
            ("one more", text(&critical, r#""optional":null,"more":1"#), false),
            ("one more inside", text(&format!(r#"{critical},"x":1"#), null), false),
            ("twice", text(&format!(r#"{critical},"type":"{KIND}""#), null), false),
            (
                "another type",
                text(&critical.replace(KIND, "atomic container signature"), null),
                false,
            ),
            ("no digest", text(&critical.replace(DIGEST, ""), null), false),
            ("no name", text(&critical.replace("docker-reference", "reference"), null), false),
            ("data after it", format!("{}{{}}", text(&critical, null)), false),
            ("a list", format!("[{{{critical}}},null]"), false),
            (
                "a list inside",
                format!(r#"{{"critical":[["quay.io/a:1"],["{DIGEST}"],"{KIND}"],{null}}}"#),
                false,
            ),
        ] {
            let payload = Payload::parse(input.as_bytes());
            assert_eq!(payload.is_ok(), want, "{what}: {payload:?}");
        }
        let large = vec![b' '; usize::try_from(PAYLOAD_LIMIT).unwrap() + 1];
        assert_eq!(Payload::parse(&large), Err(PayloadError::TooLarge));
    }

    #[test]
    fn a_payload_has_one_text() {
        let payload =
            Payload { reference: "quay.io/a:1".to_owned(), digest: DIGEST.parse().unwrap() };
        let bytes = payload.to_bytes();
        assert_eq!(
            String::from_utf8(bytes.clone()).unwrap(),
            text(&critical(), r#""optional":null"#)
        );
        assert_eq!(Payload::parse(&bytes), Ok(payload));
    }
}
