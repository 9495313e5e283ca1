//! A watch that never ends: what it tells goes on a shelf, what changed by it wakes whom it concerns.

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

use super::error::{is_forbidden, is_not_found, told};
use super::shelf::{Change, Shelf};

/// The first wait after a watch broke, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// The longest wait for a kind that the cluster may well not have: it comes with an operator, which nobody installs by the minute.
const UNKNOWN_KIND: Duration = Duration::from_secs(300);
/// A watch that held this long is a good one: the next wait is short again.
const GOOD: Duration = Duration::from_secs(60);

/// A watch that has been failing for this long no longer shows what the cluster has: nothing is decided by it.
const STALE: Duration = Duration::from_secs(300);
/// A watch that did not fail for this long stands again. It tells so only with the next change, which may be days away. More than
/// the longest wait, and a request that is not answered.
const RECOVERED: Duration = Duration::from_secs(90);

/// How often whoever waits for all watches looks whether one stands again.
const LOOKED_AT: Duration = Duration::from_secs(5);

/// How far a watch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Its first list is not complete.
    Listing,
    /// The shelf shows what the cluster had a moment ago.
    Current,
    /// The cluster does not know the kind; it is looked for again and again.
    NotServed,
    /// It broke; the shelf shows what was, if there ever was a list.
    Broken {
        /// Whether the shelf was ever filled.
        listed: bool,
        /// What the API server said.
        why: String,
    },
}

/// How far all watches are, for `/readyz` and for who waits until everything was seen once.
#[derive(Debug)]
pub struct Board {
    watches: Mutex<BTreeMap<String, State>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    optional: bool,
    /// When it failed first and last, if it has not stood since.
    failing: Option<(Instant, Instant)>,
}

impl State {
    /// For how long it has been failing, if that is too long to go by what it told before.
    fn stale(&self) -> Option<Duration> {
        let (first, last) = self.failing?;
        let stands_again = last.elapsed() > RECOVERED;
        (!stands_again && last - first >= STALE).then(|| first.elapsed())
    }
}

impl Default for Board {
    fn default() -> Self {
        Self { watches: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Board {
    /// A watch is about to begin: it is missing from now on, whenever its task gets its turn.
    pub(super) fn expect(&self, what: &str, optional: bool) {
        self.set(what, Progress::Listing, optional);
    }

    pub(super) fn set(&self, what: &str, progress: Progress, optional: bool) {
        let mut watches = self.lock();
        let failing = match &progress {
            Progress::Broken { .. } => {
                let now = Instant::now();
                let before = watches.get(what).and_then(|state| state.failing);
                let before = before.filter(|(_, last)| last.elapsed() <= RECOVERED);
                Some((before.map_or(now, |(first, _)| first), now))
            }
            Progress::Listing | Progress::Current | Progress::NotServed => None,
        };
        let state = State { progress, optional, failing };
        watches.insert(what.to_owned(), state);
        drop(watches);
        self.changed.send_replace(());
    }

    /// What is missing before anything may be decided; empty if nothing.
    pub fn missing(&self) -> Vec<String> {
        let watches = self.lock();
        let missing = |(what, state): (&String, &State)| match &state.progress {
            Progress::Current => None,
            Progress::Broken { listed: true, why } => {
                let stale = state.stale()?.as_secs();
                Some(format!("{what}: nothing new for {stale} s: {why}"))
            }
            Progress::NotServed if state.optional => None,
            Progress::Listing => Some(format!("{what}: not listed yet")),
            Progress::NotServed => Some(format!(
                "{what}: the API server does not know this kind; install the CRDs (deploy/crds)"
            )),
            Progress::Broken { why, .. } => Some(format!("{what}: {why}")),
        };
        watches.iter().filter_map(missing).collect()
    }

    /// Whether the cluster knows the kind of this watch.
    pub fn serves(&self, what: &str) -> bool {
        let watches = self.lock();
        let progress = watches.get(what).map(|state| &state.progress);
        matches!(progress, Some(Progress::Current | Progress::Broken { listed: true, .. }))
    }

    /// Until nothing is missing.
    pub async fn complete(&self) {
        let mut changed = self.changed.subscribe();
        while !self.missing().is_empty() {
            // A watch that stands again tells nothing until its next event: only time shows it.
            match timeout(LOOKED_AT, changed.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                // The sender is ours, so it lives as long as we.
                Ok(Err(_)) => return,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, State>> {
        self.watches.lock().expect("nobody panics while holding it: maps and clones don't")
    }
}

/// One kind to watch.
#[derive(Debug)]
pub struct Watched<K> {
    /// For messages: the plural, and what of it.
    pub what: String,
    /// Where it is asked for.
    pub api: Api<K>,
    /// Which of them.
    pub config: Config,
    /// Whether a cluster may well not know the kind.
    pub optional: bool,
    /// Whether the right to it is given apart: without it, it is as if the cluster did not know the kind.
    pub granted_apart: bool,
}

/// Watches for ever, and tells the board that expects it. `read` makes of each object its name and what is kept of it; `wake` learns of each change that `keep`s
/// a difference.
pub async fn follow<K, T>(
    watched: Watched<K>,
    board: Arc<Board>,
    shelf: Arc<Shelf<T>>,
    read: impl Fn(K) -> Option<(String, T)> + Send,
    wake: impl Fn(&Change<T>) + Send,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: PartialEq + Send + Sync,
{
    let Watched { what, api, config, optional, granted_apart } = watched;
    let tell = |progress| board.set(&what, progress, optional);
    let begin = || watcher(api.clone(), config.clone());
    let mut stream = pin!(begin());
    let (mut listed, mut broken) = (false, false);
    let mut wait = BACK_OFF.0;
    let mut since = Instant::now();
    while let Some(told) = stream.next().await {
        match told {
            Ok(event) => {
                let done = matches!(event, Event::InitDone) || broken && listed;
                broken = false;
                // What can't be read is left out of a list, and taken for gone when it becomes so.
                for change in taken(&shelf, event, &read) {
                    wake(&change);
                }
                if done {
                    listed = true;
                    since = Instant::now();
                    tell(Progress::Current);
                }
            }
            Err(error) => {
                if since.elapsed() > GOOD {
                    wait = BACK_OFF.0;
                }
                // What was there once is not gone with the right to see it.
                match trouble(&error, granted_apart && !listed) {
                    None => tracing::debug!("{what}: the watch begins anew"),
                    Some(trouble) => {
                        broken = true;
                        if listed && matches!(error, watcher::Error::WatchFailed(_)) {
                            // A connection was cut that stood until now, as by a proxy once a minute: nothing was missed.
                            tell(Progress::Current);
                        }
                        let not_served = trouble == Progress::NotServed;
                        if let Progress::Broken { why, .. } = &trouble {
                            tracing::warn!("{what}: {why}");
                        }
                        if not_served && optional {
                            // Its objects went with the kind. Without a kind that must be there, nothing is decided anyhow.
                            for event in [Event::Init, Event::InitDone] {
                                for change in shelf.take(event) {
                                    wake(&change);
                                }
                            }
                            // When it is back, everything is listed again, and not only what changed since.
                            stream.set(begin());
                            listed = false;
                        }
                        tell(match trouble {
                            Progress::Broken { why, .. } => Progress::Broken { listed, why },
                            other => other,
                        });
                        let most = match not_served && optional {
                            true => UNKNOWN_KIND,
                            false => BACK_OFF.1,
                        };
                        if wait > most {
                            // It grew while the kind was unknown. Now everything waits for this watch.
                            wait = BACK_OFF.0;
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

fn taken<K, T: PartialEq>(
    shelf: &Shelf<T>,
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
    shelf.take(event)
}

/// What is wrong with a watch; none if it only has to begin anew, as after a time without bookmarks.
fn trouble(error: &watcher::Error, may_be_forbidden: bool) -> Option<Progress> {
    let broken = |why: String| Some(Progress::Broken { listed: false, why });
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            match is_not_found(error) || may_be_forbidden && is_forbidden(error) {
                true => Some(Progress::NotServed),
                false => broken(told(error)),
            }
        }
        watcher::Error::WatchError(status) if status.code == 410 => None,
        watcher::Error::WatchError(status) => broken(status.message.clone()),
        watcher::Error::WatchFailed(error) => broken(told(error)),
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
    fn a_board_tells_what_is_missing() {
        let broken = |listed| Progress::Broken { listed, why: "forbidden".to_owned() };
        for (what, progress, optional, missing) in [
            ("listing", Progress::Listing, false, true),
            ("current", Progress::Current, false, false),
            ("a kind too few", Progress::NotServed, false, true),
            ("a kind that may be missing", Progress::NotServed, true, false),
            ("broken at once", broken(false), true, true),
            ("broken later", broken(true), false, false),
        ] {
            let board = Board::default();
            board.set("pools", progress, optional);
            assert_eq!(!board.missing().is_empty(), missing, "{what}");
        }
    }

    /// What an API server does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Server {
        /// It answers, and nothing happens.
        Quiet,
        /// It refuses to watch.
        FailsToWatch,
        /// It watches, and something between cuts the connection after 20 s.
        IsCutOff,
        /// It does not know the kind.
        NotServed,
        /// It answers nothing but errors.
        Away,
    }

    /// An API server with an empty list, that does what it is told.
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

    /// Follows ConfigMaps of this API server as long as it is watched.
    async fn while_followed(
        does: &Arc<Mutex<Server>>,
        optional: bool,
        watching: impl AsyncFnOnce(Arc<Board>),
    ) {
        let watched: Watched<ConfigMap> = Watched {
            what: "configmaps".to_owned(),
            api: Api::default_namespaced(api(Arc::clone(does))),
            config: Config::default(),
            optional,
            granted_apart: false,
        };
        let board = Arc::new(Board::default());
        board.expect("configmaps", optional);
        let shelf = Arc::<Shelf<()>>::default();
        let following = follow(watched, Arc::clone(&board), shelf, |_| None, |_| ());
        tokio::select! {
            () = following => panic!("a watch never ends"),
            () = watching(board) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_for_minutes_is_missing_until_it_stands_again() {
        let does = Arc::new(Mutex::new(Server::FailsToWatch));
        while_followed(&does, false, async |board| {
            board.complete().await;
            sleep(STALE - RECOVERED).await;
            assert_eq!(board.missing(), Vec::<String>::new(), "it may pass");
            sleep(RECOVERED * 2).await;
            let missing = board.missing().join("");
            let said = missing.starts_with("configmaps: nothing new for ");
            assert!(said && missing.ends_with("away"), "{missing}");
            *does.lock().unwrap() = Server::Quiet;
            let learnt = timeout(RECOVERED + BACK_OFF.1 + LOOKED_AT, board.complete()).await;
            assert!(learnt.is_ok(), "nothing changed, and it stands");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_cut_again_and_again_is_believed() {
        let does = Arc::new(Mutex::new(Server::IsCutOff));
        while_followed(&does, false, async |board| {
            board.complete().await;
            for _ in 0..60 {
                sleep(STALE / 30).await;
                assert_eq!(board.missing(), Vec::<String>::new());
            }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_holds_nothing_up_for_long_when_the_api_server_was_away() {
        let does = Arc::new(Mutex::new(Server::NotServed));
        while_followed(&does, true, async |board| {
            // Long enough that it is asked for every 5 minutes only.
            sleep(UNKNOWN_KIND * 4).await;
            assert_eq!(board.missing(), Vec::<String>::new());
            *does.lock().unwrap() = Server::Away;
            while board.missing().is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
            *does.lock().unwrap() = Server::NotServed;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(board.missing(), Vec::<String>::new());
        })
        .await;
    }

    #[tokio::test]
    async fn whoever_waits_learns_when_all_is_there() {
        let board = Arc::new(Board::default());
        board.set("pools", Progress::Listing, false);
        let waiting = tokio::spawn({
            let board = Arc::clone(&board);
            async move { board.complete().await }
        });
        board.set("configs", Progress::Current, false);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        board.set("pools", Progress::Current, false);
        waiting.await.unwrap();
    }
}
