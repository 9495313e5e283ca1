//! The newest image of each tag, or of stream metadata, asked for once for all pools that follow it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use super::failure::Failure;
use super::stream_metadata::{StreamMetadata, fetch_document};
use mosb_boot_image::Architecture;
use mosb_build::resolve::given_base_name;
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver, tagged_digest};
use mosb_image::{Digest, ImageRef, PinnedRef, Platform};
use mosb_plan::plan::{Base, BaseRelease};
use mosb_reconcile::Problem;
use mosb_reconcile::waits::Backoff;
use mosb_registry::{Resolved, Source};

/// A stream that nobody asked about for this many intervals is forgotten.
const FORGOTTEN: u32 = 4;

/// What a stream names, for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// What the stream itself names: a manifest, or an index of several.
    pub digest: Digest,
    /// The manifest for the platform.
    pub image: PinnedRef,
    pub release: BaseRelease,
}

/// What a lookup asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamLookup {
    pub stream: StreamName,
    pub platform: Platform,
    /// The pull secret of the pool; `None` is the global one.
    pub pull_secret: Option<String>,
    pub interval: Duration,
}

/// What names the newest base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamName {
    /// The tag that the base is recorded by.
    pub tag: ImageRef,
    /// The stream metadata that names the image, in the repository of the tag; without it, the tag
    /// does.
    pub metadata: Option<Url>,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.metadata {
            Some(url) => url.fmt(f),
            None => self.tag.fmt(f),
        }
    }
}

impl StreamLookup {
    /// The interval. Streams of one server are not asked for together.
    fn pause(&self) -> Duration {
        let interval = Backoff::doubling(self.interval, self.interval).with_jitter();
        match &self.stream.metadata {
            Some(url) => interval.wait_for(1, url),
            None => interval.wait_for(1, &self.stream.tag),
        }
    }

    /// Metadata names an image for each architecture; a tag, one for all.
    fn key(&self) -> StreamKey {
        let platform = self.stream.metadata.as_ref().map(|_| self.platform.clone());
        (self.stream.clone(), platform)
    }
}

type StreamKey = (StreamName, Option<Platform>);

/// The streams that pools follow. One that hangs delays nobody but those who follow it.
#[derive(Debug, Default)]
pub struct Streams(Mutex<BTreeMap<StreamKey, Arc<Stream>>>);

#[derive(Debug, Default)]
struct Stream {
    known: Mutex<Known>,
    /// Held while the registry is asked.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the stream named, and when.
    digest: Option<(Instant, Digest)>,
    images: BTreeMap<Platform, Newest>,
    /// By the pull secret that they were asked with.
    failures: BTreeMap<Option<String>, Failure>,
    last_use: Option<Instant>,
}

/// An answer that counts, and for how long.
pub type Answer = (Result<Newest, Problem>, Duration);

impl Streams {
    /// The last answer, if it is recent enough; with `at_most`, not older than that.
    pub fn known(&self, lookup: &StreamLookup, at_most: Option<Duration>) -> Option<Answer> {
        let stream = self.stream(lookup);
        stream.known().answer(lookup, at_most)
    }

    /// Asks with `ask`, unless another pool did so meanwhile.
    pub async fn ask<A>(
        &self,
        lookup: &StreamLookup,
        at_most: Option<Duration>,
        ask: impl FnOnce(KnownBefore) -> A,
    ) -> Result<Newest, LookupError>
    where
        A: Future<Output = Result<Newest, LookupError>>,
    {
        let stream = self.stream(lookup);
        let _asking = stream.asking.lock().await;
        if let Some((answer, _)) = stream.known().answer(lookup, at_most) {
            return Ok(answer?);
        }
        let before = stream.known().before(lookup, at_most);
        let answer = ask(before).await;
        match &answer {
            Ok(newest) => stream.known().record(lookup, newest),
            Err(LookupError::Problem(problem)) => stream.known().record_failure(lookup, problem),
            // No registry was asked.
            Err(LookupError::Busy(_)) => {}
        }
        answer
    }

    fn stream(&self, lookup: &StreamLookup) -> Arc<Stream> {
        let mut streams = self.0.lock().expect("it is not poisoned: maps don't panic");
        // Users can name any number of tags.
        let now = Instant::now();
        let (old, asked) = (lookup.interval * FORGOTTEN, lookup.key());
        streams.retain(|key, stream| {
            *key == asked || stream.known().last_use.is_none_or(|at| now.duration_since(at) < old)
        });
        let stream = Arc::clone(streams.entry(asked).or_default());
        stream.known().last_use = Some(now);
        stream
    }
}

impl Stream {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Known {
    fn answer(&self, lookup: &StreamLookup, at_most: Option<Duration>) -> Option<Answer> {
        let interval = at_most.unwrap_or_else(|| lookup.pause());
        if let Some(failure) = self.failures.get(&lookup.pull_secret) {
            let left = failure.left(lookup.interval)?;
            return Some((Err(failure.problem.clone()), left));
        }
        let (at, _) = self.digest?;
        let left = interval.checked_sub(at.elapsed())?;
        Some((Ok(self.images.get(&lookup.platform)?.clone()), left))
    }

    /// What of the next answer is known already.
    fn before(&self, lookup: &StreamLookup, at_most: Option<Duration>) -> KnownBefore {
        let image = self.images.get(&lookup.platform).cloned();
        let most = at_most.unwrap_or(lookup.interval);
        let digest = self.digest.filter(|(at, _)| image.is_none() && at.elapsed() < most);
        KnownBefore { digest: digest.map(|(_, digest)| digest), image }
    }

    fn record(&mut self, lookup: &StreamLookup, newest: &Newest) {
        self.failures.remove(&lookup.pull_secret);
        if self.digest.is_none_or(|(_, before)| before != newest.digest) {
            self.images.clear();
        }
        self.digest = Some((Instant::now(), newest.digest));
        self.images.insert(lookup.platform.clone(), newest.clone());
    }

    fn record_failure(&mut self, lookup: &StreamLookup, problem: &Problem) {
        let failure = Failure::after(self.failures.get(&lookup.pull_secret), problem);
        self.failures.insert(lookup.pull_secret.clone(), failure);
    }
}

/// What is known of the image of a stream before it is asked for.
#[derive(Debug)]
pub struct KnownBefore {
    /// What the stream names, if it was asked for not long ago, for another platform.
    digest: Option<Digest>,
    /// What it named for the platform.
    image: Option<Newest>,
}

/// The image of the stream: one HEAD of a tag, or one GET of stream metadata, and its manifest and
/// config only if they are not known.
pub async fn ask_for_image(
    resolver: &Resolver,
    metadata: &StreamMetadata,
    lookup: &StreamLookup,
    at_most: Option<Duration>,
    before: KnownBefore,
) -> Result<Newest, LookupError> {
    let StreamName { tag, metadata: url } = &lookup.stream;
    let named = match (before.digest, url) {
        (None, Some(url)) => {
            let architecture = Architecture::from_kubernetes(lookup.platform.architecture())?;
            let at_most = at_most.unwrap_or_else(|| lookup.pause());
            let fetch = |url| fetch_document(resolver, url);
            Some(metadata.digest(url, architecture, at_most, fetch).await?)
        }
        (digest, _) => digest,
    };
    if let Some(image) = before.image.as_ref().filter(|image| Some(image.digest) == named) {
        return Ok(image.clone());
    }
    let host = tag.repo().host().to_owned();
    let _permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
    let asking = Box::pin(async {
        let registry_client = resolver.pulling_client(lookup.pull_secret.as_deref()).await?;
        let client = registry_client.client();
        let digest = match named {
            Some(digest) => digest,
            None => tagged_digest(client, tag).await?,
        };
        if let Some(image) = before.image.filter(|image| image.digest == digest) {
            return Ok(image);
        }
        let source = Source::Registry(tag.repo().pinned(digest).into());
        let resolved = client.resolve(&source, Some(&lookup.platform)).await;
        let resolved = resolved.map_err(|error| without_image(&lookup.stream, error.into()))?;
        let image = tag.repo().pinned(resolved.manifest);
        Ok::<_, Problem>(Newest { digest, image, release: release_of(&resolved)? })
    });
    let what = || format!("{}: what it names", lookup.stream);
    Ok(resolver.limits.with_timeout(what, asking).await?)
}

/// A repository need not have the images of the stream: those of a base of one's own are in another.
fn without_image(stream: &StreamName, problem: Problem) -> Problem {
    match &stream.metadata {
        Some(url) if problem.reason == "not-found" => Problem {
            message: format!(
                "{url} names an image that {} does not have: {}; mirror the images of the stream, name a base of the stream, or take baseStream out",
                stream.tag.repo(),
                problem.message
            ),
            ..problem
        },
        Some(_) | None => problem,
    }
}

/// When an image was made, asked with the global pull secret.
pub async fn image_release(
    resolver: &Resolver,
    image: &ImageRef,
    platform: Option<&Platform>,
) -> Result<BaseRelease, Problem> {
    let registry_client = resolver.pulling_client(None).await?;
    let source = Source::Registry(image.clone());
    release_of(&registry_client.client().resolve(&source, platform).await?)
}

fn release_of(resolved: &Resolved) -> Result<BaseRelease, Problem> {
    let (name, text) = (given_base_name(resolved), resolved.pinned_text());
    let (manifest, config) = (&resolved.manifest_bytes, &resolved.config_bytes);
    Ok(Base::new(name, text, resolved.index, manifest, config)?.release())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;
    use mosb_types::ErrorClass;

    const HOUR: Duration = Duration::from_secs(3600);

    fn tag(tag: &str) -> StreamName {
        StreamName { tag: tag.parse().unwrap(), metadata: None }
    }

    fn lookup(secret: Option<&str>, platform: &str) -> StreamLookup {
        StreamLookup {
            stream: tag("quay.io/os:stable"),
            platform: platform.parse().unwrap(),
            pull_secret: secret.map(str::to_owned),
            interval: HOUR,
        }
    }

    fn newest(name: &str) -> Newest {
        let digest = Digest::of(name.as_bytes());
        let image = format!("quay.io/os@{digest}").parse().unwrap();
        Newest { digest, image, release: BaseRelease::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_all_pools_until_the_interval_ends() {
        let mut known = Known::default();
        let (amd64, arm64) = (lookup(None, "linux/amd64"), lookup(Some("own"), "linux/arm64"));
        assert_eq!(known.answer(&amd64, None), None);
        known.record(&amd64, &newest("a"));
        let (answer, left) = known.answer(&amd64, None).unwrap();
        assert_eq!(answer, Ok(newest("a")));
        assert!(left > HOUR * 3 / 4 && left <= HOUR, "{left:?}");
        // Another platform needs its own manifest, but not the tag again.
        assert_eq!(known.answer(&arm64, None), None);
        assert_eq!(known.before(&arm64, None).digest, Some(newest("a").digest));
        advance(Duration::from_secs(20)).await;
        assert!(known.answer(&amd64, Some(Duration::from_secs(10))).is_none(), "asked for now");
        assert!(known.answer(&amd64, None).is_some());
        advance(HOUR).await;
        assert_eq!(known.answer(&amd64, None), None);
        assert_eq!(known.before(&arm64, None).digest, None);
        known.record(&arm64, &newest("b"));
        assert_eq!(known.answer(&amd64, None), None, "what an older digest had is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_counts_for_those_with_its_secret() {
        let mut known = Known::default();
        let (bad, good) = (lookup(Some("bad"), "linux/amd64"), lookup(None, "linux/amd64"));
        let problem = Problem {
            class: ErrorClass::Rejected,
            reason: "denied".to_owned(),
            message: "quay.io/os:stable: denied".to_owned(),
        };
        known.record(&good, &newest("a"));
        let mut pauses = Vec::new();
        for _ in 0..3 {
            known.record_failure(&bad, &problem);
            let (answer, left) = known.answer(&bad, None).unwrap();
            assert_eq!(answer, Err(problem.clone()));
            assert_eq!(known.answer(&good, None).unwrap().0, Ok(newest("a")));
            advance(left + Duration::from_millis(1)).await;
            assert_eq!(known.answer(&bad, None), None, "it is asked again");
            pauses.push(left);
        }
        assert!(pauses.is_sorted() && pauses[0] < pauses[2], "{pauses:?}");
        known.record(&bad, &newest("a"));
        assert_eq!(known.answer(&bad, None).unwrap().0, Ok(newest("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_pools_ask_once_for_each_tag() {
        let streams = Streams::default();
        let asked = AtomicUsize::new(0);
        for interval in 1..4 {
            let pools = (0..1000).map(|pool| {
                let stream = tag(&format!("quay.io/os:{}", pool % 5));
                let lookup = StreamLookup { stream, ..lookup(None, "linux/amd64") };
                let (streams, asked) = (&streams, &asked);
                async move {
                    let registry = |_| async {
                        asked.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Ok(newest("a"))
                    };
                    assert_eq!(streams.ask(&lookup, None, registry).await, Ok(newest("a")));
                }
            });
            join_all(pools).await;
            assert_eq!(asked.load(Ordering::Relaxed), 5 * interval);
            advance(HOUR).await;
        }
    }
}
