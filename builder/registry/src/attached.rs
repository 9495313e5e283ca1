//! Reads what is attached to an image: signatures and attestations by tag, and its referrers. All of
//! it is written by others, so it is bounded, and nothing is verified here but digests.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde::Deserialize;

use mosb_image::media_type::OCI_INDEX;
use mosb_image::{BlobRef, Digest, ImageRef, PinnedRef, Platform};
use mosb_trust::attached::referrers_tag;
use mosb_trust::attestation::ENVELOPE_LIMIT;
use mosb_trust::payload::PAYLOAD_LIMIT;
use mosb_trust::{Attached, AttachedManifest, AttachmentKind};
use mosb_types::{Diagnostic as _, ErrorClass};

use crate::auth::token::Scopes;
use crate::client::Client;
use crate::error::Error;
use crate::manifest::{self, Document, MANIFEST_LIMIT, invalid};
use crate::remote::Remote;
use crate::store::{Blobs as _, Store};
use crate::verify::collect;

/// Most images of an index, nested ones too.
const MAX_IMAGES: usize = 64;
/// An index may name an index.
const NESTED: usize = 2;

/// A manifest that a reference names: an image, or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedManifest {
    pub descriptor: BlobRef,
    /// Of an image in an index.
    pub platform: Option<Platform>,
}

/// How much is read of the layers of an attached manifest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of a layer.
    layer: u64,
    /// Bytes of all layers; small ones are read first.
    total: u64,
}

impl Limits {
    pub fn of(kind: AttachmentKind) -> Self {
        match kind {
            // No payload of ours has a kilobyte.
            AttachmentKind::Signature => Self { layer: PAYLOAD_LIMIT, total: 16 << 20 },
            AttachmentKind::Attestation => {
                Self { layer: ENVELOPE_LIMIT, total: 2 * ENVELOPE_LIMIT }
            }
        }
    }
}

/// A manifest that names an image as its subject.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    pub digest: Digest,
    #[serde(default)]
    pub artifact_type: String,
}

#[derive(Deserialize)]
struct Referrers {
    manifests: Vec<Referrer>,
}

impl Client {
    /// The manifest that a reference names now, first, and those of all images in it if it is an
    /// index.
    ///
    /// # Errors
    /// There is none, or the index is larger than any real one.
    pub async fn named_manifests(&self, image: &ImageRef) -> Result<Vec<NamedManifest>, Error> {
        let shown = image.to_string();
        let remotes = self.pulling(image)?.into_iter();
        let store = Store::remotes(remotes.map(|(remote, _)| remote).collect());
        let mut indexes = vec![(store.manifest(image.tag(), image.digest()).await?, 0)];
        let mut all: Vec<NamedManifest> = Vec::new();
        while let Some((document, depth)) = indexes.pop() {
            let bytes = &document.bytes;
            let media_type = manifest::media_type(&shown, bytes, document.media_type.as_deref())?;
            let read = manifest::read(&shown, bytes, &media_type)?;
            if all.is_empty() {
                let descriptor = BlobRef::of(&media_type, bytes);
                all.push(NamedManifest { descriptor, platform: None });
            }
            let Document::Index(entries) = read else {
                continue;
            };
            for entry in entries.iter().filter(|entry| entry.is_image()) {
                if all.iter().any(|named| named.descriptor.digest == entry.digest) {
                    continue;
                }
                if all.len() > MAX_IMAGES {
                    let cause = format!("an index of more than {MAX_IMAGES} images");
                    return Err(invalid(&shown, cause));
                }
                if entry.is_index() {
                    if depth == NESTED {
                        return Err(invalid(&shown, "an index of an index of an index"));
                    }
                    indexes.push((store.instance(&entry.digest).await?, depth + 1));
                }
                all.push(NamedManifest {
                    descriptor: entry.descriptor(),
                    platform: entry.platform(),
                });
            }
        }
        Ok(all)
    }

    /// What is attached to an image by its tag; `None` if nothing is.
    ///
    /// # Errors
    /// It can't be read, or has more layers than are read.
    pub async fn attached(
        &self,
        image: &PinnedRef,
        kind: AttachmentKind,
    ) -> Result<Option<Attached>, Error> {
        let store = self.store_of_attached(image)?;
        let Some((shown, manifest)) = find_attached(&store, image, kind).await? else {
            return Ok(None);
        };
        let readable = readable(manifest.layers(), Limits::of(kind), |_| true);
        Ok(Some(read_layers(&store, &shown, manifest, readable, self.parallel()).await?))
    }

    /// The list of what is attached to an image by its tag; `None` if nothing is. No layer is read.
    ///
    /// # Errors
    /// As [`attached`](Self::attached).
    pub async fn attached_manifest(
        &self,
        image: &PinnedRef,
        kind: AttachmentKind,
    ) -> Result<Option<AttachedManifest>, Error> {
        let found = find_attached(&self.store_of_attached(image)?, image, kind).await?;
        Ok(found.map(|(_, manifest)| manifest))
    }

    fn store_of_attached(&self, image: &PinnedRef) -> Result<Store, Error> {
        let remotes = self.pulling(&image.clone().into())?.into_iter();
        Ok(Store::remotes(remotes.map(|(remote, _)| remote).collect()))
    }

    /// The referrers of an image: the first page that the registry answers with.
    ///
    /// # Errors
    /// They can't be read.
    pub async fn referrers(&self, image: &PinnedRef) -> Result<Vec<Referrer>, Error> {
        let digest = image.digest();
        let (remote, _) = self.pulling(&image.clone().into())?.swap_remove(0);
        if let Some(referrers) = referrers_api(&remote, &digest).await? {
            return Ok(referrers);
        }
        let Some(index) = find(&remote, &referrers_tag(&digest)).await? else {
            return Ok(Vec::new());
        };
        let read: Result<Referrers, _> = serde_json::from_slice(&index);
        let wrong = |error| invalid(&image.to_string(), format!("its referrers: {error}"));
        Ok(read.map_err(wrong)?.manifests)
    }
}

/// The manifest that is attached to an image by its tag, and its name for messages.
async fn find_attached(
    store: &Store,
    image: &PinnedRef,
    kind: AttachmentKind,
) -> Result<Option<(String, AttachedManifest)>, Error> {
    let tag = kind.tag(&image.digest());
    let shown = format!("{}:{tag}", image.repo());
    match store.manifest(Some(&tag), None).await {
        Ok(document) => {
            let manifest = parse(&shown, &document.bytes)?;
            Ok(Some((shown, manifest)))
        }
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the layers that are readable.
pub(super) async fn read_layers(
    store: &Store,
    image: &str,
    manifest: AttachedManifest,
    readable: Vec<bool>,
    parallel: usize,
) -> Result<Attached, Error> {
    let contents = stream::iter(manifest.layers().iter().cloned().zip(readable))
        .map(|(layer, is_readable)| async move {
            if !is_readable {
                return Ok(None);
            }
            match read(store, image, &layer).await {
                Ok(bytes) => Ok::<_, Error>(Some(bytes)),
                // A broken one by others must not prevent reading ours.
                Err(error) if error.class() == ErrorClass::InvalidInput => Ok(None),
                Err(error) => Err(error),
            }
        })
        .buffered(parallel)
        .try_collect()
        .await?;
    Ok(Attached { manifest, contents })
}

/// The content of a layer, which has its digest.
async fn read(store: &Store, image: &str, layer: &BlobRef) -> Result<Bytes, Error> {
    let bytes = store.open(&layer.digest, 0..layer.size).await?;
    collect(image, layer, "what is attached to an image", layer.size, bytes).await
}

pub(super) fn parse(image: &str, bytes: &[u8]) -> Result<AttachedManifest, Error> {
    AttachedManifest::parse(bytes).map_err(|error| invalid(image, error))
}

/// Which layers are read: of those that are asked for, those within the limits, the smallest first, so
/// that large ones by others don't prevent reading ours.
pub(super) fn readable(
    layers: &[BlobRef],
    limits: Limits,
    is_asked: impl Fn(&BlobRef) -> bool,
) -> Vec<bool> {
    let mut order: Vec<usize> = (0..layers.len()).filter(|at| is_asked(&layers[*at])).collect();
    order.sort_by_key(|at| layers[*at].size);
    let (mut total, mut readable) = (0u64, vec![false; layers.len()]);
    for at in order {
        total = total.saturating_add(layers[at].size);
        readable[at] = layers[at].size <= limits.layer && total <= limits.total;
    }
    readable
}

/// The manifest of a tag; `None` only where the registry says, in the words of its protocol, that it
/// has none.
pub(super) async fn find(remote: &Remote, reference: &str) -> Result<Option<Bytes>, Error> {
    match remote.manifest(reference).await {
        Ok(document) => Ok(Some(document.bytes)),
        Err(Error::NotFound { message, .. }) if message.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The referrers by the API; `None` if the registry doesn't have it.
pub(super) async fn referrers_api(
    remote: &Remote,
    digest: &Digest,
) -> Result<Option<Vec<Referrer>>, Error> {
    let repository = remote.repository();
    let mut call = remote.call(Method::GET, &format!("referrers/{digest}")).await?;
    call = call.header(ACCEPT, OCI_INDEX);
    call.limit = Some(MANIFEST_LIMIT);
    let answer = remote.endpoint.send(&call, &Scopes::pull(&repository), &repository).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.is_refusal() => return Ok(None),
        Err(error) => return Err(error),
    };
    match answer.status {
        200 if answer.body.len() as u64 > MANIFEST_LIMIT => Err(Error::TooLarge {
            image: remote.named(&digest.to_string()),
            what: "the list of its referrers",
            limit: MANIFEST_LIMIT,
            found: answer.body.len() as u64,
        }),
        // Whatever answers in the place of a registry without the API has no index.
        200 => {
            let listed: Option<Referrers> = serde_json::from_slice(&answer.body).ok();
            Ok(listed.map(|listed| listed.manifests))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_layers_are_read_first() {
        let layers = [9, 4, 4, 1, 11].map(|size| BlobRef { size, ..BlobRef::of("x", b"") });
        let limits = Limits { layer: 10, total: 10 };
        assert_eq!(readable(&layers, limits, |_| true), [false, true, true, true, false]);
        let is_asked = |layer: &BlobRef| layer.size > 4;
        assert_eq!(readable(&layers, limits, is_asked), [true, false, false, false, false]);
        let huge = [u64::MAX, u64::MAX, 1].map(|size| BlobRef { size, ..BlobRef::of("x", b"") });
        assert_eq!(readable(&huge, limits, |_| true), [false, false, true]);
    }
}
