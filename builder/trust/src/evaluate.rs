//! Whether the signatures of an image satisfy what a `policy.json` requires of it.

use std::path::Path;

use mosb_image::signature_policy::{
    KeySource, Requirement, SignatureCheck, SignatureRequirement, SignedIdentity,
};
use mosb_image::{Digest, ImageRef};
use mosb_types::Diagnostic;

use crate::signature::{SignatureProblem, UntrustedSignature};
use crate::{KeyError, VerifyingKey};

/// What an image must satisfy, with the keys for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedRequirement {
    Accept,
    Reject,
    /// For each of these, one signature.
    Signatures(Vec<RequiredSignature>),
}

/// A signature by one of these keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredSignature {
    keys: Vec<VerifyingKey>,
    /// `None` accepts each name, as `cosign verify` does.
    identity: Option<SignedIdentity>,
}

/// A signature that a requirement accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedSignature {
    /// Fingerprint of the key.
    pub key: Digest,
    /// The name that it is for.
    pub identity: String,
}

/// A requirement that can't be evaluated. It is never met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "unchecked-policy", class = InvalidInput)]
pub enum EvaluationError {
    #[error("it asks for {0}, which mosb can't check; use sigstoreSigned with keys")]
    Unsupported(&'static str),
    #[error("its key {file}: {source}")]
    #[diagnostic(remedy = source.remedy())]
    Key { file: String, source: KeyError },
    #[error("its key {number}: {source}")]
    #[diagnostic(remedy = source.remedy())]
    KeyData { number: usize, source: KeyError },
    #[error("its key {file}: not readable: {cause}")]
    Unreadable { file: String, cause: String },
}

/// What is missing for an image to be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    #[error("the policy rejects it")]
    Rejected,
    #[error("it has no signature")]
    Unsigned,
    /// What is wrong with each signature.
    #[error("none of its signatures is accepted: {}", list(.0))]
    Signatures(Vec<SignatureProblem>),
}

fn list(problems: &[SignatureProblem]) -> String {
    const SHOWN: usize = 5;
    let texts: Vec<_> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    match problems.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{}; and {more} more", texts.join("; ")),
        _ => texts.join("; "),
    }
}

impl PreparedRequirement {
    /// A signature by one of these keys, for any name.
    pub fn any_of(keys: Vec<VerifyingKey>) -> Self {
        Self::Signatures(vec![RequiredSignature { keys, identity: None }])
    }

    /// Reads the keys that a policy names, with `read` for files.
    ///
    /// # Errors
    /// One of the requirements can't be evaluated.
    pub fn of_policy(
        requirement: &Requirement,
        read: impl Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, EvaluationError> {
        let all = match requirement {
            Requirement::Accept => return Ok(Self::Accept),
            Requirement::Reject => return Ok(Self::Reject),
            Requirement::Signatures(all) => all.iter(),
        };
        let prepare = |one: &SignatureRequirement| match &one.check {
            SignatureCheck::Unsupported(asks) => Err(EvaluationError::Unsupported(asks)),
            SignatureCheck::Sigstore { keys, identity } => {
                let (keys, identity) = (read_keys(keys, &read)?, Some(identity.clone()));
                Ok(RequiredSignature { keys, identity })
            }
        };
        Ok(Self::Signatures(all.map(prepare).collect::<Result<_, _>>()?))
    }

    /// All keys, each once.
    pub fn keys(&self) -> Vec<VerifyingKey> {
        let mut keys: Vec<VerifyingKey> = Vec::new();
        if let Self::Signatures(all) = self {
            for key in all.iter().flat_map(|one| &one.keys) {
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        keys
    }

    /// Whether an image that is pulled by this name, and whose manifest has this digest, is
    /// accepted: then the signature for each requirement.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(
        &self,
        image: &ImageRef,
        digest: &Digest,
        signatures: &[UntrustedSignature],
    ) -> Result<Vec<AcceptedSignature>, NotAccepted> {
        let all = match self {
            Self::Accept => return Ok(Vec::new()),
            Self::Reject => return Err(NotAccepted::Rejected),
            Self::Signatures(all) => all,
        };
        if signatures.is_empty() {
            return Err(NotAccepted::Unsigned);
        }
        all.iter().map(|required| required.find(image, digest, signatures)).collect()
    }
}

impl RequiredSignature {
    /// The first signature that counts.
    fn find(
        &self,
        image: &ImageRef,
        digest: &Digest,
        signatures: &[UntrustedSignature],
    ) -> Result<AcceptedSignature, NotAccepted> {
        let mut problems = Vec::new();
        for signature in signatures {
            match self.check(image, digest, signature) {
                Ok(accepted) => return Ok(accepted),
                Err(problem) => problems.push(problem),
            }
        }
        Err(NotAccepted::Signatures(problems))
    }

    fn check(
        &self,
        image: &ImageRef,
        digest: &Digest,
        signature: &UntrustedSignature,
    ) -> Result<AcceptedSignature, SignatureProblem> {
        let verified = signature.verify(&self.keys, digest)?;
        match &self.identity {
            Some(identity) if !identity.accepts(image, &verified.reference) => {
                Err(SignatureProblem::Identity(verified.reference))
            }
            _ => Ok(AcceptedSignature {
                key: self.keys[verified.key].fingerprint(),
                identity: verified.reference,
            }),
        }
    }
}

fn read_keys(
    source: &KeySource,
    read: &impl Fn(&Path) -> Result<Vec<u8>, String>,
) -> Result<Vec<VerifyingKey>, EvaluationError> {
    match source {
        KeySource::Files(files) => files
            .iter()
            .map(|path| {
                let file = || path.display().to_string();
                let text = read(path)
                    .map_err(|cause| EvaluationError::Unreadable { file: file(), cause })?;
                VerifyingKey::from_pem(&text)
                    .map_err(|source| EvaluationError::Key { file: file(), source })
            })
            .collect(),
        KeySource::Texts(texts) => texts
            .iter()
            .zip(1..)
            .map(|(text, number)| {
                VerifyingKey::from_pem(text)
                    .map_err(|source| EvaluationError::KeyData { number, source })
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use mosb_image::signature_policy::SignaturePolicy;
    use serde_json::{Value, json};

    use super::*;
    use crate::SigningKey;
    use crate::signature::{SIGNATURE_ANNOTATION, missing};

    fn signature(key: &SigningKey, digest: Digest, name: &str) -> UntrustedSignature {
        let mut made = missing(key, digest, &[name.to_owned()], None).unwrap();
        let mut layer = made.remove(0);
        let signature = layer.annotations.remove(SIGNATURE_ANNOTATION);
        UntrustedSignature { payload: Some(layer.content), signature }
    }

    fn prepare(requirements: Value) -> Result<PreparedRequirement, EvaluationError> {
        let policy = json!({ "default": requirements }).to_string();
        let policy = SignaturePolicy::parse(policy.as_bytes()).unwrap();
        let none = |_: &Path| Err("no such file".to_owned());
        PreparedRequirement::of_policy(policy.verdict("quay.io/a:1").requirement, none)
    }

    #[test]
    fn all_requirements_of_a_list_must_hold() {
        let keys = [SigningKey::generate().unwrap().0, SigningKey::generate().unwrap().0];
        let digest = Digest::of(b"manifest");
        let image = "quay.io/a:1".parse().unwrap();
        let data: Vec<_> =
            keys.iter().map(|key| STANDARD.encode(key.verifying_key().to_pem())).collect();
        let by = |key: usize| json!({ "type": "sigstoreSigned", "keyData": data[key] });
        let by_any = json!({ "type": "sigstoreSigned", "keyDatas": data });
        let accept = json!({ "type": "insecureAcceptAnything" });
        let signed = |key: usize, name| signature(&keys[key], digest, name);
        let (first, second) = (signed(0, "quay.io/a:1"), signed(1, "quay.io/a:1"));
        let other_name = signed(0, "quay.io/a:2");
        let other_image = signature(&keys[0], Digest::of(b"other"), "quay.io/a:1");
        for (what, list, signatures, want) in [
            ("none asked for", json!([accept]), vec![], true),
            ("unsigned", json!([by(0)]), vec![], false),
            ("signed", json!([by(0)]), vec![first.clone()], true),
            ("by another key", json!([by(1)]), vec![first.clone()], false),
            ("by any key", json!([by_any]), vec![second.clone()], true),
            (
                "beside others",
                json!([by(0)]),
                vec![other_image.clone(), second.clone(), first.clone()],
                true,
            ),
            ("one of two", json!([by(0), by(1)]), vec![first.clone()], false),
            ("both", json!([by(0), by(1)]), vec![second, first.clone()], true),
            ("accept is no alternative", json!([accept, by(1)]), vec![first.clone()], false),
            ("reject", json!([by(0), { "type": "reject" }]), vec![first], false),
            ("another name", json!([by(0)]), vec![other_name], false),
            ("another image", json!([by(0)]), vec![other_image], false),
        ] {
            let checked = prepare(list).unwrap().check(&image, &digest, &signatures);
            assert_eq!(checked.is_ok(), want, "{what}: {checked:?}");
        }
        let both = [signed(1, "quay.io/a:1"), signed(0, "quay.io/a:1")];
        let accepted = prepare(json!([by(0), by_any])).unwrap().check(&image, &digest, &both);
        let signer = |key: usize| AcceptedSignature {
            key: keys[key].verifying_key().fingerprint(),
            identity: "quay.io/a:1".to_owned(),
        };
        assert_eq!(accepted, Ok(vec![signer(0), signer(1)]));
    }

    #[test]
    fn what_cannot_be_evaluated_is_an_error() {
        let (key, _) = SigningKey::generate().unwrap();
        let data = STANDARD.encode(key.verifying_key().to_pem());
        let with = |field: &str, value: Value| {
            let mut requirement = json!({ "type": "sigstoreSigned", "keyData": data });
            requirement[field] = value;
            requirement
        };
        let fulcio = json!({ "type": "sigstoreSigned", "fulcio": {}, "rekorPublicKeyPath": "/r" });
        for (requirement, want) in [
            (json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k" }), "signedBy"),
            (json!({ "type": "sigstoreSigned", "pki": {} }), "pki"),
            (fulcio, "fulcio"),
            (with("rekorPublicKeyPath", json!("/r")), "rekorPublicKeyPath"),
            (with("rekorPublicKeyPaths", json!(["/r"])), "rekorPublicKeyPaths"),
            (with("rekorPublicKeyData", json!("eA==")), "rekorPublicKeyData"),
            (with("rekorPublicKeyDatas", json!(["eA=="])), "rekorPublicKeyDatas"),
        ] {
            let error = prepare(json!([with("keyData", json!(data)), requirement])).unwrap_err();
            assert_eq!(error, EvaluationError::Unsupported(want));
        }
        let path = json!([{ "type": "sigstoreSigned", "keyPath": "/none" }]);
        assert!(matches!(prepare(path), Err(EvaluationError::Unreadable { .. })));
        let no_key = json!([{ "type": "sigstoreSigned", "keyData": "eA==" }]);
        assert!(matches!(prepare(no_key), Err(EvaluationError::KeyData { number: 1, .. })));
    }
}
