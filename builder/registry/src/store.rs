//! A place that an image was found in, and that its blobs are read from: a repository of a registry,
//! or a layout directory.

use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use mosb_image::{Digest, RepoRef, layer};

use crate::error::Error;
use crate::layout::ImageFolder;
use crate::remote::{Document, Remote};

/// A repository (with its mirrors), an OCI layout, or a `dir:` directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store(Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Remotes(Arc<Remotes>),
    Folder(Arc<ImageFolder>),
}

/// The places of a repository in the order in which they are asked: mirrors, then the location
/// itself.
#[derive(Debug)]
pub(super) struct Remotes {
    places: Vec<Remote>,
    /// The one that answered last is asked first.
    preferred: AtomicUsize,
}

impl Remotes {
    async fn each<T, F: Future<Output = Result<T, Error>> + Send>(
        &self,
        ask: impl Fn(Remote) -> F + Send,
    ) -> Result<T, Error> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let order =
            std::iter::once(preferred).chain((0..self.places.len()).filter(|n| *n != preferred));
        let mut last = None;
        for n in order {
            match ask(self.places[n].clone()).await {
                Ok(answer) => {
                    self.preferred.store(n, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => {
                    if self.places.len() > 1 {
                        tracing::warn!(place = %self.places[n].repo, %error, "trying the next place of registries.conf");
                    }
                    // What the location itself says counts, not what a mirror lacks.
                    if last.is_none() || n == self.places.len() - 1 {
                        last = Some(error);
                    }
                }
            }
        }
        Err(last.expect("there is always the location itself"))
    }
}

impl Store {
    pub(super) fn remotes(places: Vec<Remote>) -> Self {
        Self(Kind::Remotes(Arc::new(Remotes { places, preferred: AtomicUsize::new(0) })))
    }

    pub(super) fn folder(folder: ImageFolder) -> Self {
        Self(Kind::Folder(Arc::new(folder)))
    }

    /// The repository that answered, where it is one.
    pub(super) fn repo(&self) -> Option<RepoRef> {
        match &self.0 {
            Kind::Remotes(remotes) => {
                let preferred = remotes.preferred.load(Ordering::Relaxed);
                Some(remotes.places[preferred].repo.clone())
            }
            Kind::Folder(_) => None,
        }
    }

    /// The folder, where it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Remotes(_) => None,
            Kind::Folder(folder) => Some(folder.path()),
        }
    }

    /// For messages.
    pub(super) fn shown(&self) -> String {
        match &self.0 {
            Kind::Remotes(remotes) => remotes.places[0].shown.to_string(),
            Kind::Folder(folder) => folder.path().display().to_string(),
        }
    }

    /// What a tag or digest names. A folder knows no other tag than that of its index.
    pub(super) async fn manifest(
        &self,
        tag: Option<&str>,
        digest: Option<Digest>,
    ) -> Result<Document, Error> {
        match &self.0 {
            Kind::Remotes(remotes) => {
                let reference = match (digest, tag) {
                    (Some(digest), _) => digest.to_string(),
                    (None, tag) => tag.unwrap_or("latest").to_owned(),
                };
                remotes
                    .each(|place| {
                        let reference = reference.clone();
                        async move { place.manifest(&reference).await }
                    })
                    .await
            }
            Kind::Folder(folder) => {
                let (folder, tag) = (Arc::clone(folder), tag.map(str::to_owned));
                let bytes =
                    tokio::task::spawn_blocking(move || folder.root(tag.as_deref(), digest))
                        .await
                        .expect(
                            "reading a small file doesn't panic, and the runtime outlives it",
                        )?;
                Ok(Document { digest: Digest::of(&bytes), media_type: None, bytes })
            }
        }
    }

    /// A manifest that an index names.
    pub(super) async fn instance(&self, digest: &Digest) -> Result<Document, Error> {
        match &self.0 {
            Kind::Remotes(_) => self.manifest(None, Some(*digest)).await,
            Kind::Folder(folder) => {
                let bytes = folder.manifest(digest)?;
                Ok(Document { digest: *digest, media_type: None, bytes })
            }
        }
    }
}

impl Blobs for Store {
    type Error = Error;

    async fn open(&self, blob: &Digest, range: Range<u64>) -> Result<BlobStream<Error>, Error> {
        match &self.0 {
            Kind::Remotes(remotes) => {
                remotes
                    .each(|place| {
                        let (blob, range) = (*blob, range.clone());
                        async move { place.blob(&blob, range).await }
                    })
                    .await
            }
            Kind::Folder(folder) => folder.blob(blob, range),
        }
    }
}

/// The bytes of a blob on their way in.
pub type BlobStream<E> = BoxStream<'static, Result<Bytes, E>>;

/// A place that holds blobs.
///
/// Retries and resuming after a cut are the place's business. Whether the bytes are those of the
/// digest is the reader's: a stream may be dropped at any time, and a range can't be verified by
/// itself.
pub trait Blobs: Sync {
    /// What goes wrong here; an unreadable layer is one of these things.
    type Error: From<layer::Error> + Send + 'static;

    /// The bytes `range` of the blob, exactly these and in order; fewer only together with an
    /// error.
    ///
    /// `range` is within `0..size` of the descriptor; the whole blob is asked for as `0..size`.
    fn open(
        &self,
        blob: &Digest,
        range: Range<u64>,
    ) -> impl Future<Output = Result<BlobStream<Self::Error>, Self::Error>> + Send;
}
