//! `mosb render` in the use of a person or a script: results, exit codes, errors, pipes.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use mosb_tests::{
    Access, Compression, Finished, Image, Layout, Mosb, Registry, Server, Transport, Tree,
};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const API: &str = "machineconfiguration.openshift.io/v1";
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// The program, in a folder of manifests.
pub struct Desk(pub Mosb);

impl Desk {
    pub fn new() -> Self {
        Self(Mosb::new())
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.home().join("work").join(name)
    }

    pub fn write(&self, name: &str, text: impl ToString) {
        let file = self.at(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text.to_string()).unwrap();
    }

    #[track_caller]
    pub fn run(&self, line: &str) -> Finished {
        self.0.run(line.split_whitespace())
    }

    #[track_caller]
    pub fn name(&self, line: &str) -> String {
        let text = self.run(&format!("render {line} -o name")).ok().text();
        text.trim_end().to_owned()
    }
}

pub fn machine_config(name: &str, role: &str, spec: Value) -> Value {
    json!({ "apiVersion": API, "kind": "MachineConfig", "metadata": { "name": name, "labels": { ROLE: role } }, "spec": spec })
}

pub fn file(path: &str, content: &str) -> Value {
    let file =
        json!({ "path": path, "mode": 420, "contents": { "source": format!("data:,{content}") } });
    json!({ "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } } })
}

pub fn pool(name: &str) -> Value {
    let selector = json!({ "matchExpressions": [{ "key": ROLE, "operator": "In", "values": ["worker", name] }] });
    json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": name, "uid": "u-1", "labels": { "pool": name } },
            "spec": { "machineConfigSelector": selector } })
}

#[test]
fn a_rendered_config_is_built_through_a_pipe() {
    let desk = Desk::new();
    desk.write("mcs/a.yaml", machine_config("a", "worker", file("/etc/a", "a")));
    desk.write("mcs/b.json", machine_config("b", "worker", file("/etc/a", "b")));
    desk.write("mcs/README.md", "no manifest");
    let tree = Tree::new().directory("etc", 0o755);
    Layout::create(&desk.at("base")).put("os", &Image::new().layer(Compression::Gzip, tree.tar()));
    let rendered = desk.run("render --pool worker mcs").ok();
    let name = desk.name("--pool worker mcs");
    assert!(rendered.text().starts_with("apiVersion: machineconfiguration.openshift.io/v1\n"));
    let json = desk.run("render --pool worker mcs -o json").ok().json();
    assert_eq!(json["metadata"]["name"], name.as_str());
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(mosb_types::canonical_json(&json["spec"]));
    let hex: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(name, format!("rendered-worker-{hex}"));
    let line = "build - --base oci:base:os --output oci:out -o json";
    for text in [rendered.text(), json.to_string()] {
        let built = desk.0.run_with(line.split_whitespace(), text.as_bytes()).ok().json();
        assert_eq!((&built["renderedConfig"], &built["pool"]), (&json!(name), &json!("worker")));
    }
    let files = desk.run(&format!("files oci:out:{name} -o json")).ok().json();
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
    let stdin =
        desk.0.run_with("render --pool infra - -o name".split(' '), list.to_string().as_bytes());
    assert_eq!(stdin.text().trim_end(), want);
    assert!(stdin.stderr.contains("it is a Secret, and skipped"), "{}", stdin.stderr);
    assert!(!stdin.stderr.contains("hunter2"), "{}", stdin.stderr);
    let misspelt = desk.run("render --pool inrfa one -o name").ok();
    assert!(
        misspelt.stderr.contains("[none-of-its-own]") && !stdin.stderr.contains("none-of-its-own"),
        "{}",
        misspelt.stderr
    );
    let worker = desk.name("--pool worker one");
    assert!(worker.starts_with("rendered-worker-") && worker[16..] != want[15..], "{worker}");
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
    desk.write("mcs/a.yaml", machine_config("a", "gpu", file("/etc/a", "a")));
    desk.write("pool.yaml", pool("gpu"));
    desk.write("cc.yaml", &controller);
    let line = "render --pool gpu --pool-file pool.yaml --controller-config cc.yaml mcs -o json";
    let given = desk.run(line).ok().json();
    assert_eq!(given["spec"]["osImageURL"], release.as_str());
    assert_eq!(given["metadata"]["ownerReferences"][0]["uid"], "u-1");
    let annotations = &given["metadata"]["annotations"];
    assert_eq!(annotations["machineconfiguration.openshift.io/release-image-version"], "4.20.0");
    desk.write("mcs/pool.yaml", pool("gpu"));
    desk.write("mcs/others.yaml", pool("other"));
    desk.write("mcs/cc.yaml", &controller);
    let found = desk.run("render --pool gpu mcs -o json").ok();
    assert_eq!(found.json(), given);
    assert!(found.stderr.contains("it is a MachineConfigPool, and skipped"), "{}", found.stderr);
    let settings = json!({ "apiVersion": API, "kind": "KubeletConfig", "metadata": { "name": "k" },
                           "spec": { "machineConfigPoolSelector": { "matchLabels": { "pool": "gpu" } } } });
    desk.write("mcs/kubelet.yaml", settings);
    let refused = desk.run("render --pool gpu mcs -o json");
    assert_eq!(
        (refused.code(), &refused.json()["findings"][0]["code"]),
        (Some(2), &json!("not-completed"))
    );
}

/// The README's line for an Ignition config makes an object that both commands take.
#[test]
fn what_build_sends_to_render_is_rendered() {
    let desk = Desk::new();
    Layout::create(&desk.at("base")).put("base", &Image::new());
    let name = format!("rendered-worker-{}", "1".repeat(32));
    let labels = json!({ ROLE: "worker" });
    let spec_2 = json!({ "ignition": { "version": "2.2.0" }, "storage": { "files": [
        { "filesystem": "root", "path": "/etc/example.conf", "mode": 420, "contents": { "source": "data:,x" } },
    ] } });
    let wrapped = |metadata: Value| json!({ "apiVersion": API, "kind": "MachineConfig", "metadata": metadata, "spec": { "config": spec_2 } });
    desk.write("worker.json", wrapped(json!({ "name": name, "labels": labels })));
    desk.write("bare.json", wrapped(json!({ "name": name })));
    let build = "--base oci:base:base --platform linux/amd64 --output oci:out";
    let refused = desk.run(&format!("build worker.json {build}"));
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("render the config first"), "{}", refused.stderr);
    let rendered = desk.run("render --pool worker worker.json").ok();
    desk.write("rendered.yaml", rendered.text());
    desk.run("plan rendered.yaml --base oci:base:base --platform linux/amd64").ok();
    let bare = desk.run("render --pool worker bare.json");
    assert_eq!(bare.code(), Some(2), "{bare:?}");
    for said in
        ["[rendered-skipped]", "add the label machineconfiguration.openshift.io/role: worker"]
    {
        assert!(bare.stderr.contains(said), "{}", bare.stderr);
    }
}

#[test]
fn an_explanation_matches_its_schema() {
    let desk = Desk::new();
    desk.write("mcs/a.yaml", machine_config("a", "worker", file("/etc/a", "hunter2")));
    desk.write("mcs/b.yaml", machine_config("b", "worker", file("/etc/a", "hunter3")));
    let explained = desk.run("render --pool worker --explain mcs -o json").ok().json();
    let schema = mosb_tests::repository().join("docs/schemas/RenderExplanation.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &explained), "{explained:#}");
    let fields = explained["fields"].as_array().unwrap();
    let contents =
        fields.iter().find(|it| it["field"] == "spec.config.storage.files[/etc/a].contents");
    assert_eq!(
        contents.unwrap(),
        &json!({ "field": "spec.config.storage.files[/etc/a].contents", "from": "b", "overrides": ["a"] })
    );
    assert!(!explained.to_string().contains("hunter"));
    let text = desk.run("render --pool worker --explain mcs").ok().text();
    assert!(text.contains("config.storage.files[/etc/a]  b  overrides a"), "{text}");
}

/// A tag is replaced by the registry's digest. An overridden image is not looked up.
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
    let codes: Vec<_> = found.as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert_eq!(codes, ["image-not-pinned", "image-not-pinned"], "{found:#}");
    let resolve = "--resolve-tags --tls-verify=false";
    let pinned = line("a.yaml", resolve).ok().json();
    let spec = &pinned["spec"];
    // The digest of the index, so that one config serves all platforms.
    assert_eq!(spec["osImageURL"], image("os", &format!("@{indexed}")));
    assert_eq!(
        spec["baseOSExtensionsContainerImage"],
        image("extensions", &format!("@{extensions}"))
    );
    // The name is the same as for a config with that digest.
    desk.write("a.yaml", names(image("os", &format!("@{indexed}"))));
    let written = line("a.yaml", resolve).ok().json();
    assert_eq!(written["metadata"]["name"], pinned["metadata"]["name"]);
    assert_eq!(code(&line("gone.yaml", resolve)), (Some(2), json!("not-found")));
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
    desk.write("all.json", json!({ "kind": "List", "apiVersion": "v1", "items": items }));
    assert!(desk.name("--pool worker all.json").starts_with("rendered-worker-"));
}

/// A mirror may be behind, so the registry is asked first.
#[test]
fn a_tag_is_resolved_by_mirrors_only_without_its_registry() {
    let desk = Desk::new();
    let start = || Registry::start(Server::Debian, Access::Anyone, Transport::Http);
    let (own, mirror, empty) = (start(), start(), start());
    let push = |registry: &Registry, content: &str| {
        let tree = Tree::new().file("a", 0o644, content);
        let layout = Layout::create(&desk.at(content));
        let digest = layout.put("os", &Image::new().layer(Compression::Gzip, tree.tar()));
        registry.push(&layout, "os", "acme/os:stable");
        digest
    };
    let (newest, mirrored) = (push(&own, "newest"), push(&mirror, "mirrored"));
    let spec = json!({ "osImageURL": "quay.example/acme/os:stable" });
    desk.write("mc.json", machine_config("a", "worker", spec));
    let (own, mirror, empty) = (own.address(), mirror.address(), empty.address());
    let away = "127.0.0.1:1";
    let (newest, mirrored) = (newest.as_str(), mirrored.as_str());
    for (what, location, settings, by, want) in [
        ("both", own, "", "all", Ok(newest)),
        ("a registry that is blocked", own, "blocked = true", "all", Ok(mirrored)),
        ("a registry that is away", away, "", "tag-only", Ok(mirrored)),
        ("a registry without the tag", empty, "", "all", Err("not-found")),
        ("a mirror of digests", own, "", "digest-only", Ok(newest)),
        ("only a mirror of digests", own, "blocked = true", "digest-only", Err("blocked")),
        ("mirrors of digests", own, "mirror-by-digest-only = true", "all", Ok(newest)),
    ] {
        let conf = format!(
            "[[registry]]\nprefix = \"quay.example\"\nlocation = \"{location}\"\n{settings}\n\
             [[registry.mirror]]\nlocation = \"{mirror}\"\npull-from-mirror = \"{by}\"\n",
        );
        desk.write("registries.conf", conf);
        let line = "render --pool worker --resolve-tags mc.json --tls-verify=false --registries-conf registries.conf -o json";
        let run = desk.run(line);
        match want {
            Ok(digest) => {
                let rendered = run.ok().json();
                let url = format!("quay.example/acme/os@{digest}");
                assert_eq!(rendered["spec"]["osImageURL"], url, "{what}");
            }
            Err(want) => assert_eq!(run.json()["code"], want, "{what}"),
        }
    }
}
