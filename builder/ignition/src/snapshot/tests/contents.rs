//! Contents that are fetched, and those in the config.

use super::*;

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
fn contents_in_config_are_verified_with_its_hash() {
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
