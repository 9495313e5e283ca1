//! A watch on a fake API server that fails in several ways.

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
        let learnt =
            timeout(RECOVERED_AFTER + WATCH.max + SYNC_POLL_INTERVAL, watch_health.wait_for_sync())
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
    let watched = WatchedResource::new("configmaps", Api::<ConfigMap>::default_namespaced(client));
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
