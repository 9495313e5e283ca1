//! The newest image of each tag, asked for once for all pools that follow it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use mosb_build::resolve::given_base_name;
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver, tagged_digest};
use mosb_image::{Digest, ImageRef, PinnedRef, Platform};
use mosb_plan::plan::{Base, BaseRelease};
use mosb_reconcile::Problem;
use mosb_reconcile::waits::{Backoff, after_error};
use mosb_registry::{Resolved, Source};

/// A tag that nobody asked about for this many intervals is forgotten.
const FORGOTTEN: u32 = 4;

/// What a tag names, for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// What the tag itself names: a manifest, or an index of several.
    pub digest: Digest,
    /// The manifest for the platform.
    pub image: PinnedRef,
    pub release: BaseRelease,
}

/// What a lookup asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagLookup {
    pub tag: ImageRef,
    pub platform: Platform,
    /// The pull secret of the pool; `None` is the global one.
    pub pull_secret: Option<String>,
    pub interval: Duration,
}

/// The tags that pools follow. A stream that hangs delays nobody but those who follow it.
#[derive(Debug, Default)]
pub struct Streams(Mutex<BTreeMap<ImageRef, Arc<Stream>>>);

#[derive(Debug, Default)]
struct Stream {
    known: Mutex<Known>,
    /// Held while the registry is asked.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the tag named, and when.
    digest: Option<(Instant, Digest)>,
    images: BTreeMap<Platform, Newest>,
    /// By the pull secret that they were asked with.
    failures: BTreeMap<Option<String>, Failure>,
    last_use: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Failure {
    at: Instant,
    count: u32,
    problem: Problem,
}

/// An answer that counts, and for how long.
pub type Answer = (Result<Newest, Problem>, Duration);

impl Streams {
    /// The last answer, if it is recent enough; with `at_most`, not older than that.
    pub fn known(&self, lookup: &TagLookup, at_most: Option<Duration>) -> Option<Answer> {
        let stream = self.stream(lookup);
        stream.known().answer(lookup, at_most)
    }

    /// Asks with `ask`, unless another pool did so meanwhile.
    pub async fn ask<A>(
        &self,
        lookup: &TagLookup,
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

    fn stream(&self, lookup: &TagLookup) -> Arc<Stream> {
        let mut streams = self.0.lock().expect("it is not poisoned: maps don't panic");
        // Users can name any number of tags.
        let now = Instant::now();
        let old = lookup.interval * FORGOTTEN;
        streams.retain(|tag, stream| {
            *tag == lookup.tag
                || stream.known().last_use.is_none_or(|at| now.duration_since(at) < old)
        });
        let stream = Arc::clone(streams.entry(lookup.tag.clone()).or_default());
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
    fn answer(&self, lookup: &TagLookup, at_most: Option<Duration>) -> Option<Answer> {
        // Tags of one registry are not asked for together.
        let interval = Backoff::doubling(lookup.interval, lookup.interval).with_jitter();
        let interval = at_most.unwrap_or_else(|| interval.wait_for(1, &lookup.tag));
        if let Some(failure) = self.failures.get(&lookup.pull_secret) {
            let pause = after_error(failure.problem.class).wait(failure.count).min(lookup.interval);
            let left = pause.checked_sub(failure.at.elapsed())?;
            return Some((Err(failure.problem.clone()), left));
        }
        let (at, _) = self.digest?;
        let left = interval.checked_sub(at.elapsed())?;
        Some((Ok(self.images.get(&lookup.platform)?.clone()), left))
    }

    /// What of the next answer is known already.
    fn before(&self, lookup: &TagLookup, at_most: Option<Duration>) -> KnownBefore {
        let image = self.images.get(&lookup.platform).cloned();
        let most = at_most.unwrap_or(lookup.interval);
        let digest = self.digest.filter(|(at, _)| image.is_none() && at.elapsed() < most);
        KnownBefore { digest: digest.map(|(_, digest)| digest), image }
    }

    fn record(&mut self, lookup: &TagLookup, newest: &Newest) {
        self.failures.remove(&lookup.pull_secret);
        if self.digest.is_none_or(|(_, before)| before != newest.digest) {
            self.images.clear();
        }
        self.digest = Some((Instant::now(), newest.digest));
        self.images.insert(lookup.platform.clone(), newest.clone());
    }

    fn record_failure(&mut self, lookup: &TagLookup, problem: &Problem) {
        let before = self.failures.get(&lookup.pull_secret);
        let count = before.map_or(1, |failure| failure.count.saturating_add(1));
        let failure = Failure { at: Instant::now(), count, problem: problem.clone() };
        self.failures.insert(lookup.pull_secret.clone(), failure);
    }
}

/// What is known of the image of a tag before it is asked for.
#[derive(Debug)]
pub struct KnownBefore {
    /// What the tag names, if it was asked for not long ago, for another platform.
    digest: Option<Digest>,
    /// What it named for the platform.
    image: Option<Newest>,
}

/// The image of the tag: one HEAD, and its manifest and config only if they are not known.
pub async fn ask_registry(
    resolver: &Resolver,
    lookup: &TagLookup,
    before: KnownBefore,
) -> Result<Newest, LookupError> {
    let host = lookup.tag.repo().host().to_owned();
    let _permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
    let asking = Box::pin(async {
        let registry_client = resolver.pulling_client(lookup.pull_secret.as_deref()).await?;
        let client = registry_client.client();
        let digest = match before.digest {
            Some(digest) => digest,
            None => tagged_digest(client, &lookup.tag).await?,
        };
        if let Some(image) = before.image.filter(|image| image.digest == digest) {
            return Ok(image);
        }
        let source = Source::Registry(lookup.tag.repo().pinned(digest).into());
        let resolved = client.resolve(&source, Some(&lookup.platform)).await?;
        let image = lookup.tag.repo().pinned(resolved.manifest);
        Ok::<_, Problem>(Newest { digest, image, release: release_of(&resolved)? })
    });
    let what = || format!("{}: what it names", lookup.tag);
    Ok(resolver.limits.with_timeout(what, asking).await?)
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

    fn lookup(secret: Option<&str>, platform: &str) -> TagLookup {
        TagLookup {
            tag: "quay.io/os:stable".parse().unwrap(),
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
                let tag = format!("quay.io/os:{}", pool % 5).parse().unwrap();
                let lookup = TagLookup { tag, ..lookup(None, "linux/amd64") };
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
