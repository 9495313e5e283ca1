//! A watch that runs for ever: it keeps an [`IndexedStore`] up to date and reports its state to
//! [`WatchHealth`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::error::{describe, is_forbidden, is_not_found};
use super::indexed_store::{Change, IndexedStore};

/// The first and the longest wait after a watch broke.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// The longest wait for an optional kind that the cluster doesn't serve. It comes with an operator,
/// which is rarely installed.
const UNSERVED_KIND_RETRY: Duration = Duration::from_secs(300);
/// A watch that ran for this long was healthy: the next wait is the shortest again.
const BACKOFF_RESET: Duration = Duration::from_secs(60);

/// After failing for this long a watch counts as not synced, and nothing is decided from its store.
const STALE_AFTER: Duration = Duration::from_secs(300);
/// A watch that has not failed for this long has recovered. No event confirms it: the next change
/// may be days away. Longer than the longest wait plus a request that times out.
const RECOVERED_AFTER: Duration = Duration::from_secs(90);

/// How often [`WatchHealth::wait_for_sync`] checks whether a watch has recovered.
const SYNC_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// State of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchState {
    /// The first list is not complete.
    Listing,
    /// The store is up to date.
    Current,
    /// The cluster does not serve the kind; the watch retries.
    NotServed,
    /// The watch failed; the store shows the last known state, if there was a list.
    Broken {
        /// Whether the kind was ever listed.
        listed: bool,
        /// The error of the API server.
        why: String,
    },
}

/// State of all watches, for `/readyz` and for everything that waits for the first sync.
#[derive(Debug)]
pub struct WatchHealth {
    watches: Mutex<BTreeMap<String, WatchEntry>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct WatchEntry {
    state: WatchState,
    optional: bool,
    /// The first and the last failure since the watch was last healthy.
    failing: Option<(Instant, Instant)>,
}

impl WatchEntry {
    /// For how long the watch has been failing, if that is too long to trust its store.
    fn stale(&self) -> Option<Duration> {
        let (first, last) = self.failing?;
        let has_recovered = last.elapsed() > RECOVERED_AFTER;
        (!has_recovered && last - first >= STALE_AFTER).then(|| first.elapsed())
    }

    /// Why the store can't be trusted; none if it can.
    fn not_synced(&self) -> Option<String> {
        match &self.state {
            WatchState::Current => None,
            WatchState::Broken { listed: true, why } => {
                let stale = self.stale()?.as_secs();
                Some(format!("nothing new for {stale} s: {why}"))
            }
            WatchState::NotServed if self.optional => None,
            WatchState::Listing => Some("not listed yet".to_owned()),
            WatchState::NotServed => Some(
                "the API server does not serve this kind; install the CRDs (deploy/crds)"
                    .to_owned(),
            ),
            WatchState::Broken { why, .. } => Some(why.clone()),
        }
    }
}

impl Default for WatchHealth {
    fn default() -> Self {
        Self { watches: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl WatchHealth {
    /// Registers a watch before its task runs, so that it counts as not synced from now on.
    pub(super) fn register(&self, what: &str, optional: bool) {
        self.set(what, WatchState::Listing, optional);
    }

    pub(super) fn set(&self, what: &str, state: WatchState, optional: bool) {
        let mut watches = self.lock();
        let failing = match &state {
            WatchState::Broken { .. } => {
                let now = Instant::now();
                let before = watches.get(what).and_then(|entry| entry.failing);
                let before = before.filter(|(_, last)| last.elapsed() <= RECOVERED_AFTER);
                Some((before.map_or(now, |(first, _)| first), now))
            }
            WatchState::Listing | WatchState::Current | WatchState::NotServed => None,
        };
        let entry = WatchEntry { state, optional, failing };
        watches.insert(what.to_owned(), entry);
        drop(watches);
        self.changed.send_replace(());
    }

    /// The watches that are not synced, one line each; nothing may be decided while there is one.
    pub fn not_synced(&self) -> Vec<String> {
        let watches = self.lock();
        let not_synced = |(what, entry): (&String, &WatchEntry)| {
            entry.not_synced().map(|why| format!("{what}: {why}"))
        };
        watches.iter().filter_map(not_synced).collect()
    }

    /// Why the store of this watch is not synced; none if it is.
    pub fn why_not_synced(&self, what: &str) -> Option<String> {
        self.lock().get(what).and_then(WatchEntry::not_synced)
    }

    /// Whether a watch has neither listed its objects nor failed.
    pub fn is_listing(&self) -> bool {
        self.lock().values().any(|entry| entry.state == WatchState::Listing)
    }

    /// The first of these watches that failed and may not have recovered, and why: changes may be
    /// unseen although its store counts as synced.
    pub fn failed_lately(&self, names: &[&str]) -> Option<String> {
        let watches = self.lock();
        names.iter().find_map(|what| match watches.get(*what) {
            Some(WatchEntry {
                state: WatchState::Broken { why, .. },
                failing: Some((_, last)),
                ..
            }) if last.elapsed() <= RECOVERED_AFTER => Some(format!("{what}: {why}")),
            _ => None,
        })
    }

    /// Whether the cluster serves the kind of this watch.
    pub fn is_served(&self, what: &str) -> bool {
        let watches = self.lock();
        let state = watches.get(what).map(|entry| &entry.state);
        matches!(state, Some(WatchState::Current | WatchState::Broken { listed: true, .. }))
    }

    /// Waits until all watches are synced.
    pub async fn wait_for_sync(&self) {
        let mut changed = self.changed.subscribe();
        while !self.not_synced().is_empty() {
            // A watch that recovered sends no event, so only time shows it.
            match timeout(SYNC_POLL_INTERVAL, changed.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                // Can't happen: `self` owns the sender.
                Ok(Err(_)) => return,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, WatchEntry>> {
        self.watches.lock().expect("it is not poisoned: maps and clones don't panic")
    }
}

/// A kind to watch.
#[derive(Debug)]
pub struct WatchedResource<K> {
    /// Name for messages: the plural, and which of them.
    pub what: String,
    pub api: Api<K>,
    pub config: Config,
    /// Whether clusters without this kind are supported.
    pub optional: bool,
    /// Whether the permission is optional: without it the kind counts as not served.
    pub granted_apart: bool,
}

impl<K> WatchedResource<K> {
    /// All objects of a kind that every cluster has.
    pub fn new(what: impl Into<String>, api: Api<K>) -> Self {
        let (what, config) = (what.into(), Config::default());
        Self { what, api, config, optional: false, granted_apart: false }
    }
}

/// Watches forever. `read` returns an object's name and the data to cache. `on_change` is called
/// for each change of the cached data.
pub async fn run_watch<K, T>(
    watched: WatchedResource<K>,
    watch_health: Arc<WatchHealth>,
    store: Arc<IndexedStore<T>>,
    read: impl Fn(K) -> Option<(String, T)> + Send,
    on_change: impl Fn(&Change<T>) + Send,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: PartialEq + Send + Sync,
{
    let WatchedResource { what, api, config, optional, granted_apart } = watched;
    let report = |state| watch_health.set(&what, state, optional);
    let start_watch = || watcher(api.clone(), config.clone());
    let mut stream = pin!(start_watch());
    let (mut listed, mut broken) = (false, false);
    let mut wait = RETRY_WAIT.0;
    let mut since = Instant::now();
    while let Some(result) = stream.next().await {
        match result {
            Ok(event) => {
                let done = matches!(event, Event::InitDone) || broken && listed;
                broken = false;
                // An object that can't be read is left out of a list; one that becomes unreadable
                // counts as deleted.
                for change in apply_event(&store, event, &read) {
                    on_change(&change);
                }
                if done {
                    listed = true;
                    since = Instant::now();
                    report(WatchState::Current);
                }
            }
            Err(error) => {
                if since.elapsed() > BACKOFF_RESET {
                    wait = RETRY_WAIT.0;
                }
                // After the first list, a missing permission does not mean that the objects were
                // deleted.
                match failed_state(&error, granted_apart && !listed) {
                    None => tracing::debug!("{what}: the watch restarts"),
                    Some(failed_state) => {
                        broken = true;
                        if listed && matches!(error, watcher::Error::WatchFailed(_)) {
                            // A working connection was cut, for example by a proxy with a time
                            // limit: no event was missed.
                            report(WatchState::Current);
                        }
                        let not_served = failed_state == WatchState::NotServed;
                        if let WatchState::Broken { why, .. } = &failed_state {
                            tracing::warn!("{what}: {why}");
                        }
                        if not_served && optional {
                            // The objects were deleted with the kind. Without a required kind
                            // nothing is decided anyway.
                            for event in [Event::Init, Event::InitDone] {
                                for change in store.apply_event(event) {
                                    on_change(&change);
                                }
                            }
                            // When the kind is back, it must be listed from scratch.
                            stream.set(start_watch());
                            listed = false;
                        }
                        report(match failed_state {
                            WatchState::Broken { why, .. } => WatchState::Broken { listed, why },
                            other => other,
                        });
                        let most =
                            if not_served && optional { UNSERVED_KIND_RETRY } else { RETRY_WAIT.1 };
                        if wait > most {
                            // The wait grew while the kind was not served, and now everything waits
                            // for this watch.
                            wait = RETRY_WAIT.0;
                        }
                        sleep(wait).await;
                        wait = (wait * 2).min(most);
                    }
                }
                since = Instant::now();
            }
        }
    }
}

fn apply_event<K, T: PartialEq>(
    store: &IndexedStore<T>,
    event: Event<K>,
    read: impl Fn(K) -> Option<(String, T)>,
) -> Vec<Change<T>> {
    let event = match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => match read(object) {
            Some(read) => Event::InitApply(read),
            None => return Vec::new(),
        },
        Event::Apply(object) => match read(object) {
            Some(read) => Event::Apply(read),
            None => return Vec::new(),
        },
        Event::Delete(object) => match read(object) {
            Some(read) => Event::Delete(read),
            None => return Vec::new(),
        },
    };
    store.apply_event(event)
}

/// The state after an error; none if the watch only has to restart, for example because its
/// resourceVersion is too old.
fn failed_state(error: &watcher::Error, may_be_forbidden: bool) -> Option<WatchState> {
    let broken = |why: String| Some(WatchState::Broken { listed: false, why });
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            if is_not_found(error) || may_be_forbidden && is_forbidden(error) {
                Some(WatchState::NotServed)
            } else {
                broken(describe(error))
            }
        }
        watcher::Error::WatchError(status) if status.code == 410 => None,
        watcher::Error::WatchError(status) => broken(status.message.clone()),
        watcher::Error::WatchFailed(error) => broken(describe(error)),
        watcher::Error::NoResourceVersion => {
            broken("the API server answers without a resourceVersion".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Frame;
    use hyper::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    #[test]
    fn watch_health_lists_what_is_not_synced() {
        let broken = |listed| WatchState::Broken { listed, why: "forbidden".to_owned() };
        for (what, state, optional, not_synced) in [
            ("listing", WatchState::Listing, false, true),
            ("current", WatchState::Current, false, false),
            ("a kind too few", WatchState::NotServed, false, true),
            ("a kind that may be missing", WatchState::NotServed, true, false),
            ("broken at once", broken(false), true, true),
            ("broken later", broken(true), false, false),
        ] {
            let watch_health = WatchHealth::default();
            watch_health.set("pools", state, optional);
            assert_eq!(!watch_health.not_synced().is_empty(), not_synced, "{what}");
        }
    }

    /// Behaviour of the fake API server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Server {
        /// Answers, and sends no events.
        Quiet,
        /// Refuses to watch.
        FailsToWatch,
        /// Watches; the connection is cut after 20 s.
        IsCutOff,
        /// Does not serve the kind.
        NotServed,
        /// Answers every request with an error.
        Away,
    }

    /// A fake API server with an empty list.
    fn api(does: Arc<Mutex<Server>>) -> kube::Client {
        let answer = move |request: Request<kube::client::Body>| {
            let is_watch = request.uri().query().is_some_and(|q| q.contains("watch=true"));
            let does = *does.lock().unwrap();
            let status = |code: u16, reason: &str| json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "away" });
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
            async move {
                let (code, body) = match (does, is_watch) {
                    (Server::Quiet, true) => std::future::pending().await,
                    (Server::IsCutOff, true) => {
                        let cut = futures_util::stream::once(async {
                            sleep(Duration::from_secs(20)).await;
                            Err::<Frame<Bytes>, _>(std::io::Error::other("cut"))
                        });
                        let body = StreamBody::new(Box::pin(cut)).boxed_unsync();
                        return Ok(Response::builder().status(200).body(body).unwrap());
                    }
                    (Server::FailsToWatch, true) | (Server::Away, _) => (500, status(500, "x")),
                    (Server::NotServed, _) => (404, status(404, "NotFound")),
                    (Server::Quiet | Server::FailsToWatch | Server::IsCutOff, false) => (200, list),
                };
                let body = Full::new(Bytes::from(body.to_string()));
                let body = body.map_err(|never| match never {}).boxed_unsync();
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        };
        kube::Client::new(service_fn(answer), "default")
    }

    /// Watches ConfigMaps of this API server while `watching` runs.
    async fn while_followed(
        does: &Arc<Mutex<Server>>,
        optional: bool,
        watching: impl AsyncFnOnce(Arc<WatchHealth>),
    ) {
        let watched: WatchedResource<ConfigMap> = WatchedResource {
            what: "configmaps".to_owned(),
            api: Api::default_namespaced(api(Arc::clone(does))),
            config: Config::default(),
            optional,
            granted_apart: false,
        };
        let watch_health = Arc::new(WatchHealth::default());
        watch_health.register("configmaps", optional);
        let store = Arc::<IndexedStore<()>>::default();
        let following = run_watch(watched, Arc::clone(&watch_health), store, |_| None, |_| ());
        tokio::select! {
            () = following => panic!("a watch never ends"),
            () = watching(watch_health) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_for_minutes_is_unhealthy_until_it_is_restored() {
        let does = Arc::new(Mutex::new(Server::FailsToWatch));
        while_followed(&does, false, async |watch_health| {
            watch_health.wait_for_sync().await;
            sleep(STALE_AFTER - RECOVERED_AFTER).await;
            assert_eq!(watch_health.not_synced(), Vec::<String>::new(), "it may pass");
            sleep(RECOVERED_AFTER * 2).await;
            let not_synced = watch_health.not_synced().join("");
            let is_reported = not_synced.starts_with("configmaps: nothing new for ");
            assert!(is_reported && not_synced.ends_with("away"), "{not_synced}");
            *does.lock().unwrap() = Server::Quiet;
            let learnt = timeout(
                RECOVERED_AFTER + RETRY_WAIT.1 + SYNC_POLL_INTERVAL,
                watch_health.wait_for_sync(),
            )
            .await;
            assert!(learnt.is_ok(), "nothing changed, and it stands");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_cut_again_and_again_is_believed() {
        let does = Arc::new(Mutex::new(Server::IsCutOff));
        while_followed(&does, false, async |watch_health| {
            watch_health.wait_for_sync().await;
            for _ in 0..60 {
                sleep(STALE_AFTER / 30).await;
                assert_eq!(watch_health.not_synced(), Vec::<String>::new());
            }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_holds_nothing_up_for_long_when_the_api_server_was_away() {
        let does = Arc::new(Mutex::new(Server::NotServed));
        while_followed(&does, true, async |watch_health| {
            // Long enough that the kind is only looked for every 5 minutes.
            sleep(UNSERVED_KIND_RETRY * 4).await;
            assert_eq!(watch_health.not_synced(), Vec::<String>::new());
            *does.lock().unwrap() = Server::Away;
            while watch_health.not_synced().is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
            *does.lock().unwrap() = Server::NotServed;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(watch_health.not_synced(), Vec::<String>::new());
        })
        .await;
    }

    #[tokio::test]
    async fn whoever_waits_learns_when_all_is_there() {
        let watch_health = Arc::new(WatchHealth::default());
        watch_health.set("pools", WatchState::Listing, false);
        let waiting = tokio::spawn({
            let watch_health = Arc::clone(&watch_health);
            async move { watch_health.wait_for_sync().await }
        });
        watch_health.set("configs", WatchState::Current, false);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        watch_health.set("pools", WatchState::Current, false);
        waiting.await.unwrap();
    }
}
