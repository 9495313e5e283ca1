use super::*;
use mosb_types::Diagnostic as _;
use proptest::prelude::*;
use serde_json::json;

/// A CA (PEM) that is valid until the first day of a year.
fn authority(year: i32) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&key).unwrap().pem()
}

fn data_url(text: &str) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(text))
}

const URL: &str = "https://api-int.example.com:22623/config/worker";

/// The stub as installers write it.
fn installed(version: &str, pem: &str) -> Value {
    let list = if version.starts_with('2') { "append" } else { "merge" };
    json!({ "ignition": {
        "config": { list: [{ "source": URL, "verification": {} }] },
        "security": { "tls": { "certificateAuthorities": [{ "source": data_url(pem), "verification": {} }] } },
        "timeouts": {},
        "version": version,
    }, "networkd": {}, "passwd": {}, "storage": {}, "systemd": {} })
}

fn parse(value: &Value) -> Result<Stub, StubError> {
    Stub::parse(value.to_string().as_bytes())
}

#[test]
fn spec_2_stubs_become_the_oldest_sufficient_spec() {
    let pem = authority(2034);
    let want = json!({ "ignition": {
        "config": { "merge": [{ "source": URL }] },
        "security": { "tls": { "certificateAuthorities": [{ "source": data_url(&pem) }] } },
        "version": "3.0.0",
    } });
    // Spec 2.0.0 and 2.1.0 have no security section.
    let mut older = want.clone();
    older["ignition"].as_object_mut().unwrap().remove("security");
    for version in ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"] {
        let mut input = installed(version, &pem);
        let mut want = &want;
        if version < "2.2.0" {
            let ignition = input["ignition"].as_object_mut().unwrap();
            ignition.remove("security");
            if version == "2.0.0" {
                ignition.remove("timeouts");
            }
            want = &older;
        }
        let stub = parse(&input).unwrap();
        assert!(stub.is_spec2(), "{version}");
        assert_eq!(stub.pool(), Some("worker"), "{version}");
        let converted = stub.upgrade_to_oldest().unwrap().unwrap();
        assert_eq!(&converted.config, want, "{version}");
        assert_eq!((converted.version(), converted.pool()), ("3.0.0", Some("worker")), "{version}");
        assert_eq!(converted.upgrade_to_oldest().unwrap(), None, "{version}: again");
        assert_eq!(Stub::parse(&converted.to_bytes()).unwrap(), converted, "{version}");
    }
}

#[test]
fn stubs_of_spec_3_are_left_alone() {
    for version in ["3.0.0", "3.1.0", "3.5.0", "3.6.0", "3.9.0", "3.7.0-experimental"] {
        let stub = parse(&installed(version, &authority(2034))).unwrap();
        assert!(!stub.is_spec2(), "{version}");
        assert_eq!(stub.upgrade_to_oldest().unwrap(), None, "{version}");
        assert_eq!(stub.pool(), Some("worker"), "{version}");
    }
}

#[test]
fn newer_spec_2_features_need_newer_spec_3() {
    let header = json!([{ "name": "A", "value": "b" }]);
    for (what, version, field, value, want) in [
        ("headers", "2.4.0", "/ignition/config/append/0/httpHeaders", header, "3.1.0"),
        ("a proxy", "2.4.0", "/ignition/proxy", json!({ "httpsProxy": "https://p/" }), "3.1.0"),
        ("time limits", "2.2.0", "/ignition/timeouts", json!({ "httpTotal": 5 }), "3.0.0"),
        (
            "a unit",
            "2.2.0",
            "/systemd",
            json!({ "units": [{ "name": "a.service", "enabled": true }] }),
            "3.0.0",
        ),
    ] {
        let mut input = installed(version, &authority(2034));
        let (parent, key) = field.rsplit_once('/').unwrap();
        input.pointer_mut(parent).unwrap()[key] = value;
        let converted = parse(&input).unwrap().upgrade_to_oldest().unwrap().unwrap();
        assert_eq!(converted.version(), want, "{what}");
    }
}

#[test]
fn other_user_data_is_error_without_contents() {
    let spec2 = |change: &dyn Fn(&mut Value)| {
        let mut stub = installed("2.2.0", &authority(2034));
        change(&mut stub);
        stub.to_string()
    };
    let file = |source: &str| json!({ "files": [{ "filesystem": "root", "path": "/a", "contents": { "source": source } }] });
    for (what, text, code, message) in [
        ("empty", String::new(), "stub-not-json", "line 1"),
        ("cloud-init", "#cloud-config\npassword: hunter2".to_owned(), "stub-not-json", ""),
        ("cut off", r#"{"ignition":{"version":"3.0.0","hunter2"#.to_owned(), "stub-not-json", ""),
        ("a list", "[1]".to_owned(), "stub-not-json", ""),
        (
            "no version",
            r#"{"ignition":{"config":{}}}"#.to_owned(),
            "stub-version",
            "no ignition.version",
        ),
        ("spec 1", r#"{"ignitionVersion":1}"#.to_owned(), "stub-version", "no ignition.version"),
        (
            "spec 1.0.0",
            r#"{"ignition":{"version":"1.0.0"}}"#.to_owned(),
            "stub-version",
            "\"1.0.0\"",
        ),
        ("spec 4", r#"{"ignition":{"version":"4.0.0"}}"#.to_owned(), "stub-version", "\"4.0.0\""),
        ("2.5.0", r#"{"ignition":{"version":"2.5.0"}}"#.to_owned(), "stub-version", "\"2.5.0\""),
        (
            "an unknown field",
            spec2(&|stub| stub["ignition"]["hunter"] = json!("hunter2")),
            "stub-not-convertible",
            "ignition.hunter",
        ),
        (
            "a field of 2.4.0",
            spec2(&|stub| stub["ignition"]["proxy"] = json!({ "httpProxy": "http://hunter2/" })),
            "stub-not-convertible",
            "ignition.proxy",
        ),
        (
            "no equivalent",
            spec2(&|stub| stub["storage"] = file("oem:///hunter2")),
            "stub-not-convertible",
            "spec 3",
        ),
        (
            "invalid",
            spec2(&|stub| stub["storage"] = file("ftp://hunter2/")),
            "stub-not-convertible",
            "spec 3",
        ),
        ("too long", " ".repeat(MAX_BYTES + 1), "stub-too-long", "1048577"),
    ] {
        let result = Stub::parse(text.as_bytes()).and_then(|stub| {
            assert!(!format!("{stub:?}").contains("hunter2"), "{what}");
            stub.upgrade_to_oldest()
        });
        let error = result.unwrap_err();
        assert_eq!(error.code(), code, "{what}: {error}");
        assert!(error.to_string().contains(message), "{what}: {error}");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let shown = format!("{error} {error:?} {source:?}");
        assert!(!shown.contains("hunter2"), "{what}: {shown}");
    }
}

#[test]
fn pool_is_known_from_the_one_source_only() {
    let source = |source: &str| json!({ "merge": [{ "source": source }] });
    for (what, config, want) in [
        ("as installed", source(URL), Some("worker")),
        ("an address", source("https://192.0.2.1:22623/config/infra-2"), Some("infra-2")),
        ("IPv6", source("https://[2001:db8::1]:22623/config/worker"), Some("worker")),
        ("another path", source("https://a/configs/worker"), None),
        ("a longer path", source("https://a/config/worker/x"), None),
        ("a query", source("https://a/config/worker?x"), None),
        ("no pool", source("https://a/config/"), None),
        ("not encrypted", source("http://a/config/worker"), None),
        ("two", json!({ "merge": [{ "source": URL }, { "source": URL }] }), None),
        ("replaced", json!({ "replace": { "source": URL } }), None),
        ("of spec 2", json!({ "append": [{ "source": URL }] }), None),
        ("none", json!({}), None),
    ] {
        let stub = parse(&json!({ "ignition": { "version": "3.1.0", "config": config } })).unwrap();
        assert_eq!(stub.pool(), want, "{what}");
    }
}

#[test]
fn only_the_ca_is_replaced_in_its_place() {
    let (old, new, third) = (authority(2034), authority(2036), authority(2021));
    for version in ["2.2.0", "3.1.0", "3.9.0"] {
        let mut input = installed(version, &old);
        input["ignition"]["later"] = json!({ "kept": [1] });
        let stub = parse(&input).unwrap();
        let changed = stub.with_authority(new.as_bytes()).unwrap().unwrap();
        input["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"] =
            json!(data_url(&new));
        assert_eq!(changed.config, input, "{version}");
        assert_eq!(changed.with_authority(new.as_bytes()).unwrap(), None, "{version}: again");
        // Blanks and order make no other CA.
        let twice = format!("\n{new}\n{new}");
        assert_eq!(changed.with_authority(twice.as_bytes()).unwrap(), None, "{version}");
    }
    let stub = parse(&installed("3.1.0", &format!("{third}{old}"))).unwrap();
    let own = stub.authority().unwrap().unwrap();
    // 1 January 2034.
    assert_eq!(own.not_after(), 2_019_686_400);
    for (what, bundle, want) in [
        ("its own", old.clone(), false),
        ("one of them", format!("{new}{third}"), false),
        ("another", new.clone(), true),
    ] {
        assert_eq!(stub.with_authority(bundle.as_bytes()).unwrap().is_some(), want, "{what}");
    }
}

#[test]
fn ca_outside_the_stub_is_not_replaced() {
    let new = authority(2036);
    let list = |list: Value| json!({ "ignition": { "version": "3.1.0", "security": { "tls": { "certificateAuthorities": list } } } });
    let own = data_url(&authority(2034));
    let nonsense = "data:,hunter2";
    for (what, input, want) in [
        ("none", list(json!([])), Ok(false)),
        ("no section", json!({ "ignition": { "version": "3.1.0" } }), Ok(false)),
        ("unreadable", list(json!([{ "source": nonsense }])), Ok(true)),
        ("two", list(json!([{ "source": own }, { "source": own }])), Err("more than one")),
        ("fetched", list(json!([{ "source": "https://a/ca" }])), Err("fetched")),
        (
            "a hash",
            list(json!([{ "source": own, "verification": { "hash": "sha512-00" } }])),
            Err("hash"),
        ),
        ("compressed", list(json!([{ "source": own, "compression": "gzip" }])), Err("compression")),
        ("no source", list(json!([{}])), Err("no source")),
    ] {
        let got = parse(&input).unwrap().with_authority(new.as_bytes());
        match (got.map(|changed| changed.is_some()), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want, "{what}"),
            (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{what}: {error}"),
            (got, want) => panic!("{what}: {got:?}, want {want:?}"),
        }
    }
    let stub = parse(&list(json!([{ "source": own }]))).unwrap();
    for (what, pem) in [
        ("empty", ""),
        ("no certificate", "-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n"),
    ] {
        let error = stub.with_authority(pem.as_bytes()).unwrap_err();
        assert_eq!(error.code(), "stub-authority", "{what}: {error}");
    }
}

proptest! {
    /// Whatever else a stub has: read by the rules of its own version, it is the same config.
    #[test]
    fn a_converted_stub_is_the_same_config(
        version in prop::sample::select(vec!["2.2.0", "2.3.0", "2.4.0"]),
        sources in prop::collection::vec("[a-z]{1,8}", 0..3),
        files in prop::collection::btree_map("[a-z]{1,6}", "[a-zA-Z0-9]{0,12}", 0..3),
        units in prop::collection::btree_map("[a-z]{1,6}", any::<bool>(), 0..3),
        total in prop::option::of(0_u32..100),
    ) {
        let mut input = installed(version, "x");
        input["ignition"]["config"]["append"] = sources.iter().map(|pool| json!({ "source": format!("https://h:22623/config/{pool}") })).collect();
        input["storage"]["files"] = files.iter().map(|(name, text)| json!({
            "filesystem": "root", "path": format!("/etc/{name}"), "mode": 420, "contents": { "source": format!("data:,{text}") },
        })).collect();
        input["systemd"]["units"] = units.iter().map(|(name, enabled)| json!({ "name": format!("{name}.service"), "enabled": enabled })).collect();
        if let Some(total) = total {
            input["ignition"]["timeouts"] = json!({ "httpTotal": total });
        }
        let mut unique = sources.clone();
        unique.sort();
        unique.dedup();
        // Ignition refuses an entry twice.
        prop_assume!(unique.len() == sources.len());
        let before = Document::read(&input).unwrap().document;
        let converted = parse(&input).unwrap().upgrade_to_oldest().unwrap().unwrap();
        prop_assert!(converted.version() < "3.2.0");
        let mut again: Value = serde_json::from_slice(&converted.to_bytes()).unwrap();
        let after = Document::read(&again).unwrap().document;
        prop_assert_eq!(after.as_json(), before.as_json());
        again["ignition"]["version"] = json!("3.5.0");
        prop_assert_eq!(&again, before.as_json());
    }
}
