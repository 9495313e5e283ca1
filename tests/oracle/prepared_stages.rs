//! Stages of an administrator's Containerfile that need no config are run once, by the real buildah.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use mosb_tests::buildah_fixture::{NAME, listed};
use mosb_tests::{Finished, Kind, Layout, Mosb, PlainBase, Snapshot, run};

const OWN: &str = "\
# The version.
FROM scratch AS tools
COPY --from=base /etc/debian_version /version
FROM base
ARG A
COPY --from=tools /version /usr/share/version
RUN test ! -e /etc/a && echo early > /etc/early && echo $A > /usr/share/argument
";

struct Folder {
    mosb: Mosb,
}

impl Folder {
    fn new() -> Self {
        let folder = Self { mosb: Mosb::new() };
        folder.put_base(PlainBase::First);
        folder
    }

    /// The tag of the base has this image.
    fn put_base(&self, base: PlainBase) {
        let copy = format!("oci:{}:base", self.mosb.home().join("work/base").display());
        run("skopeo", ["copy", "--quiet", &base.image().reference("base"), &copy]).ok();
    }

    fn write(&self, content: &str, own: &str) {
        let file = |path: &str, content: &str| json!({ "path": path, "mode": 0o640, "overwrite": true, "contents": { "source": format!("data:,{content}") } });
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": NAME },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": {
                "files": [file("/etc/a", content), file("/etc/early", "late%20%20%0a")],
            } } },
        });
        let work = self.mosb.home().join("work");
        fs::write(work.join("worker.yaml"), config.to_string()).unwrap();
        fs::write(work.join("Containerfile"), own).unwrap();
    }

    /// The config becomes one of the control plane, with the same content.
    fn move_to_control_plane(&self) {
        let file = self.mosb.home().join("work/worker.yaml");
        let config = fs::read_to_string(&file).unwrap();
        let moved = config.replace("rendered-worker-", "rendered-master-");
        assert_ne!(moved, config);
        fs::write(file, moved).unwrap();
    }

    fn run(&self, command: &str, output: &str, more: &[&str]) -> Value {
        self.run_as("json", command, output, more).json()
    }

    fn run_as(&self, format: &str, command: &str, output: &str, more: &[&str]) -> Finished {
        self.start(format, command, output, more).ok()
    }

    fn start(&self, format: &str, command: &str, output: &str, more: &[&str]) -> Finished {
        let line = format!(
            "{command} worker.yaml --base oci:base:base --output oci:{output} --containerfile Containerfile -o {format}"
        );
        self.mosb.run(line.split(' ').chain(more.iter().copied()))
    }

    /// What runs everything at once on another machine.
    fn printed(&self) -> [String; 2] {
        ["containerfile", "configmap"].map(|format| self.run_as(format, "plan", "out", &[]).text())
    }

    fn tree(&self, output: &str) -> Snapshot {
        let mut tree = Snapshot::default();
        for layer in Layout::at(self.mosb.home().join("work").join(output)).layers(NAME) {
            tree = tree.with_layer(layer).unwrap();
        }
        tree
    }
}

#[test]
fn stages_without_the_config_are_run_once() {
    let mut folder = Folder::new();
    folder.write("1", OWN);
    let argument = ["--build-arg", "A=1"];
    let at_once = [&argument[..], &["--method", "containerfile"]].concat();
    assert_eq!(folder.run("build", "once", &at_once)["method"], "containerfile");
    let first = folder.run("build", "out", &argument);
    assert_eq!(first["method"], "prepared", "{first:#}");
    assert_eq!(first["prepared"]["reused"], false);
    let tree = folder.tree("out");
    folder.tree("once").assert_same(&tree, "the tree");
    for (path, want) in [("etc/early", 7), ("usr/share/argument", 2), ("etc/a", 1)] {
        let kind = &tree.0[path].kind;
        assert!(matches!(kind, Kind::File { size, .. } if *size == want), "{path}: {kind:?}");
    }

    let cache = folder.mosb.home().join("cache/mosb");
    let containers = || listed("containers", &cache, None).lines().count();
    let left = containers();

    // Deleted from the target, it is made again, with a warning.
    let layout = Layout::at(folder.mosb.home().join("work/out"));
    let digest = |result: &Value| {
        let image = result["prepared"]["image"].as_str().unwrap();
        image.split_once('@').unwrap().1.to_owned()
    };
    fs::remove_file(layout.blob_path(&digest(&first))).unwrap();
    let first = folder.run("build", "out", &argument);
    assert_eq!(first["prepared"]["reused"], false, "{first:#}");
    assert!(first["warnings"].to_string().contains("prepared-missing"), "{first:#}");
    assert!(layout.blob_path(&digest(&first)).exists());
    assert_ne!(listed("images", &cache, None), "", "the base stays in the store");
    assert_eq!(containers(), left, "those of earlier builds are gone");

    // Another config and another comment: no program is found but that of the harness.
    let programs = folder.mosb.home().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/usr/bin/timeout", programs.join("timeout")).unwrap();
    folder.mosb = folder.mosb.with("PATH", programs.to_str().unwrap());
    folder.write("22", &OWN.replace("# The version.", "# Of Debian."));
    let second = folder.run("build", "out", &argument);
    assert_eq!(second["prepared"]["reused"], true, "{second:#}");
    assert_eq!(second["prepared"]["inputs"], first["prepared"]["inputs"]);
    let tree = folder.tree("out");
    assert!(matches!(tree.0["etc/a"].kind, Kind::File { size: 2, .. }));
    assert!(tree.0.contains_key("usr/share/version"));

    let plan = folder.run("plan", "out", &argument);
    let again: Vec<_> =
        plan["stages"].as_array().unwrap().iter().map(|stage| &stage["runsAgain"]).collect();
    assert_eq!(again, [0, 0], "{plan:#}");
    let changed = folder.run("plan", "out", &["--build-arg", "A=2"]);
    assert_eq!(changed["prepared"]["reused"], false, "{changed:#}");

    // The control plane takes what a worker's build made only if it is named, and then remembers it.
    folder.move_to_control_plane();
    let plan = |more: &[&str]| folder.run("plan", "out", &[&argument[..], more].concat());
    let use_of =
        |plan: &Value| (plan["prepared"]["inputs"].clone(), plan["prepared"]["reused"].clone());
    let inputs = first["prepared"]["inputs"].clone();
    assert_eq!(use_of(&plan(&[])), (inputs.clone(), json!(false)));
    let named = ["--prepared", first["prepared"]["image"].as_str().unwrap()];
    assert_eq!(use_of(&plan(&named)), (inputs.clone(), json!(true)));
    assert_eq!(use_of(&plan(&[])), (inputs.clone(), json!(false)), "a plan remembers nothing");
    folder.run("build", "out", &[&argument[..], &named].concat());
    assert_eq!(use_of(&plan(&[])), (inputs, json!(true)));
}

/// Its last part copies from the base, and from a stage that both parts reach.
const BESIDE: &str = "\
FROM base AS tools
RUN test ! -e /etc/a && echo tools > /tools
FROM base AS os
COPY --from=tools /tools /usr/share/tools
RUN cp /proc/sys/kernel/random/uuid /usr/share/uuid
FROM configs AS final
COPY --from=base /etc/debian_version /version
RUN --mount=type=bind,from=tools,target=/t cp /t/tools /copied && test -e /etc/a
";

#[test]
fn a_last_part_gets_the_base_too() {
    let folder = Folder::new();
    folder.write("1", BESIDE);
    let first = folder.run("build", "out", &[]);
    folder.write("22", BESIDE);
    let second = folder.run("build", "out", &[]);
    for (result, reused) in [(&first, false), (&second, true)] {
        assert_eq!(result["method"], "last-part", "{result:#}");
        assert_eq!(result["prepared"]["reused"], reused, "{result:#}");
    }
    let at_once = folder.run("build", "once", &["--method", "containerfile"]);
    assert_eq!(at_once["tags"], second["tags"]);
    let [at_once, beside] = ["once", "out"].map(|output| {
        let mut tree = folder.tree(output);
        assert!(tree.0.remove("usr/share/uuid").is_some());
        tree
    });
    at_once.assert_same(&beside, "the tree");
    assert!(beside.0.contains_key("version") && beside.0.contains_key("copied"));
}

/// Its first part has another content each time that it runs, and its last part reads the config.
const BOTH: &str = "\
FROM base AS os
RUN test ! -e /etc/a && cp /proc/sys/kernel/random/uuid /usr/share/uuid
FROM configs AS final
RUN test $(stat -c %a /etc/a) = 640 && cp -a /etc/a /usr/share/a && rm /etc/early && mkdir -m 700 /opt/last
";

#[test]
fn another_config_runs_only_the_last_part() {
    let folder = Folder::new();
    folder.write("1", BOTH);
    let plan = folder.run("plan", "out", &[]);
    assert_eq!(
        (&plan["method"], &plan["prepared"]["reused"]),
        (&json!("last-part"), &json!(false))
    );
    let again = |plan: &Value| {
        let stages = plan["stages"].as_array().unwrap();
        stages.iter().map(|stage| stage["runsAgain"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(again(&plan), [0, 1], "{plan:#}");
    let at_once = folder.run("build", "once", &["--method", "containerfile"]);
    assert_eq!(at_once["method"], "containerfile");
    let printed = folder.printed();
    let first = folder.run("build", "out", &[]);
    assert_eq!(folder.printed(), printed, "the prepared base is there");
    assert!(!printed[0].contains("\"mosb.dev/prepared\""), "{}", printed[0]);
    let use_of = |result: &Value| (result["method"].clone(), result["prepared"]["reused"].clone());
    assert_eq!(use_of(&first), (json!("last-part"), json!(false)), "{first:#}");
    for field in ["inputs", "tags"] {
        assert_eq!(first[field], at_once[field], "{field}");
    }
    let without_uuid = |output| {
        let mut tree = folder.tree(output);
        let uuid = tree.0.remove("usr/share/uuid").unwrap();
        (tree, uuid)
    };
    let (tree, uuid) = without_uuid("out");
    without_uuid("once").0.assert_same(&tree, "the tree");
    assert!(tree.0.contains_key("opt/last") && !tree.0.contains_key("etc/early"));

    // Another config: what was run before it is not run again, and what is run sees it.
    folder.write("22", BOTH);
    let second = folder.run("build", "out", &[]);
    assert_eq!(use_of(&second), (json!("last-part"), json!(true)), "{second:#}");
    let prepared = |result: &Value| {
        let image = result["prepared"]["image"].as_str().unwrap();
        image.split_once('@').unwrap().1.to_owned()
    };
    assert_eq!(prepared(&second), prepared(&first));
    let (tree, same) = without_uuid("out");
    assert_eq!(same, uuid);
    assert!(matches!(tree.0["usr/share/a"].kind, Kind::File { size: 2, .. }));
    let layout = Layout::at(folder.mosb.home().join("work/out"));
    let manifest = layout.json(second["digest"].as_str().unwrap());
    let image = layout.json(manifest["config"]["digest"].as_str().unwrap());
    assert_eq!(image["config"]["Labels"]["mosb.dev/prepared"], prepared(&first), "{image:#}");

    // Another last part runs on the same prepared base.
    let more = format!("{BOTH}RUN true\n");
    folder.write("22", &more);
    let plan = folder.run("plan", "out", &[]);
    assert_eq!((use_of(&plan), again(&plan)), ((json!("last-part"), json!(true)), vec![0, 2]));

    // One that needs the stage that the config is written on runs with all, and the plan says why.
    folder.write("22", &format!("{BOTH}COPY --from=os /etc/debian_version /version\n"));
    let plan = folder.run("plan", "out", &[]);
    assert_eq!((&plan["method"], &plan["prepared"]), (&json!("containerfile"), &Value::Null));
    assert_eq!(again(&plan), [1, 2], "{plan:#}");
    let warnings = plan["warnings"].as_array().unwrap();
    let why = warnings.iter().find(|one| one["code"] == "prepared-not-used").unwrap();
    assert!(why["message"].as_str().unwrap().contains("line 5"), "{why:#}");
}

#[test]
fn another_base_is_prepared_anew() {
    for (own, method) in [
        ("FROM base\nRUN cp /proc/sys/kernel/random/uuid /usr/share/uuid\n", "prepared"),
        (BOTH, "last-part"),
    ] {
        let folder = Folder::new();
        folder.write("1", own);
        let first = folder.run("build", "out", &[]);
        let old = folder.tree("out");
        folder.put_base(PlainBase::Second);
        let use_of = |result: &Value| {
            let prepared = &result["prepared"];
            assert_eq!(result["method"], method, "{result:#}");
            (prepared["inputs"].clone(), prepared["reused"].clone())
        };
        let (inputs, reused) = use_of(&folder.run("plan", "out", &[]));
        assert!(inputs != first["prepared"]["inputs"] && reused == false, "{method}: {inputs}");
        let named = ["--prepared", first["prepared"]["image"].as_str().unwrap()];
        let refused = folder.start("json", "build", "out", &named);
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
        assert_eq!(refused.json()["code"], "other-prepared-base", "{}", refused.text());
        let second = folder.run("build", "out", &[]);
        assert_eq!(use_of(&second), (inputs, json!(false)), "{second:#}");
        folder.run("build", "once", &["--method", "containerfile"]);
        let trees = ["once", "out"].map(|output| {
            let mut tree = folder.tree(output);
            (tree.0.remove("usr/share/uuid").unwrap(), tree)
        });
        trees[0].1.assert_same(&trees[1].1, method);
        let of_base = PlainBase::Second.snapshot();
        let of_image = &trees[1].1.0;
        for path in ["usr/share/second-layer", "etc/debian_version", "usr/lib/os-release"] {
            assert_eq!(of_image.get(path), of_base.0.get(path), "{method}: {path}");
        }
        assert!(!of_image.contains_key("usr/bin/factor") && old.0.contains_key("usr/bin/factor"));

        // From now on each base has its own.
        folder.write("22", own);
        for (base, made, of) in [
            (PlainBase::First, &first, &old.0["usr/share/uuid"]),
            (PlainBase::Second, &second, &trees[1].0),
        ] {
            folder.put_base(base);
            let again = folder.run("build", "out", &[]);
            assert_eq!(
                use_of(&again),
                (made["prepared"]["inputs"].clone(), json!(true)),
                "{again:#}"
            );
            assert_eq!(&folder.tree("out").0["usr/share/uuid"], of, "{method} on {base:?}");
        }
    }
}

#[test]
fn a_build_context_counts_by_what_is_copied() {
    let folder = Folder::new();
    let own = "\
FROM base
COPY files/ /usr/share/files/
FROM configs
COPY . /usr/share/all/
RUN --mount=type=bind,source=files,target=/m cp /m/a /usr/share/mounted
";
    folder.write("1", own);
    let context = folder.mosb.home().join("work/context");
    fs::create_dir_all(context.join("files")).unwrap();
    let put = |name: &str, text: &str| fs::write(context.join(name), text).unwrap();
    put("files/a", "1");
    put("files/key.pem", "secret");
    put("other", "1");
    put(".containerignore", "**/*.pem\n");
    symlink("/etc/shadow", context.join("files/link")).unwrap();
    let plan = || {
        let plan = folder.run("plan", "out", &["--context", "context"]);
        (plan["inputs"].clone(), plan["prepared"]["reused"].clone())
    };
    let built = folder.run("build", "out", &["--context", "context"]);
    let tree = folder.tree("out");
    for (path, is_there) in [
        ("usr/share/files/a", true),
        ("usr/share/files/key.pem", false),
        ("usr/share/all/files/a", true),
        ("usr/share/all/files/key.pem", false),
        ("usr/share/all/other", true),
        ("usr/share/all/machineconfig", false),
        ("usr/share/mounted", true),
    ] {
        assert_eq!(tree.0.contains_key(path), is_there, "{path}");
    }
    assert!(matches!(tree.0["usr/share/files/link"].kind, Kind::Link { .. }));
    let inputs = built["inputs"].clone();
    put("files/key.pem", "another");
    assert_eq!(plan(), (inputs.clone(), json!(true)), "what is ignored");
    put("other", "2");
    let (other, reused) = plan();
    assert_eq!((other != inputs, reused), (true, json!(true)), "what the last part copies");
    put("files/a", "2");
    let (changed, reused) = plan();
    assert_eq!((changed != other, reused), (true, json!(false)), "what the prepared part copies");
}
