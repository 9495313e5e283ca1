//! From what a user wrote to the one image that is meant: manifest and config, verified.

use bytes::Bytes;

use crate::image::{Digest, PinnedRef, Platform};

use super::blobs::Blobs as _;
use super::choose::choose;
use super::error::Error;
use super::location::Source;
use super::manifest::{self, BlobRef, CONFIG_LIMIT, Document, ImageManifest};
use super::remote;
use super::store::Store;
use super::verify::collect;

/// An image, resolved once. Only the digest in here is used from then on.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// As the user wrote it.
    pub source: Source,
    /// The index that named the manifest, if one did.
    pub index: Option<Digest>,
    /// The manifest of the one image.
    pub manifest: Digest,
    /// Its type.
    pub media_type: String,
    /// Its bytes.
    pub manifest_bytes: Bytes,
    /// The config's descriptor.
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

/// Finds the image of `source` in `store`.
pub(super) async fn resolve(
    source: &Source,
    store: Store,
    wanted: Option<&Platform>,
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
                return finish(source, store, wanted, index, document, media_type, read).await;
            }
            Document::Index(_) if depth == NESTED => {
                return Err(Error::ManifestInvalid {
                    image,
                    cause: "an index of an index of an index".to_owned(),
                });
            }
            Document::Index(entries) => {
                let chosen = choose(&image, &entries, wanted)?;
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

async fn finish(
    source: &Source,
    store: Store,
    wanted: Option<&Platform>,
    index: Option<Digest>,
    document: remote::Document,
    media_type: String,
    read: ImageManifest,
) -> Result<Resolved, Error> {
    let image = source.to_string();
    if read.config.size > CONFIG_LIMIT {
        return Err(Error::TooLarge {
            image,
            what: "its config",
            limit: CONFIG_LIMIT,
        });
    }
    let bytes = store.open(&read.config.digest, 0..read.config.size).await?;
    let config_bytes = collect(&image, &read.config, "its config", CONFIG_LIMIT, bytes).await?;
    let platform = manifest::config_platform(&image, &config_bytes)?;
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
    Ok(Resolved {
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
    })
}
