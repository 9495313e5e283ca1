//! Whole resolutions, with a table in place of servers.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::document::Document;
use super::super::error::Error;
use super::super::version::{Spec, SpecV2, SpecVersion};
use super::*;
use mosb_types::Finding;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

/// What servers answer, by URL.
type Servers<'s> = &'s [(&'s str, &'s [u8])];

/// Fetches until it is done. Returns that, and what was fetched, in order.
fn fetched<T>(
    servers: Servers<'_>,
    mut step: impl FnMut(&Contents) -> Result<Resolution<T>, Error>,
) -> (Result<T, Vec<Finding>>, Vec<Reference>) {
    let (mut contents, mut asked) = (Contents::new(), Vec::new());
    for _ in 0..40 {
        match step(&contents) {
            Ok(Resolution::Done(done)) => return (Ok(done), asked),
            Err(Error::Invalid { problems }) => return (Err(problems), asked),
            Err(other) => panic!("{other}"),
            Ok(Resolution::Needs(needs)) => {
                assert!(!needs.is_empty());
                for reference in needs {
                    let url = reference.request().url().as_str();
                    let found = servers.iter().find(|(known, _)| *known == url);
                    let (_, bytes) = found.unwrap_or_else(|| panic!("{url} was asked for"));
                    assert!(contents.get(reference.request()).is_none(), "{url}: twice");
                    let bytes = Bytes::copy_from_slice(bytes);
                    contents.insert(reference.request().clone(), bytes);
                    asked.push(reference);
                }
            }
        }
    }
    panic!("asked for something new each time: {asked:?}");
}

fn document(config: &Value) -> (Document, Spec) {
    let read = Document::read(config).unwrap();
    (read.document, read.spec)
}

fn resolve(config: &Value, servers: Servers<'_>) -> (Result<Value, Vec<Finding>>, Vec<Reference>) {
    let (document, spec) = document(config);
    let (resolved, asked) = fetched(servers, |contents| configs(document.clone(), spec, contents));
    (resolved.map(|r| r.document.into_json()), asked)
}

fn embed(config: &Value, servers: Servers<'_>) -> (Result<Value, Vec<Finding>>, Vec<Reference>) {
    let (document, _) = document(config);
    let (embedded, asked) = fetched(servers, |bytes| contents(document.clone(), bytes));
    (embedded.map(Document::into_json), asked)
}

fn places(references: &[Reference]) -> Vec<&str> {
    references.iter().map(Reference::place).collect()
}

fn codes(problems: &[Finding]) -> Vec<(&str, &str)> {
    problems.iter().map(|p| (p.object.as_deref().unwrap_or_default(), p.code.as_str())).collect()
}

/// A config with a file for each path, with these contents, and with a section `ignition`.
fn config(mut ignition: Value, files: &[(&str, &str)]) -> Value {
    ignition["version"] = json!("3.5.0");
    let mut config = json!({ "ignition": ignition });
    if !files.is_empty() {
        let file = |(path, text): &(&str, &str)| json!({ "path": path, "contents": { "source": format!("data:,{text}") } });
        config["storage"]["files"] = files.iter().map(file).collect();
    }
    config
}

fn merge(urls: &[&str]) -> Value {
    let all: Vec<_> = urls.iter().map(|url| json!({ "source": url })).collect();
    json!({ "config": { "merge": all } })
}

fn replace(url: &str) -> Value {
    json!({ "config": { "replace": { "source": url } } })
}

fn text(config: &Value) -> Vec<u8> {
    config.to_string().into_bytes()
}

#[test]
fn referenced_configs_are_merged_in_ignitions_order() {
    let leaf = |name: &str, more: &[(&str, &str)]| {
        let mut files = vec![("/all", name)];
        files.extend(more);
        text(&config(json!({}), &files))
    };
    let a = text(&config(merge(&["https://h/a1"]), &[("/all", "a"), ("/a", "a"), ("/a1", "a")]));
    let (a1, b) = (leaf("a1", &[("/a1", "a1")]), leaf("b", &[("/b", "b")]));
    let servers: Servers<'_> = &[("https://h/a", &a), ("https://h/a1", &a1), ("https://h/b", &b)];
    let inline = check::data_url(&leaf("inline", &[]));
    for (what, top, want, order) in [
        ("none", json!({}), &[("/all", "top")][..], &[][..]),
        (
            "one after the other, nested ones first",
            merge(&["https://h/a", "https://h/b"]),
            &[("/all", "b"), ("/a", "a"), ("/a1", "a1"), ("/b", "b")],
            &[
                "ignition.config.merge[0]",
                "ignition.config.merge[0] > ignition.config.merge[0]",
                "ignition.config.merge[1]",
            ],
        ),
        (
            "the other way round",
            merge(&["https://h/b", "https://h/a"]),
            &[("/all", "a1"), ("/b", "b"), ("/a", "a"), ("/a1", "a1")],
            &[
                "ignition.config.merge[0]",
                "ignition.config.merge[1]",
                "ignition.config.merge[1] > ignition.config.merge[0]",
            ],
        ),
        (
            "replaced with all it says",
            json!({ "config": { "merge": [{ "source": "https://h/b" }], "replace": { "source": "https://h/a1" } } }),
            &[("/all", "a1"), ("/a1", "a1")],
            &["ignition.config.replace"],
        ),
        (
            "replaced by one that merges",
            replace("https://h/a"),
            &[("/all", "a1"), ("/a", "a"), ("/a1", "a1")],
            &["ignition.config.replace", "ignition.config.replace > ignition.config.merge[0]"],
        ),
        ("in the config", merge(&[&inline]), &[("/all", "inline")], &[]),
    ] {
        let (resolved, asked) = resolve(&config(top, &[("/all", "top")]), servers);
        let resolved = resolved.unwrap_or_else(|problems| panic!("{what}: {problems:?}"));
        assert_eq!(resolved.pointer("/ignition/config"), None, "{what}");
        let files = resolved["storage"]["files"].as_array().unwrap();
        let mut got: Vec<_> = files
            .iter()
            .map(|file| {
                let source = file["contents"]["source"].as_str().unwrap();
                (file["path"].as_str().unwrap(), &source["data:,".len()..])
            })
            .collect();
        let mut want = want.to_vec();
        got.sort_unstable();
        want.sort_unstable();
        assert_eq!(got, want, "{what}");
        assert_eq!(places(&asked), order, "{what}");
    }
}

#[test]
fn errors_of_a_referenced_config_name_the_references_to_it() {
    let version = json!({ "ignition": { "version": "4.0.0" } }).to_string();
    let round = text(&config(merge(&["https://h/round2"]), &[]));
    let round2 = text(&config(replace("https://h/round#x"), &[]));
    let servers: Servers<'_> = &[
        ("https://h/empty", b""),
        ("https://h/text", b"hunter2"),
        ("https://h/version", version.as_bytes()),
        ("https://h/round", &round),
        ("https://h/round2", &round2),
    ];
    let hash = format!("sha256-{}", "0".repeat(64));
    for (what, top, want) in [
        (
            "empty",
            merge(&["https://h/empty"]),
            ("ignition.config.merge[0]", "bad-referenced-config"),
        ),
        (
            "no JSON",
            replace("https://h/text"),
            ("ignition.config.replace", "bad-referenced-config"),
        ),
        (
            "spec 4",
            replace("https://h/version"),
            ("ignition.config.replace", "unknown-ignition-spec"),
        ),
        (
            "round and round",
            merge(&["https://h/round"]),
            (
                "ignition.config.merge[0] > ignition.config.merge[0] > ignition.config.replace",
                "circular-reference",
            ),
        ),
        ("s3", merge(&["s3://b/k"]), ("ignition.config.merge[0]", "unsupported-source")),
        (
            "another hash",
            json!({ "config": { "replace": { "source": "https://h/text", "verification": { "hash": hash } } } }),
            ("ignition.config.replace", "wrong-hash"),
        ),
        (
            "an authority that is none",
            json!({ "config": { "replace": { "source": "https://h/text" } },
                "security": { "tls": { "certificateAuthorities": [{ "source": "data:,x" }] } } }),
            ("ignition.security.tls.certificateAuthorities[0]", "bad-authority"),
        ),
        (
            "a timeout",
            json!({ "config": { "replace": { "source": "https://h/text" } }, "timeouts": { "httpTotal": -1 } }),
            ("ignition.timeouts.httpTotal", "bad-timeout"),
        ),
    ] {
        let (resolved, _) = resolve(&config(top, &[]), servers);
        let problems = resolved.unwrap_err();
        assert_eq!(codes(&problems), [want], "{what}");
        assert!(!problems[0].message.contains("hunter2"), "{what}");
    }
}

#[test]
fn spec_2_and_spec_3_do_not_refer_to_one_another() {
    let servers: Servers<'_> = &[("https://h/", &text(&config(json!({}), &[])))];
    for (spec, want) in
        [(Spec::V3(SpecVersion::V3_0), None), (Spec::V2(SpecV2::V2_4), Some("other-family"))]
    {
        let (document, _) = document(&config(replace("https://h/"), &[]));
        let (resolved, _) = fetched(servers, |contents| configs(document.clone(), spec, contents));
        let got = resolved.err().map(|problems| problems[0].code.clone());
        assert_eq!(got.as_deref(), want, "{spec}");
    }
}

#[test]
fn configs_that_refer_without_end_are_given_up() {
    let mut contents = Contents::new();
    let (first, spec) = document(&config(merge(&["https://h/1"]), &[]));
    let mut fetched = 0;
    let problems = loop {
        match configs(first.clone(), spec, &contents) {
            Ok(Resolution::Needs(needs)) => {
                fetched += 1;
                let next = format!("https://h/{}", fetched + 1);
                let next = text(&config(merge(&[&next]), &[]));
                contents.insert(needs[0].request().clone(), next.into());
            }
            Ok(Resolution::Done(done)) => panic!("{done:?}"),
            Err(Error::Invalid { problems }) => break problems,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!((fetched, &*problems[0].code), (16, "deep-reference"));
    let wide: Vec<_> = (0..300)
        .map(|n| check::data_url(&text(&config(json!({}), &[(&format!("/{n}"), "")]))))
        .collect();
    let wide: Vec<_> = wide.iter().map(String::as_str).collect();
    let (resolved, _) = resolve(&config(merge(&wide), &[]), &[]);
    assert_eq!(resolved.unwrap_err()[0].code, "many-references");
}

/// `internal/exec/config_fetcher.go`: after each config that came, its settings merged onto what is
/// there hold; after `replace`, those of the new one alone; authorities stay until others come.
#[test]
fn each_config_is_fetched_with_the_settings_in_force() {
    let proxy = |url: &str| json!({ "httpProxy": url });
    let tls = |url: &str| json!({ "tls": { "certificateAuthorities": [{ "source": url }] } });
    let mut a = merge(&["https://h/a1"]);
    a["proxy"] = proxy("http://a");
    let mut a1 = json!({});
    a1["timeouts"] = json!({ "httpTotal": 7 });
    let (a, a1) = (text(&config(a, &[])), text(&config(a1, &[])));
    let plain = text(&config(json!({}), &[]));
    let mut next = replace("https://h/b");
    next["security"] = tls("https://h/ca2");
    let next = text(&config(next, &[]));
    let servers: Servers<'_> = &[
        ("https://h/a", &a),
        ("https://h/a1", &a1),
        ("https://h/b", &plain),
        ("https://h/next", &next),
        ("https://h/ca", CERTIFICATE.as_bytes()),
        ("https://h/ca2", CERTIFICATE.as_bytes()),
    ];
    let mut top = merge(&["https://h/a", "https://h/b"]);
    top["security"] = tls("https://h/ca");
    top["proxy"] = proxy("http://top");
    let mut replaced = replace("https://h/next");
    replaced["proxy"] = proxy("http://top");
    type Row = (&'static str, Option<&'static str>, usize, Option<u64>);
    for (what, top, want) in [
        (
            "merged",
            top,
            &[
                ("/ca", Some("http://top"), 0, None),
                ("/a", Some("http://top"), 1, None),
                ("/a1", Some("http://a"), 1, None),
                // Of a and a1 together: what the first config said is gone, as it is in Ignition.
                ("/b", Some("http://a"), 1, Some(7)),
            ][..],
        ),
        (
            "replaced",
            replaced,
            &[
                ("/next", Some("http://top"), 0, None),
                ("/ca2", None, 0, None),
                ("/b", None, 1, None),
            ],
        ),
    ] {
        let (resolved, asked) = resolve(&config(top, &[]), servers);
        resolved.unwrap();
        let got: Vec<Row> = asked
            .iter()
            .map(|reference| {
                let settings = reference.request().settings();
                let known = want.iter().find(|row| row.0 == reference.request().url().path());
                let proxy = settings.proxy.http.as_deref();
                let proxy = ["http://top", "http://a"].into_iter().find(|p| Some(*p) == proxy);
                (
                    known.unwrap().0,
                    proxy,
                    settings.authorities.len(),
                    settings.total.map(|t| t.as_secs()),
                )
            })
            .collect();
        assert_eq!(got, want, "{what}");
    }
}

#[test]
fn requests_name_the_supported_spec() {
    for (spec, want) in
        [(Spec::V2(SpecV2::V2_4), "version=2.2.0"), (Spec::V3(SpecVersion::V3_1), "version=3.5.0")]
    {
        let (document, _) = document(&config(replace("https://h/"), &[]));
        let Resolution::Needs(needs) = configs(document, spec, &Contents::new()).unwrap() else {
            panic!("{spec}: nothing is needed");
        };
        assert!(needs[0].request().accept().contains(want), "{spec}");
    }
}

/// A config with all that can be fetched but other configs, in spec 3.5.
fn everything() -> Value {
    let header = json!([{ "name": "Authorization", "value": "hunter2" }]);
    json!({
        "ignition": {
            "version": "3.5.0",
            "proxy": { "httpsProxy": "https://proxy" },
            "timeouts": { "httpTotal": 9 },
            "security": { "tls": { "certificateAuthorities": [
                { "source": "https://h/ca", "httpHeaders": header }, { "source": "https://h/same" },
            ] } },
        },
        "storage": {
            "files": [
                { "path": "/a", "contents": { "source": "https://h/a", "httpHeaders": header }, "append": [{ "source": "https://h/b" }] },
                { "path": "/twice", "contents": { "source": "https://h/b" } },
                { "path": "/here", "contents": { "source": "data:,%61" } },
                { "path": "/empty", "contents": { "source": "" } },
                { "path": "/none", "mode": 420 },
            ],
            "luks": [{ "name": "root", "device": "/dev/x", "keyFile": { "source": "https://h/key" } }],
        },
    })
}

#[test]
fn everything_remote_is_embedded_as_it_was_served() {
    let servers: Servers<'_> = &[
        ("https://h/ca", CERTIFICATE.as_bytes()),
        ("https://h/same", CERTIFICATE.as_bytes()),
        ("https://h/a", b"\x00a"),
        ("https://h/b", b""),
        ("https://h/key", b"key"),
    ];
    let (embedded, asked) = embed(&everything(), servers);
    let mut want = everything();
    let ca = check::data_url(CERTIFICATE.as_bytes());
    want["ignition"]["security"]["tls"]["certificateAuthorities"] = json!([{ "source": ca }]);
    want["storage"]["files"][0]["contents"] = json!({ "source": "data:;base64,AGE=" });
    want["storage"]["files"][0]["append"][0]["source"] = json!("data:;base64,");
    want["storage"]["files"][1]["contents"]["source"] = json!("data:;base64,");
    want["storage"]["luks"][0]["keyFile"]["source"] = json!("data:;base64,a2V5");
    assert_eq!(embedded.unwrap(), want);
    assert_eq!(
        places(&asked),
        [
            "ignition.security.tls.certificateAuthorities[0]",
            "ignition.security.tls.certificateAuthorities[1]",
            "storage.files[/a].contents",
            "storage.files[/a].append[0]",
            "storage.luks[root].keyFile",
        ]
    );
    for (n, reference) in asked.iter().enumerate() {
        let settings = reference.request().settings();
        assert_eq!(settings.total, Some(Duration::from_secs(9)));
        assert_eq!(settings.proxy.https.as_deref(), Some("https://proxy"));
        // Authorities are fetched without themselves.
        assert_eq!(settings.authorities.len(), if n < 2 { 0 } else { 2 });
        let has_header = !reference.request().headers().is_empty();
        assert_eq!(has_header, n == 0 || n == 2, "{reference}");
    }
}

#[test]
fn compression_and_verification_are_preserved() {
    // gzip of "hi".
    let gzip: &[u8] =
        &[31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 200, 4, 0, 172, 42, 147, 216, 2, 0, 0, 0];
    let hash = "sha256-8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
    let mut config = config(json!({}), &[("/a", "")]);
    config["storage"]["files"][0]["contents"] = json!({
        "source": "https://h/a", "compression": "gzip", "verification": { "hash": hash }
    });
    let (embedded, _) = embed(&config, &[("https://h/a", gzip)]);
    let mut want = config.clone();
    want["storage"]["files"][0]["contents"]["source"] = json!(check::data_url(gzip));
    assert_eq!(embedded.unwrap(), want);
    let (embedded, _) = embed(&config, &[("https://h/a", b"hi")]);
    let problems = embedded.unwrap_err();
    assert_eq!(codes(&problems), [("storage.files[/a].contents", "bad-gzip")]);
    assert!(problems[0].message.starts_with("https://h/a: "), "{problems:?}");
}

#[test]
fn all_problems_are_reported_before_anything_is_fetched() {
    let mut config = everything();
    let files = &mut config["storage"]["files"];
    files[0]["contents"] = json!({ "source": "s3://b/k?versionId=hunter2" });
    files[0]["append"][0]["source"] = json!("gs://b/k");
    files[1]["contents"]["httpHeaders"] = json!([{ "name": "x" }]);
    config["storage"]["luks"][0]["keyFile"]["source"] = json!("tftp://u:hunter2@h/key");
    let authorities = &mut config["ignition"]["security"]["tls"]["certificateAuthorities"];
    authorities[0] = json!({ "source": "arn:aws:s3:::b/k" });
    let (embedded, asked) = embed(&config, &[]);
    let problems = embedded.unwrap_err();
    assert!(asked.is_empty());
    assert_eq!(
        codes(&problems),
        [
            ("storage.files[/a].contents", "unsupported-source"),
            ("storage.files[/a].append[0]", "unsupported-source"),
            ("storage.files[/twice].contents", "bad-source"),
            ("storage.luks[root].keyFile", "unsupported-source"),
            ("ignition.security.tls.certificateAuthorities[0]", "unsupported-source"),
        ]
    );
    assert!(!format!("{problems:?}").contains("hunter2"));
}

#[test]
fn contents_in_the_config_are_verified_with_its_hash() {
    let zeros = "0".repeat(64);
    let hash = json!({ "hash": format!("sha256-{zeros}") });
    for (what, contents, want) in [
        ("nothing said", json!({ "source": "data:,x" }), None),
        ("a hash", json!({ "source": "data:,x", "verification": hash }), Some("wrong-hash")),
        ("gzip", json!({ "source": "data:,x", "compression": "gzip" }), Some("bad-gzip")),
        ("no compression", json!({ "source": "data:,x", "compression": "" }), None),
        ("nothing to check", json!({ "source": "", "verification": hash }), None),
    ] {
        let mut config = config(json!({}), &[("/a", "")]);
        config["storage"]["files"][0]["contents"] = contents;
        let (embedded, _) = embed(&config, &[]);
        let got = embedded.err().map(|problems| problems[0].code.clone());
        assert_eq!(got.as_deref(), want, "{what}");
    }
}
