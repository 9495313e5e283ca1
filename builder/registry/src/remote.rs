//! A repository of one registry, read: manifests, and blobs that go on where a connection was cut.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, RANGE};

use mosb_image::{Digest, RepoRef};

use crate::auth::login_key::path_in_registry;
use crate::auth::token::Scopes;
use crate::error::Error;
use crate::http::{AttemptOutcome, RetryDecision, SpeedMeter, decide_retry, jitter};
use crate::manifest::{self, MANIFEST_LIMIT};
use crate::store::BlobStream;
use crate::transport::endpoint::Endpoint;
use crate::transport::request::{Request, TransferStats};

/// The header by which a registry names what it answers with (OCI distribution spec, pulling
/// manifests).
pub(super) const CONTENT_DIGEST: &str = "docker-content-digest";

/// A repository of one registry.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    pub endpoint: Arc<Endpoint>,
    /// Where it really is, after registries.conf.
    pub repo: RepoRef,
    /// As the user wrote it, for messages.
    pub shown: RepoRef,
    pub stats: Arc<TransferStats>,
}

/// A manifest or index as it came.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub bytes: Bytes,
    pub media_type: Option<String>,
    pub digest: Digest,
}

impl Remote {
    /// The path below `/v2/`.
    pub fn repository(&self) -> String {
        path_in_registry(&self.repo).into_owned()
    }

    pub async fn call(&self, method: Method, rest: &str) -> Result<Request, Error> {
        let url = self.endpoint.url(&self.repository(), rest).await?;
        Ok(Request { stats: Some(Arc::clone(&self.stats)), ..Request::new(method, url) })
    }

    pub fn named(&self, reference: &str) -> String {
        let at = if reference.contains(':') { '@' } else { ':' };
        format!("{}{at}{reference}", self.shown)
    }

    /// The manifest or index of a tag or digest; its bytes have the requested digest, or
    /// the one that the registry returned.
    pub async fn manifest(&self, reference: &str) -> Result<Document, Error> {
        let image = self.named(reference);
        let repository = self.repository();
        let mut call = self.call(Method::GET, &format!("manifests/{reference}")).await?;
        call = call.header(ACCEPT, manifest::ACCEPT);
        call.limit = Some(MANIFEST_LIMIT);
        let answer = self.endpoint.send(&call, &Scopes::pull(&repository), &repository).await?;
        if !answer.is_success() {
            return Err(self
                .endpoint
                .response_error(&answer, &image, &repository, "the request for the manifest")
                .await);
        }
        if answer.body.len() as u64 > MANIFEST_LIMIT {
            let length = answer.text(CONTENT_LENGTH.as_str());
            let length = length.and_then(|length| length.parse().ok());
            return Err(Error::TooLarge {
                image,
                what: "its manifest",
                limit: MANIFEST_LIMIT,
                found: length.unwrap_or(answer.body.len() as u64),
            });
        }
        let digest = Digest::of(&answer.body);
        let told = answer.text(CONTENT_DIGEST).and_then(|d| d.parse().ok());
        for want in [reference.parse().ok(), told].into_iter().flatten() {
            if want != digest {
                return Err(Error::DigestMismatch {
                    image,
                    what: "the manifest",
                    want,
                    found: digest,
                });
            }
        }
        Ok(Document {
            digest,
            media_type: answer.text(CONTENT_TYPE.as_str()).map(str::to_owned),
            bytes: answer.body,
        })
    }

    /// The digest that a tag (or digest) names now; `None` where there is nothing.
    pub async fn digest_of(
        &self,
        reference: &str,
        scopes: &Scopes,
    ) -> Result<Option<Digest>, Error> {
        let repository = self.repository();
        let call = self.call(Method::HEAD, &format!("manifests/{reference}")).await?;
        let call = call.header(ACCEPT, manifest::ACCEPT);
        let answer = self.endpoint.send(&call, scopes, &repository).await?;
        match answer.status {
            404 => return Ok(None),
            200..=299 => {}
            _ => {
                let image = self.named(reference);
                return Err(self
                    .endpoint
                    .response_error(
                        &answer,
                        &image,
                        &repository,
                        "the request for a manifest's digest",
                    )
                    .await);
            }
        }
        match answer.text(CONTENT_DIGEST).and_then(|d| d.parse().ok()) {
            Some(digest) => Ok(Some(digest)),
            // Some registries do not send the digest; it is then computed from the bytes.
            None => match self.manifest(reference).await {
                Ok(document) => Ok(Some(document.digest)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(e) => Err(e),
            },
        }
    }

    /// As [`digest_of`](Self::digest_of), but `None` only where the registry itself says that it
    /// has no such manifest. A 404 alone may come from whatever answers in its place.
    pub async fn find_manifest(&self, reference: &str) -> Result<Option<Digest>, Error> {
        let scopes = Scopes::pull(&self.repository());
        if let Some(digest) = self.digest_of(reference, &scopes).await? {
            return Ok(Some(digest));
        }
        // The answer to a HEAD has no words.
        match self.manifest(reference).await {
            Ok(document) => Ok(Some(document.digest)),
            Err(Error::NotFound { message, .. }) if message.is_missing() => Ok(None),
            Err(Error::NotFound { image, message }) => Err(Error::BadAnswer {
                image,
                host: self.endpoint.host().to_owned(),
                doing: "the request for a manifest",
                what: format!("404{message}, without a registry's code for what is missing"),
            }),
            Err(e) => Err(e),
        }
    }

    /// Whether the repository has a blob.
    pub async fn has_blob(&self, digest: &Digest, scopes: &Scopes) -> Result<bool, Error> {
        let repository = self.repository();
        let call = self.call(Method::HEAD, &format!("blobs/{digest}")).await?;
        let answer = self.endpoint.send(&call, scopes, &repository).await?;
        match answer.status {
            404 => Ok(false),
            200..=299 => Ok(true),
            _ => {
                let image = self.named(&digest.to_string());
                Err(self
                    .endpoint
                    .response_error(&answer, &image, &repository, "the question for a blob")
                    .await)
            }
        }
    }

    /// Bytes `range` of a blob, unverified. The first request is made here, so that a missing blob
    /// is an error of the call.
    pub async fn blob(
        &self,
        digest: &Digest,
        range: Range<u64>,
    ) -> Result<BlobStream<Error>, Error> {
        let mut reader = Reader {
            remote: self.clone(),
            digest: *digest,
            range,
            response: None,
            speed: None,
            skip: 0,
            stuck: 0,
            progress: Progress::default(),
        };
        if !reader.range.is_empty() {
            reader.connect().await?;
        }
        Ok(try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|chunk| (chunk, reader)))
        })
        .boxed())
    }
}

/// A blob being read.
#[derive(Debug)]
struct Reader {
    remote: Remote,
    digest: Digest,
    /// What is still to come.
    range: Range<u64>,
    response: Option<reqwest::Response>,
    /// Of this response.
    speed: Option<SpeedMeter>,
    /// Bytes at the beginning of the response that were not asked for.
    skip: u64,
    /// Tries since enough bytes came.
    stuck: u32,
    progress: Progress,
}

/// What came since a try counted as the first one, and how long that was waited for.
#[derive(Debug, Default)]
struct Progress {
    bytes: u64,
    waited: Duration,
}

impl Reader {
    async fn connect(&mut self) -> Result<(), Error> {
        let remote = &self.remote;
        let repository = remote.repository();
        let mut call = remote.call(Method::GET, &format!("blobs/{}", self.digest)).await?;
        call.limit = None;
        if self.range.start > 0 {
            call =
                call.header(RANGE, &format!("bytes={}-{}", self.range.start, self.range.end - 1));
        }
        let answer = remote.endpoint.send(&call, &Scopes::pull(&repository), &repository).await?;
        let image = remote.named(&self.digest.to_string());
        let bad = |what: String| Error::BadAnswer {
            image: image.clone(),
            host: remote.endpoint.host().to_owned(),
            doing: "the request for a blob",
            what,
        };
        match answer.status {
            200 => {
                self.skip = self.range.start;
                let length =
                    answer.text(CONTENT_LENGTH.as_str()).and_then(|l| l.parse::<u64>().ok());
                if let Some(found) = length.filter(|length| *length < self.range.end) {
                    return Err(Error::SizeMismatch {
                        image,
                        digest: self.digest,
                        want: self.range.end,
                        found,
                    });
                }
            }
            206 => {
                self.skip = 0;
                let told = answer.text("content-range").unwrap_or_default();
                if !told.starts_with(&format!("bytes {}-", self.range.start)) {
                    return Err(bad(format!("the range {told:?}")));
                }
            }
            204 | 205 => return Err(bad("nothing".to_owned())),
            _ => {
                return Err(remote
                    .endpoint
                    .response_error(&answer, &image, &repository, "the request for a blob")
                    .await);
            }
        }
        self.response = answer.rest;
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let least = self.remote.endpoint.timeouts().least_speed;
        while !self.range.is_empty() {
            let began = Instant::now();
            if self.response.is_none() {
                self.connect().await?;
            }
            let speed = self.speed.get_or_insert_with(|| SpeedMeter::new(least));
            let response = self.response.as_mut().expect("connected just above");
            let came = speed.wait(response.chunk()).await;
            self.progress.waited += began.elapsed();
            let (outcome, cause) = match came {
                Ok(Ok(Some(mut chunk))) => {
                    self.remote.stats.add_pulled(chunk.len());
                    speed.add(chunk.len());
                    let skipped = self.skip.min(chunk.len() as u64);
                    self.skip -= skipped;
                    drop(
                        chunk
                            .split_to(usize::try_from(skipped).expect("not longer than the chunk")),
                    );
                    if chunk.is_empty() {
                        continue;
                    }
                    let wanted = self.range.end - self.range.start;
                    chunk.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
                    self.range.start += chunk.len() as u64;
                    self.progress.bytes += chunk.len() as u64;
                    if self.progress.bytes >= least.bytes() {
                        // A few bytes after each try would be tried for ever.
                        self.stuck = 0;
                        self.progress = Progress::default();
                    }
                    return Ok(Some(chunk));
                }
                Ok(Ok(None)) => (AttemptOutcome::Cut, "the blob ended early".to_owned()),
                Ok(Err(e)) => (AttemptOutcome::Cut, e.without_url().to_string()),
                Err(broken) => (broken.outcome, broken.cause),
            };
            (self.response, self.speed) = (None, None);
            self.stuck += 1;
            let endpoint = &self.remote.endpoint;
            tracing::debug!(blob = %self.digest, at = self.range.start, cause, "going on where it was cut");
            match decide_retry(
                outcome,
                self.stuck,
                self.progress.waited,
                endpoint.policy(),
                jitter(),
            ) {
                RetryDecision::RetryAfter(pause) => tokio::time::sleep(pause).await,
                RetryDecision::Return | RetryDecision::GiveUp
                    if outcome == AttemptOutcome::TooSlow =>
                {
                    return Err(Error::TooSlow {
                        host: endpoint.host().to_owned(),
                        cause: format!("{cause}, at byte {} of a blob", self.range.start),
                        tries: self.stuck,
                    });
                }
                RetryDecision::Return | RetryDecision::GiveUp => {
                    return Err(Error::Unreachable {
                        host: endpoint.host().to_owned(),
                        cause: format!(
                            "{cause}, {} times at byte {}",
                            self.stuck, self.range.start
                        ),
                    });
                }
            }
        }
        Ok(None)
    }
}
