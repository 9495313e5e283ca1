//! What a config refers to is fetched from real servers as Ignition fetches it, and embedded as it was served.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::write::GzEncoder;
use mosb::fetch::{Error, Fetcher, HostHeaders, Options, offline};
use mosb::ignition::snapshot::{configs, contents};
use mosb::ignition::{Contents, Document, Reference, Resolution, parse, parse_data_url};
use mosb::registry::{ProxyVariables, Secret};
use mosb::report::Class;
use serde_json::{Value, json};

use crate::harness::{Act, SecureWeb, Web, reply, sha256};

/// As long as nothing here takes.
const LONG: Duration = Duration::from_secs(60);

fn options(timeout: Duration) -> Options {
    Options {
        timeout,
        ..Options::default()
    }
}

fn fetcher(options: Options) -> Fetcher {
    Fetcher::new(options).unwrap()
}

/// Why a config did not become one without references: the code, the message, and whether it may pass.
#[derive(Debug)]
struct Failed {
    code: String,
    message: String,
    class: Class,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            code: error.reason().to_owned(),
            message: error.to_string(),
            class: error.class(),
        }
    }
}

impl From<mosb::ignition::Error> for Failed {
    fn from(error: mosb::ignition::Error) -> Self {
        let mosb::ignition::Error::Invalid { problems } = &error else {
            panic!("{error}");
        };
        Self {
            code: problems[0].code.clone(),
            message: error.to_string(),
            class: error.class(),
        }
    }
}

/// Resolves, fetches and embeds until nothing remote is left.
async fn render(config: &Value, fetcher: &Fetcher) -> Result<Value, Failed> {
    let read = Document::read(config).unwrap();
    let mut fetched = Contents::new();
    let document = loop {
        match configs(read.document.clone(), read.spec, &fetched)? {
            Resolution::Done(resolved) => break resolved.document,
            Resolution::Needs(needs) => fetcher.fetch_all(&needs, &mut fetched).await?,
        }
    };
    let rendered = loop {
        match contents(document.clone(), &fetched)? {
            Resolution::Done(document) => break document.into_json(),
            Resolution::Needs(needs) => fetcher.fetch_all(&needs, &mut fetched).await?,
        }
    };
    // What an image is built from takes it as it is.
    parse(&rendered).unwrap();
    Ok(rendered)
}

/// A config with one file of these contents.
fn file(contents: Value) -> Value {
    json!({
        "ignition": { "version": "3.5.0" },
        "storage": { "files": [{ "path": "/etc/x", "contents": contents }] },
    })
}

fn embedded(config: &Value) -> Vec<u8> {
    let source = &config["storage"]["files"][0]["contents"]["source"];
    parse_data_url(source.as_str().unwrap()).unwrap()
}

async fn get(url: &str, fetcher: &Fetcher) -> Result<Vec<u8>, Failed> {
    let rendered = render(&file(json!({ "source": url })), fetcher).await?;
    Ok(embedded(&rendered))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_served_is_embedded_byte_for_byte() {
    let packed = gzip(b"hi");
    let sum = |bytes: &[u8]| format!("sha256-{}", sha256(bytes).trim_start_matches("sha256:"));
    let gzipped = json!({ "compression": "gzip", "verification": { "hash": sum(b"hi") } });
    let encoded = ("content-encoding", "x-gzip");
    for (what, answer, said, want) in [
        (
            "plain",
            reply(200, &[], b"a\0b\xff"),
            json!({}),
            Ok(&b"a\0b\xff"[..]),
        ),
        ("nothing", reply(200, &[], b""), json!({}), Ok(b"")),
        ("no content", reply(204, &[], b""), json!({}), Ok(b"")),
        (
            "gzip",
            reply(200, &[], &packed),
            gzipped.clone(),
            Ok(&packed),
        ),
        // As many servers say of *.gz; Ignition asks for no encoding and undoes none.
        (
            "gzip, said twice",
            reply(200, &[encoded], &packed),
            gzipped.clone(),
            Ok(&packed),
        ),
        (
            "an encoding that nobody asked for",
            reply(200, &[encoded], &packed),
            json!({}),
            Ok(&packed),
        ),
        (
            "said to be gzip",
            reply(200, &[], b"hi"),
            gzipped,
            Err("bad-gzip"),
        ),
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
        let mut contents = said.clone();
        contents["source"] = json!(web.url("/x"));
        let rendered = render(&file(contents), &fetcher(options(LONG))).await;
        match (rendered, want) {
            (Ok(rendered), Ok(want)) => {
                assert_eq!(embedded(&rendered), want, "{what}");
                let mut left = rendered["storage"]["files"][0]["contents"].clone();
                left.as_object_mut().unwrap().remove("source");
                assert_eq!(left, said, "{what}");
            }
            (Err(failed), Err(code)) => {
                assert_eq!(
                    (&*failed.code, failed.class),
                    (code, Class::UserInput),
                    "{what}"
                );
                let place = "storage.files[/etc/x].contents: ";
                assert!(failed.message.contains(place), "{what}: {failed:?}");
                assert!(
                    failed.message.contains(&web.url("/x")),
                    "{what}: {failed:?}"
                );
            }
            (got, want) => panic!("{what}: {got:?} instead of {want:?}"),
        }
        assert_eq!(web.seen().len(), 1, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_is_told_at_once_and_what_may_pass_is_tried_again() {
    let late = ("retry-after", "0");
    let whole = reply(200, &[], b"hi");
    let cut = whole[..whole.len() - 1].to_vec();
    for (what, first, want, asked) in [
        ("not there", reply(404, &[], b"hi"), Err("not-found"), 1),
        ("gone", reply(410, &[], b"hi"), Err("not-found"), 1),
        (
            "not allowed",
            reply(403, &[], b"hi"),
            Err("fetch-denied"),
            1,
        ),
        ("a part", reply(206, &[], b"hi"), Err("fetch-refused"), 1),
        (
            "a redirect to nowhere",
            reply(302, &[], b"hi"),
            Err("fetch-refused"),
            1,
        ),
        ("500 once", reply(500, &[], b"ho"), Ok(()), 2),
        ("503 once", reply(503, &[late], b""), Ok(()), 2),
        ("429 once", reply(429, &[late], b""), Ok(()), 2),
        ("cut once", cut, Ok(()), 2),
        ("closed once", Vec::new(), Ok(()), 2),
    ] {
        let whole = whole.clone();
        let web = Web::start(move |_, before| match before {
            0 => vec![Act::Send(first.clone())],
            _ => vec![Act::Send(whole.clone())],
        });
        let got = get(&web.url("/x?token=hunter2"), &fetcher(options(LONG))).await;
        match (got, want) {
            (Ok(bytes), Ok(())) => assert_eq!(bytes, b"hi", "{what}"),
            (Err(failed), Err(code)) => {
                assert_eq!(
                    (&*failed.code, failed.class),
                    (code, Class::UserInput),
                    "{what}"
                );
                let told = format!("storage.files[/etc/x].contents: {}?…", web.url("/x"));
                assert!(failed.message.contains(&told), "{what}: {failed:?}");
                assert!(!failed.message.contains("hunter2"), "{what}: {failed:?}");
            }
            (got, want) => panic!("{what}: {got:?} instead of {want:?}"),
        }
        assert_eq!(web.seen().len(), asked, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lasts_is_given_up_in_time_and_may_pass_later() {
    let short = Duration::from_millis(700);
    let nobody = {
        let web = Web::always(Vec::new());
        web.url("/")
    };
    let whole = reply(200, &[], b"hi");
    let cut = whole[..whole.len() - 1].to_vec();
    let (broken, closing, busy) = (
        Web::always(reply(500, &[], b"")),
        Web::always(cut),
        Web::always(reply(429, &[("retry-after", "1000")], b"")),
    );
    let silent = Web::start(|_, _| vec![Act::Wait(Duration::from_secs(20))]);
    let slow = Web::start(move |_, _| {
        let mut acts = vec![Act::Send(whole[..whole.len() - 2].to_vec())];
        acts.push(Act::Wait(Duration::from_secs(20)));
        acts
    });
    for (what, url, code) in [
        ("500", broken.url("/"), "server-error"),
        ("429", busy.url("/"), "too-many-requests"),
        ("cut", closing.url("/"), "unreachable"),
        ("nobody there", nobody, "unreachable"),
        ("silence", silent.url("/"), "timed-out"),
        ("silence in the body", slow.url("/"), "timed-out"),
    ] {
        let begun = Instant::now();
        let failed = get(&url, &fetcher(options(short))).await.unwrap_err();
        assert_eq!(
            (&*failed.code, failed.class),
            (code, Class::Retry),
            "{what}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
    }
    assert!(broken.seen().len() > 1 && closing.seen().len() > 1);
}

/// `ignition.timeouts`: an answer that does not begin in time is asked for again; the total ends it before `--timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn the_configs_timeouts_count() {
    let whole = reply(200, &[], b"hi");
    let web = Web::start(move |_, before| {
        let wait = Duration::from_secs(if before == 0 { 20 } else { 0 });
        vec![Act::Wait(wait), Act::Send(whole.clone())]
    });
    let mut config = file(json!({ "source": web.url("/") }));
    config["ignition"]["timeouts"] = json!({ "httpResponseHeaders": 1 });
    let rendered = render(&config, &fetcher(options(LONG))).await.unwrap();
    assert_eq!((embedded(&rendered), web.seen().len()), (b"hi".to_vec(), 2));

    let silent = Web::start(|_, _| vec![Act::Wait(Duration::from_secs(20))]);
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
    for (what, acts) in [
        (
            "announced",
            vec![Act::Send(head("content-length: 9000000\r\n"))],
        ),
        (
            "until it closes, which it never does",
            vec![Act::Send(head("")), Act::Forever(noise)],
        ),
        (
            "chunks without end",
            vec![
                Act::Send(head("transfer-encoding: chunked\r\n")),
                Act::Forever(chunk),
            ],
        ),
    ] {
        let web = Web::start(move |_, _| acts.clone());
        let failed = get(&web.url("/"), &fetcher(options(LONG)))
            .await
            .unwrap_err();
        assert_eq!(
            (&*failed.code, failed.class),
            ("too-large", Class::UserInput),
            "{what}"
        );
        assert_eq!(web.seen().len(), 1, "{what}");
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
    assert_eq!(
        (&*failed.code, failed.class),
        ("too-large", Class::UserInput)
    );
    assert!(failed.message.contains("67108864"), "{failed:?}");
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
        vec![Act::Send(reply(307, &[("location", location)], b""))]
    });
    let headers = json!([{ "name": "X-Mine", "value": "hunter2" }]);
    let config = |path| file(json!({ "source": web.url(path), "httpHeaders": headers }));
    let rendered = render(&config("/near"), &fetcher(options(LONG)))
        .await
        .unwrap();
    assert_eq!(embedded(&rendered), b"hi");
    assert!(
        rendered["storage"]["files"][0]["contents"]
            .get("httpHeaders")
            .is_none()
    );
    let seen: Vec<_> = web.seen().into_iter().chain(target.seen()).collect();
    let mine: Vec<_> = seen
        .iter()
        .map(|head| (head.path(), head.header("x-mine")))
        .collect();
    assert_eq!(
        mine,
        [
            ("/near", Some("hunter2")),
            ("/away", None),
            ("/there", None)
        ]
    );
    for (path, code, class) in [
        ("/round", "too-many-redirects", Class::UserInput),
        ("/ftp", "unreachable", Class::Retry),
    ] {
        let failed = render(&config(path), &fetcher(options(LONG)))
            .await
            .unwrap_err();
        assert_eq!((&*failed.code, failed.class), (code, class), "{path}");
    }
    // Not there where the redirect led: it is named, without its query.
    let missing = Web::always(reply(404, &[], b""));
    let there = missing.url("/gone?token=hunter2");
    let web = Web::start(move |_, _| vec![Act::Send(reply(302, &[("location", &there)], b""))]);
    let failed = get(&web.url("/"), &fetcher(options(LONG)))
        .await
        .unwrap_err();
    let told = format!(
        "{} (redirected to {}?…): not found (404)",
        web.url("/"),
        missing.url("/gone")
    );
    assert!(failed.message.contains(&told), "{failed:?}");
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
    assert!(
        of("/config")
            .header("user-agent")
            .unwrap()
            .starts_with("Ignition/2.")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_host_go_to_that_host_only() {
    let other = Web::always(reply(200, &[], b"hi"));
    let away = other.url("/");
    let web = Web::start(move |head, _| {
        let whole = reply(200, &[], b"hi");
        vec![Act::Send(match head.path() {
            "/near" => reply(302, &[("location", "/here")], b""),
            "/away" => reply(302, &[("location", &away)], b""),
            _ => whole,
        })]
    });
    let headers = json!({ web.address(): { "X-Token": "hunter2" } });
    let fetcher = fetcher(Options {
        headers: HostHeaders::read(&headers).unwrap(),
        ..options(LONG)
    });
    assert!(!format!("{fetcher:?}").contains("hunter2"));
    for path in ["/here", "/near", "/away"] {
        get(&web.url(path), &fetcher).await.unwrap();
    }
    get(&other.url("/"), &fetcher).await.unwrap();
    assert_eq!(web.seen().len(), 4);
    assert!(
        web.seen()
            .iter()
            .all(|head| head.header("x-token") == Some("hunter2"))
    );
    assert_eq!(other.seen().len(), 2);
    assert!(
        other
            .seen()
            .iter()
            .all(|head| head.header("x-token").is_none())
    );
}

/// A proxy is asked for what is not on this machine: that of the config, else that of the environment.
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
        ..options(Duration::from_millis(500))
    });
    let url = "http://mirror.invalid/x?y";
    assert_eq!(get(url, &fetcher).await.unwrap(), b"environment's");
    let mut config = file(json!({ "source": url }));
    config["ignition"]["proxy"] = json!({ "httpProxy": proxy(&from_config) });
    let rendered = render(&config, &fetcher).await.unwrap();
    assert_eq!(embedded(&rendered), b"config's");
    config["ignition"]["proxy"]["noProxy"] = json!(["invalid"]);
    let failed = render(&config, &fetcher).await.unwrap_err();
    assert_eq!(failed.code, "unreachable");
    for web in [from_config, from_environment] {
        let seen = web.seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].target, url);
        assert_eq!(seen[0].header("proxy-authorization"), Some("Basic dTpw"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_trusted_by_the_configs_authorities_and_by_the_users() {
    let directory = tempfile::tempdir().unwrap();
    let plain = Web::always(reply(200, &[], b"plain"));
    let to = plain.url("/");
    let answers = [
        ("x", reply(200, &[], b"hi")),
        ("away", reply(302, &[("location", &to)], b"")),
    ];
    let web = SecureWeb::start(directory.path(), &answers);
    let nobody = fetcher(options(LONG));
    let failed = get(&web.url("x"), &nobody).await.unwrap_err();
    assert_eq!(
        (&*failed.code, failed.class),
        ("untrusted-tls", Class::Retry),
        "{failed:?}"
    );
    assert!(failed.message.contains("--ca"), "{failed:?}");

    let user = fetcher(Options {
        authorities: Some(Bytes::from(web.authority())),
        ..options(LONG)
    });
    assert_eq!(get(&web.url("x"), &user).await.unwrap(), b"hi");
    assert_eq!(get(&web.url("away"), &user).await.unwrap(), b"plain");

    // The authority is itself fetched, without itself, and before what needs it.
    let keys = Web::always(reply(200, &[], &web.authority()));
    let mut config = file(json!({ "source": web.url("x") }));
    let authorities = json!([{ "source": keys.url("/ca") }]);
    config["ignition"]["security"] = json!({ "tls": { "certificateAuthorities": authorities } });
    let rendered = render(&config, &nobody).await.unwrap();
    assert_eq!(embedded(&rendered), b"hi");
    let authority = &rendered["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"];
    assert_eq!(
        parse_data_url(authority.as_str().unwrap()).unwrap(),
        web.authority()
    );
    assert_eq!(keys.seen().len(), 1);

    let failed = get(&plain.url("/").replace("http", "https"), &nobody)
        .await
        .unwrap_err();
    assert!(
        failed.message.contains("answers in plain HTTP"),
        "{failed:?}"
    );
    let wrong = Options {
        authorities: Some(Bytes::from_static(b"hello")),
        ..options(LONG)
    };
    assert_eq!(Fetcher::new(wrong).unwrap_err().reason(), "bad-certificate");
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
        vec![Act::Send(reply(200, &[], &body))]
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
            (
                file["path"].as_str().unwrap(),
                parse_data_url(source).unwrap(),
            )
        })
        .collect();
    let want = [("/a", "a"), ("/all", "b"), ("/b", "b"), ("/top", "top")];
    let want = want.map(|(path, text)| (path, text.as_bytes().to_vec()));
    assert_eq!(files, want.into_iter().collect());
    // Each once: the contents of b stand at two places.
    let paths: Vec<_> = web
        .seen()
        .iter()
        .map(|head| head.path().to_owned())
        .collect();
    assert_eq!(&paths[..2], ["/a", "/b"]);
    assert_eq!(paths.len(), 4, "{paths:?}");
    assert_eq!(
        render(&config, &one).await.unwrap(),
        rendered,
        "fetched again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_failures_are_told_and_offline_names_each_reference() {
    let web = Web::start(|head, _| {
        let status = if head.path() == "/late" { 500 } else { 404 };
        vec![Act::Send(reply(status, &[], b""))]
    });
    let mut config = file(json!({}));
    let files = ["/late", "/a", "/b"]
        .map(|path| json!({ "path": path, "contents": { "source": web.url(path) } }));
    config["storage"]["files"] = json!(files);
    let failed = render(&config, &fetcher(options(Duration::from_millis(500))))
        .await
        .unwrap_err();
    assert_eq!(
        (&*failed.code, failed.class),
        ("not-found", Class::UserInput)
    );
    assert!(
        failed
            .message
            .starts_with("3 references could not be fetched:"),
        "{failed:?}"
    );
    for path in ["/late", "/a", "/b"] {
        let told = format!("\n  storage.files[{path}].contents: {}: ", web.url(path));
        assert!(failed.message.contains(&told), "{failed:?}");
    }
    let asked = web.seen().len();
    let document = Document::read(&config).unwrap().document;
    let Resolution::Needs(needs) = contents(document, &Contents::new()).unwrap() else {
        panic!("nothing is needed");
    };
    let needs: Vec<Reference> = needs
        .into_iter()
        .map(|one| one.of("MachineConfig 99-x"))
        .collect();
    let error = offline(&needs).unwrap();
    assert_eq!(
        (error.reason(), error.class()),
        ("offline", Class::UserInput)
    );
    let told = format!(
        "MachineConfig 99-x: storage.files[/a].contents: {}: ",
        web.url("/a")
    );
    assert!(error.to_string().contains(&told), "{error}");
    assert_eq!(error.findings().len(), 3);
    assert!(offline(&[]).is_none());
    assert_eq!(web.seen().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_fetched_at_once_and_dropping_ends_all() {
    let whole = reply(200, &[], b"hi");
    let web = Web::start(move |_, _| {
        vec![
            Act::Wait(Duration::from_millis(300)),
            Act::Send(whole.clone()),
        ]
    });
    let mut config = file(json!({}));
    let one = |n: usize| json!({ "path": format!("/{n}"), "contents": { "source": web.url(&format!("/{n}")) } });
    config["storage"]["files"] = (0..24).map(one).collect();
    let eight = fetcher(options(LONG));
    let begun = Instant::now();
    render(&config, &eight).await.unwrap();
    // One after the other it would be 7 seconds.
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(web.seen().len(), 24);

    let silent = Web::start(|_, _| vec![Act::Wait(Duration::from_secs(20))]);
    let url = silent.url("/");
    let lasting = get(&url, &eight);
    let dropped = tokio::time::timeout(Duration::from_millis(300), lasting).await;
    assert!(dropped.is_err());
    assert_eq!(silent.seen().len(), 1);
}
