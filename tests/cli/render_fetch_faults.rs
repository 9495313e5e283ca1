//! A fault of one request does not prevent the fetch. A permanent fault or an endless answer leads
//! to one error message.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use mosb_build::fetch::offline;
use mosb_ignition::snapshot::contents;
use mosb_ignition::{Contents, Document, Reference, Resolution};
use mosb_types::{Diagnostic as _, ErrorClass};
use serde_json::json;

use crate::fetch_fixture::{LONG, embedded, fetcher, file, get, options, render};
use mosb_tests::{ServerAction, Web, reply};

#[tokio::test(flavor = "multi_thread")]
async fn only_transient_errors_are_retried() {
    let late = ("retry-after", "0");
    let whole = reply(200, &[], b"hi");
    let cut = whole[..whole.len() - 1].to_vec();
    for (what, first, want, requests) in [
        ("not there", reply(404, &[], b"hi"), Err("not-found"), 1),
        ("gone", reply(410, &[], b"hi"), Err("not-found"), 1),
        ("not allowed", reply(403, &[], b"hi"), Err("fetch-denied"), 1),
        ("a part", reply(206, &[], b"hi"), Err("fetch-refused"), 1),
        ("a redirect to nowhere", reply(302, &[], b"hi"), Err("fetch-refused"), 1),
        ("500 once", reply(500, &[], b"ho"), Ok(()), 2),
        ("503 once", reply(503, &[late], b""), Ok(()), 2),
        ("429 once", reply(429, &[late], b""), Ok(()), 2),
        ("cut once", cut, Ok(()), 2),
        ("closed once", Vec::new(), Ok(()), 2),
    ] {
        let whole = whole.clone();
        let web = Web::start(move |_, before| match before {
            0 => vec![ServerAction::Send(first.clone())],
            _ => vec![ServerAction::Send(whole.clone())],
        });
        let got = get(&web.url("/x?token=hunter2"), &fetcher(options(LONG))).await;
        match (got, want) {
            (Ok(bytes), Ok(())) => assert_eq!(bytes, b"hi", "{what}"),
            (Err(failed), Err(code)) => {
                assert_eq!(
                    (&*failed.code, failed.class),
                    (code, ErrorClass::InvalidInput),
                    "{what}"
                );
                let place = format!("storage.files[/etc/x].contents: {}?…", web.url("/x"));
                assert!(failed.message.contains(&place), "{what}: {failed:?}");
                assert!(!failed.message.contains("hunter2"), "{what}: {failed:?}");
            }
            (got, want) => panic!("{what}: {got:?} instead of {want:?}"),
        }
        assert_eq!(web.seen().len(), requests, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_transient_errors_fail_in_time() {
    let short = Duration::from_secs(2);
    let whole = reply(200, &[], b"hi");
    let cut = whole[..whole.len() - 1].to_vec();
    let (broken, closing, busy) = (
        Web::always(reply(500, &[], b"")),
        Web::always(cut),
        Web::always(reply(429, &[("retry-after", "1000")], b"")),
    );
    let silent = Web::start(|_, _| vec![ServerAction::Wait(Duration::from_secs(20))]);
    let slow = Web::start(move |_, _| {
        let mut actions = vec![ServerAction::Send(whole[..whole.len() - 2].to_vec())];
        actions.push(ServerAction::Wait(Duration::from_secs(20)));
        actions
    });
    let all = [
        ("500", broken.url("/"), "server-error"),
        ("429", busy.url("/"), "too-many-requests"),
        ("cut", closing.url("/"), "unreachable"),
        ("nobody there", "http://127.0.0.1:1/".to_owned(), "unreachable"),
        ("silence", silent.url("/"), "timed-out"),
        ("silence in the body", slow.url("/"), "timed-out"),
    ];
    let impatient = fetcher(options(short));
    let failed = join_all(all.iter().map(|(_, url, _)| get(url, &impatient))).await;
    for ((what, _, code), failed) in all.iter().zip(failed) {
        let failed = failed.unwrap_err();
        assert_eq!((&*failed.code, failed.class), (*code, ErrorClass::Transient), "{what}");
    }
    assert!(broken.seen().len() > 1 && closing.seen().len() > 1);
}

/// `ignition.timeouts`: a request without an answer in time is repeated, and the total time ends
/// the fetch before `--timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn the_configs_timeouts_count() {
    let whole = reply(200, &[], b"hi");
    let web = Web::start(move |_, before| {
        let wait = Duration::from_secs(if before == 0 { 20 } else { 0 });
        vec![ServerAction::Wait(wait), ServerAction::Send(whole.clone())]
    });
    let mut config = file(json!({ "source": web.url("/") }));
    config["ignition"]["timeouts"] = json!({ "httpResponseHeaders": 1 });
    let rendered = render(&config, &fetcher(options(LONG))).await.unwrap();
    assert_eq!((embedded(&rendered), web.seen().len()), (b"hi".to_vec(), 2));

    let silent = Web::start(|_, _| vec![ServerAction::Wait(Duration::from_secs(20))]);
    let mut config = file(json!({ "source": silent.url("/") }));
    config["ignition"]["timeouts"] = json!({ "httpResponseHeaders": 0, "httpTotal": 1 });
    let failed = render(&config, &fetcher(options(LONG))).await.unwrap_err();
    assert_eq!(failed.code, "timed-out");
    assert!(failed.message.contains("in 1 s (1 tries)"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_has_an_end() {
    let head = |rest: &str| format!("HTTP/1.1 200 ok\r\n{rest}\r\n").into_bytes();
    let noise = vec![b'x'; 1 << 16];
    let chunk = [b"10000\r\n".as_slice(), &noise, b"\r\n"].concat();
    for (what, actions) in [
        ("announced", vec![ServerAction::Send(head("content-length: 9000000\r\n"))]),
        (
            "until it closes, which it never does",
            vec![ServerAction::Send(head("")), ServerAction::Forever(noise)],
        ),
        (
            "chunks without end",
            vec![
                ServerAction::Send(head("transfer-encoding: chunked\r\n")),
                ServerAction::Forever(chunk),
            ],
        ),
    ] {
        let web = Web::start(move |_, _| actions.clone());
        let failed = get(&web.url("/"), &fetcher(options(LONG))).await.unwrap_err();
        assert_eq!(
            (&*failed.code, failed.class),
            ("too-large", ErrorClass::InvalidInput),
            "{what}"
        );
        assert_eq!(web.seen().len(), 1, "{what}");
    }
}

/// Each file may take up to `--timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_has_an_end_too() {
    let web = Web::always(reply(200, &[], b"hi"));
    for (count, want) in [(512, None), (513, Some("too-many-references"))] {
        let mut config = file(json!({ "source": web.url("/0") }));
        let files = (0..count).map(|n| json!({ "path": format!("/{n}"), "contents": { "source": web.url(&format!("/{n}")) } }));
        config["storage"]["files"] = files.collect();
        let before = web.seen().len();
        let got = render(&config, &fetcher(options(LONG))).await;
        let failed = got.err().map(|failed| (failed.code, failed.class));
        let want = want.map(|code: &str| (code.to_owned(), ErrorClass::InvalidInput));
        assert_eq!(failed, want, "{count}");
        let requests = if want.is_some() { 0 } else { count };
        assert_eq!(web.seen().len() - before, requests, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_total_has_an_end_too() {
    let web = Web::always(reply(200, &[], &vec![b'x'; 8 << 20]));
    let mut config = file(json!({ "source": web.url("/0") }));
    let files = (0..9).map(
        |n| json!({ "path": format!("/{n}"), "contents": { "source": web.url(&format!("/{n}")) } }),
    );
    config["storage"]["files"] = files.collect();
    let failed = render(&config, &fetcher(options(LONG))).await.unwrap_err();
    assert_eq!((&*failed.code, failed.class), ("too-large", ErrorClass::InvalidInput));
    assert!(failed.message.contains("67108864"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_failures_and_offline_references_are_reported() {
    let web = Web::start(|head, _| {
        let status = if head.path() == "/late" { 500 } else { 404 };
        vec![ServerAction::Send(reply(status, &[], b""))]
    });
    let mut config = file(json!({}));
    let files = ["/late", "/a", "/b"]
        .map(|path| json!({ "path": path, "contents": { "source": web.url(path) } }));
    config["storage"]["files"] = json!(files);
    let failed = render(&config, &fetcher(options(Duration::from_secs(2)))).await.unwrap_err();
    assert_eq!((&*failed.code, failed.class), ("not-found", ErrorClass::InvalidInput));
    assert!(failed.message.starts_with("3 references could not be fetched:"), "{failed:?}");
    for path in ["/late", "/a", "/b"] {
        let place = format!("\n  storage.files[{path}].contents: {}: ", web.url(path));
        assert!(failed.message.contains(&place), "{failed:?}");
    }
    let requests = web.seen().len();
    let document = Document::read(&config).unwrap().document;
    let Resolution::Needs(needs) = contents(document, &Contents::new()).unwrap() else {
        panic!("nothing is needed");
    };
    let needs: Vec<Reference> =
        needs.into_iter().map(|one| one.of("MachineConfig 99-x: spec.config")).collect();
    let error = offline(&needs).unwrap();
    assert_eq!((error.code(), error.class()), ("offline", ErrorClass::InvalidInput));
    let place =
        format!("MachineConfig 99-x: spec.config.storage.files[/a].contents: {}: ", web.url("/a"));
    assert!(error.to_string().contains(&place), "{error}");
    assert_eq!(error.findings().len(), 3);
    assert!(offline(&[]).is_none());
    assert_eq!(web.seen().len(), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_run_together_and_end_when_dropped() {
    let whole = reply(200, &[], b"hi");
    // Nobody gets an answer before eight wait for one.
    let (waiting, eighth) = (Mutex::new(0), Condvar::new());
    let web = Web::start(move |_, _| {
        let mut waiting = waiting.lock().unwrap();
        *waiting += 1;
        eighth.notify_all();
        drop(eighth.wait_timeout_while(waiting, LONG, |waiting| *waiting < 8).unwrap());
        vec![ServerAction::Send(whole.clone())]
    });
    let mut config = file(json!({}));
    let one = |n: usize| json!({ "path": format!("/{n}"), "contents": { "source": web.url(&format!("/{n}")) } });
    config["storage"]["files"] = (0..24).map(one).collect();
    let eight = fetcher(options(LONG));
    render(&config, &eight).await.unwrap();
    assert_eq!(web.seen().len(), 24);

    let silent = Web::start(|_, _| vec![ServerAction::Wait(Duration::from_secs(20))]);
    let url = silent.url("/");
    let lasting = get(&url, &eight);
    tokio::select! {
        ended = lasting => panic!("{ended:?}"),
        () = first_request(&silent) => {}
    }
    // No request continues in the background.
    assert_eq!(silent.seen().len(), 1);
}

/// Waits for the first request to a server.
async fn first_request(web: &Web) {
    while web.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A stand-in for a server on another machine: it is behind a proxy, because loopback addresses are
/// never requested through one.
#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_leads_to_loopback_or_link_local() {
    let victim = Web::always(reply(200, &[], b"read from inside"));
    // Linux selects no interface for this address, so a fetcher that did not reject it would fail
    // without a request.
    let link_local = "http://[fe80::1]/latest".to_owned();
    let by_name = victim.url("/").replace("127.0.0.1", "localhost");
    for target in [victim.url("/"), by_name, link_local.clone()] {
        let to = target.clone();
        let proxy =
            Web::start(move |_, _| vec![ServerAction::Send(reply(302, &[("location", &to)], b""))]);
        let elsewhere = fetcher(mosb_build::fetch::Options {
            proxy: mosb_registry::ProxyVariables {
                http: Some(mosb_types::Secret::new(proxy.url(""))),
                ..Default::default()
            },
            ..options(LONG)
        });
        let failed = get("http://mirror.invalid/x", &elsewhere).await.unwrap_err();
        assert_eq!(failed.code, "unreachable", "{target}: {failed:?}");
        assert!(failed.message.contains("that named it") || failed.message.contains("lead to it"));
        let requests: Vec<_> = proxy.seen().into_iter().map(|head| head.target).collect();
        assert_eq!(requests, ["http://mirror.invalid/x"], "{target}");
    }
    // A server on loopback may redirect to another one on loopback, but not to a link-local
    // address. A config may not name such an address either.
    let to = victim.url("/");
    let local = Web::start(move |head, _| {
        let to = if head.path() == "/ok" { &to } else { &link_local };
        vec![ServerAction::Send(reply(302, &[("location", to)], b""))]
    });
    let fetcher = fetcher(options(LONG));
    get(&local.url("/ok"), &fetcher).await.unwrap();
    for url in [local.url("/bad"), "http://[fe80::1]/x".to_owned()] {
        let failed = get(&url, &fetcher).await.unwrap_err();
        assert_eq!(failed.code, "unreachable", "{url}: {failed:?}");
        assert!(failed.message.contains("fe80::1 is a link-local"), "{failed:?}");
    }
    // A link-local proxy is rejected too.
    let mut config = file(json!({ "source": "http://mirror.invalid/x" }));
    config["ignition"]["proxy"] = json!({ "httpProxy": "http://[fe80::1]:3128" });
    let failed = render(&config, &fetcher).await.unwrap_err();
    assert!(failed.message.contains("fe80::1 is a link-local"), "{failed:?}");
    assert_eq!(victim.seen().len(), 1);
}
