//! A registry tried out before it is relied on: whether it answers, whether an image can really be read, whether one may
//! push. Nothing is left behind.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use url::Url;

use mosb_image::{Digest, ImageRef, Platform, RepoRef};

use super::blobs::Blobs as _;
use super::client::Client;
use super::error::Error;
use super::location::Source;
use super::manifest::BlobRef;
use super::remote::Remote;
use super::resolve::{self, Configs, Resolved};
use super::store::Store;
use super::token::Scopes;

/// How much of a layer is read to see that it can be.
const BEGINNING: u64 = 64 << 10;
/// Layers that are asked for at once.
const PARALLEL: usize = 8;
/// How long a registry may take to cancel an upload.
const CANCEL: Duration = Duration::from_secs(5);

/// One of the places that an image may be pulled from: its own repository or a mirror.
#[derive(Debug, Clone)]
pub struct PullFrom {
    remote: Remote,
    mirror: bool,
}

/// An upload that was begun to see whether one may.
#[derive(Debug)]
#[must_use = "it stays in the registry until it is cancelled"]
pub struct OpenUpload {
    remote: Remote,
    session: Url,
}

impl Client {
    /// The places that an image may be pulled from, in the order in which they are asked: mirrors, then its own.
    ///
    /// # Errors
    /// registries.conf blocks it, or a certificate for it can't be used.
    pub fn places(&self, image: &ImageRef) -> Result<Vec<PullFrom>, Error> {
        let remotes = self.pulling(image)?.into_iter();
        let place = |(remote, mirror)| PullFrom { remote, mirror };
        Ok(remotes.map(place).collect())
    }

    /// Begins an upload: whether one may push there. It is to be cancelled.
    ///
    /// # Errors
    /// One may not, or the registry doesn't tell.
    pub async fn open_upload(&self, repo: &RepoRef) -> Result<OpenUpload, Error> {
        let remote = self.pushing(repo)?;
        remote.endpoint.ping().await?;
        let session = remote.begin().await?;
        Ok(OpenUpload { remote, session })
    }
}

impl OpenUpload {
    /// Cancels it; false where the registry did not, and so drops it by itself some time later.
    pub async fn cancel(self) -> bool {
        let cancelled = tokio::time::timeout(CANCEL, self.remote.cancel(&self.session)).await;
        cancelled.unwrap_or_default()
    }
}

impl PullFrom {
    /// The repository, where it really is.
    pub fn repo(&self) -> &RepoRef {
        &self.remote.repo
    }

    /// Whether it is a mirror.
    pub fn is_mirror(&self) -> bool {
        self.mirror
    }

    /// Whether its registry answers at all; being asked to log in is an answer.
    ///
    /// # Errors
    /// It doesn't, or there is no trusted connection.
    pub async fn answers(&self) -> Result<(), Error> {
        self.remote.endpoint.ping().await
    }

    /// The image as this place has it, its config read.
    ///
    /// # Errors
    /// As [`Client::resolve`].
    pub async fn resolve(
        &self,
        image: &ImageRef,
        platform: Option<&Platform>,
    ) -> Result<Resolved, Error> {
        let store = Store::remotes(vec![self.remote.clone()]);
        let (source, unread) = (Source::Registry(image.clone()), Configs::default());
        resolve::resolve(&source, store, platform, &unread).await
    }

    /// The blobs that this place doesn't have. One whose check is refused counts as there: reading shows more.
    ///
    /// # Errors
    /// The registry doesn't tell.
    pub async fn missing(&self, blobs: &[BlobRef]) -> Result<Vec<Digest>, Error> {
        let scopes = Scopes::pull(&self.remote.repository());
        let ask = |blob: &BlobRef| {
            let (remote, scopes, digest) = (self.remote.clone(), scopes.clone(), blob.digest);
            async move {
                match remote.has_blob(&digest, &scopes).await {
                    Ok(there) => Ok((!there).then_some(digest)),
                    Err(Error::Denied { .. } | Error::Unexpected { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let asked: Vec<_> = blobs.iter().map(ask).collect();
        let asked = futures_util::stream::iter(asked).buffered(PARALLEL);
        let answers: Vec<Option<Digest>> = asked.try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Reads the beginning of a blob; how many bytes came.
    ///
    /// # Errors
    /// It isn't there, may not be read, or ends early.
    pub async fn read_beginning(&self, blob: &BlobRef) -> Result<u64, Error> {
        let store = Store::remotes(vec![self.remote.clone()]);
        let mut bytes = store.open(&blob.digest, 0..blob.size.min(BEGINNING)).await?;
        let mut came = 0;
        while let Some(chunk) = bytes.next().await.transpose()? {
            came += chunk.len() as u64;
        }
        Ok(came)
    }
}
