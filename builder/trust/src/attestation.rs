//! Attestations: a statement about an image (in-toto) in an envelope with its signatures (DSSE).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mosb_image::Digest;
use mosb_image::hidden::Hidden;
use serde::{Deserialize, Serialize};

use crate::provenance::{self, SLSA_PROVENANCE};
use crate::spdx::{self, SPDX_DOCUMENT};
use crate::{KeyError, SigningKey, VerifyingKey};

/// The media type of an envelope.
pub const DSSE: &str = "application/vnd.dsse.envelope.v1+json";
/// The annotation of a layer with the type of its statement.
pub const PREDICATE_TYPE_ANNOTATION: &str = "predicateType";
/// The type of what is in an envelope.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// Statements of both versions of in-toto.
const STATEMENTS: [&str; 2] =
    ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];
/// Most bytes of an envelope: an SBOM of 26,000 files has 20 MB, and base64 adds a third.
pub const ENVELOPE_LIMIT: u64 = 32 << 20;
/// Most signatures of one envelope.
const MAX_SIGNATURES: usize = 64;

/// What a verified attestation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAttestation {
    pub predicate_type: String,
    /// The position of the key among those that were given.
    pub key: usize,
    statement: Vec<u8>,
}

impl VerifiedAttestation {
    /// What it has, for people; only of the documents that mosb writes.
    pub fn description(&self) -> Option<String> {
        match &*self.predicate_type {
            SPDX_DOCUMENT => describe::<spdx::Described>(&self.statement),
            SLSA_PROVENANCE => describe::<provenance::Described>(&self.statement),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Predicate<P> {
    predicate: P,
}

fn describe<'s, P: Deserialize<'s> + ToString>(statement: &'s [u8]) -> Option<String> {
    // Others may write the same type in another form.
    let Predicate { predicate } = serde_json::from_slice::<Predicate<P>>(statement).ok()?;
    Some(predicate.to_string())
}

/// Why an attestation doesn't count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttestationProblem {
    #[error("it is missing or damaged, or larger than what is read of attestations")]
    Unreadable,
    #[error("not an envelope of a statement: {0}")]
    Envelope(String),
    #[error("none of the keys verifies it")]
    UnknownKey,
    #[error("not a statement of in-toto: {0}")]
    Statement(String),
    #[error("it is about another image")]
    OtherImage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
struct FoundStatement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

/// Verifies an envelope, and only then reads the statement in it.
///
/// # Errors
/// None of the keys signed it, or it is not a statement about the manifest `digest`.
pub fn verify(
    envelope: &[u8],
    keys: &[VerifyingKey],
    digest: &Digest,
) -> Result<VerifiedAttestation, AttestationProblem> {
    if envelope.len() as u64 > ENVELOPE_LIMIT {
        return Err(AttestationProblem::Unreadable);
    }
    let wrong = |cause: &str| AttestationProblem::Envelope(cause.to_owned());
    let envelope: Envelope =
        serde_json::from_slice(envelope).map_err(|error| wrong(&error.to_string()))?;
    if envelope.payload_type != IN_TOTO {
        return Err(wrong(&format!("its type is {:?}", envelope.payload_type)));
    }
    if envelope.signatures.len() > MAX_SIGNATURES {
        return Err(wrong("too many signatures"));
    }
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| wrong("its payload"))?;
    let signed = pre_authentication(&envelope.payload_type, &payload);
    let key = envelope.signatures.iter().find_map(|signature| {
        let signature = STANDARD.decode(&signature.sig).ok()?;
        keys.iter().position(|key| key.verifies(&signed, &signature))
    });
    let key = key.ok_or(AttestationProblem::UnknownKey)?;
    let wrong = |cause: String| AttestationProblem::Statement(cause);
    let statement: FoundStatement =
        serde_json::from_slice(&payload).map_err(|error| wrong(error.to_string()))?;
    if !STATEMENTS.contains(&&*statement.kind) {
        return Err(wrong(format!("its type is {:?}", statement.kind)));
    }
    let is_subject = |subject: &Subject| {
        let hex = subject.digest.sha256.as_ref();
        hex.is_some_and(|hex| format!("sha256:{hex}").parse().ok() == Some(*digest))
    };
    if !statement.subject.iter().any(is_subject) {
        return Err(AttestationProblem::OtherImage);
    }
    Ok(VerifiedAttestation { predicate_type: statement.predicate_type, key, statement: payload })
}

/// A statement about an image, to sign.
#[derive(Clone, PartialEq, Eq)]
pub struct Statement {
    pub predicate_type: &'static str,
    bytes: Bytes,
}

/// A statement as in-toto writes it, with sorted keys.
#[derive(Serialize)]
struct NewStatement<'a, P> {
    #[serde(rename = "_type")]
    kind: &'static str,
    predicate: &'a P,
    #[serde(rename = "predicateType")]
    predicate_type: &'static str,
    subject: [NewSubject; 1],
}

#[derive(Serialize)]
struct NewSubject {
    digest: NewDigest,
}

#[derive(Serialize)]
struct NewDigest {
    sha256: String,
}

/// An envelope, with sorted keys.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewEnvelope {
    payload: String,
    payload_type: &'static str,
    signatures: [NewSignature; 1],
}

#[derive(Serialize)]
struct NewSignature {
    keyid: &'static str,
    sig: String,
}

impl Statement {
    /// States `predicate` of the manifest `digest`.
    pub fn new(digest: &Digest, predicate_type: &'static str, predicate: &impl Serialize) -> Self {
        let digest = NewDigest { sha256: digest.hex() };
        let subject = [NewSubject { digest }];
        let statement = NewStatement { kind: STATEMENTS[0], predicate, predicate_type, subject };
        Self { predicate_type, bytes: to_json(&statement) }
    }

    /// The envelope with a signature of it.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, key: &SigningKey) -> Result<Bytes, KeyError> {
        let signature = key.sign(&pre_authentication(IN_TOTO, &self.bytes))?;
        Ok(to_json(&NewEnvelope {
            payload: STANDARD.encode(&self.bytes),
            payload_type: IN_TOTO,
            signatures: [NewSignature { keyid: "", sig: STANDARD.encode(signature) }],
        }))
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statement({}, {:?})", self.predicate_type, Hidden(self.bytes.len()))
    }
}

fn to_json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("it can be written as JSON").into()
}

/// What is signed of an envelope (DSSE, PAE).
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::SigningKey;

    fn statement(digest: &Digest) -> Value {
        let digest = digest.to_string();
        json!({
            "_type": STATEMENTS[0], "predicateType": "https://slsa.dev/provenance/v1",
            "subject": [{ "digest": { "sha256": digest.trim_start_matches("sha256:") } }],
            "predicate": {},
        })
    }

    fn envelope(key: &SigningKey, statement: &Value, payload_type: &str) -> Vec<u8> {
        let payload = statement.to_string();
        let signature = key.sign(&pre_authentication(IN_TOTO, payload.as_bytes())).unwrap();
        let envelope = json!({
            "payloadType": payload_type, "payload": STANDARD.encode(payload),
            "signatures": [
                { "keyid": "", "sig": "AAAA" }, { "keyid": "", "sig": STANDARD.encode(signature) },
            ],
        });
        envelope.to_string().into_bytes()
    }

    #[test]
    fn an_attestation_is_for_one_image_and_key() {
        let (key, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let keys = [other.verifying_key().clone(), key.verifying_key().clone()];
        let digest = Digest::of(b"manifest");
        let good = envelope(&key, &statement(&digest), IN_TOTO);
        let verified = verify(&good, &keys, &digest).unwrap();
        assert_eq!(
            (&*verified.predicate_type, verified.key),
            ("https://slsa.dev/provenance/v1", 1)
        );

        let mut other_kind = statement(&digest);
        other_kind["_type"] = json!("https://example.com/Statement");
        let other_kind = envelope(&key, &other_kind, IN_TOTO);
        let other_type = envelope(&key, &statement(&digest), "text/plain");
        let none = envelope(&key, &json!({}), IN_TOTO);
        type Want = fn(&AttestationProblem) -> bool;
        for (what, input, keys, digest, want) in [
            (
                "another key",
                &good,
                &keys[..1],
                digest,
                (|e| *e == AttestationProblem::UnknownKey) as Want,
            ),
            ("another image", &good, &keys[..], Digest::of(b"x"), |e| {
                *e == AttestationProblem::OtherImage
            }),
            ("another statement", &other_kind, &keys[..], digest, |e| {
                matches!(e, AttestationProblem::Statement(_))
            }),
            ("no statement", &none, &keys[..], digest, |e| {
                matches!(e, AttestationProblem::Statement(_))
            }),
            ("another type", &other_type, &keys[..], digest, |e| {
                matches!(e, AttestationProblem::Envelope(_))
            }),
        ] {
            let problem = verify(input, keys, &digest).unwrap_err();
            assert!(want(&problem), "{what}: {problem}");
        }
    }

    #[test]
    fn a_statement_is_signed_and_verified() {
        let (key, _) = SigningKey::generate().unwrap();
        let digest = Digest::of(b"manifest");
        let predicate = json!({ "a": 1 });
        let statement = Statement::new(&digest, "https://example.com/type", &predicate);
        let value: Value = serde_json::from_slice(&statement.bytes).unwrap();
        assert_eq!(statement.bytes, mosb_types::canonical_json(&value), "its keys are sorted");
        assert_eq!((&value["predicate"], &value["_type"]), (&predicate, &json!(STATEMENTS[0])));
        let envelope = statement.sign(&key).unwrap();
        let keys = [key.verifying_key().clone()];
        let verified = verify(&envelope, &keys, &digest).unwrap();
        assert_eq!((&*verified.predicate_type, verified.key), ("https://example.com/type", 0));
        assert_eq!(verified.description(), None);
        let changed = Statement::new(&digest, "https://example.com/type", &json!({}));
        let other: Value = serde_json::from_slice(&changed.sign(&key).unwrap()).unwrap();
        let mut mixed: Value = serde_json::from_slice(&envelope).unwrap();
        mixed["payload"] = other["payload"].clone();
        let mixed = verify(mixed.to_string().as_bytes(), &keys, &digest);
        assert_eq!(mixed, Err(AttestationProblem::UnknownKey));
    }

    /// The example of the DSSE specification.
    #[test]
    fn what_is_signed_has_the_lengths() {
        let signed = pre_authentication("http://example.com/HelloWorld", b"hello world");
        assert_eq!(signed, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
