//! A direct build produces the same tree as the real `ignition-apply` and `systemctl preset` on the
//! same base.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_tests::{Compression, Entry, Kind, Layout, Mosb, PlainBase, Sandbox, Snapshot};

mod cases;
mod generated;
mod rendered;
mod updated;

/// How an image is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Direct,
    /// On a base on which a step of an administrator was run.
    Prepared,
    Containerfile,
}

/// A base image, and the same tree for the real tools.
#[derive(Debug)]
struct Base {
    plain: PlainBase,
    directory: TempDir,
    layout: Layout,
    layers: Vec<Vec<u8>>,
    snapshot: Snapshot,
    mosb: Mosb,
}

impl Base {
    /// A plain base with these layers on top. The direct build reads whiteouts; the sandbox deletes
    /// the files.
    fn new(plain: PlainBase, layers: Vec<Vec<u8>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = copy(&plain.image(), &directory);
        let mut snapshot = Snapshot::default();
        for tar in &layers {
            layout.append("base", Compression::Gzip, tar);
        }
        for layer in layout.layers("base") {
            snapshot = snapshot.with_layer(layer).unwrap();
        }
        Self { plain, directory, layout, layers, snapshot, mosb: Mosb::new() }
    }

    /// The tree of the real tools, or Ignition's error.
    fn real(&self, config: &Value) -> Result<Snapshot, String> {
        let sandbox = Sandbox::of(self.plain);
        for tar in &self.layers {
            sandbox
                .run(
                    "/bin/tar",
                    &[
                        "--extract",
                        "--file=-",
                        "--directory=/",
                        "--numeric-owner",
                        "--same-permissions",
                        "--overwrite",
                    ],
                    tar,
                )
                .ok();
        }
        let config = config.to_string();
        if let Err(why) = sandbox.ignition_apply(&config)
            // Without a running systemd, instances fail in the last step, when the tree is
            // complete.
            && !why.contains("/run/systemd/private")
        {
            return Err(why);
        }
        for unit in preset_units(&config) {
            // systemctl changes nothing for a unit that it does not know.
            sandbox.preset(&[&unit]);
        }
        Ok(sandbox.snapshot())
    }

    /// The tree of a build by this method; nothing if another one is needed; or the exit code and the
    /// error of the program.
    fn built(
        &self,
        method: Method,
        config: &Value,
    ) -> Result<Option<Snapshot>, (Option<i32>, Value)> {
        // What is prepared stays in the target.
        let output = self.directory.path().join(format!("{method:?}").to_lowercase());
        let (base, target) = (self.layout.reference("base"), format!("oci:{}", output.display()));
        let steps = self.directory.path().join("Containerfile");
        std::fs::write(&steps, "FROM base\nRUN test ! -e /etc/machine-config-daemon\n").unwrap();
        let method_flags = match method {
            Method::Direct => ["--method", "direct"],
            Method::Prepared => ["--containerfile", steps.to_str().unwrap()],
            Method::Containerfile => ["--method", "containerfile"],
        };
        // Only what Ignition and systemd make of the config.
        let build = ["build", "-", "--build-on", "os-change", "--base", &base, "--output", &target];
        let finished = self.mosb.run_with(
            [&build[..], &method_flags, &["-o", "json"]].concat(),
            rendered(config).to_string().as_bytes(),
        );
        let result = finished.json();
        if finished.code() == Some(2) && result["code"] == "not-direct" {
            return Ok(None);
        }
        if finished.code() != Some(0) {
            return Err((finished.code(), result));
        }
        if result["method"] != format!("{method:?}").to_lowercase() {
            assert_eq!(method, Method::Prepared, "{result:#}");
            return Ok(None);
        }
        let layers = Layout::at(output).layers(NAME).into_iter();
        let added = layers.skip(self.layout.layers("base").len());
        Ok(Some(added.fold(self.snapshot.clone(), |tree, layer| tree.with_layer(layer).unwrap())))
    }

    /// The reasons for a Containerfile build.
    fn reasons(&self, config: &Value) -> Vec<String> {
        let finished = self.mosb.run_with(
            ["plan", "-", "--base", &self.layout.reference("base"), "-o", "json"],
            rendered(config).to_string().as_bytes(),
        );
        let plan = finished.ok().json();
        plan["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reason| reason["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

fn rendered(config: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": { "config": config },
    })
}

fn preset_units(config: &str) -> Vec<String> {
    let config: Value = serde_json::from_str(config).unwrap();
    let units =
        config.pointer("/systemd/units").and_then(Value::as_array).cloned().unwrap_or_default();
    let declared = units.iter().filter(|unit| unit.get("enabled").is_some_and(Value::is_boolean));
    declared.map(|unit| unit["name"].as_str().unwrap().to_owned()).collect()
}

/// A copy of a layout.
fn copy(layout: &Layout, directory: &TempDir) -> Layout {
    let to = directory.path().join("base");
    let from = layout.blob_path(&layout.digest("base")).ancestors().nth(3).unwrap().to_owned();
    let status = Command::new("cp").arg("-r").arg(from).arg(&to).status().unwrap();
    assert!(status.success());
    Layout::at(to)
}

/// Checks and removes the files that only a build writes.
fn without_current_config(mut built: Snapshot) -> Snapshot {
    let file =
        built.0.remove("etc/machine-config-daemon/currentconfig").expect("the config in the image");
    assert_eq!((file.mode, file.uid, file.gid), (0o600, 0, 0));
    let directory = built.0.remove("etc/machine-config-daemon").expect("its directory");
    assert_eq!(directory, Entry { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0 });
    built
}

/// The result of a successful comparison.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    SameTree,
    BothRefuse,
    OtherMethod,
}

/// Compares one config on one base. Both trees are equal, both sides reject the config, or mosb
/// reports that it needs another method.
fn compare(base: &Base, method: Method, what: &str, config: &Value) -> Verdict {
    let what = format!("{what}, {method:?} on {:?}\n{config:#}", base.plain);
    match (base.built(method, config), base.real(config)) {
        (Ok(None), _) => Verdict::OtherMethod,
        (Ok(Some(built)), Ok(real)) => {
            without_current_config(built).assert_same(&real, &what);
            Verdict::SameTree
        }
        (Err((Some(2), _)), Err(_)) => Verdict::BothRefuse,
        // The real one refuses it in the build.
        (Err((Some(1), _)), Err(_)) if method != Method::Direct => Verdict::BothRefuse,
        (Ok(Some(_)), Err(real)) => {
            panic!("{what}: the real Ignition refuses and we don't: {real}")
        }
        (Err((code, error)), real) => panic!(
            "{what}: exit code {code:?}, the real one {:?}: {error:#}",
            real.map(|_| "writes")
        ),
    }
}

/// Compares a table. Most of its configs must not be rejected.
fn compare_all(base: &Base, method: Method, cases: &[(&str, Value)]) {
    let verdicts = cases.iter().map(|(what, config)| compare(base, method, what, config));
    let same = verdicts.filter(|verdict| *verdict == Verdict::SameTree).count();
    let count = cases.len();
    assert!(same * 3 > count * 2, "only {same} of {count} cases compared a tree");
}

#[test]
fn a_plain_base_becomes_the_real_tools_tree() {
    let base = Base::new(PlainBase::First, Vec::new());
    compare_all(&base, Method::Direct, &[cases::plain(), updated::updated()].concat());
}

#[test]
fn a_hostile_base_becomes_the_real_tools_tree() {
    compare_all(&hostile(PlainBase::First), Method::Direct, &cases::hostile());
}

#[test]
fn the_second_base_becomes_the_real_tools_tree() {
    let base = Base::new(PlainBase::Second, Vec::new());
    compare_all(&base, Method::Direct, &[cases::plain(), updated::updated()].concat());
    compare_all(&base, Method::Prepared, &updated::updated());
    compare_all(&base, Method::Containerfile, &[updated::updates()]);
    compare_all(&hostile(PlainBase::Second), Method::Direct, &cases::hostile());
}

#[test]
#[ignore = "make test-all: each case on a prepared base, and more by Containerfile"]
fn every_method_makes_the_tree_on_each_base() {
    for plain in BASES {
        let base = Base::new(plain, Vec::new());
        compare_all(&base, Method::Prepared, &[cases::plain(), updated::updated()].concat());
        compare_all(&hostile(plain), Method::Prepared, &cases::hostile());
        // Among the others are some that take away the programs that such a build runs.
        compare_all(&base, Method::Containerfile, &updated::updated());
    }
}

#[test]
fn configs_that_need_commands_are_built_by_containerfile() {
    for plain in BASES {
        let base = hostile(plain);
        for (what, config, want) in cases::undecided() {
            assert_eq!(base.reasons(&config), want, "{what} on {plain:?}");
        }
    }
}

const BASES: [PlainBase; 2] = [PlainBase::First, PlainBase::Second];

fn hostile(plain: PlainBase) -> Base {
    Base::new(plain, vec![cases::hostile_base().tar()])
}

/// The number of generated configs. `MOSB_CASES` sets it.
fn how_many() -> u32 {
    std::env::var("MOSB_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(48)
}

#[test]
fn generated_configs_become_the_real_tools_tree() {
    compare_generated(&hostile(PlainBase::First));
}

#[test]
#[ignore = "make test-all: as on the first base"]
fn generated_configs_become_it_on_the_second() {
    compare_generated(&hostile(PlainBase::Second));
}

fn compare_generated(base: &Base) {
    let same = std::cell::Cell::new(0);
    let config = proptest::test_runner::Config {
        cases: how_many(),
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&generated::config(), |config| {
            if compare(base, Method::Direct, "generated", &config) == Verdict::SameTree {
                same.set(same.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    let same = same.get();
    assert!(same * 6 > how_many(), "only {same} generated configs compared a tree");
}
