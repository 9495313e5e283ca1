//! `mosb bootstrap` and `mosb seed new` in the use of a person: their output, and the cases without
//! output.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bootstrap_registries::bootable;
use mosb_tests::{Finished, Layout, Mosb, Registry, valid};

pub const API: &str = "machineconfiguration.openshift.io/v1";

/// The program, in a folder with the three pools of the golden test.
pub struct Desk(pub Mosb);

impl Desk {
    pub fn new() -> Self {
        let desk = Self(Mosb::new());
        desk.write("manifests/all.yaml", &golden("manifests.yaml"));
        desk
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.home().join("work").join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.at(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[track_caller]
    pub fn run(&self, line: &str) -> Finished {
        self.0.run(line.split_whitespace())
    }

    /// Runs `mosb bootstrap` without requests to registries.
    #[track_caller]
    pub fn bootstrap(&self, line: &str) -> Finished {
        self.run(&format!("bootstrap --check-registry=false {line} -o json"))
    }

    /// Asserts that nothing is written, and returns the codes of the findings.
    #[track_caller]
    pub fn refused(&self, line: &str) -> Vec<String> {
        let finished = self.bootstrap(line);
        assert_eq!(finished.code(), Some(2), "{finished:?}");
        assert!(!self.at("out").exists(), "{line}");
        let error = finished.json();
        valid(&error);
        let findings = error["findings"].as_array().unwrap().iter();
        findings.map(|it| it["code"].as_str().unwrap().to_owned()).collect()
    }
}

fn golden(name: &str) -> String {
    let folder = mosb_tests::repository().join("testdata/bootstrap/three-pools");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// All files below a folder with their modes.
pub fn files(folder: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            found.insert(name, (mode, fs::read_to_string(path).unwrap()));
        }
    }
    found
}

#[test]
fn the_output_is_the_same_each_time() {
    let desk = Desk::new();
    let first = desk.bootstrap("--manifests manifests --output out").ok().json();
    valid(&first);
    assert_eq!(first["for"], "kubernetes");
    let written = files(&desk.at("out"));
    let listed = first["files"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed.map(|it| it.as_str().unwrap()).collect();
    for (name, (mode, text)) in &written {
        if name == ".mosb-bootstrap" {
            assert_eq!(text.lines().collect::<Vec<_>>(), listed);
            continue;
        }
        assert_eq!(text, &golden(&format!("kubernetes/{name}")), "{name}");
        let private = name.starts_with("ignition/");
        assert_eq!(*mode, if private { 0o600 } else { 0o644 }, "{name}");
        assert!(!text.contains("hunter2"), "{name}");
    }
    assert_eq!(written.len(), listed.len() + 1);
    // The input in other files, in another order, as a list, and on stdin.
    let parts = golden("manifests.yaml");
    let parts: Vec<&str> = parts.split("\n---\n").collect();
    for (at, part) in parts.iter().rev().enumerate() {
        // With its line break, which is a part of a block at its end.
        desk.write(&format!("parts/{at:02}.yaml"), &format!("{part}\n"));
    }
    desk.bootstrap("--manifests parts --output out").ok();
    assert_eq!(files(&desk.at("out")), written);
    let line = "bootstrap --check-registry=false --manifests - --output other";
    let all = golden("manifests.yaml");
    desk.0.run_with(line.split_whitespace(), all.as_bytes()).ok();
    assert_eq!(files(&desk.at("other")), written);
    let tidy: Vec<_> =
        fs::read_dir(desk.at("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!tidy.iter().any(|name| name.to_string_lossy().contains("mosb-part")), "{tidy:?}");
}

#[test]
fn all_problems_are_reported_and_nothing_is_written() {
    let desk = Desk::new();
    let os_config = |name: &str, image: &str| {
        json!({ "apiVersion": API, "kind": "MachineOSConfig",
                "metadata": { "name": name, "annotations": { "machineconfiguration.openshift.io/pre-built-image": image } },
                "spec": { "machineConfigPool": { "name": name }, "imageBuilder": { "imageBuilderType": "Job" },
                          "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": "registry.example.com/os:latest" } })
    };
    desk.write("manifests/b.yaml", &os_config("nowhere", "registry.example.com/os:v1").to_string());
    desk.write("manifests/c.yaml", &os_config("master", "").to_string());
    let mut codes = desk.refused("--manifests manifests --output out");
    codes.sort();
    assert_eq!(codes, ["pre-built-image-missing", "pre-built-image-reference", "unknown-pool"]);
    // Errors in a MachineConfig are reported once, although two pools use it.
    fs::remove_file(desk.at("manifests/b.yaml")).unwrap();
    fs::remove_file(desk.at("manifests/c.yaml")).unwrap();
    let bad = json!({ "apiVersion": API, "kind": "MachineConfig",
                      "metadata": { "name": "60-bad", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
                      "spec": { "kernelType": "none" } });
    desk.write("manifests/d.json", &bad.to_string());
    assert_eq!(desk.refused("--manifests manifests --output out"), ["bad-setting"]);
    // A folder that mosb did not write is not changed.
    fs::remove_file(desk.at("manifests/d.json")).unwrap();
    let finished = desk.bootstrap("--manifests manifests --output manifests");
    assert_eq!(
        (finished.code(), finished.json()["code"].as_str()),
        (Some(2), Some("foreign-directory"))
    );
    assert!(desk.at("manifests/all.yaml").exists());
}

#[test]
fn hostile_manifests_are_refused_without_their_values() {
    let bomb = (1..40).fold("kind: Secret\na0: &a0 [hunter2,x]\n".to_owned(), |text, n| {
        let items = vec![format!("*a{}", n - 1); 8].join(",");
        text + &format!("a{n}: &a{n} [{items}]\n")
    });
    let deep = format!("kind: Secret\na: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let config = |spec: Value| json!({ "apiVersion": API, "kind": "MachineOSConfig", "metadata": { "name": "worker" }, "spec": spec });
    for (what, text, want) in [
        ("aliases without end", bomb, "bad-file"),
        ("an alias of itself", "kind: Secret\na: &a [*a]".to_owned(), "bad-file"),
        ("nested without end", deep, "bad-file"),
        ("no text", "kind: \u{0}\u{1}".to_owned(), "bad-file"),
        ("a text as spec", config(json!("hunter2")).to_string(), "bad-object"),
        ("a number as image", config(json!({ "renderedImagePushSpec": 1 })).to_string(), "bad-object"),
        ("an older version", config(json!({})).to_string().replace("/v1", "/v1alpha1"), "bad-object"),
        ("a Secret without base64", json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "%hunter2%" } }).to_string(), "bad-object"),
        ("settings of another type", json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" }, "data": ["hunter2"] }).to_string(), "bad-object"),
        ("settings that are none", json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" }, "data": { "config.yaml": "a: 1" } }).to_string(), "duplicate-name"),
    ] {
        let desk = Desk::new();
        desk.write("manifests/z.yaml", &text);
        let finished = desk.bootstrap("--manifests manifests --output out");
        assert_eq!(finished.code(), Some(2), "{what}: {finished:?}");
        let report = finished.text() + &finished.stderr;
        assert!(report.contains(&format!("\"{want}\"")), "{what}: {report}");
        assert!(!report.contains("hunter2"), "{what}: {report}");
        assert!(!desk.at("out").exists(), "{what}");
    }
    // More bytes than the program reads.
    let desk = Desk::new();
    let huge = fs::File::create(desk.at("manifests/huge.yaml")).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert_eq!(desk.refused("--manifests manifests --output out"), ["file-too-large"]);
}

#[test]
fn a_seed_is_a_manifest_that_bootstrap_takes() {
    let desk = Desk::new();
    let digest = format!("sha256:{}", "1".repeat(64));
    let line = format!(
        "seed new --pool master --image registry.example.com/os:v1@{digest} --push-secret push --push-spec registry.example.com/os:latest"
    );
    desk.write("Containerfile", "FROM configs AS final\nRUN true\n");
    let seed = desk.run(&format!("{line} --containerfile Containerfile -o json")).ok().json();
    assert_eq!(seed["spec"]["containerFile"][0]["content"], "FROM configs AS final\nRUN true\n");
    desk.write("manifests/master.yaml", &desk.run(&line).ok().text());
    let result = desk.bootstrap("--manifests manifests --output out").ok().json();
    let pools = result["pools"].as_array().unwrap().iter();
    let pools: Vec<&str> = pools.map(|it| it["pool"].as_str().unwrap()).collect();
    assert_eq!(pools, ["infra", "master", "worker"]);
    for (what, line, code) in [
        ("a tag", line.replace(&format!("@{digest}"), ""), "pre-built-image-reference"),
        ("a push spec without a tag", line.replace("os:latest", "os"), "wrong-use"),
        ("a pool that is none", line.replace("--pool master", "--pool Master"), "wrong-use"),
    ] {
        let finished = desk.run(&format!("{line} -o json"));
        assert_eq!(
            (finished.code(), finished.json()["code"].as_str()),
            (Some(2), Some(code)),
            "{what}"
        );
    }
}

/// After a kill at any time, the folder has the earlier output or the new one, and the next run
/// succeeds.
#[test]
fn killed_anywhere_it_leaves_one_whole_output() {
    let desk = Desk::new();
    desk.bootstrap("--manifests manifests --output out").ok();
    let one = files(&desk.at("out"));
    let spec = json!({ "kernelArguments": ["quiet"] });
    let more = json!({ "apiVersion": API, "kind": "MachineConfig", "metadata": { "name": "60-more", "labels": { "machineconfiguration.openshift.io/role": "worker" } }, "spec": spec });
    desk.write("more/more.json", &more.to_string());
    let began = Instant::now();
    desk.bootstrap("--manifests manifests more --output out").ok();
    let took = began.elapsed();
    let other = files(&desk.at("out"));
    assert_ne!(one, other);
    let (mut seen, mut killed) = ([0, 0], 0);
    for round in 0..60_u64 {
        let operands = if round % 2 == 0 { "manifests" } else { "manifests more" };
        let line = format!("bootstrap --check-registry=false --manifests {operands} --output out");
        let mut child = desk.0.command(line.split_whitespace());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The kill happens during the run or after its end.
        std::thread::sleep(took * u32::try_from(round * 7 % 60).unwrap() / 30);
        child.kill().unwrap();
        killed += u64::from(!child.wait().unwrap().success());
        let found = files(&desk.at("out"));
        assert!(found == one || found == other, "{:?}", found.keys());
        seen[usize::from(found == other)] += 1;
    }
    assert!(killed > 10 && seen[0] > 0 && seen[1] > 0, "{killed} {seen:?}");
    desk.bootstrap("--manifests manifests --output out").ok();
    assert_eq!(files(&desk.at("out")), one);
    let left = fs::read_dir(desk.at("")).unwrap().map(|it| it.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Runs every command of the tutorial that needs no cluster, as the text contains it.
#[test]
fn the_tutorial_can_be_followed() {
    let registry = Registry::plain();
    let desk = Desk(Mosb::new());
    let layout = Layout::create(&desk.at("stock"));
    let digest = layout.put("os", &bootable());
    registry.push(&layout, "os", "os/stock:stable");
    let root = mosb_tests::repository();
    std::os::unix::fs::symlink(root.join("docs"), desk.at("docs")).unwrap();
    let document = fs::read_to_string(root.join("docs/first-boot.md")).unwrap();
    let blocks = document.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut blocks: Vec<&str> = blocks
        .filter(|block| !block.contains("kubectl") && !block.contains("coreos-installer"))
        .collect();
    let names = blocks.remove(0);
    assert!(names.starts_with("REGISTRY=") && names.contains("\nBASE="), "{names}");
    let names = format!(
        "REGISTRY={} BASE={}@{digest} PUSHER=a PUSH_PASSWORD=b PULLER=c PULL_PASSWORD=d",
        registry.address(),
        registry.repository("os/stock"),
    );
    let program = Path::new(mosb_tests::program()).parent().unwrap().display().to_string();
    let script = format!("set -eu; PATH={program}:$PATH\n{names}\n{}", blocks.join("\n"));
    let mut shell = desk.0.command::<&str>([]);
    let environment: Vec<_> =
        shell.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    let folder = shell.get_current_dir().map(Path::to_owned);
    shell = std::process::Command::new("sh");
    for (key, value) in environment {
        match value {
            Some(value) => shell.env(key, value),
            None => shell.env_remove(key),
        };
    }
    let finished = mosb_tests::finish(
        shell.args(["-c", &script]).current_dir(folder.unwrap_or(desk.at(""))),
        &[],
    )
    .ok();
    let out = files(&desk.at("out"));
    assert!(out.contains_key("ignition/worker.ign"), "{:?}\n{}", out.keys(), finished.text());
    assert!(out.contains_key("machineconfig-10-prebuiltimage-osimageurl-worker.yaml"));
    assert!(out.values().all(|(_, text)| !text.contains("PASSWORD")));
}
