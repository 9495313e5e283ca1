//! The program in the use of a person or a script, with OCI layouts only: results, exit codes,
//! schemas, signals.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use mosb_tests::{Compression, Image, Layout, Mosb, Tree, run, valid};

pub const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";
const OTHER: &str = "rendered-worker-ffffffffffffffffffffffffffffffff";

/// A program, a base `base:os`, and `worker.yaml`, all in the working directory.
pub struct Desk {
    pub mosb: Mosb,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self { mosb: Mosb::new() };
        let tree = Tree::new()
            .directory("etc", 0o755)
            .directory("etc/sudoers.d", 0o750)
            .directory("usr", 0o755)
            .link("usr/local", "../var/usrlocal")
            .directory("var", 0o755)
            .directory("var/usrlocal", 0o755)
            .file("etc/hosts", 0o644, "127.0.0.1 localhost\n")
            .file("usr/notes", 0o644, "not below /etc\n");
        let image =
            Image::new().label("containers.bootc", "1").layer(Compression::Gzip, tree.tar());
        Layout::create(&desk.at("base")).put("os", &image);
        desk.write("worker.yaml", &config(NAME, "a"));
        let mut of_operator = config(NAME, "a");
        let release = "machineconfiguration.openshift.io/release-image-version";
        of_operator["metadata"]["annotations"] = json!({ release: "4.20.1" });
        desk.write("operator.yaml", &of_operator);
        desk
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.mosb.home().join("work").join(name)
    }

    pub fn write(&self, name: &str, object: &Value) {
        fs::write(self.at(name), object.to_string()).unwrap();
    }

    /// Runs the program and returns the exit code and the object, which must be valid for its
    /// schema.
    #[track_caller]
    pub fn object(&self, line: &str) -> (i32, Value) {
        let finished = self.mosb.run(words(&format!("{line} -o json")));
        let object = finished.json();
        assert_eq!(object["apiVersion"], "mosb.dev/v1", "{line}");
        valid(&object);
        (finished.code().unwrap(), object)
    }
}

pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn config(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": name },
        "spec": {
            "kernelArguments": ["quiet"],
            "config": {
                "ignition": { "version": "3.4.0" },
                "storage": { "files": [
                    { "path": "/etc/a", "mode": 384, "contents": { "source": format!("data:,{content}") } },
                    { "path": "/usr/local/bin/b", "mode": 493, "contents": { "source": "data:,b" } },
                ] },
            },
        },
    })
}

#[test]
fn a_build_is_planned_done_and_inspected() {
    let desk = Desk::new();
    let (code, plan) = desk.object("plan worker.yaml --base oci:base:os --output oci:out");
    assert_eq!((code, plan["kind"].as_str()), (0, Some("Plan")), "{plan:#}");
    assert_eq!(plan["method"], "direct");
    assert_eq!(plan["buildOn"], "every-config", "{}", plan["buildOnReason"]);
    let mut added = plan["added"].as_array().unwrap().iter();
    assert!(added.any(|one| one["path"] == "/var/usrlocal/bin/b"), "{plan:#}");
    let (_, of_operator) = desk.object("plan operator.yaml --base oci:base:os");
    assert_eq!(of_operator["buildOn"], "os-change");
    assert!(of_operator["buildOnReason"].as_str().unwrap().contains("4.20.1"), "{of_operator:#}");
    assert_eq!(of_operator["leftOut"][0]["code"], "kernel-arguments");
    assert!(!desk.at("out").exists(), "a plan writes nothing");

    let (code, dry) =
        desk.object("build worker.yaml --base oci:base:os --output oci:out --dry-run");
    assert_eq!((code, &dry["inputs"], &dry["tags"]), (0, &plan["inputs"], &plan["tags"]));
    assert!(!desk.at("out").exists(), "a dry run writes nothing");

    let (code, built) =
        desk.object("build worker.yaml --base oci:base:os --output oci:out --digestfile d");
    assert_eq!((code, built["kind"].as_str()), (0, Some("BuildResult")), "{built:#}");
    assert_eq!((&built["inputs"], &built["tags"]), (&plan["inputs"], &plan["tags"]));
    assert_eq!(built["baseTree"]["source"], "cache", "the plan read it");
    let digest = built["digest"].as_str().unwrap();
    assert_eq!(fs::read_to_string(desk.at("d")).unwrap(), digest);
    assert_eq!(built["image"], format!("oci:out@{digest}"));
    assert_eq!(Layout::at(desk.at("out")).digest(NAME), digest);

    let (code, info) = desk.object(&format!("inspect oci:out:{NAME}"));
    assert_eq!(
        (code, &info["renderedConfig"], &info["inputs"]),
        (0, &json!(NAME), &built["inputs"])
    );
    assert_eq!(info["builtByMosb"], true);
    let (code, files) = desk.object(&format!("files oci:out:{NAME} --layer config"));
    let paths = files["layers"][0]["paths"].as_array().unwrap();
    let of = |path: &str| paths.iter().find(|entry| entry["path"] == path).unwrap();
    assert_eq!(
        (code, &of("/etc/a")["mode"], &of("/etc/a")["size"]),
        (0, &json!("0600"), &json!(1))
    );
    assert_eq!(of("/var/usrlocal/bin/b")["type"], "file");

    let (code, other) = desk.object("inspect oci:base:os");
    assert_eq!((code, &other["builtByMosb"]), (0, &json!(false)), "an image of others is no error");
    assert_eq!(desk.object("files oci:base:os").1["code"], "not-built-by-mosb");
}

#[test]
fn diff_reports_changes_by_its_exit_code() {
    let desk = Desk::new();
    desk.write("other.json", &config(OTHER, "secret"));
    desk.object("build worker.yaml --base oci:base:os --output oci:out");
    let image = format!("oci:out:{NAME}");
    for (line, want) in [
        ("diff worker.yaml worker.yaml".to_owned(), 0),
        ("diff ./worker.yaml other.json".to_owned(), 1),
        (format!("diff {image} worker.yaml"), 0),
        (format!("diff {image} other.json"), 1),
        (format!("diff {image} {image}"), 0),
        ("diff worker.yaml none.yaml".to_owned(), 2),
        ("diff worker.yaml oci:none".to_owned(), 2),
        ("diff worker.yaml".to_owned(), 2),
        ("diff worker.yaml localhost:1/none".to_owned(), 3),
    ] {
        let finished = desk.mosb.run(words(&line));
        assert_eq!(finished.code(), Some(want), "{line}\n{}{}", finished.text(), finished.stderr);
        assert!(!finished.text().contains("secret"), "{line}");
    }
    let (_, diff) = desk.object(&format!("diff {image} other.json"));
    assert_eq!(diff["same"], false);
    assert_eq!(diff["paths"][0]["path"], "/etc/a");
    assert_eq!(diff["paths"][0]["what"], json!(["content"]));
    let cost = (&diff["disruption"], &diff["unreconcilable"]);
    assert_eq!(cost, (&json!("soft-reboot"), &Value::Null));
    let mut disks = config(OTHER, "secret");
    disks["spec"]["config"]["storage"]["disks"] = json!([{ "device": "/dev/sdb" }]);
    desk.write("disks.json", &disks);
    let (_, diff) = desk.object(&format!("diff {image} disks.json"));
    assert_eq!(diff["disruption"], "reinstall");
    assert_eq!(diff["unreconcilable"][0]["object"], "spec.config.storage.disks[/dev/sdb]");
    let text = desk.mosb.run(words("diff other.json disks.json")).text();
    assert!(text.contains("No image is built") && text.contains("[/dev/sdb]"), "{text}");
}

#[test]
fn the_os_of_any_two_images_is_compared() {
    let desk = Desk::new();
    let tree = Tree::new().file("etc/hosts", 0o600, "127.0.0.1 localhost\n").file(
        "usr/lib/modules/6.1/vmlinuz",
        0o644,
        "kernel",
    );
    let image = Image::new().label("version", "2").layer(Compression::Gzip, tree.tar());
    Layout::at(desk.at("base")).put("next", &image);
    let (code, diff) = desk.object("diff oci:base:os oci:base:next --files");
    let os = &diff["os"];
    assert_eq!((code, &diff["same"], &os["kernel"]), (1, &json!(false), &json!({ "to": "6.1" })));
    let list = os["files"]["list"].as_array().unwrap();
    let of = |path: &str| &list.iter().find(|entry| entry["path"] == path).unwrap()["what"];
    assert_eq!(of("/etc/hosts"), &json!(["mode"]));
    assert_eq!(of("/usr/notes"), &json!([]));
    assert_eq!(desk.object("diff oci:base:os oci:base:os").0, 0);

    // Of images of mosb, the OS is compared if their bases differ.
    desk.write("other.json", &config(OTHER, "a"));
    for (config, base, output) in
        [("worker.yaml", "os", "a"), ("other.json", "os", "b"), ("worker.yaml", "next", "c")]
    {
        desk.object(&format!("build {config} --base oci:base:{base} --output oci:{output}"));
    }
    let (_, same_base) = desk.object(&format!("diff oci:a:{NAME} oci:b:{OTHER}"));
    assert_eq!((&same_base["os"], &same_base["disruption"]), (&Value::Null, &json!("live")));
    let (_, other_base) = desk.object(&format!("diff oci:a:{NAME} oci:c:{NAME}"));
    assert_eq!(other_base["os"]["kernel"]["to"], "6.1");
    assert_eq!(other_base["disruption"], "reboot");
    let (code, mixed) = desk.object(&format!("diff oci:base:os oci:a:{NAME}"));
    assert_eq!((code, &mixed["to"]["renderedConfig"]), (1, &json!(NAME)));
    assert_eq!(desk.object("diff oci:base:os worker.yaml").1["code"], "not-built-by-mosb");
    let markdown = desk.mosb.run(words("diff oci:base:os oci:base:next -o markdown")).text();
    assert!(markdown.contains("- kernel: `none -> 6.1`"), "{markdown}");
}

#[test]
fn a_plan_says_what_the_change_costs_machines() {
    let desk = Desk::new();
    let with = |path: &str, content: &str| {
        let mut config = config(OTHER, "a");
        let source = format!("data:,{content}");
        let file = json!({ "path": path, "mode": 420, "contents": { "source": source } });
        config["spec"]["config"]["storage"]["files"].as_array_mut().unwrap().push(file);
        config
    };
    let mut disks = config(OTHER, "a");
    disks["spec"]["config"]["storage"]["disks"] = json!([{ "device": "/dev/sdb" }]);
    desk.write("disks.json", &disks);
    desk.write("file.json", &with("/etc/other", "a"));
    desk.write("registries.json", &with("/etc/containers/registries.conf", "a"));
    desk.object("build worker.yaml --base oci:base:os --output oci:out");
    let image = format!("oci:out:{NAME}");
    for (config, previous, disruption, live) in [
        ("worker.yaml", &*image, "none", Value::Null),
        ("file.json", &image, "soft-reboot", Value::Null),
        ("registries.json", &image, "soft-reboot", json!(["reload-crio"])),
        ("registries.json", "worker.yaml", "soft-reboot", json!(["reload-crio"])),
        ("disks.json", &image, "reinstall", Value::Null),
    ] {
        let line = format!("plan {config} --base oci:base:os --previous {previous}");
        let (code, plan) = desk.object(&line);
        let change = &plan["change"];
        let found = (code, &change["disruption"], &change["live"]["actions"]);
        assert_eq!(found, (0, &json!(disruption), &live), "{line}: {change:#}");
        assert_eq!(change["from"]["renderedConfig"], NAME, "{line}");
    }
    let (code, error) = desk.object("plan worker.yaml --base oci:base:os --previous none.yaml");
    assert_eq!((code, &error["code"]), (2, &json!("unreadable-file")), "{error:#}");
}

/// The changes that a build of the config on another base would make.
#[test]
fn a_config_is_compared_on_the_given_base() {
    let desk = Desk::new();
    let mut named = config(NAME, "a");
    named["spec"]["osImageURL"] = json!("localhost:1/never/asked:1");
    desk.write("worker.yaml", &named);
    named["spec"]["osImageURL"] = json!("localhost:1/never/asked:2");
    desk.write("later.yaml", &named);
    let next = Image::new().label("next", "1");
    Layout::at(desk.at("base")).put("next", &next);
    desk.object("build worker.yaml --base oci:base:os --output oci:out");
    let image = format!("oci:out:{NAME}");
    for (line, want, fields) in [
        (format!("{image} worker.yaml"), 1, &["base"][..]),
        (format!("{image} worker.yaml --base oci:base:os"), 0, &[]),
        (format!("worker.yaml {image} --base oci:base:os"), 0, &[]),
        (format!("{image} worker.yaml --base oci:base:next"), 1, &["base"]),
        ("worker.yaml later.yaml --base oci:base:next".to_owned(), 1, &["spec.osImageURL"]),
        ("worker.yaml later.yaml".to_owned(), 1, &["base", "spec.osImageURL"]),
    ] {
        let (code, diff) = desk.object(&format!("diff {line}"));
        let changes = diff["settings"].as_array().unwrap();
        let changed: Vec<_> = changes.iter().map(|c| c["field"].as_str().unwrap()).collect();
        assert_eq!((code, &changed[..]), (want, fields), "{line}");
    }
    for (line, code) in [
        (format!("{image} {image} --base oci:base:os"), "wrong-use"),
        ("worker.yaml later.yaml --base oci:base:none".to_owned(), "bad-layout"),
        ("worker.yaml later.yaml --base oci:base".to_owned(), "layout-ambiguous"),
    ] {
        let (exit, error) = desk.object(&format!("diff {line}"));
        assert_eq!((exit, &error["code"]), (2, &json!(code)), "{line}");
    }
}

#[test]
fn the_small_commands() {
    let desk = Desk::new();
    let (code, version) = desk.object("version");
    assert_eq!((code, version["version"].as_str()), (0, Some(env!("CARGO_PKG_VERSION"))));
    assert!(desk.mosb.run(["completion", "bash"]).ok().text().contains("mosb"));
    assert_eq!(desk.object("cache list").1["trees"], json!([]));
    desk.object("plan worker.yaml --base oci:base:os");
    let (_, list) = desk.object("cache list");
    assert_eq!(list["trees"].as_array().unwrap().len(), 1);
    let (_, pruned) = desk.object("cache prune");
    assert_eq!((&pruned["removed"], &pruned["size"]), (&json!(1), &list["size"]));
    assert_eq!(pruned.get("buildah"), None);
    assert_eq!(desk.object("cache list").1["size"], 0);
    let base_trees = PathBuf::from(list["directory"].as_str().unwrap());
    let storage = base_trees.with_file_name("buildah");
    fs::create_dir_all(storage.join("store-vfs/of-a-layer")).unwrap();
    fs::write(storage.join("store-vfs/of-a-layer/file"), "1234567").unwrap();
    let cached = json!({ "directory": storage, "size": 7 });
    assert_eq!(desk.object("cache list").1["buildah"], cached);
    let removed = json!({ "directory": storage, "size": 7, "removed": true });
    assert_eq!(desk.object("cache prune").1["buildah"], removed);
    assert!(!storage.join("store-vfs").exists());
    assert_eq!(desk.object("cache list").1.get("buildah"), None);
    let yaml = desk.mosb.run(words("plan worker.yaml --base oci:base:os -o yaml")).ok();
    assert!(yaml.text().starts_with("apiVersion: mosb.dev/v1\nkind: Plan\n"), "{}", yaml.text());
    let maps = desk.mosb.run(words("plan worker.yaml --base oci:base:os -o configmap")).ok();
    assert!(maps.text().contains("kind: ConfigMap"), "{}", maps.text());
    let file = desk
        .mosb
        .run(words("plan worker.yaml --base oci:base:os -o containerfile --method containerfile"))
        .ok();
    assert!(file.text().contains("FROM "), "{}", file.text());
}

#[test]
fn a_plan_reports_missing_disk_space_for_buildah() {
    let mut desk = Desk::new();
    fs::create_dir(desk.at("small")).unwrap();
    let script =
        format!("mount -t tmpfs -o size=1m tmpfs {}; exec \"$@\"", desk.at("small").display());
    let launcher = ["unshare", "--mount", "--propagation=private", "sh", "-euc"];
    let launcher = launcher.into_iter().chain([&script[..], "sh"]);
    desk.mosb = desk.mosb.within(launcher.map(str::to_owned));
    let by_buildah = "worker.yaml --base oci:base:os --method containerfile --cache-dir small";
    for (line, driver) in [
        (format!("plan {by_buildah}"), "overlay"),
        (format!("plan {by_buildah} --storage-driver vfs"), "vfs"),
        (format!("build {by_buildah} --output oci:out --dry-run"), "overlay"),
        (format!("build {by_buildah} --output oci:out"), "overlay"),
    ] {
        let (exit, error) = desk.object(&line);
        assert_eq!((exit, &error["code"]), (2, &json!("no-space")), "{line}");
        let message = error["message"].as_str().unwrap();
        let reason = format!(
            ": 1 MiB are free and the build needs about 512 MiB with storage driver {driver}"
        );
        assert!(message.contains("/small") && message.contains(&reason), "{line}: {message}");
    }
    // Disk space is not checked for another machine, nor if buildah is not needed.
    for line in [
        format!("plan {by_buildah} -o containerfile"),
        "plan worker.yaml --base oci:base:os --cache-dir small".to_owned(),
    ] {
        desk.mosb.run(words(&line)).ok();
    }
}

#[test]
fn stdin_has_the_config_stdout_no_progress() {
    let desk = Desk::new();
    let text = config(NAME, "a").to_string();
    let line = words("plan - --base oci:base:os -o json");
    let finished = desk.mosb.run_with(line, text.as_bytes()).ok();
    assert_eq!(finished.json()["renderedConfig"], NAME);
    assert!(finished.stderr.contains("resolving base oci:base:os"), "{}", finished.stderr);
    let quiet = desk.mosb.run_with(words("plan - --base oci:base:os -q"), text.as_bytes()).ok();
    assert_eq!(quiet.stderr, "");
    let json = desk
        .mosb
        .run_with(words("plan - --base oci:base:os --log-format json"), text.as_bytes())
        .ok();
    for line in json.stderr.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn a_home_is_not_needed() {
    let desk = Desk::new();
    let homeless = |line: &str| {
        let mut command = desk.mosb.command(words(line));
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(homeless("build worker.yaml --base oci:base:os --output oci:out"), Some(0));
    assert_eq!(homeless("cache list"), Some(2));
}

#[test]
fn skopeo_reads_the_digest_that_was_built() {
    let desk = Desk::new();
    let (_, built) = desk.object("build worker.yaml --base oci:base:os --output oci:out");
    let image = format!("oci:{}:{NAME}", desk.at("out").display());
    let seen = run("skopeo", ["inspect", "--format", "{{.Digest}}", &image]).ok();
    assert_eq!(json!(seen.text().trim()), built["digest"]);
}
