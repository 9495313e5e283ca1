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
mod tests;
