//! Checks a registry before it is used: whether it answers, whether an image can be read, whether
//! pushing is permitted. Leaves nothing in the registry.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use url::Url;

use mosb_image::{BlobRef, Digest, ImageRef, Platform, RepoRef};

use crate::auth::token::Scopes;
use crate::client::Client;
use crate::error::Error;
use crate::location::Source;
use crate::remote::Remote;
use crate::resolve::{self, Configs, Resolved};
use crate::store::{Blobs as _, Store};

/// Bytes of a layer that are read to see that it can be.
const LAYER_SAMPLE: u64 = 64 << 10;
/// Concurrent checks of layers.
const PARALLEL_CHECKS: usize = 8;
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A repository that an image may be pulled from: its own or a mirror.
#[derive(Debug, Clone)]
pub struct PullRepository {
    remote: Remote,
    mirror: bool,
}

/// An upload that was started to see whether pushing is permitted.
#[derive(Debug)]
#[must_use = "it stays in the registry until it is cancelled"]
pub struct OpenUpload {
    remote: Remote,
    session: Url,
}

impl Client {
    /// The repositories that an image may be pulled from, in the order in which they are asked:
    /// mirrors, then its own.
    ///
    /// # Errors
    /// registries.conf blocks it, or a certificate for it can't be used.
    pub fn pull_repositories(&self, image: &ImageRef) -> Result<Vec<PullRepository>, Error> {
        let remotes = self.pulling(image)?.into_iter();
        Ok(remotes.map(|(remote, mirror)| PullRepository { remote, mirror }).collect())
    }

    /// Starts an upload, which shows whether pushing is permitted. Cancel it.
    ///
    /// # Errors
    /// It isn't permitted, or the registry doesn't answer.
    pub async fn open_upload(&self, repo: &RepoRef) -> Result<OpenUpload, Error> {
        let remote = self.pushing(repo)?;
        remote.endpoint.ping().await?;
        let session = remote.start_upload().await?;
        Ok(OpenUpload { remote, session })
    }
}

impl OpenUpload {
    /// Returns whether the registry cancelled it. If not, the registry drops it some time later.
    pub async fn cancel(self) -> bool {
        let cancelled =
            tokio::time::timeout(CANCEL_TIMEOUT, self.remote.cancel_upload(&self.session)).await;
        cancelled.unwrap_or_default()
    }
}

impl PullRepository {
    /// The repository after `registries.conf`.
    pub fn repo(&self) -> &RepoRef {
        &self.remote.repo
    }

    pub fn is_mirror(&self) -> bool {
        self.mirror
    }

    /// Whether its registry answers at all; being asked to log in is an answer.
    ///
    /// # Errors
    /// It doesn't, or the connection is not trusted.
    pub async fn answers(&self) -> Result<(), Error> {
        self.remote.endpoint.ping().await
    }

    /// The image as this repository has it, with its config.
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

    /// The blobs that this repository doesn't have. A blob whose check is refused counts as
    /// existing: reading it shows more.
    ///
    /// # Errors
    /// The registry doesn't answer.
    pub async fn missing(&self, blobs: &[BlobRef]) -> Result<Vec<Digest>, Error> {
        let scopes = Scopes::pull(&self.remote.repository());
        let check = |blob: &BlobRef| {
            let (remote, scopes, digest) = (self.remote.clone(), scopes.clone(), blob.digest);
            async move {
                match remote.has_blob(&digest, &scopes).await {
                    Ok(exists) => Ok((!exists).then_some(digest)),
                    Err(Error::Denied { .. } | Error::Unexpected { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let checks: Vec<_> = blobs.iter().map(check).collect();
        let checks = futures_util::stream::iter(checks).buffered(PARALLEL_CHECKS);
        let answers: Vec<Option<Digest>> = checks.try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Reads the beginning of a blob and returns how many bytes were received.
    ///
    /// # Errors
    /// It isn't there, may not be read, or ends early.
    pub async fn read_beginning(&self, blob: &BlobRef) -> Result<u64, Error> {
        let store = Store::remotes(vec![self.remote.clone()]);
        let mut bytes = store.open(&blob.digest, 0..blob.size.min(LAYER_SAMPLE)).await?;
        let mut received = 0;
        while let Some(chunk) = bytes.next().await.transpose()? {
            received += chunk.len() as u64;
        }
        Ok(received)
    }
}
