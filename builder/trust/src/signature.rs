//! A signature of an image: made, and verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mosb_image::{BlobRef, Digest};

use crate::attached::{AttachedError, NewLayer};
use crate::payload::{Payload, PayloadError, SIMPLE_SIGNING};
use crate::{AttachedManifest, AttachmentKind, KeyError, NewAttachment, SigningKey, VerifyingKey};

/// The annotation of a layer with its signature, in base64.
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// A layer of a `.sig` manifest, as it was read. Nothing of it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedSignature {
    /// `None` if it is too large, missing, or damaged.
    pub payload: Option<Bytes>,
    /// The signature in base64; `None` if there is no such annotation.
    pub signature: Option<String>,
}

/// What a verified signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// The name that the signer gave the image.
    pub reference: String,
    /// The position of the key among those that were given.
    pub key: usize,
}

/// Why a signature doesn't count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    #[error("it is missing or damaged, or larger than what is read of signatures")]
    Unreadable,
    #[error("it has no annotation {SIGNATURE_ANNOTATION}")]
    Missing,
    #[error("its annotation is not base64")]
    Base64,
    #[error("none of the keys verifies it")]
    UnknownKey,
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("it is for another image, {0}")]
    OtherImage(Digest),
    #[error("it is for the name {0:?}, which is not accepted here")]
    Identity(String),
}

impl UntrustedSignature {
    /// Verifies the signature, and only then reads what was signed.
    ///
    /// # Errors
    /// None of the keys made it, or it is not one of the manifest `digest`.
    pub fn verify(
        &self,
        keys: &[VerifyingKey],
        digest: &Digest,
    ) -> Result<VerifiedSignature, SignatureProblem> {
        let payload = self.payload.as_ref().ok_or(SignatureProblem::Unreadable)?;
        let signature = self.signature.as_ref().ok_or(SignatureProblem::Missing)?;
        let signature = STANDARD.decode(signature).map_err(|_| SignatureProblem::Base64)?;
        let key = keys.iter().position(|key| key.verifies(payload, &signature));
        let key = key.ok_or(SignatureProblem::UnknownKey)?;
        let Payload { reference, digest: signed } = Payload::parse(payload)?;
        if signed != *digest {
            return Err(SignatureProblem::OtherImage(signed));
        }
        Ok(VerifiedSignature { reference, key })
    }
}

/// Why an image can't be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Attached(#[from] AttachedError),
}

/// What must be attached to the manifest `subject`, so that it has a signature of this key for each
/// name. `None` if `attached` has all of them.
///
/// # Errors
/// The system has no random numbers, or there are too many signatures.
pub fn sign(
    key: &SigningKey,
    subject: &BlobRef,
    references: &[String],
    attached: Option<&AttachedManifest>,
) -> Result<Option<NewAttachment>, SignError> {
    let layers = missing(key, subject.digest, references, attached)?;
    let kind = AttachmentKind::Signature;
    if layers.is_empty() && attached.is_none_or(|attached| attached.refers_to(kind, subject)) {
        return Ok(None);
    }
    Ok(Some(kind.manifest(subject, attached, layers)?))
}

/// A signature for each name that has no good one of this key.
fn missing(
    key: &SigningKey,
    digest: Digest,
    references: &[String],
    attached: Option<&AttachedManifest>,
) -> Result<Vec<NewLayer>, KeyError> {
    let keys = std::slice::from_ref(key.verifying_key());
    let mut layers: Vec<NewLayer> = Vec::new();
    for reference in references {
        let payload = Bytes::from(Payload { reference: reference.clone(), digest }.to_bytes());
        let payload_digest = Digest::of(&payload);
        let is_signed = attached.into_iter().flat_map(AttachedManifest::layers).any(|layer| {
            let found = UntrustedSignature {
                payload: Some(payload.clone()),
                signature: layer.annotations.get(SIGNATURE_ANNOTATION).cloned(),
            };
            layer.digest == payload_digest
                && layer.media_type == SIMPLE_SIGNING
                && found.verify(keys, &digest).is_ok()
        });
        if is_signed || layers.iter().any(|layer| layer.content == payload) {
            continue;
        }
        let signature = STANDARD.encode(key.sign(&payload)?);
        layers.push(NewLayer {
            media_type: SIMPLE_SIGNING,
            content: payload,
            annotations: [(SIGNATURE_ANNOTATION.to_owned(), signature)].into(),
        });
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use mosb_image::media_type::OCI_MANIFEST;

    use super::*;

    fn untrusted(layer: &NewLayer) -> UntrustedSignature {
        UntrustedSignature {
            payload: Some(layer.content.clone()),
            signature: layer.annotations.get(SIGNATURE_ANNOTATION).cloned(),
        }
    }

    #[test]
    fn a_signature_is_for_one_image_and_key() {
        let (key, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let digest = Digest::of(b"manifest");
        let layers = missing(&key, digest, &["quay.io/a:1".to_owned()], None).unwrap();
        let good = untrusted(&layers[0]);
        let keys = [other.verifying_key().clone(), key.verifying_key().clone()];
        let verified = good.verify(&keys, &digest).unwrap();
        assert_eq!(verified, VerifiedSignature { reference: "quay.io/a:1".to_owned(), key: 1 });

        let mut changed = good.clone();
        changed.payload = changed.payload.map(|payload| [&payload[..], b" "].concat().into());
        let unsigned = UntrustedSignature { signature: None, ..good.clone() };
        let garbled = UntrustedSignature { signature: Some("*".to_owned()), ..good.clone() };
        let unread = UntrustedSignature { payload: None, ..good.clone() };
        let another = Digest::of(b"another");
        for (what, signature, keys, digest, want) in [
            ("another key", &good, &keys[..1], digest, SignatureProblem::UnknownKey),
            ("no keys", &good, &keys[..0], digest, SignatureProblem::UnknownKey),
            ("another image", &good, &keys[..], another, SignatureProblem::OtherImage(digest)),
            ("a changed payload", &changed, &keys[..], digest, SignatureProblem::UnknownKey),
            ("no annotation", &unsigned, &keys[..], digest, SignatureProblem::Missing),
            ("no base64", &garbled, &keys[..], digest, SignatureProblem::Base64),
            ("not read", &unread, &keys[..], digest, SignatureProblem::Unreadable),
        ] {
            assert_eq!(signature.verify(keys, &digest), Err(want), "{what}");
        }
    }

    #[test]
    fn nothing_is_signed_twice() {
        let (key, _) = SigningKey::generate().unwrap();
        let subject = BlobRef::of(OCI_MANIFEST, b"manifest");
        let names = ["quay.io/a:1".to_owned(), "quay.io/a:2".to_owned()];
        let add = |key: &SigningKey, names: &[String], attached: Option<&AttachedManifest>| {
            let new = sign(key, &subject, names, attached).unwrap();
            new.map(|new| AttachedManifest::parse(&new.manifest).unwrap())
        };
        let first = add(&key, &[names[0].clone(), names[0].clone()], None).unwrap();
        assert_eq!(first.layers().len(), 1);
        assert_eq!(add(&key, &names[..1], Some(&first)), None);
        let second = add(&key, &names, Some(&first)).unwrap();
        assert_eq!(second.layers().len(), 2);
        // A signature by another key is not ours.
        let (other, _) = SigningKey::generate().unwrap();
        assert_eq!(add(&other, &names, Some(&second)).unwrap().layers().len(), 4);
    }

    #[test]
    fn a_lost_subject_is_written_again() {
        let (key, _) = SigningKey::generate().unwrap();
        let subject = BlobRef::of(OCI_MANIFEST, b"manifest");
        let names = ["quay.io/a:1".to_owned()];
        let new = sign(&key, &subject, &names, None).unwrap().unwrap();
        let mut without: serde_json::Value = serde_json::from_slice(&new.manifest).unwrap();
        without.as_object_mut().unwrap().remove("subject");
        let without = AttachedManifest::parse(without.to_string().as_bytes()).unwrap();
        let again = sign(&key, &subject, &names, Some(&without)).unwrap().unwrap();
        assert_eq!(again.manifest, new.manifest);
    }
}
