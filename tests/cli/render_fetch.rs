//! Remote contents of a config are fetched from real servers by Ignition's rules and embedded
//! without changes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mosb_build::fetch::{Fetcher, HostHeaders, Options};
use mosb_ignition::parse_data_url;
use mosb_registry::ProxyVariables;
use mosb_types::{Diagnostic as _, ErrorClass, Secret};
use serde_json::{Value, json};

use crate::fetch_fixture::{LONG, embedded, fetcher, file, get, gzip, options, render};
use mosb_tests::{Head, SecureWeb, ServerAction, Web, reply, sha256};

#[tokio::test(flavor = "multi_thread")]
async fn fetched_content_is_embedded_byte_for_byte() {
    let packed = gzip(b"hi");
    let sum = |bytes: &[u8]| format!("sha256-{}", sha256(bytes).trim_start_matches("sha256:"));
    let gzipped = json!({ "compression": "gzip", "verification": { "hash": sum(b"hi") } });
    let encoded = ("content-encoding", "x-gzip");
    for (what, answer, declared, want) in [
        ("plain", reply(200, &[], b"a\0b\xff"), json!({}), Ok(&b"a\0b\xff"[..])),
        ("nothing", reply(200, &[], b""), json!({}), Ok(b"")),
        ("no content", reply(204, &[], b""), json!({}), Ok(b"")),
        ("gzip", reply(200, &[], &packed), gzipped.clone(), Ok(&packed)),
        // Many servers send this header for *.gz files. Ignition requests no encoding and decodes
        // none.
        ("gzip, said twice", reply(200, &[encoded], &packed), gzipped.clone(), Ok(&packed)),
        (
            "an encoding that nobody asked for",
            reply(200, &[encoded], &packed),
            json!({}),
            Ok(&packed),
        ),
        ("said to be gzip", reply(200, &[], b"hi"), gzipped, Err("bad-gzip")),
        (
            "another hash",
            reply(200, &[], b"ho"),
            json!({ "verification": { "hash": sum(b"hi") } }),
            Err("wrong-hash"),
        ),
        (
            "more than announced",
            b"HTTP/1.1 200 ok\r\ncontent-length: 2\r\n\r\nhi, there".to_vec(),
            json!({ "verification": { "hash": sum(b"hi") } }),
            Ok(b"hi"),
        ),
        (
            "in chunks",
            b"HTTP/1.1 200 ok\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"
                .to_vec(),
            json!({}),
            Ok(b"hi"),
        ),
    ] {
        let web = Web::always(answer);
        let mut contents = declared.clone();
        contents["source"] = json!(web.url("/x"));
        let rendered = render(&file(contents), &fetcher(options(LONG))).await;
        match (rendered, want) {
            (Ok(rendered), Ok(want)) => {
                assert_eq!(embedded(&rendered), want, "{what}");
                let mut left = rendered["storage"]["files"][0]["contents"].clone();
                left.as_object_mut().unwrap().remove("source");
                assert_eq!(left, declared, "{what}");
            }
            (Err(failed), Err(code)) => {
                assert_eq!(
                    (&*failed.code, failed.class),
                    (code, ErrorClass::InvalidInput),
                    "{what}"
                );
                let place = "storage.files[/etc/x].contents: ";
                assert!(failed.message.contains(place), "{what}: {failed:?}");
                assert!(failed.message.contains(&web.url("/x")), "{what}: {failed:?}");
            }
            (got, want) => panic!("{what}: {got:?} instead of {want:?}"),
        }
        assert_eq!(web.seen().len(), 1, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_without_the_configs_headers() {
    let target = Web::always(reply(200, &[], b"hi"));
    let to = target.url("/there?token=hunter2");
    let web = Web::start(move |head, _| {
        let location = match head.path() {
            "/away" => to.as_str(),
            "/near" => "/away",
            "/round" => "/round",
            _ => "ftp://h/",
        };
        vec![ServerAction::Send(reply(307, &[("location", location)], b""))]
    });
    let headers = json!([{ "name": "X-Mine", "value": "hunter2" }]);
    let config = |path| file(json!({ "source": web.url(path), "httpHeaders": headers }));
    let rendered = render(&config("/near"), &fetcher(options(LONG))).await.unwrap();
    assert_eq!(embedded(&rendered), b"hi");
    assert!(rendered["storage"]["files"][0]["contents"].get("httpHeaders").is_none());
    let seen: Vec<_> = web.seen().into_iter().chain(target.seen()).collect();
    let mine: Vec<_> = seen.iter().map(|head| (head.path(), head.header("x-mine"))).collect();
    assert_eq!(mine, [("/near", Some("hunter2")), ("/away", None), ("/there", None)]);
    for (path, code, class) in [
        ("/round", "too-many-redirects", ErrorClass::InvalidInput),
        ("/ftp", "fetch-refused", ErrorClass::InvalidInput),
    ] {
        let failed = render(&config(path), &fetcher(options(LONG))).await.unwrap_err();
        assert_eq!((&*failed.code, failed.class), (code, class), "{path}");
    }
    // The target of the redirect is missing. The error names it without its query.
    let missing = Web::always(reply(404, &[], b""));
    let there = missing.url("/gone?token=hunter2");
    let web =
        Web::start(move |_, _| vec![ServerAction::Send(reply(302, &[("location", &there)], b""))]);
    let failed = get(&web.url("/"), &fetcher(options(LONG))).await.unwrap_err();
    let want =
        format!("{} (redirected to {}?…): not found (404)", web.url("/"), missing.url("/gone"));
    assert!(failed.message.contains(&want), "{failed:?}");
    assert!(!failed.message.contains("hunter2"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_see_what_ignition_would_send() {
    let leaf = json!({ "ignition": { "version": "3.1.0" } }).to_string();
    let web = Web::always(reply(200, &[], leaf.as_bytes()));
    let headers =
        json!([{ "name": "accept-encoding", "value": "br" }, { "name": "Host", "value": "other" }]);
    let mut config = file(
        json!({ "source": web.url("/file").replace("//", "//u:p%40@"), "httpHeaders": headers }),
    );
    config["ignition"]["config"] = json!({ "merge": [{ "source": web.url("/config") }] });
    render(&config, &fetcher(options(LONG))).await.unwrap();
    let seen = web.seen();
    let of = |path: &str| seen.iter().find(|head| head.path() == path).unwrap();
    let accept = "application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1";
    for (path, name, want) in [
        ("/config", "accept", accept),
        ("/config", "accept-encoding", "identity"),
        ("/file", "accept", accept),
        ("/file", "accept-encoding", "br"),
        ("/file", "host", &*web.address()),
        ("/file", "authorization", "Basic dTpwQA=="),
    ] {
        assert_eq!(of(path).header(name), Some(want), "{path} {name}");
    }
    assert!(of("/config").header("user-agent").unwrap().starts_with("Ignition/2."));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_go_to_their_host_only() {
    let other = Web::start(|head, _| {
        let back = head.target.strip_prefix("/back?");
        vec![ServerAction::Send(match back {
            Some(url) => reply(302, &[("location", url)], b""),
            None => reply(200, &[], b"hi"),
        })]
    });
    let away = other.url("/");
    let web = Web::start(move |head, _| {
        let host = head.header("host").unwrap();
        let back = format!("{away}back?http://{host}/here");
        vec![ServerAction::Send(match head.path() {
            "/near" => reply(302, &[("location", "/here")], b""),
            "/away" => reply(302, &[("location", &away)], b""),
            "/round" => reply(302, &[("location", &back)], b""),
            _ => reply(200, &[], b"hi"),
        })]
    });
    let headers = json!({ web.address(): { "X-Token": "hunter2" } });
    let fetcher =
        fetcher(Options { headers: HostHeaders::read(&headers).unwrap(), ..options(LONG) });
    assert!(!format!("{fetcher:?}").contains("hunter2"));
    for path in ["/here", "/near", "/away", "/round"] {
        get(&web.url(path), &fetcher).await.unwrap();
    }
    get(&other.url("/"), &fetcher).await.unwrap();
    let seen = |web: &Web| -> Vec<(String, bool)> {
        let sent = |head: &Head| head.header("x-token") == Some("hunter2");
        let seen = web.seen();
        seen.iter().map(|head| (head.path().to_owned(), sent(head))).collect()
    };
    let want = [
        ("/here", true),
        ("/near", true),
        ("/here", true),
        ("/away", true),
        ("/round", true),
        // A redirect back from another server.
        ("/here", false),
    ];
    assert_eq!(seen(&web), want.map(|(path, sent)| (path.to_owned(), sent)));
    let want = ["/", "/back", "/"].map(|path| (path.to_owned(), false));
    assert_eq!(seen(&other), want);
}

/// Requests to other machines use a proxy: the one of the config, or else the one of the
/// environment.
#[tokio::test(flavor = "multi_thread")]
async fn proxies_are_the_configs_else_the_environments() {
    let from_config = Web::always(reply(200, &[], b"config's"));
    let from_environment = Web::always(reply(200, &[], b"environment's"));
    let proxy = |web: &Web| web.url("").replace("//", "//u:p@");
    let fetcher = fetcher(Options {
        proxy: ProxyVariables {
            http: Some(Secret::new(proxy(&from_environment))),
            https: None,
            no_proxy: None,
        },
        ..options(Duration::from_secs(2))
    });
    let url = "http://mirror.invalid/x?y";
    assert_eq!(get(url, &fetcher).await.unwrap(), b"environment's");
    let mut config = file(json!({ "source": url }));
    config["ignition"]["proxy"] = json!({ "httpProxy": proxy(&from_config) });
    let rendered = render(&config, &fetcher).await.unwrap();
    assert_eq!(embedded(&rendered), b"config's");
    config["ignition"]["proxy"]["noProxy"] = json!(["invalid"]);
    let failed = render(&config, &fetcher).await.unwrap_err();
    // This holds for every result of the resolver, and however long it takes.
    assert_eq!(failed.class, ErrorClass::Transient);
    for web in [from_config, from_environment] {
        let seen = web.seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].target, url);
        assert_eq!(seen[0].header("proxy-authorization"), Some("Basic dTpw"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_config_and_user_are_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let plain = Web::always(reply(200, &[], b"plain"));
    let to = plain.url("/");
    let answers = [("x", reply(200, &[], b"hi")), ("away", reply(302, &[("location", &to)], b""))];
    let web = SecureWeb::start(directory.path(), &answers);
    let default_fetcher = fetcher(options(LONG));
    let failed = get(&web.url("x"), &default_fetcher).await.unwrap_err();
    assert_eq!(
        (&*failed.code, failed.class),
        ("untrusted-tls", ErrorClass::Transient),
        "{failed:?}"
    );
    assert!(failed.message.contains("--ca"), "{failed:?}");

    let user =
        fetcher(Options { authorities: Some(Bytes::from(web.authority())), ..options(LONG) });
    assert_eq!(get(&web.url("x"), &user).await.unwrap(), b"hi");
    assert_eq!(get(&web.url("away"), &user).await.unwrap(), b"plain");

    // The authority itself is fetched without it, and before the files that need it.
    let keys = Web::always(reply(200, &[], &web.authority()));
    let mut config = file(json!({ "source": web.url("x") }));
    let authorities = json!([{ "source": keys.url("/ca") }]);
    config["ignition"]["security"] = json!({ "tls": { "certificateAuthorities": authorities } });
    let rendered = render(&config, &default_fetcher).await.unwrap();
    assert_eq!(embedded(&rendered), b"hi");
    let authority = &rendered["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"];
    assert_eq!(parse_data_url(authority.as_str().unwrap()).unwrap(), web.authority());
    assert_eq!(keys.seen().len(), 1);

    let failed = get(&plain.url("/").replace("http", "https"), &default_fetcher).await.unwrap_err();
    assert!(failed.message.contains("answers in plain HTTP"), "{failed:?}");
    let wrong = Options { authorities: Some(Bytes::from_static(b"hello")), ..options(LONG) };
    assert_eq!(Fetcher::new(wrong).unwrap_err().code(), "bad-certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn configs_refer_to_configs_on_servers() {
    let file = |path: &str, url: &str| json!({ "path": path, "contents": { "source": url } });
    let web = Web::start(|head, _| {
        let here = format!("http://{}", head.header("host").unwrap());
        let config = |ignition: Value, name: &str| {
            let mut config = json!({ "ignition": ignition });
            config["ignition"]["version"] = json!("3.2.0");
            config["storage"]["files"] = json!([
                { "path": "/all", "contents": { "source": format!("{here}/content/{name}") } },
                { "path": format!("/{name}"), "contents": { "source": format!("{here}/content/{name}") } },
            ]);
            config.to_string().into_bytes()
        };
        let refer =
            |name: &str| json!({ "config": { "merge": [{ "source": format!("{here}/{name}") }] } });
        let body = match head.path() {
            "/a" => gzip(&config(refer("b"), "a")),
            "/b" => config(json!({}), "b"),
            path => path.trim_start_matches("/content/").as_bytes().to_vec(),
        };
        vec![ServerAction::Send(reply(200, &[], &body))]
    });
    let config = json!({
        "ignition": { "version": "3.4.0", "config": { "merge": [{ "source": web.url("/a"), "compression": "gzip" }] } },
        "storage": { "files": [file("/top", "data:,top"), file("/all", "data:,top")] },
    });
    let one = fetcher(options(LONG));
    let rendered = render(&config, &one).await.unwrap();
    let files = rendered["storage"]["files"].as_array().unwrap();
    let files: BTreeMap<_, _> = files
        .iter()
        .map(|file| {
            let source = file["contents"]["source"].as_str().unwrap();
            (file["path"].as_str().unwrap(), parse_data_url(source).unwrap())
        })
        .collect();
    let want = [("/a", "a"), ("/all", "b"), ("/b", "b"), ("/top", "top")];
    let want = want.map(|(path, text)| (path, text.as_bytes().to_vec()));
    assert_eq!(files, want.into_iter().collect());
    // Each source is fetched once, although two files refer to b.
    let paths: Vec<_> = web.seen().iter().map(|head| head.path().to_owned()).collect();
    assert_eq!(&paths[..2], ["/a", "/b"]);
    assert_eq!(paths.len(), 4, "{paths:?}");
    assert_eq!(render(&config, &one).await.unwrap(), rendered, "fetched again");
}
