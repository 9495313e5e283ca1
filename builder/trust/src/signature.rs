//! A signature of an image: made, and verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mosb_image::Digest;

use crate::attached::{Attached, NewLayer};
use crate::payload::{Payload, PayloadError, SIMPLE_SIGNING};
use crate::{KeyError, SigningKey, VerifyingKey};

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

/// A signature for each name that has no good one of this key.
pub(crate) fn missing(
    key: &SigningKey,
    digest: Digest,
    references: &[String],
    attached: Option<&Attached>,
) -> Result<Vec<NewLayer>, KeyError> {
    let keys = std::slice::from_ref(key.verifying_key());
    let verified: Vec<String> = untrusted(attached)
        .filter_map(|signature| Some(signature.verify(keys, &digest).ok()?.reference))
        .collect();
    let mut layers: Vec<NewLayer> = Vec::new();
    for reference in references {
        let payload = payload(reference, digest);
        if verified.contains(reference) || layers.iter().any(|layer| layer.content == payload) {
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

/// The signatures in a `.sig` manifest.
pub fn untrusted(attached: Option<&Attached>) -> impl Iterator<Item = UntrustedSignature> {
    let layers = attached.into_iter().flat_map(Attached::layers);
    layers.map(|(layer, payload)| UntrustedSignature {
        payload: payload.cloned(),
        signature: layer.annotations.get(SIGNATURE_ANNOTATION).cloned(),
    })
}

/// What is signed for a name.
pub(crate) fn payload(reference: &str, digest: Digest) -> Bytes {
    Payload { reference: reference.to_owned(), digest }.to_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(layer: &NewLayer) -> UntrustedSignature {
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
        let good = read_back(&layers[0]);
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
}
