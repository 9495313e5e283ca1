//! The proxy injects each of its faults, and changes nothing without one.

use std::time::{Duration, Instant};

use mosb_tests::{Fault, FaultProxy, Registry, ask};

const PING: &str = "GET /v2/ HTTP/1.1";
const UPLOAD: &str = "POST /v2/a/b/blobs/uploads/ HTTP/1.1\r\ncontent-length: 0";

#[test]
fn without_a_fault_the_registry_leads_back_here() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let answer = ask(&proxy.address(), UPLOAD).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert!(
        answer.contains(&format!("Location: http://{}/v2/a/b/blobs/uploads/", proxy.address())),
        "{answer}"
    );
    assert_eq!(proxy.received(), answer.len() as u64);
    assert!(proxy.sent() > UPLOAD.len() as u64);
}

#[test]
fn only_the_request_with_the_number_fails() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    proxy.fail(2, Fault::too_many(7));
    let answers = [(); 3].map(|()| ask(&proxy.address(), PING).unwrap());
    assert!(answers[0].starts_with("HTTP/1.1 200"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 429"), "{}", answers[1]);
    assert!(answers[1].contains("\r\nretry-after: 7\r\n"), "{}", answers[1]);
    assert!(answers[2].starts_with("HTTP/1.1 200"), "{}", answers[2]);
    let seen = proxy.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(
        (seen[1].number, seen[1].head.method.as_str(), seen[1].head.path()),
        (2, "GET", "/v2/")
    );
}

#[test]
fn connections_are_cut_where_the_fault_is_set() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let whole = ask(&proxy.address(), PING).unwrap();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "{}");

    proxy.fail(1, Fault::CutBefore);
    assert_eq!(ask(&proxy.address(), PING).unwrap_or_default(), "", "cut before");
    assert_eq!((proxy.sent(), proxy.received()), (0, 0), "cut before");

    proxy.fail(1, Fault::CutAnswer);
    assert_eq!(ask(&proxy.address(), PING).unwrap_or_default(), "", "cut answer");
    assert!(proxy.received() > 0, "the registry did answer");

    proxy.fail(1, Fault::CutBody(1));
    let cut = ask(&proxy.address(), PING).unwrap();
    assert_eq!(cut.len(), head.len() + 4 + 1, "{cut}");
}

#[test]
fn an_upload_is_cut_in_its_middle() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let started = ask(&proxy.address(), UPLOAD).unwrap();
    let (_, rest) = started.split_once("Location: ").unwrap();
    let location = url::Url::parse(rest.lines().next().unwrap()).unwrap();
    proxy.fail(1, Fault::CutUpload(10));
    let path = &location[url::Position::BeforePath..];
    // The proxy cuts the body, not the head, so the head must end before it.
    let request = format!(
        "PATCH {path} HTTP/1.1\r\ncontent-length: 1000\r\nhost: x\r\n\r\n{}",
        "x".repeat(900)
    );
    assert_eq!(ask(&proxy.address(), &request).unwrap_or_default(), "");
    let head = proxy.seen()[0].head.closing();
    assert_eq!(proxy.sent(), head.len() as u64 + 10);
}

#[test]
fn a_delayed_request_is_answered_all_the_same() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    proxy.fail(1, Fault::Delay(Duration::from_millis(200)));
    let started = Instant::now();
    assert!(ask(&proxy.address(), PING).unwrap().starts_with("HTTP/1.1 200"));
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn other_statuses_are_answered_without_the_registry() {
    let proxy = FaultProxy::start("127.0.0.1:1");
    for status in [401, 404, 500, 503] {
        proxy.rule(move |_| Some(Fault::status(status)));
        let answer = ask(&proxy.address(), PING).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}
