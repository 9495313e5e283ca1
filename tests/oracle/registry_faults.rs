//! A fault of the network or the registry at any one request does not prevent the transfer. A
//! permanent fault leads to one error message.

use std::time::Duration;

use mosb_image::Digest;
use mosb_registry::{Client, Error, Options, ProxyVariables};
use mosb_types::Secret;

use mosb_tests::registry_fixture::{
    anonymous_client, base, options, options_for, plan_on, source, target,
};
use mosb_tests::{Access, Fault, FaultProxy, Registry, Server, Transport};
use mosb_types::Diagnostic as _;

#[tokio::test(flavor = "multi_thread")]
async fn any_one_fault_at_any_request_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 6 << 20);
    let registry = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    registry.push(&layout, "v1", "acme/base:v1");
    let faults = [
        Fault::CutBefore,
        Fault::CutAnswer,
        Fault::CutBody(10),
        Fault::CutUpload(1000),
        Fault::Delay(Duration::from_millis(50)),
        Fault::status(500),
        Fault::status(503),
        Fault::too_many(0),
    ];
    let all = faults.map(|fault| {
        let (base, registry) = (layout.reference("v1"), registry.address().to_owned());
        tokio::spawn(async move { at_each_request(&base, &registry, fault).await })
    });
    for one in all {
        one.await.unwrap();
    }
}

/// Pushes and reads an image repeatedly, with the fault at a later request each time.
async fn at_each_request(base: &str, registry: &str, fault: Fault) {
    let proxy = FaultProxy::start(registry);
    let mut number = 0;
    loop {
        number += 1;
        proxy.fail(number, fault.clone());
        let client = anonymous_client();
        let what = format!("{fault:?} at {number}");
        // A push from a layout into a new repository makes every kind of request.
        let resolved = client.resolve(&source(base), None).await.unwrap();
        let plan = plan_on(&resolved, &what, &["new"]);
        let unique = Digest::of(what.as_bytes()).hex();
        let name = format!("{}/f{number}/{unique}", proxy.address());
        let pushed = client.push(&target(&name), &plan).await;
        let pushed = pushed.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(*pushed.digest.value(), Digest::of(&plan.manifest), "{what}");
        let back = client.resolve(&source(&format!("{name}:new")), None).await;
        let back = back.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(back.manifest, Digest::of(&plan.manifest), "{what}");
        if proxy.seen().len() < number {
            break;
        }
        assert!(number < 60, "there are fewer requests than faults");
    }
    assert!(number > 10, "{fault:?}: {number}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_401_in_the_middle_renews_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 6 << 20);
    let registry = Registry::start(Server::Distribution, Access::Token, Transport::Http);
    let proxy = FaultProxy::start(registry.address());
    let authfile = directory.path().join("auth.json");
    let logins = std::fs::read_to_string(registry.authfile()).unwrap();
    std::fs::write(&authfile, logins.replace(registry.address(), &proxy.address())).unwrap();
    // The fault starts at the second request, because the first one gets the registry's challenge.
    for number in 2..20 {
        proxy.fail(number, Fault::status(401));
        let client = Client::new(&options_for(&registry, &authfile)).unwrap();
        let resolved = client.resolve(&source(&layout.reference("v1")), None).await.unwrap();
        let plan = plan_on(&resolved, &number.to_string(), &["new"]);
        let place = target(&format!("{}/acme/n{number}", proxy.address()));
        client.push(&place, &plan).await.unwrap_or_else(|e| panic!("401 at {number}: {e}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_downloads_and_uploads_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let size = 24 << 20;
    let layout = base(directory.path(), size);
    let from = Registry::plain();
    let to = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    from.push(&layout, "v1", "acme/base:v1");
    let (pulled, pushed) = (FaultProxy::start(from.address()), FaultProxy::start(to.address()));
    let large =
        layout.json(&layout.digest("v1"))["layers"][1]["digest"].as_str().unwrap().to_owned();
    pulled.rule(move |seen| {
        let first = seen.head.path().ends_with(&large) && seen.head.header("range").is_none();
        first.then_some(Fault::CutBody(9 << 20))
    });
    let cut = std::sync::atomic::AtomicBool::new(false);
    pushed.rule(move |seen| {
        let first =
            seen.head.method == "PATCH" && !cut.swap(true, std::sync::atomic::Ordering::SeqCst);
        first.then_some(Fault::CutUpload(15 << 20))
    });
    let client = anonymous_client();
    let resolved =
        client.resolve(&source(&format!("{}/acme/base:v1", pulled.address())), None).await.unwrap();
    let plan = plan_on(&resolved, "cut", &["new"]);
    client.push(&target(&format!("{}/acme/os", pushed.address())), &plan).await.unwrap();
    let back =
        anonymous_client().resolve(&source(&to.repository("acme/os:new")), None).await.unwrap();
    assert_eq!(back.manifest, Digest::of(&plan.manifest));
    let ranges: Vec<_> = pulled
        .seen()
        .iter()
        .filter_map(|seen| seen.head.header("range").map(str::to_owned))
        .collect();
    assert!(!ranges.is_empty(), "the download began anew");
    assert!(pulled.received() < 2 * size as u64, "{}", pulled.received());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_while_it_moves() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 24 << 20);
    let to = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    let proxy = FaultProxy::start(to.address());
    let cut = 4_u64 << 20;
    proxy.rule(move |seen| {
        let length = seen.head.header("content-length");
        let length = length.and_then(|length| length.parse::<u64>().ok());
        let long = seen.head.method == "PATCH" && length.is_some_and(|length| length > cut);
        long.then_some(Fault::CutUpload(cut))
    });
    // A part that was cut counts as none if the registry has nothing of it yet.
    let client = Client::new(&Options {
        retry: mosb_registry::RetryPolicy { tries: 3, ..options().retry },
        ..options()
    })
    .unwrap();
    let resolved = client.resolve(&source(&layout.reference("v1")), None).await.unwrap();
    let plan = plan_on(&resolved, "cut", &["new"]);
    client.push(&target(&format!("{}/acme/os", proxy.address())), &plan).await.unwrap();
    let parts = proxy.seen();
    let parts = parts.iter().filter(|seen| seen.head.method == "PATCH");
    assert!(parts.count() > 4, "it was not cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lasting_fault_is_one_clear_message() {
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let image = format!("{}/acme/os:v1", proxy.address());
    let fast = || {
        Client::new(&Options {
            retry: mosb_registry::RetryPolicy { tries: 2, ..options().retry },
            ..options()
        })
        .unwrap()
    };
    for (fault, reason, exit) in [
        (None, "not-found", "InvalidInput"),
        (Some(Fault::status(401)), "denied", "Rejected"),
        (Some(Fault::status(403)), "denied", "Rejected"),
        (Some(Fault::too_many(0)), "too-many-requests", "Transient"),
        (Some(Fault::status(500)), "registry-error", "Transient"),
        (Some(Fault::CutBefore), "unreachable", "Transient"),
        (Some(Fault::CutAnswer), "unreachable", "Transient"),
    ] {
        let rule = fault.clone();
        proxy.rule(move |_| rule.clone());
        let error = fast().resolve(&source(&image), None).await.unwrap_err();
        assert_eq!(
            (error.code(), &*format!("{:?}", error.class())),
            (reason, exit),
            "{fault:?}: {error}"
        );
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let slow = Options {
        timeouts: mosb_registry::Timeouts {
            idle: Duration::from_millis(100),
            ..options().timeouts
        },
        ..options()
    };
    proxy.rule(|_| Some(Fault::Delay(Duration::from_secs(2))));
    let error = Client::new(&slow).unwrap().resolve(&source(&image), None).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let error = fast().resolve(&source("127.0.0.1:1/acme/os:v1"), None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = fast().resolve(&source("nothing.invalid/acme/os:v1"), None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified_unless_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 1 << 10);
    let secure = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let plain = Registry::plain();
    for registry in [&secure, &plain] {
        registry.push(&layout, "v1", "acme/base:v1");
    }
    let image = source(&secure.repository("acme/base:v1"));
    // An authority that did not sign the certificate.
    let other = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let client = Client::new(&options_for(&other, &other.authfile())).unwrap();
    let error = client.resolve(&image, None).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error}");
    // A registry without TLS.
    let unencrypted = source(&plain.repository("acme/base:v1"));
    let error = client.resolve(&unencrypted, None).await.unwrap_err();
    assert!(matches!(error, Error::PlainHttp { .. }), "{error}");
    // On loopback, plain HTTP is tried without certificates.
    let knows_none = Client::new(&options()).unwrap();
    let error = knows_none.resolve(&image, None).await.unwrap_err();
    assert!(matches!(error, Error::TlsOnLoopback { .. }), "{error}");
    // A registry that requires a client certificate.
    let mutual = Registry::start(Server::Debian, Access::Anyone, Transport::MutualTls);
    mutual.push(&layout, "v1", "acme/base:v1");
    let image_there = source(&mutual.repository("acme/base:v1"));
    let known = options_for(&mutual, &mutual.authfile());
    let client = Client::new(&known).unwrap();
    client.resolve(&image_there, None).await.unwrap();
    std::fs::remove_file(mutual.certificates().join("client.cert")).unwrap();
    std::fs::remove_file(mutual.certificates().join("client.key")).unwrap();
    let client = Client::new(&known).unwrap();
    assert!(client.resolve(&image_there, None).await.is_err());
    // This option requires neither a valid certificate nor TLS.
    let insecure = Client::new(&Options { tls_verify: false, ..options() }).unwrap();
    insecure.resolve(&image, None).await.unwrap();
    insecure.resolve(&source(&plain.repository("acme/base:v1")), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_serves_or_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 1 << 20);
    let (empty, full) = (Registry::plain(), Registry::plain());
    full.push(&layout, "v1", "copies/base:v1");
    let conf = directory.path().join("registries.conf");
    let text = format!(
        "[[registry]]\nprefix = 'quay.example/acme'\nlocation = '{}'\n\
         [[registry.mirror]]\nlocation = '127.0.0.1:1/x'\n\
         [[registry.mirror]]\nlocation = '{}'\n",
        full.repository("copies"),
        empty.repository("copies"),
    );
    std::fs::write(&conf, text).unwrap();
    let client =
        Client::new(&Options { registries_conf: Some((conf, true)), ..options() }).unwrap();
    let image = source("quay.example/acme/base:v1");
    let resolved = client.resolve(&image, None).await.unwrap();
    let pinned = resolved.pinned().unwrap().to_string();
    assert_eq!(pinned, format!("quay.example/acme/base@{}", layout.digest("v1")));
    // A digest is the same everywhere, so what is away is passed over as for a pull.
    let found = client.digest_of(&pinned.parse().unwrap()).await.unwrap();
    assert_eq!(found.map(|digest| digest.to_string()), Some(layout.digest("v1")));
    let out = target(&format!("oci:{}", directory.path().join("out").display()));
    client.push(&out, &plan_on(&resolved, "x", &["new"])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_respect_proxy_and_no_proxy() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 1 << 10);
    let registry = Registry::plain();
    registry.push(&layout, "v1", "acme/base:v1");
    // For plain HTTP, the client sends a forward proxy the whole URL, which the registry behind it
    // accepts too.
    let proxy = FaultProxy::start(registry.address());
    let conf = directory.path().join("registries.conf");
    std::fs::write(&conf, "[[registry]]\nlocation = 'registry.invalid'\ninsecure = true\n")
        .unwrap();
    let client = |no_proxy: Option<&str>| {
        Client::new(&Options {
            proxy: ProxyVariables {
                http: Some(Secret::new(format!("http://user:pass@{}", proxy.address()))),
                https: None,
                no_proxy: no_proxy.map(str::to_owned),
            },
            registries_conf: Some((conf.clone(), true)),
            ..options()
        })
        .unwrap()
    };
    let image = source("registry.invalid/acme/base:v1");
    let resolved = client(None).resolve(&image, None).await.unwrap();
    assert_eq!(resolved.manifest.to_string(), layout.digest("v1"));
    let seen = proxy.seen();
    assert!(seen[0].head.target.starts_with("http://registry.invalid/v2/"));
    assert_eq!(seen[0].head.header("proxy-authorization"), Some("Basic dXNlcjpwYXNz"));
    let error = client(Some(".invalid")).resolve(&image, None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("pass"), "{error}");
}
