//! Writes to a repository of a registry: mounts, resumed uploads, manifests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, LOCATION, RANGE};
use url::Url;

use mosb_image::{BlobRef, Digest};

use crate::auth::token::Scopes;
use crate::error::Error;
use crate::http::{AttemptOutcome, RetryDecision, decide_retry, jitter};
use crate::remote::{CONTENT_DIGEST, Remote};
use crate::store::BlobStream;
use crate::transport::request::{RegistryMessage, Request, Response, no_response};
use crate::transport::{StreamError, attempt_outcome, follow_location, retries_exhausted};

/// How a registry answers a mount.
#[derive(Debug)]
pub(super) enum MountResult {
    Mounted,
    /// The blob has to be sent to this upload.
    UploadStarted(Url),
    Rejected,
}

/// How a registry answers a manifest.
#[derive(Debug)]
pub(super) enum ManifestPut {
    /// It answered for this digest.
    Confirmed,
    /// A blob doesn't exist although we took it for existing. The error is reported if it does.
    BlobUnknown(Error),
}

/// A source of bytes that can be read from any offset.
pub(super) trait Reopen: Sync {
    /// The bytes from `start` to the end; verified against the descriptor if `start` is 0.
    fn from(&self, start: u64) -> impl Future<Output = Result<BlobStream<Error>, Error>> + Send;
}

impl Remote {
    fn pushing(&self) -> Scopes {
        Scopes::push(&self.repository())
    }

    fn upload_url(&self, answer: &Response, doing: &'static str) -> Result<Url, Error> {
        answer
            .text(LOCATION.as_str())
            .and_then(|location| follow_location(&answer.url, location))
            .ok_or_else(|| Error::BadAnswer {
                image: self.shown.to_string(),
                host: self.endpoint.host().to_owned(),
                doing,
                what: "no usable Location".to_owned(),
            })
    }

    /// Starts an upload. Returns the URL for its bytes.
    pub async fn start_upload(&self) -> Result<Url, Error> {
        const DOING: &str = "the beginning of an upload";
        let repository = self.repository();
        let call = self.call(Method::POST, "blobs/uploads/").await?;
        let answer = self.endpoint.send(&call, &self.pushing(), &repository).await?;
        if answer.status != 202 {
            return Err(self
                .endpoint
                .response_error(&answer, &self.shown.to_string(), &repository, DOING)
                .await);
        }
        self.upload_url(&answer, DOING)
    }

    /// Cancels an upload that is not needed, and returns whether the registry did so. If not, the
    /// registry drops it some time later.
    pub async fn cancel_upload(&self, session: &Url) -> bool {
        let call = Request::new(Method::DELETE, session.clone());
        let repository = self.repository();
        for scopes in [self.pushing(), Scopes::delete(&repository)] {
            match self.endpoint.send_once(&call, &scopes, &repository).await {
                Ok(answer) if matches!(answer.status, 401 | 403) => {}
                Ok(answer) => return answer.is_success(),
                Err(error) => {
                    tracing::debug!(%error, "an upload that was begun is not cancelled");
                }
            }
        }
        false
    }

    /// Asks for a blob of another repository of the same registry.
    pub async fn mount(&self, digest: &Digest, from: &str) -> Result<MountResult, Error> {
        const DOING: &str = "a mount";
        let repository = self.repository();
        let mut call = self.call(Method::POST, "blobs/uploads/").await?;
        call.url
            .query_pairs_mut()
            .append_pair("mount", &digest.to_string())
            .append_pair("from", from);
        let scopes = Scopes::mount(from, &repository);
        match self.endpoint.send(&call, &scopes, &repository).await {
            Ok(answer) => match answer.status {
                201 => Ok(MountResult::Mounted),
                202 => self.upload_url(&answer, DOING).map(MountResult::UploadStarted),
                // Registries refuse a missing right to pull there in many ways; copying decides.
                400..=499 => Ok(MountResult::Rejected),
                _ => Err(self
                    .endpoint
                    .response_error(&answer, &self.shown.to_string(), &repository, DOING)
                    .await),
            },
            Err(error) if error.is_refusal() => Ok(MountResult::Rejected),
            Err(e) => Err(e),
        }
    }

    /// The request that completes an upload.
    fn complete(&self, session: &Url, digest: &Digest) -> Request {
        let mut url = session.clone();
        url.query_pairs_mut().append_pair("digest", &digest.to_string());
        Request {
            stats: Some(std::sync::Arc::clone(&self.stats)),
            ..Request::new(Method::PUT, url)
        }
        .header(CONTENT_TYPE, "application/octet-stream")
    }

    /// Sends a small blob to a started upload in one request; if that fails, as a part and the end,
    /// which is all that some registries take (docs/registries.md).
    pub async fn upload(&self, digest: &Digest, bytes: &Bytes, session: Url) -> Result<(), Error> {
        let mut tries = Tries::new(self);
        let mut session = Some(session);
        loop {
            let at = match session.take() {
                Some(at) => at,
                None => self.start_upload().await?,
            };
            // Each try uses a new upload, as what a cut left in the old one is unknown.
            let sent = if tries.made == 0 {
                let call = Request { body: bytes.clone(), ..self.complete(&at, digest) };
                self.send_once(&call).await
            } else {
                self.upload_part(&at, digest, bytes).await
            };
            if tries.done(sent, digest).await? {
                return Ok(());
            }
        }
    }

    async fn send_once(&self, call: &Request) -> Result<Response, Error> {
        let (scopes, repository) = (self.pushing(), self.repository());
        self.endpoint.send_once(call, &scopes, &repository).await
    }

    /// All of a blob as one part, and the end of the upload.
    async fn upload_part(
        &self,
        session: &Url,
        digest: &Digest,
        bytes: &Bytes,
    ) -> Result<Response, Error> {
        let part = Request {
            body: bytes.clone(),
            stats: Some(std::sync::Arc::clone(&self.stats)),
            ..Request::new(Method::PATCH, session.clone())
        };
        let part = part.header(CONTENT_TYPE, "application/octet-stream");
        let answer = self.send_once(&part).await?;
        if !answer.is_success() {
            return Ok(answer);
        }
        let session = self.upload_url(&answer, "a part of an upload")?;
        self.send_once(&self.complete(&session, digest)).await
    }

    /// Sends a large blob, and continues where the connection was cut if the registry can.
    pub async fn upload_stream(
        &self,
        blob: &BlobRef,
        source: &impl Reopen,
        session: Url,
    ) -> Result<(), Error> {
        let repository = self.repository();
        let mut tries = Tries::new(self);
        let mut at = session;
        let mut start = 0;
        loop {
            let body = source.from(start).await?;
            let call = Request {
                stats: Some(std::sync::Arc::clone(&self.stats)),
                ..Request::new(Method::PATCH, at.clone())
            };
            let mut call = call.header(CONTENT_TYPE, "application/octet-stream");
            if start > 0 {
                let range = format!("{start}-{}", blob.size - 1);
                call = call.header(reqwest::header::CONTENT_RANGE, &range);
            }
            let sent = self
                .endpoint
                .stream(&call, blob.size - start, body, &self.pushing(), &repository)
                .await;
            let sent = match sent {
                // 202 by the protocol; registries have answered 201 and 204 too.
                Ok(answer) if answer.is_success() => {
                    let session = self.upload_url(&answer, "a part of an upload")?;
                    self.send_once(&self.complete(&session, &blob.digest)).await
                }
                Ok(answer) => Ok(answer),
                Err(StreamError::Source(error)) => return Err(error),
                Err(StreamError::Transport(broken)) => {
                    Err(no_response(broken, self.endpoint.host(), tries.made + 1))
                }
            };
            if tries.done(sent, &blob.digest).await? {
                return Ok(());
            }
            (at, start) = match self.received(&at, blob.size).await? {
                Some(received) => {
                    tracing::debug!(blob = %blob.digest, at = received.1, "going on with a cut upload");
                    received
                }
                None => (self.start_upload().await?, 0),
            };
            tries.reached(start);
        }
    }

    /// Where to continue an upload: the URL and the offset. `None` if the registry doesn't answer.
    async fn received(&self, session: &Url, size: u64) -> Result<Option<(Url, u64)>, Error> {
        let call = Request::new(Method::GET, session.clone());
        let answer = match self.endpoint.send(&call, &self.pushing(), &self.repository()).await {
            Ok(answer) => answer,
            // The request is optional: a registry that doesn't know it gets everything again.
            Err(Error::Server { .. } | Error::Unexpected { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        if !answer.is_success() {
            return Ok(None);
        }
        let last = answer.text(RANGE.as_str()).and_then(|range| {
            range.trim_start_matches("bytes=").strip_prefix("0-")?.parse::<u64>().ok()
        });
        // `0-0` means an empty upload as well as one byte.
        let next = last.filter(|last| *last > 0).map_or(0, |last| last + 1);
        if next == 0 || next >= size {
            return Ok(None);
        }
        let next_session = self
            .upload_url(&answer, "the question for an upload")
            .unwrap_or_else(|_| session.clone());
        Ok(Some((next_session, next)))
    }

    /// Puts a manifest under a tag or its digest.
    pub async fn put_manifest(
        &self,
        reference: &str,
        media_type: &str,
        bytes: &Bytes,
        digest: &Digest,
    ) -> Result<ManifestPut, Error> {
        const DOING: &str = "the manifest";
        let repository = self.repository();
        let image = self.named(reference);
        let mut call = self.call(Method::PUT, &format!("manifests/{reference}")).await?;
        call = call.header(CONTENT_TYPE, media_type);
        call.body = bytes.clone();
        let answer = self.endpoint.send(&call, &self.pushing(), &repository).await?;
        if !answer.is_success() {
            let refused = self.endpoint.response_error(&answer, &image, &repository, DOING).await;
            let unknown = ["BLOB_UNKNOWN", "MANIFEST_BLOB_UNKNOWN"];
            if matches!(answer.status, 400 | 404)
                && RegistryMessage::has_code(&answer.body, &unknown)
            {
                return Ok(ManifestPut::BlobUnknown(refused));
            }
            return Err(refused);
        }
        let found = match answer.text(CONTENT_DIGEST).and_then(|d| d.parse().ok()) {
            Some(found) => Some(found),
            None => self.digest_of(reference, &self.pushing()).await?,
        };
        match found {
            Some(found) if found == *digest => Ok(ManifestPut::Confirmed),
            Some(found) => Err(Error::DigestMismatch {
                image,
                what: "the pushed manifest",
                want: *digest,
                found,
            }),
            None => Err(Error::BadAnswer {
                image,
                host: self.endpoint.host().to_owned(),
                doing: DOING,
                what: "success, but does not have it".to_owned(),
            }),
        }
    }
}

/// The tries of one blob's upload. Tries that made progress don't count: a long upload may be cut
/// often.
struct Tries<'a> {
    remote: &'a Remote,
    made: u32,
    /// The duration of the counted tries.
    spent: Duration,
    /// The start of the current try.
    began: Instant,
    /// The offset at which counting began.
    arrived: u64,
}

impl<'a> Tries<'a> {
    fn new(remote: &'a Remote) -> Self {
        Self { remote, made: 0, spent: Duration::ZERO, began: Instant::now(), arrived: 0 }
    }

    /// Counts from zero if there was enough progress: a few bytes per try would be tried for ever.
    fn reached(&mut self, arrived: u64) {
        let enough = self.remote.endpoint.timeouts().least_speed.bytes();
        if arrived >= self.arrived.saturating_add(enough) {
            (self.made, self.spent, self.arrived) = (0, Duration::ZERO, arrived);
        }
    }

    /// Whether the blob exists now. If not, this returns after the pause before the next try.
    async fn done(
        &mut self,
        sent: Result<Response, Error>,
        digest: &Digest,
    ) -> Result<bool, Error> {
        let remote = self.remote;
        self.made += 1;
        let outcome = match &sent {
            Ok(answer) if answer.is_success() => return Ok(true),
            // The registry no longer knows the upload, or has another offset.
            Ok(answer) if matches!(answer.status, 400 | 404 | 416) => AttemptOutcome::Cut,
            // The token expired while the stream was sent.
            Ok(answer) if answer.status == 401 && self.made == 1 => AttemptOutcome::Cut,
            Ok(answer) => attempt_outcome(answer),
            Err(Error::Unreachable { .. } | Error::TimedOut { .. } | Error::TooSlow { .. }) => {
                AttemptOutcome::Cut
            }
            Err(_) => AttemptOutcome::Fatal,
        };
        let policy = remote.endpoint.policy();
        // The current try is not counted as spent, as it may have made progress.
        match decide_retry(outcome, self.made, self.spent, policy, jitter()) {
            RetryDecision::RetryAfter(pause) => {
                tokio::time::sleep(pause).await;
                self.spent += self.began.elapsed();
                self.began = Instant::now();
            }
            RetryDecision::Return => {
                let repository = remote.repository();
                let image = remote.named(&digest.to_string());
                let answer = sent?;
                return Err(remote
                    .endpoint
                    .response_error(&answer, &image, &repository, "an upload")
                    .await);
            }
            RetryDecision::GiveUp => {
                let answer = sent?;
                if matches!(outcome, AttemptOutcome::Cut) {
                    let repository = remote.repository();
                    let image = remote.named(&digest.to_string());
                    return Err(remote
                        .endpoint
                        .response_error(&answer, &image, &repository, "an upload")
                        .await);
                }
                return Err(retries_exhausted(remote.endpoint.host(), &answer, self.made));
            }
        }
        // Perhaps only the response was lost.
        match remote.has_blob(digest, &remote.pushing()).await {
            Err(error) if error.is_refusal() => Ok(false),
            there => there,
        }
    }
}
