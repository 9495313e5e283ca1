//! Addresses that a registry names (redirects, token servers, upload locations) get no credentials
//! and cannot redirect requests to forbidden hosts.
//!
//! For a registry on another machine, a stand-in runs behind a proxy, because loopback addresses
//! are never requested through one.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use mosb_image::Digest;
use mosb_registry::{
    Blobs as _, Client, Error, LeastSpeed, Options, ProxyVariables, RetryPolicy, Timeouts,
};
use mosb_types::Secret;

use mosb_tests::registry_fixture::{base, options, options_for, plan_on, source, target};
use mosb_tests::{
    Access, Fault, FaultProxy, Registry, Server, ServerAction, Transport, Web, reply,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_target_gets_no_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 1 << 10);
    let registry = Registry::start(Server::Debian, Access::Basic, Transport::Http);
    registry.push(&layout, "v1", "acme/base:v1");
    let proxy = FaultProxy::start(registry.address());
    let authfile = directory.path().join("auth.json");
    let logins = std::fs::read_to_string(registry.authfile()).unwrap();
    let logins = logins.replace(registry.address(), &proxy.address());
    std::fs::write(&authfile, logins).unwrap();
    let image = source(&format!("{}/acme/base:v1", proxy.address()));

    let other = Web::start(|head, _| {
        let realm = format!("http://{}/token", head.header("host").unwrap());
        let challenge = format!("Bearer realm=\"{realm}\", Basic realm=\"x\"");
        let token = br#"{"token":"stolen"}"#;
        vec![ServerAction::Send(match head.path() {
            "/token" => reply(200, &[], token),
            _ => reply(401, &[("www-authenticate", &challenge)], b""),
        })]
    });
    let elsewhere = || Fault::Answer(307, Some(("location", other.url("/cdn/x"))));
    // The redirect of a blob, and of the request that follows a 401 without a challenge.
    for (what, path) in [("a blob", "/blobs/"), ("the ping", "/v2/")] {
        let redirected = elsewhere();
        proxy.rule(move |seen| {
            let path_seen = seen.head.path();
            match path {
                "/v2/" if path_seen.contains("/manifests/") => Some(Fault::status(401)),
                "/v2/" => (path_seen == "/v2/").then(|| redirected.clone()),
                _ => path_seen.contains(path).then(|| redirected.clone()),
            }
        });
        let client = Client::new(&options_for(&registry, &authfile)).unwrap();
        let error = client.resolve(&image, None).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{what}: {error}");
        if path == "/blobs/" {
            let at = format!("without credentials, at {},", other.url(""));
            assert!(error.to_string().contains(&at), "{what}: {error}");
        }
        let seen = other.seen();
        assert!(!seen.is_empty(), "{what}: nothing led there");
        for head in seen {
            assert_eq!(head.header("authorization"), None, "{what}: {head:?}");
            assert_eq!(head.path(), "/cdn/x", "{what}");
        }
        // The same client still sends its credentials to its registry.
        proxy.rule(|_| None);
        client.resolve(&image, None).await.unwrap();
        assert!(proxy.seen().len() > 1, "{what}");
        let token_requested = other.seen().iter().any(|head| head.path() == "/token");
        assert!(!token_requested, "{what}: {:?}", other.seen());
    }
}

/// A client for `registry.invalid` over plain HTTP, behind a proxy on this machine.
fn behind(proxy: &Web, directory: &std::path::Path) -> Client {
    let conf = directory.join("registries.conf");
    let text = "[[registry]]\nlocation = 'registry.invalid'\ninsecure = true\n";
    std::fs::write(&conf, text).unwrap();
    Client::new(&Options {
        proxy: ProxyVariables {
            http: Some(Secret::new(format!("http://{}", proxy.address()))),
            ..ProxyVariables::default()
        },
        registries_conf: Some((conf, true)),
        ..options()
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn link_local_addresses_are_never_requested() {
    let directory = tempfile::tempdir().unwrap();
    let victim = Web::always(reply(200, &[], br#"{"token":"read from inside"}"#));
    for (what, target) in [
        ("link-local", "http://169.254.169.254/latest".to_owned()),
        ("mapped", "http://[::ffff:a9fe:a9fe]/latest".to_owned()),
        ("loopback", victim.url("/secret")),
        ("a name of it", victim.url("/secret").replace("127.0.0.1", "localhost")),
    ] {
        for way in ["realm", "redirect", "upload"] {
            let named = target.clone();
            let proxy = Web::start(move |head, _| {
                let challenge = format!("Bearer realm=\"{named}\"");
                vec![ServerAction::Send(match (way, head.path().ends_with("/v2/")) {
                    (_, true) => reply(200, &[], b""),
                    ("realm", _) => reply(401, &[("www-authenticate", &challenge)], b""),
                    ("redirect", _) => reply(307, &[("location", &named)], b""),
                    _ => reply(202, &[("location", &named)], b""),
                })]
            });
            let client = behind(&proxy, directory.path());
            let what = format!("{what} by {way}");
            if way == "upload" {
                let repository = "registry.invalid/acme/os".parse().unwrap();
                let upload = client.open_upload(&repository).await.unwrap();
                assert!(!upload.cancel().await, "{what}");
            } else {
                let image = source("registry.invalid/acme/os:v1");
                let error = client.resolve(&image, None).await.unwrap_err();
                let message = error.to_string();
                let cause = "names and servers must not lead to it";
                let loopback = "is on loopback, but the server that named it is not";
                assert!(message.contains(cause) || message.contains(loopback), "{what}: {message}");
            }
            let seen = proxy.seen();
            let requested: Vec<_> = seen.iter().map(|head| head.target.as_str()).collect();
            let own = |url: &&str| url.starts_with("http://registry.invalid/");
            assert!(!requested.is_empty() && requested.iter().all(own), "{what}: {requested:?}");
        }
    }
    assert_eq!(victim.seen(), []);
}

/// A registry on loopback may name loopback addresses, which all tests here need, but no link-local
/// ones. Linux selects no interface for this address, so a client that did not reject it would fail
/// without a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_on_loopback_names_no_link_local() {
    let location = [("location", "http://[fe80::1]/latest")];
    let registry = Web::always(reply(307, &location, b""));
    let client = Client::new(&options()).unwrap();
    let image = source(&format!("{}/acme/os:v1", registry.address()));
    let error = client.resolve(&image, None).await.unwrap_err();
    assert!(error.to_string().contains("fe80::1 is a link-local"), "{error}");
    assert_eq!(registry.seen().len(), 1, "what can't help is not tried again");
}

/// Options that end a transfer below 10 KiB after a second of waiting, with one retry.
fn impatient() -> Options {
    Options {
        timeouts: Timeouts {
            idle: Duration::from_secs(3),
            least_speed: LeastSpeed { window: Duration::from_secs(1), ..LeastSpeed::default() },
            ..options().timeouts
        },
        retry: RetryPolicy { tries: 2, ..options().retry },
        ..options()
    }
}

/// A head, and then one byte every 20 ms.
fn drip(status: u16, head: &str) -> Vec<ServerAction> {
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 100000\r\n{head}\r\n");
    let drops = (0..6000).flat_map(|_| {
        [ServerAction::Wait(Duration::from_millis(20)), ServerAction::Send(vec![b' '])]
    });
    [ServerAction::Send(head.into_bytes())].into_iter().chain(drops).collect()
}

/// Every kind of body that a registry sends. A stand-in sends it slowly, because real registries do
/// not on demand.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_drips_is_given_up() {
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let digest = Digest::of(config);
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{0}manifest.v1+json","config":{{"mediaType":"{0}config.v1+json","digest":"{digest}","size":{1}}},"layers":[]}}"#,
        "application/vnd.oci.image.",
        config.len()
    );
    let all = ["manifest", "config", "error", "token"].map(|what| {
        let manifest = manifest.clone();
        async move {
            let web = Web::start(move |head, _| {
                let path = head.path();
                let realm = format!("http://{}/token", head.header("host").unwrap());
                let challenge = format!("Bearer realm=\"{realm}\"");
                match what {
                    "error" => drip(404, ""),
                    "token" if path == "/token" => drip(200, ""),
                    "token" => {
                        vec![ServerAction::Send(reply(
                            401,
                            &[("www-authenticate", &challenge)],
                            b"",
                        ))]
                    }
                    "config" if path.contains("/manifests/") => {
                        vec![ServerAction::Send(reply(200, &[], manifest.as_bytes()))]
                    }
                    _ => drip(200, ""),
                }
            });
            let client = Client::new(&impatient()).unwrap();
            let image = source(&format!("{}/acme/os:v1", web.address()));
            let error = client.resolve(&image, None).await.unwrap_err();
            let too_slow = "too slow: less than 10240 bytes/s over 1 s";
            assert!(matches!(error, Error::TooSlow { .. }), "{what}: {error}");
            assert!(error.to_string().contains(too_slow), "{what}: {error}");
        }
    });
    join_all(all).await;
}

/// A slow reader in this process does not count as a slow registry.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_makes_no_registry_slow() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 6 << 20);
    let registry = Registry::plain();
    registry.push(&layout, "v1", "acme/base:v1");
    let options = Options {
        timeouts: Timeouts {
            least_speed: LeastSpeed { bytes_per_second: 4 << 20, window: Duration::from_secs(1) },
            ..options().timeouts
        },
        ..options()
    };
    let client = Client::new(&options).unwrap();
    let image = source(&registry.repository("acme/base:v1"));
    let resolved = client.resolve(&image, None).await.unwrap();
    let large = resolved.layers.iter().max_by_key(|layer| layer.size).unwrap();
    let blob = resolved.store.open(&large.digest, 0..large.size).await.unwrap();
    let (began, mut size, mut blob) = (Instant::now(), 0, blob);
    while let Some(chunk) = blob.next().await.transpose().unwrap() {
        size += chunk.len() as u64;
        // The reader's own rate of about 2 MiB/s is below the required rate of the registry.
        tokio::time::sleep(Duration::from_secs_f64(chunk.len() as f64 / f64::from(2 << 20))).await;
    }
    assert_eq!(size, large.size);
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}

/// The server reads the head of an upload and nothing of the body.
#[tokio::test(flavor = "multi_thread")]
async fn registries_that_read_no_upload_are_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 24 << 20);
    let web = Web::start(|head, _| match &*head.method {
        "HEAD" => vec![ServerAction::Send(reply(404, &[], b""))],
        "POST" => vec![ServerAction::Send(reply(202, &[("location", "/v2/upload")], b""))],
        "PATCH" => vec![ServerAction::Wait(Duration::from_secs(120))],
        _ => vec![ServerAction::Send(reply(201, &[], b""))],
    });
    let client = Client::new(&impatient()).unwrap();
    let resolved = client.resolve(&source(&layout.reference("v1")), None).await.unwrap();
    let plan = plan_on(&resolved, "x", &["new"]);
    let place = target(&format!("{}/acme/os", web.address()));
    let error = client.push(&place, &plan).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
}
