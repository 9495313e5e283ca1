//! A direct build produces the same tree as the real `ignition-apply` and `systemctl preset` on the
//! same base.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_tests::{Compression, Entry, Kind, Layout, Mosb, Sandbox, Snapshot, base_image};

mod cases;
mod generated;
mod rendered;

/// A base image, and the same tree for the real tools.
#[derive(Debug)]
struct Base {
    directory: TempDir,
    layout: Layout,
    layers: Vec<Vec<u8>>,
    snapshot: Snapshot,
    mosb: Mosb,
}

impl Base {
    /// The Debian root with these layers on top. The direct build reads whiteouts; the sandbox
    /// deletes the files.
    fn new(layers: Vec<Vec<u8>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = copy(&base_image(), &directory);
        let mut snapshot = Snapshot::default();
        for tar in &layers {
            layout.append("base", Compression::Gzip, tar);
        }
        for layer in layout.layers("base") {
            snapshot = snapshot.with_layer(layer).unwrap();
        }
        Self { directory, layout, layers, snapshot, mosb: Mosb::new() }
    }

    /// The tree of the real tools, or Ignition's error.
    fn real(&self, config: &Value) -> Result<Snapshot, String> {
        let sandbox = Sandbox::new();
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

    /// The tree of a direct build, or the exit code and error of the program.
    fn direct(&self, config: &Value) -> Result<Snapshot, (Option<i32>, Value)> {
        let rendered = rendered(config);
        let output = self.directory.path().join("output");
        let target = format!("oci:{}", output.display());
        let finished = self.mosb.run_with(
            [
                "build",
                "--method",
                "direct",
                // Only what Ignition and systemd make of the config.
                "--build-on",
                "os-change",
                "-",
                "--base",
                &self.layout.reference("base"),
                "--output",
                &target,
                "-o",
                "json",
            ],
            rendered.to_string().as_bytes(),
        );
        if finished.code() != Some(0) {
            return Err((finished.code(), finished.json()));
        }
        let result = finished.json();
        assert_eq!(result["method"], "direct", "{result:#}");
        let built = Layout::at(output.clone());
        let layer = built.layers(NAME).pop().unwrap();
        let snapshot = self.snapshot.with_layer(layer).unwrap();
        std::fs::remove_dir_all(output).unwrap();
        Ok(snapshot)
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

/// Checks and removes the files that only a direct build writes.
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
    NotDirect,
}

/// Compares one config on one base. Both trees are equal, both sides reject the config, or mosb
/// reports that it needs a Containerfile build.
fn compare(base: &Base, what: &str, config: &Value) -> Verdict {
    let direct = base.direct(config);
    if let Err((Some(2), error)) = &direct
        && error["code"] == "not-direct"
    {
        return Verdict::NotDirect;
    }
    match (base.real(config), direct) {
        (Ok(real), Ok(direct)) => {
            without_current_config(direct).assert_same(&real, &format!("{what}\n{config:#}"));
            Verdict::SameTree
        }
        (Err(_), Err((Some(2), _))) => Verdict::BothRefuse,
        (Err(real), Ok(_)) => {
            panic!("{what}: the real Ignition refuses and we don't: {real}\n{config:#}")
        }
        (real, Err((code, error))) => panic!(
            "{what}: exit code {code:?}, the real one {:?}: {error:#}\n{config:#}",
            real.map(|_| "writes")
        ),
    }
}

/// Compares a table. Most of its configs must not be rejected.
fn compare_all(base: &Base, cases: Vec<(&str, Value)>) {
    let count = cases.len();
    let verdicts = cases.iter().map(|(what, config)| compare(base, what, config));
    let same = verdicts.filter(|verdict| *verdict == Verdict::SameTree).count();
    assert!(same * 3 > count * 2, "only {same} of {count} cases compared a tree");
}

#[test]
fn a_plain_base_becomes_the_real_tools_tree() {
    compare_all(&Base::new(Vec::new()), cases::plain());
}

#[test]
fn a_hostile_base_becomes_the_real_tools_tree() {
    compare_all(&Base::new(vec![cases::hostile_base().tar()]), cases::hostile());
}

#[test]
fn configs_that_need_commands_are_built_by_containerfile() {
    let base = Base::new(vec![cases::hostile_base().tar()]);
    for (what, config, want) in cases::undecided() {
        assert_eq!(base.reasons(&config), want, "{what}");
    }
}

/// The number of generated configs. `MOSB_CASES` sets it.
fn how_many() -> u32 {
    std::env::var("MOSB_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(48)
}

#[test]
fn generated_configs_become_the_real_tools_tree() {
    let base = Base::new(vec![cases::hostile_base().tar()]);
    let same = std::cell::Cell::new(0);
    let config = proptest::test_runner::Config {
        cases: how_many(),
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&generated::config(), |config| {
            if compare(&base, "generated", &config) == Verdict::SameTree {
                same.set(same.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    let same = same.get();
    assert!(same * 6 > how_many(), "only {same} generated configs compared a tree");
}
