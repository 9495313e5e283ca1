//! From what a user wrote to the one image that is meant: manifest and config, verified.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use mosb_image::{BlobRef, Digest, PinnedRef, Platform};

use crate::error::Error;
use crate::location::Source;
use crate::manifest::{self, CONFIG_LIMIT, Document, ImageManifest};
use crate::select_platform::select_platform;
use crate::store::{Blobs as _, Store};
use crate::verify::collect;

/// An image, resolved once. Only the digest in here is used from then on.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// As the user wrote it.
    pub source: Source,
    /// The index that named the manifest, if one did.
    pub index: Option<Digest>,
    /// The manifest of the one image.
    pub manifest: Digest,
    pub media_type: String,
    pub manifest_bytes: Bytes,
    pub config: BlobRef,
    /// The config's bytes.
    pub config_bytes: Bytes,
    /// The layers' descriptors, the lowest first.
    pub layers: Vec<BlobRef>,
    /// What the config says it is for, where it says so.
    pub platform: Option<Platform>,
    /// Where its blobs are read.
    pub store: Store,
}

impl Resolved {
    /// `host/repo@digest` of the manifest, under the name that the user wrote; `None` for a folder.
    pub fn pinned(&self) -> Option<PinnedRef> {
        match &self.source {
            Source::Registry(image) => Some(image.repo().pinned(self.manifest)),
            Source::Layout { .. } | Source::Dir(_) => None,
        }
    }

    /// `host/repo@digest` or `oci:DIR@digest`, for people.
    pub fn pinned_text(&self) -> String {
        match (&self.source, self.pinned()) {
            (_, Some(pinned)) => pinned.to_string(),
            (Source::Layout { dir, .. }, None) => {
                format!("oci:{}@{}", dir.display(), self.manifest)
            }
            (other, None) => format!("{other}@{}", self.manifest),
        }
    }
}

/// An index may name an index (as buildah's and Docker's do), but not for ever.
const NESTED: usize = 2;

/// Configs of images that were read, by their digests: whoever resolves many images with one client
/// resolves the same base again and again.
#[derive(Debug, Default)]
pub(super) struct Configs(Mutex<VecDeque<(Digest, Bytes)>>);

/// Bases in use at once, and the largest config that is worth its memory.
const KEPT: usize = 8;
const KEPT_SIZE: u64 = 256 << 10;

impl Configs {
    fn get(&self, config: &BlobRef) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A wrong size in the manifest causes an error when the blob is read.
        let found = kept
            .iter()
            .find(|(digest, bytes)| *digest == config.digest && bytes.len() as u64 == config.size);
        found.map(|(_, bytes)| bytes.clone())
    }

    fn keep(&self, config: &BlobRef, bytes: &Bytes) {
        if config.size > KEPT_SIZE {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(digest, _)| *digest != config.digest);
        kept.push_front((config.digest, bytes.clone()));
        kept.truncate(KEPT);
    }
}

/// Finds the image of `source` in `store`.
pub(super) async fn resolve(
    source: &Source,
    store: Store,
    wanted: Option<&Platform>,
    configs: &Configs,
) -> Result<Resolved, Error> {
    let image = source.to_string();
    let tag = match source {
        Source::Registry(image) => image.tag(),
        Source::Layout { tag, .. } => tag.as_deref(),
        Source::Dir(_) => None,
    };
    let mut document = store.manifest(tag, source.digest()).await?;
    let mut index = None;
    for depth in 0.. {
        let media_type =
            manifest::media_type(&image, &document.bytes, document.media_type.as_deref())?;
        match manifest::read(&image, &document.bytes, &media_type)? {
            Document::Image(read) => {
                let config_bytes = config(&image, &store, &read, configs).await?;
                let platform = fitting(image, &config_bytes, wanted)?;
                return Ok(Resolved {
                    source: source.clone(),
                    index,
                    manifest: document.digest,
                    media_type,
                    manifest_bytes: document.bytes,
                    config: read.config,
                    config_bytes,
                    layers: read.layers,
                    platform,
                    store,
                });
            }
            Document::Index(_) if depth == NESTED => {
                return Err(Error::ManifestInvalid {
                    image,
                    cause: "an index of an index of an index".to_owned(),
                });
            }
            Document::Index(entries) => {
                let chosen = select_platform(&image, &entries, wanted)?;
                index.get_or_insert(document.digest);
                document = store.instance(&chosen.digest).await?;
                if document.media_type.is_none() {
                    document.media_type = Some(chosen.media_type.clone());
                }
            }
        }
    }
    unreachable!("the loop ends by depth")
}

async fn config(
    image: &str,
    store: &Store,
    read: &ImageManifest,
    configs: &Configs,
) -> Result<Bytes, Error> {
    let config = &read.config;
    if config.size > CONFIG_LIMIT {
        return Err(Error::TooLarge {
            image: image.to_owned(),
            what: "its config",
            limit: CONFIG_LIMIT,
            found: config.size,
        });
    }
    if let Some(bytes) = configs.get(config) {
        return Ok(bytes);
    }
    let bytes = store.open(&config.digest, 0..config.size).await?;
    let bytes = collect(image, config, "its config", CONFIG_LIMIT, bytes).await?;
    configs.keep(config, &bytes);
    Ok(bytes)
}

/// What the image is for; an error if that is not what was wanted.
fn fitting(
    image: String,
    config: &[u8],
    wanted: Option<&Platform>,
) -> Result<Option<Platform>, Error> {
    let platform = manifest::config_platform(&image, config)?;
    // Many configs leave out the variant that their index writes.
    let fits = |wanted: &Platform, is: &Platform| {
        wanted.os() == is.os()
            && wanted.architecture() == is.architecture()
            && (is.to_string().matches('/').count() < 2 || wanted.accepts(is))
    };
    if let Some(wanted) = wanted
        && !platform.as_ref().is_some_and(|is| fits(wanted, is))
    {
        return Err(Error::PlatformMissing {
            image,
            wanted: wanted.clone(),
            has: platform.iter().map(Platform::to_string).collect(),
        });
    }
    Ok(platform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_cached_by_digest_and_size() {
        let configs = Configs::default();
        let blob = |content: &[u8]| BlobRef {
            media_type: mosb_image::media_type::OCI_CONFIG.to_owned(),
            digest: Digest::of(content),
            size: content.len() as u64,
            annotations: Default::default(),
        };
        let keep = |content: &'static [u8]| configs.keep(&blob(content), &Bytes::from(content));
        keep(b"base");
        assert_eq!(configs.get(&blob(b"base")).as_deref(), Some(&b"base"[..]));
        let longer = BlobRef { size: 5, ..blob(b"base") };
        assert_eq!(configs.get(&longer), None, "another size");
        assert_eq!(configs.get(&blob(b"other")), None, "another digest");
        for content in [b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8"] {
            keep(content);
        }
        assert_eq!(configs.get(&blob(b"base")), None, "the oldest is forgotten");
        assert!(configs.get(&blob(b"1")).is_some());
    }
}
