//! What moves the tag of a prepared base, and what has none.

use expect_test::expect_file;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::trust_files::trust_files;
use super::*;
use crate::api::{BuildOn, RenderedConfig};
use crate::plan::{Base, BaseName, BuildPlan, Draft, Method, MethodChoice};
use mosb_image::overlay::LayerEntry;
use mosb_image::tree::{BaseTree, OwnedEntry};
use mosb_image::{Digest, RepoRef};
use mosb_types::Diagnostic as _;

/// All that a request is made of.
#[derive(Debug, Clone)]
struct Given {
    name: String,
    base: &'static str,
    base_name: &'static str,
    platform: &'static str,
    extensions_image: &'static str,
    bundle: Option<&'static str>,
    spec: Value,
    build_on: BuildOn,
    push: Option<&'static str>,
    own: Option<OwnInstructions>,
    last: OwnLast,
    nodes: BuilderNodes,
}

const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/acme.crt";

fn file(path: &str, content: &str) -> Value {
    json!({ "path": path, "mode": 0o644, "overwrite": true, "contents": { "source": format!("data:,{content}") } })
}

fn given() -> Given {
    Given {
        name: "rendered-worker-0123456789abcdef0123456789abcdef".to_owned(),
        base: "a",
        base_name: "quay.io/acme/os:v1",
        platform: "amd64",
        extensions_image: "e",
        bundle: Some("bundle"),
        spec: json!({
            "extensions": ["usbguard", "ipsec"], "kernelType": "realtime",
            "config": { "ignition": { "version": "3.5.0" }, "storage": {
                "files": [file(ANCHOR, "a"), file("/etc/x", "x")],
                "directories": [{ "path": "/etc/pki/ca-trust/source/anchors/more", "mode": 0o700 }],
                "links": [{ "path": "/etc/pki/ca-trust/source/anchors/link", "target": "acme.crt" }],
            } },
        }),
        build_on: BuildOn::OsChange,
        push: Some("quay.io/acme/worker"),
        own: Some(OwnInstructions {
            text: "# Why.\nFROM base AS own\nRUN a\n".to_owned(),
            canonical: "FROM base AS own\nRUN a\n".to_owned(),
            name: "own".to_owned(),
            build_args: [("A".to_owned(), "b".to_owned())].into(),
        }),
        last: OwnLast::Nothing,
        nodes: BuilderNodes::Any,
    }
}

impl Given {
    fn request(&self) -> BuildRequest {
        let image = json!({ "os": "linux", "architecture": self.platform, "config": {},
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
        let manifest = json!({ "config": {}, "layers": [{}], "other": self.base }).to_string();
        let name = BaseName::from_os_image_url(self.base_name).unwrap();
        let image = image.to_string();
        let base = Base::new(name, "x".to_owned(), None, manifest.as_bytes(), image.as_bytes());
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": self.name }, "spec": self.spec,
        });
        let repo: RepoRef = "quay.io/acme/extensions".parse().unwrap();
        BuildRequest {
            extensions_image: Some(repo.pinned(Digest::of(self.extensions_image.as_bytes()))),
            trust_bundle: self.bundle.map(Into::into),
            containerfile: match (&self.own, self.last) {
                (None, OwnLast::Nothing) => None,
                (None, _) => Some("RUN last".to_owned()),
                (Some(own), _) => Some(own.text.clone()),
            },
            build_on: self.build_on,
            push: self.push.map(|push| push.parse().unwrap()),
            ..BuildRequest::new(RenderedConfig::from_value(config).unwrap(), base.unwrap())
        }
    }

    fn prepared(&self) -> Result<Prepared, Obstacle> {
        Draft::new(self.request()).unwrap().prepared(self.parts(), self.nodes)
    }

    fn parts(&self) -> OwnParts {
        OwnParts { prepared: self.own.clone(), last: self.last }
    }

    fn tag(&self) -> String {
        self.prepared().unwrap().tag().to_string()
    }
}

type Change = fn(&mut Given);

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

fn storage<'a>(given: &'a mut Given, kind: &str) -> &'a mut Vec<Value> {
    given.spec["config"]["storage"][kind].as_array_mut().unwrap()
}

/// The file at a path, wherever it is in the list.
fn entry<'a>(given: &'a mut Given, path: &str) -> &'a mut Value {
    storage(given, "files").iter_mut().find(|file| file["path"] == path).unwrap()
}

fn anchor(given: &mut Given) -> &mut Value {
    entry(given, ANCHOR)
}

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
    expect_file!["../../../../../testdata/prepared/inputs.json"].assert_eq(&text);
    assert_eq!(given().tag(), format!("prepared-{}", &Digest::of(&inputs).hex()[..32]));
    assert_eq!(given().tag().parse::<PreparedTag>().unwrap().to_string(), given().tag());
    for bad in ["", "prepared-", "prepared-0123", "worker-0123456789abcdef0123456789abcdef"] {
        assert!(bad.parse::<PreparedTag>().is_err(), "{bad}");
    }
}

#[test]
fn what_needs_the_rest_of_the_config_is_no_prepared_base() {
    let none: Change = |given| {
        given.spec = json!({ "config": given.spec["config"] });
        storage(given, "files").remove(0);
        storage(given, "links").clear();
        given.bundle = None;
        given.own = None;
    };
    let only_last = |given: &mut Given| {
        none(given);
        given.last = OwnLast::OnConfigs;
    };
    let no_packages: Change = |given| given.spec = json!({ "config": given.spec["config"] });
    let file_at = |path: &str| {
        let mut given = given();
        storage(&mut given, "files").push(file(path, "x"));
        given
    };
    let changed = |change: &dyn Fn(&mut Given)| {
        let mut given = given();
        change(&mut given);
        given
    };
    for (what, given, want) in [
        ("as it is", given(), None),
        ("nothing to run", changed(&none), Some("prepared-nothing-runs")),
        ("nothing to run before the config", changed(&only_last), Some("prepared-nothing-runs")),
        (
            "instructions before and after the config",
            changed(&|given: &mut Given| given.last = OwnLast::OnConfigs),
            None,
        ),
        (
            "packages, and instructions after the config",
            changed(&|given: &mut Given| {
                given.own = None;
                given.last = OwnLast::OnConfigs;
            }),
            None,
        ),
        (
            "they need the base with its packages",
            changed(&|given: &mut Given| given.last = OwnLast::NeedsBase { line: 3 }),
            Some("prepared-last-needs-base"),
        ),
        (
            "they need the base, and nothing is installed",
            changed(&|given: &mut Given| {
                no_packages(given);
                given.last = OwnLast::NeedsBase { line: 3 };
            }),
            None,
        ),
        (
            "they need what runs before the config",
            changed(&|given: &mut Given| {
                no_packages(given);
                given.last = OwnLast::NeedsPrepared { line: 3 };
            }),
            Some("prepared-last-needs-base"),
        ),
        ("a repository", file_at("/etc/yum.repos.d/acme.repo"), Some("prepared-reads-config")),
        ("dracut", file_at("/etc/dracut.conf"), Some("prepared-reads-config")),
        ("of another name", file_at("/etc/dracut.confx"), None),
        ("the compiled store", file_at("/etc/pki/ca-trust/x"), Some("prepared-reads-config")),
        ("a file above", file_at("/etc/pki/ca-trust/source"), Some("prepared-trust-file")),
        (
            "a directory above that is made anew",
            changed(&|given: &mut Given| {
                storage(given, "directories")
                    .push(json!({ "path": "/etc/pki", "overwrite": true }));
            }),
            Some("prepared-trust-file"),
        ),
        (
            "a link out of it",
            changed(&|given: &mut Given| storage(given, "links")[0]["target"] = json!("/etc/x")),
            Some("prepared-trust-file"),
        ),
        (
            "a link upwards",
            changed(&|given: &mut Given| {
                storage(given, "links")[0]["target"] = json!("../../../../x")
            }),
            Some("prepared-trust-file"),
        ),
        (
            "an owner by name",
            changed(&|given: &mut Given| anchor(given)["user"] = json!({ "name": "acme" })),
            Some("prepared-trust-file"),
        ),
        (
            "root by name",
            changed(&|given: &mut Given| anchor(given)["user"] = json!({ "name": "root" })),
            None,
        ),
        (
            "another hash",
            changed(&|given: &mut Given| {
                let hash = format!("sha256-{}", "0".repeat(64));
                anchor(given)["contents"]["verification"] = json!({ "hash": hash });
            }),
            Some("prepared-trust-file"),
        ),
    ] {
        let code = given.prepared().err().map(|obstacle| obstacle.code());
        assert_eq!(code, want, "{what}");
    }
    let mut given = changed(&no_packages);
    storage(&mut given, "files").push(file("/etc/yum.repos.d/acme.repo", "x"));
    assert!(given.prepared().is_ok(), "nothing is installed");
    // Its instructions need the config.
    let obstacle =
        Draft::new(given.request()).unwrap().prepared(OwnParts::default(), BuilderNodes::Any);
    assert_eq!(obstacle.unwrap_err(), Obstacle::Reason(Reason::CustomContainerfile));
    let request = BuildRequest { method: MethodChoice::Containerfile, ..given.request() };
    let draft = Draft::new(request).unwrap();
    let obstacle = draft.prepared(given.parts(), BuilderNodes::Any).unwrap_err();
    assert_eq!(obstacle.code(), "prepared-other-reason");
}

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
fn only_an_image_of_the_same_inputs_and_base_is_one() {
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
fn a_layer_on_it_has_what_is_not_run_and_the_names_stay() {
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
fn the_last_part_runs_on_a_layer_on_it() {
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
fn everything_runs_at_once_where_a_layer_is_not_enough() {
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
