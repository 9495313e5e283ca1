//! One requirement of a policy, as containers/image reads it: an unknown field, or a combination
//! that it refuses, makes the whole policy invalid.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_types::JsonObject;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::identity::SignedIdentity;

/// A requirement for a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureRequirement {
    /// What must be checked.
    pub check: SignatureCheck,
    /// As the policy has it.
    raw: RawRequirement,
}

/// What a requirement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureCheck {
    /// A signature by one of these keys, for an accepted identity.
    Sigstore { keys: KeySource, identity: SignedIdentity },
    /// What mosb can't evaluate, in the word of the policy: `signedBy`, or a field of
    /// `sigstoreSigned`.
    Unsupported(&'static str),
}

/// Public keys in PEM; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    Files(Vec<PathBuf>),
    Texts(Vec<Vec<u8>>),
}

impl SignatureRequirement {
    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(&self.raw).expect("a requirement can be written as JSON")
    }
}

/// A requirement as it is written. Variants without fields are structs, because unknown fields are
/// refused in these only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(super) enum RawRequirement {
    InsecureAcceptAnything {},
    Reject {},
    SignedBaseLayer { base_layer_identity: JsonObject<SignedIdentity> },
    SignedBy(RawSignedBy),
    SigstoreSigned(RawSigstoreSigned),
}

/// A requirement alone, before the others of its list.
pub(super) enum ParsedRequirement {
    Accept,
    Reject,
    Signature(Box<SignatureRequirement>),
}

impl RawRequirement {
    pub fn parse(self) -> Result<ParsedRequirement, &'static str> {
        let check = match &self {
            Self::InsecureAcceptAnything {} => return Ok(ParsedRequirement::Accept),
            // The meaning of a signed base layer was never written, and containers' tools reject
            // under it.
            Self::Reject {} | Self::SignedBaseLayer { .. } => return Ok(ParsedRequirement::Reject),
            Self::SignedBy(raw) => raw.check()?,
            Self::SigstoreSigned(raw) => raw.check()?,
        };
        Ok(ParsedRequirement::Signature(Box::new(SignatureRequirement { check, raw: self })))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawSignedBy {
    key_type: KeyType,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_data: Option<Base64>,
    #[serde(default)]
    signed_identity: JsonObject<SignedIdentity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum KeyType {
    #[serde(rename = "GPGKeys")]
    GpgKeys,
    #[serde(rename = "signedByGPGKeys")]
    SignedByGpgKeys,
    #[serde(rename = "X509Certificates")]
    Certificates,
    #[serde(rename = "signedByX509CAs")]
    SignedByAuthorities,
}

impl RawSignedBy {
    fn check(&self) -> Result<SignatureCheck, &'static str> {
        let has_path = self.key_path.as_ref().is_some_and(|path| !path.is_empty());
        match [has_path, self.key_paths.is_some(), self.key_data.is_some()] {
            [true, false, false] | [false, true, false] | [false, false, true] => {
                Ok(SignatureCheck::Unsupported("signedBy"))
            }
            _ => Err("signedBy must have exactly one of keyPath, keyPaths and keyData"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawSigstoreSigned {
    #[serde(skip_serializing_if = "Option::is_none")]
    key_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_paths: Option<Vec<PathBuf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_data: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_datas: Option<Vec<Base64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulcio: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pki: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rekor_public_key_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rekor_public_key_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rekor_public_key_data: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rekor_public_key_datas: Option<Vec<Base64>>,
    #[serde(default)]
    signed_identity: JsonObject<SignedIdentity>,
}

impl RawSigstoreSigned {
    fn check(&self) -> Result<SignatureCheck, &'static str> {
        let texts = |all: &[Base64]| {
            KeySource::Texts(all.iter().map(|Base64(bytes)| bytes.clone()).collect())
        };
        let path = self.key_path.as_ref().filter(|path| !path.as_os_str().is_empty());
        let sources = [
            path.map(|path| KeySource::Files(vec![path.clone()])),
            self.key_paths.clone().map(KeySource::Files),
            self.key_data.as_ref().map(|one| texts(std::slice::from_ref(one))),
            self.key_datas.as_deref().map(texts),
        ];
        let mut keys: Vec<KeySource> = sources.into_iter().flatten().collect();
        let authorities = usize::from(self.fulcio.is_some()) + usize::from(self.pki.is_some());
        if keys.len() + authorities != 1 {
            return Err(
                "sigstoreSigned must have exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio and pki",
            );
        }
        let rekor: Vec<&'static str> = [
            (
                "rekorPublicKeyPath",
                self.rekor_public_key_path.as_ref().is_some_and(|p| !p.is_empty()),
            ),
            ("rekorPublicKeyPaths", self.rekor_public_key_paths.is_some()),
            ("rekorPublicKeyData", self.rekor_public_key_data.is_some()),
            ("rekorPublicKeyDatas", self.rekor_public_key_datas.is_some()),
        ]
        .into_iter()
        .filter_map(|(field, is_set)| is_set.then_some(field))
        .collect();
        let is_empty = |source: &KeySource| match source {
            KeySource::Files(files) => files.is_empty(),
            KeySource::Texts(texts) => texts.is_empty(),
        };
        match (keys.pop(), &*rekor, &self.fulcio) {
            (Some(source), _, _) if is_empty(&source) => Err("a list of keys is empty"),
            (_, [_, _, ..], _) => Err("sigstoreSigned must have at most one rekorPublicKey field"),
            (Some(keys), [], _) => {
                Ok(SignatureCheck::Sigstore { keys, identity: self.signed_identity.0.clone() })
            }
            (Some(_), [rekor], _) => Ok(SignatureCheck::Unsupported(rekor)),
            (None, [], Some(_)) => Err("fulcio must have one rekorPublicKey field with it"),
            (None, [_], Some(_)) => Ok(SignatureCheck::Unsupported("fulcio")),
            (None, [_], None) => Err("pki must not have a rekorPublicKey field with it"),
            (None, [], None) => Ok(SignatureCheck::Unsupported("pki")),
        }
    }
}

/// Bytes in base64, in which Go ignores line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Base64(Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?.replace(['\r', '\n'], "");
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}
