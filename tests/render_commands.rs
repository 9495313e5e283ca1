//! `mosb render` as a person or a script uses it: results, exit codes, errors, pipes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Compression, Finished, Image, Layout, Mosb, Registry, Tree};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const API: &str = "machineconfiguration.openshift.io/v1";
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// The program and a folder of manifests, where it runs.
struct Desk(Mosb);

impl Desk {
    fn new() -> Self {
        Self(Mosb::new())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.home().join("work").join(name)
    }

    fn write(&self, name: &str, text: impl ToString) {
        let file = self.at(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text.to_string()).unwrap();
    }

    #[track_caller]
    fn run(&self, line: &str) -> Finished {
        self.0.run(line.split_whitespace())
    }

    #[track_caller]
    fn name(&self, line: &str) -> String {
        let text = self.run(&format!("render {line} -o name")).ok().text();
        text.trim_end().to_owned()
    }
}

fn machine_config(name: &str, role: &str, spec: Value) -> Value {
    json!({ "apiVersion": API, "kind": "MachineConfig", "metadata": { "name": name, "labels": { ROLE: role } }, "spec": spec })
}

fn file(path: &str, content: &str) -> Value {
    let file =
        json!({ "path": path, "mode": 420, "contents": { "source": format!("data:,{content}") } });
    json!({ "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } } })
}

fn pool(name: &str) -> Value {
    let selector = json!({ "matchExpressions": [{ "key": ROLE, "operator": "In", "values": ["worker", name] }] });
    json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": name, "uid": "u-1", "labels": { "pool": name } },
            "spec": { "machineConfigSelector": selector } })
}

#[test]
fn what_is_rendered_can_be_built_through_a_pipe() {
    let desk = Desk::new();
    desk.write(
        "mcs/a.yaml",
        machine_config("a", "worker", file("/etc/a", "a")),
    );
    desk.write(
        "mcs/b.json",
        machine_config("b", "worker", file("/etc/a", "b")),
    );
    desk.write("mcs/README.md", "no manifest");
    let tree = Tree::new().directory("etc", 0o755);
    Layout::create(&desk.at("base")).put("os", &Image::new().layer(Compression::Gzip, tree.tar()));
    let rendered = desk.run("render --pool worker mcs").ok();
    let name = desk.name("--pool worker mcs");
    assert!(
        rendered
            .text()
            .starts_with("apiVersion: machineconfiguration.openshift.io/v1\n")
    );
    let json = desk.run("render --pool worker mcs -o json").ok().json();
    assert_eq!(json["metadata"]["name"], name.as_str());
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(mosb::canonical::canonical(&json["spec"]));
    let hex: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(name, format!("rendered-worker-{hex}"));
    let line = "build - --base oci:base:os --output oci:out -o json";
    for text in [rendered.text(), json.to_string()] {
        let built = desk
            .0
            .run_with(line.split_whitespace(), text.as_bytes())
            .ok()
            .json();
        assert_eq!(
            (&built["renderedConfig"], &built["pool"]),
            (&json!(name), &json!("worker"))
        );
    }
    let files = desk
        .run(&format!("files oci:out:{name} -o json"))
        .ok()
        .json();
    assert!(files.to_string().contains("\"/etc/a\""), "{files:#}");
}

#[test]
fn neither_order_nor_files_nor_formats_matter() {
    let desk = Desk::new();
    let (a, b) = (
        machine_config("a", "worker", file("/etc/a", "a")),
        machine_config("b", "infra", file("/etc/a", "b")),
    );
    let other = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "hunter2" } });
    desk.write("one/1.yaml", &b);
    desk.write("one/2.yml", &a);
    desk.write("two.yaml", format!("---\n{a}\n---\n{other}\n---\n{b}\n"));
    desk.write("b.json", &b);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [b, a, other] });
    let want = desk.name("--pool infra one");
    for line in ["--pool infra two.yaml", "--pool infra b.json one/2.yml"] {
        assert_eq!(desk.name(line), want, "{line}");
    }
    let stdin = desk.0.run_with(
        "render --pool infra - -o name".split(' '),
        list.to_string().as_bytes(),
    );
    assert_eq!(stdin.text().trim_end(), want);
    assert!(
        stdin.stderr.contains("it is a Secret, and skipped"),
        "{}",
        stdin.stderr
    );
    assert!(!stdin.stderr.contains("hunter2"), "{}", stdin.stderr);
    let misspelt = desk.run("render --pool inrfa one -o name").ok();
    assert!(
        misspelt.stderr.contains("[none-of-its-own]") && !stdin.stderr.contains("none-of-its-own"),
        "{}",
        misspelt.stderr
    );
    let worker = desk.name("--pool worker one");
    assert!(
        worker.starts_with("rendered-worker-") && worker[16..] != want[15..],
        "{worker}"
    );
}

#[test]
fn the_pool_and_the_controller_config_are_used() {
    let desk = Desk::new();
    let release = format!("quay.io/release@{DIGEST}");
    let controller = json!({
        "apiVersion": API, "kind": "ControllerConfig", "metadata": { "name": "machine-config-controller",
            "annotations": { "machineconfiguration.openshift.io/release-image-version": "4.20.0" } },
        "spec": { "baseOSContainerImage": release },
    });
    desk.write(
        "mcs/a.yaml",
        machine_config("a", "gpu", file("/etc/a", "a")),
    );
    desk.write("pool.yaml", pool("gpu"));
    desk.write("cc.yaml", &controller);
    let line = "render --pool gpu --pool-file pool.yaml --controller-config cc.yaml mcs -o json";
    let given = desk.run(line).ok().json();
    assert_eq!(given["spec"]["osImageURL"], release.as_str());
    assert_eq!(given["metadata"]["ownerReferences"][0]["uid"], "u-1");
    let annotations = &given["metadata"]["annotations"];
    assert_eq!(
        annotations["machineconfiguration.openshift.io/release-image-version"],
        "4.20.0"
    );
    desk.write("mcs/pool.yaml", pool("gpu"));
    desk.write("mcs/others.yaml", pool("other"));
    desk.write("mcs/cc.yaml", &controller);
    let found = desk.run("render --pool gpu mcs -o json").ok();
    assert_eq!(found.json(), given);
    assert!(
        found
            .stderr
            .contains("it is a MachineConfigPool, and skipped"),
        "{}",
        found.stderr
    );
    let settings = json!({ "apiVersion": API, "kind": "KubeletConfig", "metadata": { "name": "k" },
                           "spec": { "machineConfigPoolSelector": { "matchLabels": { "pool": "gpu" } } } });
    desk.write("mcs/kubelet.yaml", settings);
    let refused = desk.run("render --pool gpu mcs -o json");
    assert_eq!(
        (refused.code(), &refused.json()["findings"][0]["code"]),
        (Some(2), &json!("not-completed"))
    );
}

#[test]
fn an_explanation_is_what_its_schema_says() {
    let desk = Desk::new();
    desk.write(
        "mcs/a.yaml",
        machine_config("a", "worker", file("/etc/a", "hunter2")),
    );
    desk.write(
        "mcs/b.yaml",
        machine_config("b", "worker", file("/etc/a", "hunter3")),
    );
    let explained = desk
        .run("render --pool worker --explain mcs -o json")
        .ok()
        .json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/RenderExplanation.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &explained), "{explained:#}");
    let fields = explained["fields"].as_array().unwrap();
    let contents = fields
        .iter()
        .find(|it| it["field"] == "spec.config.storage.files[/etc/a].contents");
    assert_eq!(
        contents.unwrap(),
        &json!({ "field": "spec.config.storage.files[/etc/a].contents", "from": "b", "overrides": ["a"] })
    );
    assert!(!explained.to_string().contains("hunter"));
    let text = desk.run("render --pool worker --explain mcs").ok().text();
    assert!(
        text.contains("config.storage.files[/etc/a]  b  overrides a"),
        "{text}"
    );
}

#[test]
fn what_nodes_cannot_take_is_listed_and_told_by_the_exit_code() {
    let desk = Desk::new();
    desk.write("a.yaml", machine_config("a", "worker", file("/etc/a", "a")));
    let before = desk.run("render --pool worker a.yaml").ok().text();
    desk.write("before.yaml", before);
    desk.write("b.yaml", machine_config("b", "worker", file("/etc/b", "b")));
    let same = desk.run("render --pool worker a.yaml b.yaml --previous before.yaml");
    assert_eq!(same.code(), Some(0), "{}", same.stderr);
    let user = json!({ "config": { "ignition": { "version": "3.2.0" }, "passwd": { "users": [{ "name": "eve" }] } }, "fips": true });
    desk.write("c.yaml", machine_config("c", "worker", user));
    let other = desk.run("render --pool worker a.yaml c.yaml --previous before.yaml");
    assert_eq!(other.code(), Some(1));
    assert!(
        other.text().contains("name: eve"),
        "it is printed all the same"
    );
    for field in ["spec.config.passwd.users[eve]: ", "spec.fips: "] {
        assert!(
            other.stderr.contains(&format!("warning: {field}")),
            "{}",
            other.stderr
        );
    }
    let explained =
        desk.run("render --pool worker a.yaml c.yaml --previous before.yaml --explain -o json");
    assert_eq!(
        explained.json()["unreconcilable"].as_array().unwrap().len(),
        2
    );
    let broken = desk.run("render --pool worker a.yaml --previous a.yaml -o json");
    assert_eq!(
        (broken.code(), &broken.json()["code"]),
        (Some(2), &json!("bad-config"))
    );
}

/// A line, its exit code, its code, and of each finding the code and what its object or message holds.
#[test]
fn every_bad_input_is_refused_with_all_that_is_wrong() {
    let desk = Desk::new();
    let good = machine_config("good", "worker", file("/etc/a", "a"));
    let spec = |spec: Value| machine_config("bad", "worker", spec);
    let config = |config: Value| spec(json!({ "config": config }));
    let remote = |url: &str| {
        config(
            json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/r", "contents": { "source": url } }] } }),
        )
    };
    let mut unlabelled = good.clone();
    unlabelled["metadata"]["labels"] = Value::Null;
    let mut empty_selector = pool("worker");
    empty_selector["spec"]["machineConfigSelector"] = json!({});
    let bomb = (1..40).fold("a0: &a0 [x,x]\n".to_owned(), |text, n| {
        text + &format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0},*a{0}]\n", n - 1)
    });
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    for (name, text) in [
        ("good.yaml", good.to_string()),
        ("copy.yaml", good.to_string()),
        ("unlabelled.yaml", unlabelled.to_string()),
        ("pool.yaml", empty_selector.to_string()),
        ("bomb.yaml", bomb),
        ("deep.json", deep),
        ("broken.yaml", "a: [hunter2".to_owned()),
        ("version.yaml", config(json!({ "ignition": { "version": "4.0.0" } })).to_string()),
        ("two.yaml", format!("---\n{good}\n---\n{}", config(json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "a" }, { "path": "b" }] } })))),
        ("translate.yaml", config(json!({ "ignition": { "version": "2.2.0" }, "storage": { "files": [{ "filesystem": "data", "path": "/a" }] } })).to_string()),
        ("link.yaml", config(json!({ "ignition": { "version": "3.2.0" }, "storage": { "links": [{ "path": "/etc", "target": "/x" }] } })).to_string()),
        ("settings.yaml", spec(json!({ "kernelType": "rt", "extensions": "x", "osImageURL": 1 })).to_string()),
        ("tag.yaml", spec(json!({ "osImageURL": "quay.io/a:b" })).to_string()),
        ("remote.yaml", remote("http://user:hunter2@127.0.0.1:9/x?token=hunter2").to_string()),
        ("s3.yaml", remote("s3://bucket/x").to_string()),
        ("large.yaml", spec(json!({ "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/l", "contents": { "source": format!("data:,{}", "x".repeat(2_000_000)) } }] } } })).to_string()),
        ("kind.yaml", "a: hunter2".to_owned()),
    ] {
        desk.write(name, text);
    }
    fs::create_dir(desk.at("empty")).unwrap();
    for (line, exit, code, findings) in [
        (
            "good.yaml copy.yaml",
            2,
            "invalid-machine-configs",
            &["duplicate-name copy.yaml: good"][..],
        ),
        (
            "good.yaml good.yaml",
            2,
            "invalid-machine-configs",
            &["duplicate-name good.yaml: good"],
        ),
        (
            "unlabelled.yaml",
            2,
            "invalid-machine-configs",
            &["no-role unlabelled.yaml: good: metadata.labels"],
        ),
        (
            "good.yaml --pool-file pool.yaml",
            2,
            "invalid-machine-configs",
            &["bad-selector MachineConfigPool worker"],
        ),
        (
            "good.yaml --pool-file copy.yaml",
            2,
            "invalid-machine-configs",
            &["bad-file copy.yaml"],
        ),
        (
            "bomb.yaml",
            2,
            "invalid-machine-configs",
            &["bad-file bomb.yaml"],
        ),
        (
            "deep.json",
            2,
            "invalid-machine-configs",
            &["bad-file deep.json"],
        ),
        (
            "broken.yaml none.yaml empty kind.yaml two.yaml",
            2,
            "invalid-machine-configs",
            &[
                "bad-file broken.yaml",
                "unreadable-file none.yaml",
                "bad-file empty",
                "bad-object kind.yaml",
                "bad-path two.yaml (document 2): bad: spec.config.storage.files[0].path",
                "bad-path two.yaml (document 2): bad: spec.config.storage.files[1].path",
            ],
        ),
        (
            "version.yaml",
            2,
            "invalid-machine-configs",
            &["unknown-ignition-spec version.yaml: bad: spec.config"],
        ),
        (
            "translate.yaml",
            2,
            "invalid-machine-configs",
            &[" translate.yaml: bad: spec.config.storage.files[0]"],
        ),
        (
            "good.yaml link.yaml",
            2,
            "invalid-when-merged",
            &["link-in-the-way link.yaml: bad, good.yaml: good: spec.config.storage.files[0].path"],
        ),
        (
            "settings.yaml",
            2,
            "invalid-machine-configs",
            &[
                "bad-setting settings.yaml: bad: spec.osImageURL",
                "bad-setting settings.yaml: bad: spec.extensions",
                "bad-setting settings.yaml: bad: spec.kernelType",
            ],
        ),
        (
            "tag.yaml",
            2,
            "invalid-machine-configs",
            &["image-not-pinned tag.yaml: bad: spec.osImageURL"],
        ),
        ("large.yaml", 2, "rendered-too-large", &[]),
        ("remote.yaml --offline", 2, "offline", &[]),
        ("remote.yaml --timeout 2s", 3, "", &[]),
        ("s3.yaml", 2, "", &[" s3.yaml: bad"]),
    ] {
        let finished = desk.run(&format!("render --pool worker {line} -o json"));
        let error = finished.json();
        assert_eq!(finished.code(), Some(exit), "{line}: {error:#}");
        assert_eq!(error["kind"], "Error", "{line}");
        assert!(
            code.is_empty() || error["code"] == code,
            "{line}: {error:#}"
        );
        let told: Vec<String> = error["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                format!(
                    "{} {}",
                    it["code"].as_str().unwrap(),
                    it["object"].as_str().unwrap_or_default()
                )
            })
            .collect();
        assert!(
            findings.is_empty() || told.len() == findings.len(),
            "{line}: {told:#?}"
        );
        for want in findings {
            assert!(
                told.iter().any(|it| it.contains(want)),
                "{line}: {want} in {told:#?}"
            );
        }
        let all = format!("{}{error}", finished.stderr);
        assert!(!all.contains("hunter2"), "{line}: {all}");
        let place = error["message"].as_str().unwrap();
        if line.starts_with("remote") {
            assert!(
                place.contains(
                    "remote.yaml: bad: spec.config.storage.files[/r].contents: http://127.0.0.1:9/x"
                ),
                "{place}"
            );
        }
        let text = desk.run(&format!("render --pool worker {line}"));
        assert_eq!(
            text.text(),
            "",
            "{line}: nothing half-done goes through a pipe"
        );
    }
}

/// A tag becomes the digest that the registry has for it; what is overridden is not asked for.
#[test]
fn tags_are_pinned_by_a_real_registry() {
    let (desk, registry) = (Desk::new(), Registry::plain());
    let layout = Layout::create(&desk.at("base"));
    let one = |name: &str| Image::new().label("name", name);
    let indexed = layout.put_index("os", &[one("os"), one("os").architecture("arm64")]);
    let extensions = layout.put("extensions", &one("extensions"));
    registry.push(&layout, "os", "acme/os:v1");
    registry.push(&layout, "extensions", "acme/extensions:v1");
    let image = |name: &str, end: &str| registry.repository(&format!("acme/{name}{end}"));
    let names = |image: String| machine_config("a", "worker", json!({ "osImageURL": image }));
    desk.write("a.yaml", names(image("os", ":v1")));
    desk.write("gone.yaml", names(image("os", ":gone")));
    let base = image("extensions", ":v1");
    let line = |file: &str, more: &str| {
        let overridden = image("nowhere", ":v1");
        desk.run(&format!("render --pool worker {file} --os-image {overridden} --extensions-image {base} -o json {more}"))
    };
    let code = |finished: &Finished| (finished.code(), finished.json()["code"].clone());
    let refused = line("a.yaml", "");
    assert_eq!(code(&refused), (Some(2), json!("invalid-machine-configs")));
    let found = refused.json()["findings"].clone();
    let codes: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["code"])
        .collect();
    assert_eq!(codes, ["image-not-pinned", "image-not-pinned"], "{found:#}");
    let resolve = "--resolve-tags --tls-verify=false";
    let pinned = line("a.yaml", resolve).ok().json();
    let spec = &pinned["spec"];
    // The index, so that the config is one for all platforms.
    assert_eq!(spec["osImageURL"], image("os", &format!("@{indexed}")));
    assert_eq!(
        spec["baseOSExtensionsContainerImage"],
        image("extensions", &format!("@{extensions}"))
    );
    // The same name as if the digest had been written.
    desk.write("a.yaml", names(image("os", &format!("@{indexed}"))));
    let written = line("a.yaml", resolve).ok().json();
    assert_eq!(written["metadata"]["name"], pinned["metadata"]["name"]);
    assert_eq!(
        code(&line("gone.yaml", resolve)),
        (Some(2), json!("not-found"))
    );
}

#[test]
fn ten_thousand_machine_configs_are_rendered() {
    let desk = Desk::new();
    let one = |n: usize| {
        machine_config(
            &format!("mc-{n}"),
            "worker",
            file(&format!("/etc/{}", n % 100), &n.to_string()),
        )
    };
    let items: Vec<Value> = (0..10_000).map(one).collect();
    desk.write(
        "all.json",
        json!({ "kind": "List", "apiVersion": "v1", "items": items }),
    );
    assert!(
        desk.name("--pool worker all.json")
            .starts_with("rendered-worker-")
    );
}
