//! A watch that runs for ever: it keeps an [`IndexedStore`] up to date and reports its state to
//! `WatchHealth`.

mod health;
mod own_writes;
mod store;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use hyper::{Request, Uri};
use kube::client::Body;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{BoxError, service_fn};

use crate::error::{describe, is_forbidden, is_not_found};
use crate::waits::{UNSERVED_KIND, WATCH};
pub use health::{RECOVERED_AFTER, WatchHealth, WatchState};
pub use own_writes::{OWN_WRITE_TIMEOUT, OwnWrites};
pub use store::{Change, IndexedStore};

/// A watch that ran for this long was healthy: the next wait is the shortest again.
const BACKOFF_RESET: Duration = Duration::from_secs(60);
/// A connection that is cut earlier never worked, and its events are missed.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

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

/// The same client, for watches: two of the same objects begin at least [`WATCH`]`.first` apart. kube's
/// watcher begins the next one without a wait where the API server ends one without an error.
pub fn for_watches(client: Client, namespace: &str) -> Client {
    let begun = Arc::<Mutex<BTreeMap<String, Instant>>>::default();
    let service = service_fn(move |request: Request<Body>| {
        let (client, begun) = (client.clone(), Arc::clone(&begun));
        async move {
            if let Some(watched) = watched_objects(request.uri()) {
                let at = {
                    let mut begun = begun.lock().await;
                    let earliest = begun.get(&watched).map(|last| *last + WATCH.first);
                    let at = earliest.unwrap_or_else(Instant::now).max(Instant::now());
                    begun.insert(watched, at);
                    at
                };
                sleep_until(at).await;
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

/// What a request watches, wherever it begins.
fn watched_objects(uri: &Uri) -> Option<String> {
    let parameters = uri.query()?.split('&');
    if !parameters.clone().any(|parameter| parameter == "watch=true") {
        return None;
    }
    let selectors = parameters.filter(|parameter| parameter.contains("Selector="));
    Some([uri.path()].into_iter().chain(selectors).collect::<Vec<_>>().join("&"))
}

/// Watches forever. `read` returns an object's name in the store and the data to cache; where it
/// may return none, that is the name in the metadata. `on_change` is called for each change of the
/// cached data.
pub async fn run_watch<K, T, I>(
    watched: WatchedResource<K>,
    watch_health: Arc<WatchHealth>,
    store: Arc<IndexedStore<T, I>>,
    read: impl Fn(K) -> Option<(String, T)> + Send,
    on_change: impl Fn(&Change<T>) + Send,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: PartialEq + Send + Sync,
    I: Ord + Send,
{
    let WatchedResource { what, api, config, optional, granted_apart } = watched;
    let report = |state| watch_health.set(&what, state, optional);
    let start_watch = || watcher(api.clone(), config.clone());
    let mut stream = pin!(start_watch());
    let (mut listed, mut broken) = (false, false);
    let mut wait = WATCH.first;
    let mut since = Instant::now();
    while let Some(result) = stream.next().await {
        match result {
            Ok(event) => {
                let done = matches!(event, Event::InitDone) || broken && listed;
                broken = false;
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
                    wait = WATCH.first;
                }
                // After the first list, a missing permission does not mean that the objects were
                // deleted.
                match failed_state(&error, granted_apart && !listed) {
                    None => tracing::debug!("{what}: the watch restarts"),
                    // A working connection was cut, for example by a proxy with a time limit: no
                    // event is missed, unless the next one fails.
                    Some(WatchState::Broken { why, .. })
                        if listed
                            && matches!(error, watcher::Error::WatchFailed(_))
                            && since.elapsed() >= SHORTEST_WATCH =>
                    {
                        tracing::warn!("{what}: {why}");
                        report(WatchState::Current);
                        sleep(WATCH.first).await;
                    }
                    Some(failed_state) => {
                        broken = true;
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
                        let backoff = if not_served && optional { UNSERVED_KIND } else { WATCH };
                        if wait > backoff.max {
                            // The wait grew while the kind was not served, and now everything waits
                            // for this watch.
                            wait = WATCH.first;
                        }
                        sleep(wait).await;
                        wait = backoff.next(wait);
                    }
                }
                since = Instant::now();
            }
        }
    }
}

/// An object that can't be read counts as deleted.
fn apply_event<K: Resource, T: PartialEq, I: Ord>(
    store: &IndexedStore<T, I>,
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
        Event::Apply(object) => {
            let name = object.name_any();
            match read(object) {
                Some(read) => Event::Apply(read),
                None => return store.delete(&name),
            }
        }
        Event::Delete(object) => {
            let name = object.name_any();
            let read = read(object).map(|(name, _)| name);
            return store.delete(&read.unwrap_or(name));
        }
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
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Frame;
    use hyper::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::health::{RECOVERED_AFTER, STALE_AFTER, SYNC_POLL_INTERVAL};
    use super::*;

    /// Behaviour of the fake API server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Server {
        /// Answers, and sends no events.
        Quiet,
        /// Refuses to watch.
        FailsToWatch,
        /// Watches; the connection is cut after this time.
        IsCutOff(Duration),
        /// Ends each watch at once, without an error.
        Ends,
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
                    (Server::IsCutOff(after), true) => {
                        let cut = futures_util::stream::once(async move {
                            sleep(after).await;
                            Err::<Frame<Bytes>, _>(std::io::Error::other("cut"))
                        });
                        let body = StreamBody::new(Box::pin(cut)).boxed_unsync();
                        return Ok(Response::builder().status(200).body(body).unwrap());
                    }
                    (Server::Ends, true) => return Ok(Response::default()),
                    (Server::FailsToWatch, true) | (Server::Away, _) => (500, status(500, "x")),
                    (Server::NotServed, _) => (404, status(404, "NotFound")),
                    (_, false) => (200, list),
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
        let store = Arc::<IndexedStore<(), ()>>::default();
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
                RECOVERED_AFTER + WATCH.max + SYNC_POLL_INTERVAL,
                watch_health.wait_for_sync(),
            )
            .await;
            assert!(learnt.is_ok(), "nothing changed, and it stands");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_cut_again_and_again_is_believed() {
        let does = Arc::new(Mutex::new(Server::IsCutOff(Duration::from_secs(20))));
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
    async fn a_watch_that_is_always_cut_at_once_is_unhealthy() {
        let does = Arc::new(Mutex::new(Server::IsCutOff(Duration::from_millis(100))));
        while_followed(&does, false, async |watch_health| {
            watch_health.wait_for_sync().await;
            sleep(STALE_AFTER + WATCH.max).await;
            let not_synced = watch_health.not_synced().join("");
            assert!(not_synced.starts_with("configmaps: nothing new for "), "{not_synced}");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_do_not_flood_the_server() {
        let requests = Arc::new(AtomicU32::new(0));
        let server = api(Arc::new(Mutex::new(Server::Ends)));
        let counted = Arc::clone(&requests);
        let counting = service_fn(move |request| {
            counted.fetch_add(1, Ordering::SeqCst);
            let server = server.clone();
            async move { server.send(request).await }
        });
        let client = for_watches(kube::Client::new(counting, "default"), "default");
        let watched =
            WatchedResource::new("configmaps", Api::<ConfigMap>::default_namespaced(client));
        let (health, store) = (Arc::default(), Arc::<IndexedStore<(), ()>>::default());
        let following = run_watch(watched, health, store, |_| None, |_| ());
        let ended = timeout(Duration::from_secs(60), following).await;
        assert!(ended.is_err(), "a watch never ends");
        let requests = requests.load(Ordering::SeqCst);
        assert!((100..=302).contains(&requests), "{requests} requests in a minute");
    }

    #[test]
    fn an_object_that_becomes_unreadable_is_deleted() {
        let map = |name: &str, data: Option<()>| {
            let mut map = ConfigMap { data: data.map(|()| [].into()), ..ConfigMap::default() };
            map.metadata.name = Some(name.to_owned());
            map
        };
        let read = |map: ConfigMap| Some((map.name_any(), map.data.map(drop)?));
        let events: [(_, fn(_) -> _); 2] = [("changed", Event::Apply), ("deleted", Event::Delete)];
        for (what, event) in events {
            let store = IndexedStore::<_, ()>::default();
            store.replace(["a", "b"].map(|name| (name.to_owned(), ())));
            let changes = apply_event(&store, event(map("a", None)), read);
            let deleted = Change { before: Some(Arc::new(())), after: None };
            assert_eq!(changes, [deleted], "{what}");
            assert_eq!((store.get("a"), store.len()), (None, 1), "{what}");
            assert_eq!(apply_event(&store, event(map("c", None)), read), [], "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_holds_nothing_up_for_long_when_the_api_server_was_away() {
        let does = Arc::new(Mutex::new(Server::NotServed));
        while_followed(&does, true, async |watch_health| {
            // Long enough that the kind is only looked for every 5 minutes.
            sleep(UNSERVED_KIND.max * 4).await;
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
}
