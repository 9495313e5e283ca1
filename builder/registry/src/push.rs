//! Pushes an image to a registry or an OCI layout directory: what is pushed, where its bytes come
//! from, and the way there.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use mosb_image::hidden::Hidden;
use mosb_image::{BlobRef, Digest, PinnedRef};
use mosb_trust::Evidence;

use super::tag_platform;
use crate::client::{Client, Confirmed};
use crate::error::Error;
use crate::layout::ImageFolder;
use crate::layout::folder::file_stream;
use crate::layout::layout_write::LayoutWriter;
use crate::location::{Destination, Target};
use crate::push_remote::{self, PreparedPush};
use crate::store::{BlobStream, Blobs, Store};
use crate::upload::Reopen;
use crate::verify::{collect, verified};

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub destination: Destination,
    /// Digest of the manifest.
    pub digest: Confirmed<Digest>,
    /// `host/repo@digest`, if the destination is a registry.
    pub image: Option<Confirmed<PinnedRef>>,
    pub tags: Vec<String>,
    pub moved_tags: Vec<MovedTag>,
}

/// A push that was [prepared](Client::begin_push) before the image was complete.
#[derive(Debug)]
pub struct Push {
    client: Client,
    target: Target,
    /// `None` for a layout, which needs no preparation.
    prepared: Option<PreparedPush>,
}

impl Push {
    /// Pushes the image, as [`Client::push_with_evidence`] does.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn finish(
        self,
        plan: &PushPlan,
        evidence: Option<&Evidence<'_>>,
    ) -> Result<Pushed, Error> {
        let Self { client, target, prepared } = self;
        let parallel = client.parallel();
        let moved_tags = match target.destination() {
            Destination::Registry(repo) => {
                let remote = client.pushing(repo)?;
                push_remote::push(&remote, plan, evidence, prepared, parallel).await?
            }
            Destination::Layout(dir) if evidence.is_some() => {
                let cause = "signatures are attached in a registry only; push there, or run mosb sign once the image is there".to_owned();
                return Err(Error::Layout { dir: dir.clone(), cause });
            }
            Destination::Layout(dir) => {
                let layout = LayoutWriter::open(dir).await?;
                let moving = layout.moving(&Digest::of(&plan.manifest), &plan.tags)?;
                let store = Store::folder(ImageFolder::layout(dir)?);
                tag_platform::check(target.destination(), &store, plan, &moving).await?;
                push_to_layout(&layout, plan, parallel).await?
            }
        };
        // Here everything was answered for.
        let digest = Digest::of(&plan.manifest);
        Ok(Pushed {
            destination: target.destination().clone(),
            digest: Confirmed::new(digest),
            image: target.repo().map(|repo| Confirmed::new(repo.pinned(digest))),
            tags: plan.tags.clone(),
            moved_tags,
        })
    }
}

impl Client {
    /// Prepares the push of an image that is still being built: asks what its tags name, and if
    /// they name nothing, starts this many uploads for blobs that are surely new. Those that turn
    /// out not to be needed are cancelled.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn begin_push(
        &self,
        target: &Target,
        tags: &[String],
        uploads: usize,
    ) -> Result<Push, Error> {
        let prepared = match target.destination() {
            Destination::Registry(repo) => {
                let remote = self.pushing(repo)?;
                Some(push_remote::prepare(&remote, tags, uploads, self.parallel()).await?)
            }
            Destination::Layout(_) => None,
        };
        Ok(Push { client: self.clone(), target: target.clone(), prepared })
    }

    /// Pushes an image. Afterwards the registry has answered for the digest under every tag, or the
    /// layout holds all of it. What exists is neither sent nor put again.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn push(&self, target: &Target, plan: &PushPlan) -> Result<Pushed, Error> {
        self.push_with_evidence(target, plan, None).await
    }

    /// The same, but the image is pushed by its digest first, and its tags name it only once what the
    /// registry returns of the evidence verifies.
    ///
    /// # Errors
    /// Whatever the target answers; a layout has no place for evidence.
    pub async fn push_with_evidence(
        &self,
        target: &Target,
        plan: &PushPlan,
        evidence: Option<&Evidence<'_>>,
    ) -> Result<Pushed, Error> {
        let push = Push { client: self.clone(), target: target.clone(), prepared: None };
        push.finish(plan, evidence).await
    }
}

/// Writes into a layout. Returns the tags that named something else before; that has no tag now.
async fn push_to_layout(
    layout: &LayoutWriter,
    plan: &PushPlan,
    parallel: usize,
) -> Result<Vec<MovedTag>, Error> {
    stream::iter(plan.unique_blobs())
        .map(|to_push| async move {
            let blob = &to_push.blob;
            let exists = match &to_push.from {
                BlobFrom::Bytes(bytes) => layout.holds(&blob.digest, bytes)?,
                // Often large, so the size decides, and they are not hashed again.
                BlobFrom::File(_) | BlobFrom::Store(_) => layout.has(&blob.digest, blob.size)?,
            };
            if exists {
                return Ok(());
            }
            let image = match &to_push.from {
                BlobFrom::Store(store) => store.shown(),
                BlobFrom::Bytes(_) | BlobFrom::File(_) => "the new image".to_owned(),
            };
            let source = BlobSource { to_push, image };
            layout.put(&source.to_push.blob, source.from(0).await?).await
        })
        .buffer_unordered(parallel)
        .try_collect::<()>()
        .await?;
    let moved = layout.commit(&plan.manifest, &plan.media_type, &plan.tags).await?;
    Ok(moved.into_iter().map(|(tag, former)| MovedTag { tag, former, former_tag: None }).collect())
}

/// An image to push.
#[derive(Debug, Clone)]
pub struct PushPlan {
    pub manifest: Bytes,
    pub media_type: String,
    /// Config and layers: everything that the manifest names.
    pub blobs: Vec<BlobToPush>,
    /// The tags that name it afterwards; without any it is pushed by digest.
    pub tags: Vec<String>,
    /// The tag whose former image is not left without a tag: before it moves, that image gets the
    /// tag of [`former_tag`]. Registries collect what has no tag.
    pub protected_tag: Option<String>,
}

/// A tag that named another image before a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTag {
    pub tag: String,
    /// The other image.
    pub former: Digest,
    /// The tag that the other image was given.
    pub former_tag: Option<String>,
}

/// The longest tag (OCI distribution spec).
const TAG: usize = 128;

/// The tag of the image that a tag named before: `TAG-<12 hex digits of its digest>`, the tag cut
/// where that is too long.
pub fn former_tag(tag: &str, former: &Digest) -> String {
    let suffix = format!("-{}", &former.hex()[..12]);
    let cut = tag.len().min(TAG - suffix.len());
    format!("{}{suffix}", &tag[..cut])
}

impl PushPlan {
    /// Each blob once, even if the manifest repeats it.
    pub(super) fn unique_blobs(&self) -> Vec<BlobToPush> {
        let mut seen = HashSet::new();
        let mut blobs = self.blobs.clone();
        blobs.retain(|to_push| seen.insert(to_push.blob.digest));
        blobs
    }
}

/// A blob and where its bytes are.
#[derive(Debug, Clone)]
pub struct BlobToPush {
    /// As the manifest describes it.
    pub blob: BlobRef,
    pub from: BlobFrom,
}

/// Where the bytes of a blob are.
#[derive(Clone)]
pub enum BlobFrom {
    Bytes(Bytes),
    /// A file that holds nothing else.
    File(PathBuf),
    /// Where the base was resolved: mounted if it is the same registry, skipped if it is the same
    /// repository.
    Store(Store),
}

impl fmt::Debug for BlobFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&Hidden(bytes.len())).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Store(store) => f.debug_tuple("Store").field(store).finish(),
        }
    }
}

/// The bytes of a blob, verified if they are read from the beginning.
pub(super) struct BlobSource {
    pub to_push: BlobToPush,
    /// For messages.
    pub image: String,
}

impl BlobToPush {
    async fn open(&self, range: Range<u64>) -> Result<BlobStream<Error>, Error> {
        match &self.from {
            BlobFrom::Bytes(bytes) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let part = bytes.slice(at(range.start)..at(range.end));
                Ok(stream::once(async { Ok(part) }).boxed())
            }
            BlobFrom::File(path) => {
                let file = std::fs::File::open(path).map_err(|source| Error::Io {
                    path: path.clone(),
                    doing: "not readable",
                    source,
                })?;
                file_stream(path.clone(), file, range)
            }
            BlobFrom::Store(store) => store.open(&self.blob.digest, range).await,
        }
    }
}

/// The blobs of the image that is pushed. No others may be opened.
impl Blobs for PushPlan {
    type Error = Error;

    async fn open(&self, blob: &Digest, range: Range<u64>) -> Result<BlobStream<Error>, Error> {
        let to_push = self.blobs.iter().find(|to_push| to_push.blob.digest == *blob);
        to_push.expect("it is a blob of the image").open(range).await
    }
}

impl BlobSource {
    async fn unverified(&self, start: u64) -> Result<BlobStream<Error>, Error> {
        self.to_push.open(start..self.to_push.blob.size).await
    }

    /// The whole blob in memory, if it has no more bytes than `limit`.
    pub async fn bytes(&self, limit: u64) -> Result<Bytes, Error> {
        match &self.to_push.from {
            BlobFrom::Bytes(bytes) => Ok(bytes.clone()),
            BlobFrom::File(_) | BlobFrom::Store(_) => {
                let bytes = self.unverified(0).await?;
                collect(&self.image, &self.to_push.blob, "a blob", limit, bytes).await
            }
        }
    }
}

impl Reopen for BlobSource {
    async fn from(&self, start: u64) -> Result<BlobStream<Error>, Error> {
        let bytes = self.unverified(start).await?;
        // The rest of a blob can't be verified here; its registry verifies it at the end.
        Ok(if start == 0 { verified(&self.image, &self.to_push.blob, bytes) } else { bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_tags_are_valid_and_differ_by_digest() {
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let tag = former_tag("worker-0", &one);
        assert_eq!(tag, format!("worker-0-{}", &one.hex()[..12]));
        let long = "w".repeat(TAG);
        for former in [one, other] {
            let named = format!("reg.example/os:{}", former_tag(&long, &former));
            assert!(named.parse::<mosb_image::ImageRef>().is_ok(), "{named}");
        }
        assert_ne!(former_tag(&long, &one), former_tag(&long, &other));
    }
}
