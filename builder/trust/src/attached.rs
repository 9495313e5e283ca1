//! The manifests that are attached to an image: with a tag that follows from its digest, and as a
//! referrer of it (OCI image spec 1.1), so that tools of both kinds find them.

use std::collections::BTreeMap;

use bytes::Bytes;
use mosb_image::layer::MAX_LAYERS;
use mosb_image::media_type::{OCI_CONFIG, OCI_MANIFEST};
use mosb_image::{BlobRef, Digest};
use mosb_types::{JsonObject, canonical_json};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    Signature,
    Attestation,
}

impl AttachmentKind {
    /// The tag of what is attached to the manifest `digest`.
    pub fn tag(self, digest: &Digest) -> String {
        let suffix = match self {
            Self::Signature => "sig",
            Self::Attestation => "att",
        };
        format!("{}.{suffix}", referrers_tag(digest))
    }

    /// `artifactType`, by which referrers are listed.
    pub fn artifact_type(self) -> &'static str {
        match self {
            Self::Signature => "application/vnd.dev.cosign.artifact.sig.v1+json",
            Self::Attestation => "application/vnd.dev.cosign.artifact.att.v1+json",
        }
    }

    /// The manifest with these layers, after those that it has. What others wrote stays.
    ///
    /// # Errors
    /// It would have more layers than are read.
    pub fn manifest(
        self,
        subject: &BlobRef,
        attached: Option<&AttachedManifest>,
        new: Vec<NewLayer>,
    ) -> Result<NewAttachment, AttachedError> {
        let old = attached.map_or(&[][..], AttachedManifest::layers);
        let count = old.len() + new.len();
        if count > MAX_LAYERS {
            return Err(AttachedError::TooMany(count));
        }
        let diff_ids = old.iter().map(|layer| layer.digest);
        let diff_ids: Vec<_> =
            diff_ids.chain(new.iter().map(|layer| Digest::of(&layer.content))).collect();
        // The layers are not compressed, so both digests of each are the same.
        let config = Bytes::from(canonical_json(&json!({
            "architecture": "", "config": {}, "os": "",
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        })));
        let mut manifest = match attached {
            Some(attached) => attached.document.clone(),
            None => json!({}),
        };
        manifest["schemaVersion"] = json!(2);
        manifest["mediaType"] = json!(OCI_MANIFEST);
        manifest["artifactType"] = json!(self.artifact_type());
        manifest["config"] = json!(BlobRef::of(OCI_CONFIG, &config));
        manifest["subject"] = json!(BlobRef { annotations: BTreeMap::new(), ..subject.clone() });
        let layers = manifest["layers"].as_array().cloned().unwrap_or_default().into_iter();
        let added = new.iter().map(|layer| {
            let annotations = layer.annotations.clone();
            json!(BlobRef { annotations, ..BlobRef::of(layer.media_type, &layer.content) })
        });
        manifest["layers"] = layers.chain(added).collect();
        let blobs = new.into_iter().map(|layer| layer.content).chain([config]).collect();
        Ok(NewAttachment { manifest: canonical_json(&manifest).into(), blobs })
    }
}

/// The tag of the index of referrers, in registries without the API (OCI distribution spec 1.1).
pub fn referrers_tag(digest: &Digest) -> String {
    digest.to_string().replacen(':', "-", 1)
}

/// The tags of what is attached to the manifest `digest`.
pub fn attachment_tags(digest: &Digest) -> [String; 3] {
    let [signature, attestation] = [AttachmentKind::Signature, AttachmentKind::Attestation];
    [signature.tag(digest), attestation.tag(digest), referrers_tag(digest)]
}

/// Whether a tag is one of [`attachment_tags`], of whichever manifest.
pub fn is_attachment_tag(tag: &str) -> bool {
    let Some((algorithm, rest)) = tag.split_once('-') else {
        return false;
    };
    let hex = rest.split('.').next().unwrap_or_default();
    let digest = format!("{algorithm}:{hex}").parse::<Digest>();
    digest.is_ok_and(|digest| attachment_tags(&digest).iter().any(|known| known == tag))
}

/// A layer to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLayer {
    pub media_type: &'static str,
    pub content: Bytes,
    pub annotations: BTreeMap<String, String>,
}

/// A manifest to push, after its new blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    pub manifest: Bytes,
    pub blobs: Vec<Bytes>,
}

/// A manifest that is attached to an image, as others may have written it.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachedManifest {
    document: Value,
    layers: Vec<BlobRef>,
}

/// A manifest that is attached to an image, with the content of its layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    pub manifest: AttachedManifest,
    /// In the order of the layers; `None` of a layer that was not asked for, is too large to be read,
    /// missing, or damaged.
    pub contents: Vec<Option<Bytes>>,
}

impl Attached {
    /// The layers with their contents.
    pub fn layers(&self) -> impl Iterator<Item = (&BlobRef, Option<&Bytes>)> {
        self.manifest.layers.iter().zip(self.contents.iter().map(Option::as_ref))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachedError {
    #[error("not a manifest: {0}")]
    Json(String),
    #[error("{0} signatures or attestations, and no more than {MAX_LAYERS} are read")]
    TooMany(usize),
}

#[derive(Deserialize)]
struct Layers {
    #[serde(default)]
    layers: Vec<BlobRef>,
}

impl AttachedManifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is not one, or has too many layers.
    pub fn parse(bytes: &[u8]) -> Result<Self, AttachedError> {
        let wrong = |error: serde_json::Error| AttachedError::Json(error.to_string());
        let document: Value = serde_json::from_slice(bytes).map_err(wrong)?;
        let JsonObject(Layers { layers }) = JsonObject::deserialize(&document).map_err(wrong)?;
        if layers.len() > MAX_LAYERS {
            return Err(AttachedError::TooMany(layers.len()));
        }
        Ok(Self { document, layers })
    }

    pub fn layers(&self) -> &[BlobRef] {
        &self.layers
    }

    /// Whether it is a referrer of `subject`. cosign drops the fields when it adds a signature.
    pub fn refers_to(&self, kind: AttachmentKind, subject: &BlobRef) -> bool {
        self.document["artifactType"] == kind.artifact_type()
            && self.document["subject"]["digest"] == json!(subject.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(content: &'static [u8]) -> NewLayer {
        NewLayer {
            media_type: "text/plain",
            content: Bytes::from_static(content),
            annotations: [("a".to_owned(), "b".to_owned())].into(),
        }
    }

    #[test]
    fn foreign_layers_and_fields_stay() {
        let subject = BlobRef::of(OCI_MANIFEST, b"image");
        let foreign = BlobRef::of("text/html", b"foreign");
        let mut foreign_layer = json!(foreign);
        foreign_layer["vendor"] = json!(1);
        // As cosign leaves it: without subject and artifactType.
        let cosign = json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST, "annotations": { "x": "y" },
            "config": BlobRef::of(OCI_CONFIG, b"{}"), "layers": [foreign_layer],
        });
        let read = AttachedManifest::parse(cosign.to_string().as_bytes()).unwrap();
        assert_eq!(read.layers(), [foreign]);
        let kind = AttachmentKind::Signature;
        let made = kind.manifest(&subject, Some(&read), vec![layer(b"ours")]).unwrap();
        let manifest: Value = serde_json::from_slice(&made.manifest).unwrap();
        let ours = json!({
            "mediaType": "text/plain", "digest": Digest::of(b"ours"), "size": 4,
            "annotations": { "a": "b" },
        });
        assert_eq!(manifest["layers"], json!([foreign_layer, ours]));
        assert_eq!(manifest["annotations"], cosign["annotations"]);
        assert_eq!(manifest["subject"], json!(subject));
        assert_eq!(manifest["artifactType"], kind.artifact_type());
        let config = made.blobs.last().unwrap();
        assert_eq!(manifest["config"], json!(BlobRef::of(OCI_CONFIG, config)));
        let config: Value = serde_json::from_slice(config).unwrap();
        let diff_ids = json!([Digest::of(b"foreign"), Digest::of(b"ours")]);
        assert_eq!(config["rootfs"]["diff_ids"], diff_ids);
        assert_eq!(made.blobs[0], "ours");
    }

    #[test]
    fn layers_have_a_limit() {
        let subject = BlobRef::of(OCI_MANIFEST, b"image");
        let most = vec![layer(b"x"); MAX_LAYERS];
        let kind = AttachmentKind::Attestation;
        let full = kind.manifest(&subject, None, most).unwrap();
        let full = AttachedManifest::parse(&full.manifest).unwrap();
        let one_more = kind.manifest(&subject, Some(&full), vec![layer(b"y")]);
        assert_eq!(one_more, Err(AttachedError::TooMany(MAX_LAYERS + 1)));
        let many = json!({ "layers": vec![BlobRef::of("x", b""); 10_000] });
        let many = AttachedManifest::parse(many.to_string().as_bytes());
        assert_eq!(many, Err(AttachedError::TooMany(10_000)));
        for bad in ["", "[]", r#"{"layers":{}}"#, r#"{"layers":[{"digest":"sha256:0"}]}"#] {
            assert!(AttachedManifest::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn tags_follow_from_the_digest() {
        let digest = Digest::of(b"");
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(AttachmentKind::Signature.tag(&digest), format!("sha256-{hex}.sig"));
        for tag in attachment_tags(&digest) {
            assert!(is_attachment_tag(&tag), "{tag}");
        }
        for tag in [
            "v1",
            "sha256-12",
            "sha256-12.sig",
            &format!("sha256-{hex}.other"),
            &digest.to_string(),
        ] {
            assert!(!is_attachment_tag(tag), "{tag}");
        }
        assert_eq!(AttachmentKind::Attestation.tag(&digest), format!("sha256-{hex}.att"));
    }
}
