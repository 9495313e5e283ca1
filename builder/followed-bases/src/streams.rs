//! The newest image of each tag, asked for once for all pools that follow it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use mosb_build::resolve::given_base_name;
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver, invalid_input};
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

    /// Asks the registry, unless another pool did so meanwhile.
    pub async fn ask(
        &self,
        resolver: &Resolver,
        lookup: &TagLookup,
        at_most: Option<Duration>,
    ) -> Result<Result<Newest, Problem>, LookupError> {
        let stream = self.stream(lookup);
        let _asking = stream.asking.lock().await;
        if let Some((answer, _)) = stream.known().answer(lookup, at_most) {
            return Ok(answer);
        }
        let host = lookup.tag.repo().host().to_owned();
        let _permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
        let (fresh, before) = {
            let known = stream.known();
            let before = known.images.get(&lookup.platform).cloned();
            (known.fresh_digest(lookup, at_most), before)
        };
        let asked = Box::pin(ask_registry(resolver, lookup, fresh, before));
        let what = || format!("{}: what it names", lookup.tag);
        let answer: Result<Newest, Problem> = resolver.limits.with_timeout(what, asked).await;
        stream.known().record(lookup, &answer);
        Ok(answer)
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

    /// What the tag names, if that was asked for already and only the platform is new.
    fn fresh_digest(&self, lookup: &TagLookup, at_most: Option<Duration>) -> Option<Digest> {
        let most = at_most.unwrap_or(lookup.interval);
        let (_, digest) = self.digest.filter(|(at, _)| at.elapsed() < most)?;
        (!self.images.contains_key(&lookup.platform)).then_some(digest)
    }

    fn record(&mut self, lookup: &TagLookup, answer: &Result<Newest, Problem>) {
        let at = Instant::now();
        match answer {
            Ok(newest) => {
                self.failures.remove(&lookup.pull_secret);
                if self.digest.is_none_or(|(_, before)| before != newest.digest) {
                    self.images.clear();
                }
                self.digest = Some((at, newest.digest));
                self.images.insert(lookup.platform.clone(), newest.clone());
            }
            Err(problem) => {
                let before = self.failures.get(&lookup.pull_secret);
                let count = before.map_or(1, |failure| failure.count.saturating_add(1));
                let failure = Failure { at, count, problem: problem.clone() };
                self.failures.insert(lookup.pull_secret.clone(), failure);
            }
        }
    }
}

/// The image of the tag: one HEAD, and its manifest and config only if they are not known.
async fn ask_registry(
    resolver: &Resolver,
    lookup: &TagLookup,
    fresh: Option<Digest>,
    before: Option<Newest>,
) -> Result<Newest, Problem> {
    let settings = resolver.settings()?;
    let proxy = resolver.proxy(&settings).await?;
    let pull = resolver.pull_secret(lookup.pull_secret.as_deref(), &settings).await?;
    let registry_client = resolver.registries.open(&pull, &settings, proxy.as_ref())?;
    let client = registry_client.client();
    let digest = match fresh {
        Some(digest) => digest,
        None => client.digest_of(&lookup.tag).await?.ok_or_else(|| {
            let message = format!("{}: the registry has no such tag; check the name", lookup.tag);
            invalid_input("not-found", message)
        })?,
    };
    if let Some(before) = before.filter(|before| before.digest == digest) {
        return Ok(before);
    }
    let source = Source::Registry(lookup.tag.repo().pinned(digest).into());
    let resolved = client.resolve(&source, Some(&lookup.platform)).await?;
    let image = lookup.tag.repo().pinned(resolved.manifest);
    Ok(Newest { digest, image, release: release_of(&resolved)? })
}

/// When an image was made, asked with the global pull secret.
pub async fn image_release(
    resolver: &Resolver,
    image: &ImageRef,
    platform: Option<&Platform>,
) -> Result<BaseRelease, Problem> {
    let settings = resolver.settings()?;
    let proxy = resolver.proxy(&settings).await?;
    let pull = resolver.pull_secret(None, &settings).await?;
    let registry_client = resolver.registries.open(&pull, &settings, proxy.as_ref())?;
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
        known.record(&amd64, &Ok(newest("a")));
        let (answer, left) = known.answer(&amd64, None).unwrap();
        assert_eq!(answer, Ok(newest("a")));
        assert!(left > HOUR * 3 / 4 && left <= HOUR, "{left:?}");
        // Another platform needs its own manifest, but not the tag again.
        assert_eq!(known.answer(&arm64, None), None);
        assert_eq!(known.fresh_digest(&arm64, None), Some(newest("a").digest));
        advance(Duration::from_secs(20)).await;
        assert!(known.answer(&amd64, Some(Duration::from_secs(10))).is_none(), "asked for now");
        assert!(known.answer(&amd64, None).is_some());
        advance(HOUR).await;
        assert_eq!(known.answer(&amd64, None), None);
        assert_eq!(known.fresh_digest(&arm64, None), None);
        known.record(&arm64, &Ok(newest("b")));
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
        known.record(&good, &Ok(newest("a")));
        let mut pauses = Vec::new();
        for _ in 0..3 {
            known.record(&bad, &Err(problem.clone()));
            let (answer, left) = known.answer(&bad, None).unwrap();
            assert_eq!(answer, Err(problem.clone()));
            assert_eq!(known.answer(&good, None).unwrap().0, Ok(newest("a")));
            advance(left + Duration::from_millis(1)).await;
            assert_eq!(known.answer(&bad, None), None, "it is asked again");
            pauses.push(left);
        }
        assert!(pauses.is_sorted() && pauses[0] < pauses[2], "{pauses:?}");
        known.record(&bad, &Ok(newest("a")));
        assert_eq!(known.answer(&bad, None).unwrap().0, Ok(newest("a")));
    }
}
