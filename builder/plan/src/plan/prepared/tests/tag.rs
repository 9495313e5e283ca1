//! What moves the tag, and what does not.

use super::*;

/// Changes that make no other prepared base.
const OUTSIDE: [(&str, Change); 16] = [
    ("a comment", |given| given.own.as_mut().unwrap().text.push_str("# Or not.\n")),
    ("instructions after the config", |given| given.last = OwnLast::OnConfigs),
    ("name", |given| given.name = format!("rendered-worker-{}", "f".repeat(32))),
    ("pool", |given| given.name = given.name.replace("worker", "infra")),
    ("base's name", |given| given.base_name = "mirror.acme.com/os:v1"),
    ("push repository", |given| given.push = None),
    ("which configs get an image", |given| given.build_on = BuildOn::EveryConfig),
    ("extensions' order", |given| given.spec["extensions"].as_array_mut().unwrap().reverse()),
    ("kernel arguments", |given| given.spec["kernelArguments"] = json!(["quiet"])),
    ("another file", |given| storage(given, "files").push(file("/etc/y", "y"))),
    ("content of another file", |given| {
        entry(given, "/etc/x")["contents"]["source"] = json!("data:,z");
    }),
    ("files' order", |given| storage(given, "files").reverse()),
    ("another directory", |given| {
        storage(given, "directories").push(json!({ "path": "/etc/pki", "mode": 0o755 }));
    }),
    ("another link", |given| {
        storage(given, "links").push(json!({ "path": "/etc/l", "target": "/etc/pki/ca-trust" }));
    }),
    ("units", |given| {
        let unit = json!({ "name": "usbguard.service", "enabled": true });
        given.spec["config"]["systemd"] = json!({ "units": [unit] });
    }),
    ("users", |given| {
        given.spec["config"]["passwd"] =
            json!({ "users": [{ "name": "core", "sshAuthorizedKeys": ["k"] }] });
    }),
];

/// Changes that make another prepared base.
const INSIDE: [(&str, Change); 20] = [
    ("base", |given| given.base = "b"),
    ("platform", |given| given.platform = "arm64"),
    ("extensions image", |given| given.extensions_image = "f"),
    ("extensions", |given| given.spec["extensions"] = json!(["usbguard"])),
    ("kernel", |given| given.spec["kernelType"] = json!("default")),
    ("bundle", |given| given.bundle = Some("other")),
    ("no bundle", |given| given.bundle = None),
    ("nodes", |given| given.nodes = BuilderNodes::ControlPlane),
    ("instructions", |given| given.own.as_mut().unwrap().canonical.push_str("RUN b\n")),
    ("build argument", |given| {
        given.own.as_mut().unwrap().build_args.insert("A".to_owned(), "c".to_owned());
    }),
    ("content", |given| anchor(given)["contents"]["source"] = json!("data:,b")),
    ("mode", |given| anchor(given)["mode"] = json!(0o600)),
    ("owner", |given| anchor(given)["user"] = json!({ "id": 7 })),
    ("group", |given| anchor(given)["group"] = json!({ "id": 7 })),
    ("overwrite", |given| anchor(given)["overwrite"] = json!(false)),
    ("append", |given| {
        let entry = anchor(given);
        entry["append"] = json!([{ "source": "data:,b" }]);
        entry.as_object_mut().unwrap().remove("contents");
        entry.as_object_mut().unwrap().remove("overwrite");
    }),
    ("path", |given| anchor(given)["path"] = json!(format!("{ANCHOR}.pem"))),
    ("another anchor", |given| storage(given, "files").push(file(&format!("{ANCHOR}2"), "a"))),
    ("mode of a directory", |given| storage(given, "directories")[0]["mode"] = json!(0o750)),
    ("target of a link", |given| storage(given, "links")[0]["target"] = json!("other.crt")),
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn only_what_is_run_moves_the_tag(
        outside in proptest::sample::subsequence(OUTSIDE.to_vec(), 0..=OUTSIDE.len()).prop_shuffle(),
        inside in proptest::sample::select(INSIDE.to_vec()),
    ) {
        let mut changed = given();
        outside.iter().for_each(|(_, change)| change(&mut changed));
        let names: Vec<_> = outside.iter().map(|(name, _)| *name).collect();
        prop_assert_eq!(changed.tag(), given().tag(), "{:?}", names);
        inside.1(&mut changed);
        prop_assert_ne!(changed.tag(), given().tag(), "{:?} and {}", names, inside.0);
    }
}

/// A change of this text without another format makes images of one tag differ.
#[test]
fn inputs_are_canonical_json() {
    let (request, config) = (given().request(), given().spec["config"].clone());
    let files = trust_files(&mosb_ignition::parse(&config).unwrap().config).unwrap();
    let own = given().own;
    let inputs = PreparedInputs::canonical(&request, &files, own.as_ref(), BuilderNodes::Any);
    assert_eq!(Digest::of(&inputs).hex(), given().prepared().unwrap().inputs.hex());
    let value: Value = serde_json::from_slice(&inputs).unwrap();
    let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
    expect_file!["../../../../../../testdata/prepared/inputs.json"].assert_eq(&text);
    assert_eq!(given().tag(), format!("prepared-{}", &Digest::of(&inputs).hex()[..32]));
    assert_eq!(given().tag().parse::<PreparedTag>().unwrap().to_string(), given().tag());
    for bad in ["", "prepared-", "prepared-0123", "worker-0123456789abcdef0123456789abcdef"] {
        assert!(bad.parse::<PreparedTag>().is_err(), "{bad}");
    }
}
