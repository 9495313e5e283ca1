//! Which images are prepared bases, and plans on one.

use super::*;

/// An image with these labels, beside those of a prepared base, and one layer on the base's.
fn image(prepared: &Prepared, labels: &[(&str, &str)]) -> Base {
    let mut all = prepared.labels();
    for (key, value) in labels {
        all.insert((*key).to_owned(), (*value).to_owned());
        all.retain(|_, value| !value.is_empty());
    }
    let image = json!({ "os": "linux", "architecture": "amd64", "config": { "Labels": all },
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer"), Digest::of(b"run")] } });
    let manifest = json!({ "config": {}, "layers": [{}, {}] }).to_string();
    let name = BaseName::from_layout(Digest::of(manifest.as_bytes()));
    let image = image.to_string();
    Base::new(name, "x".to_owned(), None, manifest.as_bytes(), image.as_bytes()).unwrap()
}

#[test]
fn prepared_base_needs_same_inputs_and_base() {
    let prepared = given().prepared().unwrap();
    let other = Digest::of(b"other").to_string();
    for (what, labels, want) in [
        ("it", &[][..], None),
        ("no label", &[(labels::IMAGE_PREPARED_INPUTS, "")], Some("no-prepared-base")),
        ("other inputs", &[(labels::IMAGE_PREPARED_INPUTS, "0")], Some("other-prepared-inputs")),
        ("another base", &[(labels::OCI_BASE_DIGEST, &other)], Some("other-prepared-base")),
        ("no base", &[(labels::OCI_BASE_DIGEST, "")], Some("other-prepared-base")),
        (
            "a config on it",
            &[(labels::IMAGE_MACHINE_CONFIG, "rendered-x")],
            Some("no-prepared-base"),
        ),
    ] {
        let code = prepared.check(image(&prepared, labels)).err().map(|error| error.code());
        assert_eq!(code, want, "{what}");
    }
    let mut elsewhere = image(&prepared, &[]);
    elsewhere.config.diff_ids.remove(0);
    assert_eq!(prepared.check(elsewhere).unwrap_err().code(), "no-prepared-base");
}

/// The plan of a request on its prepared base, which has these files of packages.
fn on_prepared(given: &Given, files: &[(&str, &str)]) -> BuildPlan {
    let prepared = given.prepared().unwrap();
    let base = prepared.check(image(&prepared, &[])).unwrap();
    let files =
        files.iter().copied().chain([(&ANCHOR[1..], "a"), ("etc/passwd", "root:x:0:0::/:/")]);
    let tree =
        BaseTree::from_entries(files.map(|(path, content)| {
            (path.as_bytes().to_vec(), OwnedEntry::file(content.as_bytes()))
        }));
    Draft::new(given.request()).unwrap().finish_on(base, &tree).unwrap()
}

#[test]
fn layer_on_prepared_base_keeps_the_names() {
    let mut given = given();
    let unit = json!({ "name": "usbguard.service", "enabled": true });
    given.spec["config"]["systemd"] = json!({ "units": [unit] });
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=basic.target\n";
    let plan = on_prepared(
        &given,
        &[
            ("usr/bin/systemctl", ""),
            ("usr/lib/systemd/libsystemd-shared-257.so", ""),
            ("usr/lib/systemd/system/usbguard.service", text),
        ],
    );
    let at_once = Draft::new(given.request()).unwrap().finish(&BaseTree::default()).unwrap();
    assert!(
        matches!(&plan.method, Method::Prepared(reasons) if *reasons == at_once.method.reasons())
    );
    assert_eq!(plan.inputs, at_once.inputs);
    assert_eq!(plan.tags, at_once.tags);
    let mut labels = plan.labels.clone();
    let prepared = labels.remove(labels::IMAGE_PREPARED);
    assert_eq!(prepared, Some(plan.lower().manifest_digest.to_string()));
    assert_eq!((labels, &plan.annotations), (at_once.labels, &at_once.annotations));
    let puts: Vec<&str> = plan
        .layer
        .iter()
        .filter(|entry| matches!(entry, LayerEntry::Put(..)))
        .map(|entry| entry.path().relative())
        .collect();
    assert!(puts.contains(&"etc/x"), "{puts:?}");
    assert!(puts.contains(&"etc/systemd/system/basic.target.wants/usbguard.service"), "{puts:?}");
    assert!(!puts.iter().any(|path| path.contains("ca-trust")), "{puts:?}");
}

#[test]
fn last_part_runs_on_a_layer_on_it() {
    let mut given = given();
    let direct = on_prepared(&given, &[]);
    given.last = OwnLast::OnConfigs;
    let plan = on_prepared(&given, &[]);
    assert!(
        matches!(&plan.method, Method::LastPart(reasons) if *reasons == direct.method.reasons())
    );
    assert_eq!(plan.method.as_str(), "last-part");
    assert_eq!((&plan.layer, &plan.labels), (&direct.layer, &direct.labels));
    assert_eq!((plan.inputs, &plan.tags), (direct.inputs, &direct.tags));
}

#[test]
fn everything_runs_at_once_without_a_sufficient_layer() {
    let unit = json!({ "name": "odd.service", "enabled": true });
    let mut with_unit = given();
    with_unit.spec["config"]["systemd"] = json!({ "units": [unit] });
    let mut without_overwrite = given();
    entry(&mut without_overwrite, "/etc/x")["overwrite"] = json!(false);
    for (what, given, files, codes) in [
        (
            "systemctl must decide",
            with_unit,
            &[("usr/bin/systemctl", "of a version that can't be known")][..],
            &["custom-containerfile", "extensions", "kernel-type", "ca-trust", "ca-trust", "unit"]
                [..],
        ),
        (
            "a package has the file",
            without_overwrite,
            &[("etc/x", "of a package")],
            &["custom-containerfile", "extensions", "kernel-type", "ca-trust", "ca-trust"],
        ),
    ] {
        let plan = on_prepared(&given, files);
        let Method::Containerfile(reasons) = &plan.method else {
            panic!("{what}: {:?}", plan.method);
        };
        assert_eq!(reasons.iter().map(Reason::code).collect::<Vec<_>>(), codes, "{what}");
        assert!(plan.layer.is_empty() && plan.prepared.is_none(), "{what}");
        assert!(!plan.labels.contains_key(labels::IMAGE_PREPARED), "{what}");
        assert!(plan.warnings.iter().any(|one| one.code == "prepared-not-used"), "{what}");
    }
}
