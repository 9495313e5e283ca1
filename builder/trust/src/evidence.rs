//! What is attached to an image before its tags name it: signatures and attestations, made and found
//! again.
//!
//! Invariant: evidence counts as attached only if bytes that the registry returned verify by our key.
//! ECDSA is random, so a second run can't know its work by equal bytes.

use bytes::Bytes;
use mosb_image::{BlobRef, Digest};

use crate::attached::{Attached, AttachedError, NewLayer};
use crate::attestation::{self, DSSE, ENVELOPE_LIMIT, PREDICATE_TYPE_ANNOTATION, Statement};
use crate::payload::SIMPLE_SIGNING;
use crate::signature::{self, SIGNATURE_ANNOTATION};
use crate::{AttachmentKind, KeyError, NewAttachment, SigningKey};

/// What an image must have attached.
#[derive(Debug)]
pub struct Evidence<'k> {
    pub key: &'k SigningKey,
    /// The manifest of the image.
    pub subject: BlobRef,
    /// The names that it is signed for.
    pub references: Vec<String>,
    /// Each with a type of its own; of each type, one by our key is enough.
    pub statements: Vec<Statement>,
}

/// Why an image can't be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Attached(#[from] AttachedError),
    #[error("its SBOM or provenance has {0} bytes, and no more than {ENVELOPE_LIMIT} are read")]
    TooLarge(u64),
}

impl Evidence<'_> {
    /// Whether something of this kind must be attached.
    pub fn has(&self, kind: AttachmentKind) -> bool {
        match kind {
            AttachmentKind::Signature => !self.references.is_empty(),
            AttachmentKind::Attestation => !self.statements.is_empty(),
        }
    }

    /// Whether a layer may be one of ours, by what is not verified: others need not be read.
    pub fn may_be_ours(&self, kind: AttachmentKind, layer: &BlobRef) -> bool {
        match kind {
            AttachmentKind::Signature => {
                let digest = self.subject.digest;
                layer.media_type == SIMPLE_SIGNING
                    && self.references.iter().any(|reference| {
                        layer.digest == Digest::of(&signature::payload(reference, digest))
                    })
            }
            AttachmentKind::Attestation => {
                let kind = layer.annotations.get(PREDICATE_TYPE_ANNOTATION);
                layer.media_type == DSSE
                    && self
                        .statements
                        .iter()
                        .any(|statement| kind.is_some_and(|kind| kind == statement.predicate_type))
            }
        }
    }

    /// What must be attached beside what is; `None` if nothing is missing.
    ///
    /// # Errors
    /// The system has no random numbers, or there is too much already.
    pub fn missing(
        &self,
        kind: AttachmentKind,
        attached: Option<&Attached>,
    ) -> Result<Option<NewAttachment>, SignError> {
        let layers = match kind {
            AttachmentKind::Signature => {
                signature::missing(self.key, self.subject.digest, &self.references, attached)?
            }
            AttachmentKind::Attestation => self.missing_attestations(attached)?,
        };
        let manifest = attached.map(|attached| &attached.manifest);
        let is_referrer = manifest.is_none_or(|it| it.refers_to(kind, &self.subject));
        if layers.is_empty() && is_referrer {
            return Ok(None);
        }
        Ok(Some(kind.manifest(&self.subject, manifest, layers)?))
    }

    fn missing_attestations(
        &self,
        attached: Option<&Attached>,
    ) -> Result<Vec<NewLayer>, SignError> {
        let keys = std::slice::from_ref(self.key.verifying_key());
        let envelopes = attached.into_iter().flat_map(Attached::layers);
        let verified: Vec<String> = envelopes
            .filter(|(layer, _)| layer.media_type == DSSE)
            .filter_map(|(_, envelope)| {
                let verified = attestation::verify(envelope?, keys, &self.subject.digest).ok()?;
                Some(verified.predicate_type)
            })
            .collect();
        let missing = self.statements.iter().filter(|statement| {
            !verified.iter().any(|predicate_type| predicate_type == statement.predicate_type)
        });
        missing.map(|statement| self.attestation(statement)).collect()
    }

    fn attestation(&self, statement: &Statement) -> Result<NewLayer, SignError> {
        let content: Bytes = statement.sign(self.key)?;
        let size = content.len() as u64;
        if size > ENVELOPE_LIMIT {
            return Err(SignError::TooLarge(size));
        }
        // As cosign: the signature of an attestation is in its envelope.
        let annotations = [
            (SIGNATURE_ANNOTATION.to_owned(), String::new()),
            (PREDICATE_TYPE_ANNOTATION.to_owned(), statement.predicate_type.to_owned()),
        ];
        Ok(NewLayer { media_type: DSSE, content, annotations: annotations.into() })
    }
}

#[cfg(test)]
mod tests {
    use mosb_image::media_type::OCI_MANIFEST;
    use serde_json::{Value, json};

    use super::*;
    use crate::AttachedManifest;

    const TYPES: [&str; 2] = ["https://example.com/a", "https://example.com/b"];

    fn evidence<'k>(key: &'k SigningKey, names: &[&str], types: &[&'static str]) -> Evidence<'k> {
        let subject = BlobRef::of(OCI_MANIFEST, b"manifest");
        let statement = |kind: &&'static str| Statement::new(&subject.digest, kind, &json!({}));
        Evidence {
            key,
            references: names.iter().map(|name| (*name).to_owned()).collect(),
            statements: types.iter().map(statement).collect(),
            subject,
        }
    }

    /// As a registry returns it: with the contents of the layers that are ours.
    fn add(
        evidence: &Evidence<'_>,
        kind: AttachmentKind,
        attached: Option<&Attached>,
    ) -> Option<Attached> {
        let new = evidence.missing(kind, attached).unwrap()?;
        let manifest = AttachedManifest::parse(&new.manifest).unwrap();
        let old = attached.into_iter().flat_map(Attached::layers).filter_map(|(_, bytes)| bytes);
        let blobs: Vec<_> = old.chain(&new.blobs).cloned().collect();
        let content = |layer: &BlobRef| {
            let is_it = |blob: &&Bytes| Digest::of(blob) == layer.digest;
            blobs.iter().find(is_it).filter(|_| evidence.may_be_ours(kind, layer)).cloned()
        };
        let contents = manifest.layers().iter().map(content).collect();
        Some(Attached { manifest, contents })
    }

    #[test]
    fn nothing_is_attached_twice() {
        let (key, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let names = ["quay.io/a:1", "quay.io/a:2"];
        for kind in [AttachmentKind::Signature, AttachmentKind::Attestation] {
            let twice = evidence(&key, &[names[0], names[0]], &TYPES[..1]);
            let first = add(&twice, kind, None).unwrap();
            assert_eq!(first.manifest.layers().len(), 1);
            assert_eq!(add(&twice, kind, Some(&first)), None);
            let both = evidence(&key, &names, &TYPES);
            let second = add(&both, kind, Some(&first)).unwrap();
            assert_eq!(second.manifest.layers().len(), 2);
            assert_eq!(add(&both, kind, Some(&second)), None);
            // What another key signed is not ours.
            let others = add(&evidence(&other, &names, &TYPES), kind, Some(&second)).unwrap();
            assert_eq!(others.manifest.layers().len(), 4);
            // Nor is what the registry does not return.
            let mut lost = second.clone();
            lost.contents[0] = None;
            let again = add(&both, kind, Some(&lost)).unwrap();
            assert_eq!(again.manifest.layers().len(), 3);
        }
    }

    #[test]
    fn a_lost_subject_is_written_again() {
        let (key, _) = SigningKey::generate().unwrap();
        let kind = AttachmentKind::Signature;
        let evidence = evidence(&key, &["quay.io/a:1"], &[]);
        let new = evidence.missing(kind, None).unwrap().unwrap();
        let mut without: Value = serde_json::from_slice(&new.manifest).unwrap();
        without.as_object_mut().unwrap().remove("subject");
        let manifest = AttachedManifest::parse(without.to_string().as_bytes()).unwrap();
        let contents = vec![Some(new.blobs[0].clone())];
        let without = Attached { manifest, contents };
        let again = evidence.missing(kind, Some(&without)).unwrap().unwrap();
        assert_eq!(again.manifest, new.manifest);
    }

    /// The annotation is not signed: only the statement itself counts.
    #[test]
    fn an_annotation_alone_is_no_attestation() {
        let (key, _) = SigningKey::generate().unwrap();
        let kind = AttachmentKind::Attestation;
        let wanted = evidence(&key, &[], &TYPES[..1]);
        let mut lies = add(&evidence(&key, &[], &TYPES[1..]), kind, None).unwrap();
        let mut manifest: Value = json!({ "layers": lies.manifest.layers() });
        manifest["layers"][0]["annotations"][PREDICATE_TYPE_ANNOTATION] = json!(TYPES[0]);
        lies.manifest = AttachedManifest::parse(manifest.to_string().as_bytes()).unwrap();
        assert!(wanted.may_be_ours(kind, &lies.manifest.layers()[0]));
        let added = add(&wanted, kind, Some(&lies)).unwrap();
        assert_eq!(added.manifest.layers().len(), 2);
    }
}
