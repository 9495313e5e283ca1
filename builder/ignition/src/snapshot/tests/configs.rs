//! Configs that refer to configs.

use super::*;

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
fn errors_of_referenced_config_name_references_to_it() {
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
fn specs_2_and_3_dont_refer_to_each_other() {
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
fn each_config_is_fetched_with_settings_in_force() {
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
                // The merge result of a and a1: as in Ignition, the values of the first config are
                // lost.
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
