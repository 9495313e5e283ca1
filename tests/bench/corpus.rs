//! The share of the configs in this repository whose change runs nothing, before and after prepared
//! bases and the content of small files below `/etc`.

use std::fs;
use std::path::Path;

use mosb_api::{RenderedConfig, yaml};
use mosb_image::tree::{BaseTree, Kind, OwnedEntry, retained};
use mosb_image::{DiffId, Digest};
use mosb_plan::plan::{Base, BaseName, BuildRequest, BuilderNodes, Draft, Method, OwnParts};
use mosb_registry::{Source, base_tree};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::report::{Report, Table};
use crate::{fidelity_cases, fidelity_generated};
use mosb_tests::{Compression, Layout, base_image, run};

/// Configs that are generated.
const GENERATED: usize = 1000;
const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/acme.crt";

pub fn measure(fixture: &Fixture, report: &mut Report) {
    let site = Site::new(fixture);
    let testdata = testdata();
    let valid = testdata.iter().filter(|spec| site.classes(spec).is_some());
    let with_ca: Vec<_> = valid.cloned().map(with_certificate).collect();
    let (plain, hostile) = (fidelity_cases::plain(), fidelity_cases::hostile());
    let written = plain.into_iter().chain(hostile).map(|(_, config)| config);
    let written =
        written.chain(fidelity_cases::undecided().into_iter().map(|(_, config, _)| config));
    let mut table = Table::new([
        "",
        "configs",
        "before: nothing is run",
        "now: nothing is run",
        "now: on a prepared base",
        "now: all is run again",
    ]);
    let mut all = Counts::default();
    let mut row = |what: &str, specs: &[Value]| {
        let mut counts = Counts::default();
        specs.iter().for_each(|spec| counts.add(&site.classes(spec)));
        table.row(counts.row(what));
        counts
    };
    for (what, specs) in [
        ("rendered configs and Ignition configs of `testdata/`", testdata),
        ("written for the comparison with the real Ignition", specs(written)),
        ("generated for the same", specs(generated())),
    ] {
        all.sum(&row(what, &specs));
    }
    row("those of `testdata/`, each with a CA for the trust store", &with_ca);
    table.row(all.row("**all but the row above**"));
    report.table("corpus", table);
}

/// How many configs are of each class.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    direct_before: usize,
    direct: usize,
    prepared: usize,
    containerfile: usize,
}

impl Counts {
    fn add(&mut self, classes: &Option<(Class, Class)>) {
        // Ignition rejects it.
        let Some((before, now)) = classes else { return };
        self.all += 1;
        self.direct_before += usize::from(*before == Class::Direct);
        self.direct += usize::from(*now == Class::Direct);
        self.prepared += usize::from(*now == Class::Prepared);
        self.containerfile += usize::from(*now == Class::Containerfile);
    }

    fn sum(&mut self, other: &Self) {
        self.all += other.all;
        self.direct_before += other.direct_before;
        self.direct += other.direct;
        self.prepared += other.prepared;
        self.containerfile += other.containerfile;
    }

    fn row(&self, what: &str) -> [String; 6] {
        let share = |count: usize| format!("{:.1} %", count as f64 / self.all as f64 * 100.0);
        let counts = [self.direct_before, self.direct, self.prepared, self.containerfile];
        let [before, direct, prepared, containerfile] = counts.map(share);
        [what.to_owned(), self.all.to_string(), before, direct, prepared, containerfile]
    }
}

/// What a change of a config needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Direct,
    /// One layer on a prepared base.
    Prepared,
    Containerfile,
}

/// A base, its tree, and the tree as it was before it had small files below `/etc`.
struct Site {
    tree: BaseTree,
    before: BaseTree,
}

impl Site {
    /// The base that the comparisons with the real Ignition use.
    fn new(fixture: &Fixture) -> Self {
        let directory = fixture.fresh("corpus-base");
        let debian = base_image();
        let from = debian.blob_path(&debian.digest("base")).ancestors().nth(3).unwrap().to_owned();
        run("cp", ["-r".as_ref(), from.as_os_str(), directory.as_os_str()]);
        let layout = Layout::at(directory);
        layout.append("base", Compression::Gzip, &fidelity_cases::hostile_base().tar());
        let source: Source = layout.reference("base").parse().unwrap();
        let client = fixture.client();
        let tree = fixture.runtime.block_on(async {
            let resolved = client.resolve(&source, None).await.unwrap();
            let layers = mosb_build::resolve::layers(
                &base(&resolved.manifest_bytes, &resolved.config_bytes),
                &resolved,
            );
            base_tree::compute(&resolved.store, &layers).await.unwrap()
        });
        let mut entries = Vec::new();
        collect(&tree, "", &mut entries);
        let full = entries.len();
        for (path, entry) in &mut entries {
            if !retained::is_for_decisions(path) {
                entry.content = None;
            }
        }
        assert!(full > 1000, "{full} paths");
        Self { before: BaseTree::from_entries(entries), tree }
    }

    /// Before and now; `None` for a config that the real Ignition rejects too.
    fn classes(&self, spec: &Value) -> Option<(Class, Class)> {
        let before = match draft(spec)?.finish(&self.before).ok()?.method {
            Method::Direct => Class::Direct,
            Method::Prepared(_) | Method::LastPart(_) | Method::Containerfile(_) => {
                Class::Containerfile
            }
        };
        let now = match draft(spec)?.finish(&self.tree).ok()?.method {
            Method::Direct => Class::Direct,
            Method::Prepared(_) | Method::LastPart(_) | Method::Containerfile(_) => {
                self.with_prepared_base(spec)
            }
        };
        Some((before, now))
    }

    /// The tree of the base is that of the prepared base: what is run is not known here.
    fn with_prepared_base(&self, spec: &Value) -> Class {
        let draft = draft(spec).expect("it was one before");
        let Ok(prepared) = draft.prepared(OwnParts::default(), BuilderNodes::Any) else {
            return Class::Containerfile;
        };
        let [lower, upper] = ["layer", "run"].map(|layer| DiffId::of(layer.as_bytes()));
        let image = json!({ "os": "linux", "architecture": "amd64",
            "config": { "Labels": prepared.labels() },
            "rootfs": { "type": "layers", "diff_ids": [lower, upper] } });
        let manifest = json!({ "config": {}, "layers": [{}, {}] });
        let image = base(manifest.to_string().as_bytes(), image.to_string().as_bytes());
        let image = prepared.check(image).unwrap();
        match draft.finish_on(image, &self.tree).map(|plan| plan.method) {
            Ok(Method::Prepared(_)) => Class::Prepared,
            Ok(Method::Direct | Method::LastPart(_) | Method::Containerfile(_)) | Err(_) => {
                Class::Containerfile
            }
        }
    }
}

fn collect(tree: &BaseTree, directory: &str, entries: &mut Vec<(Vec<u8>, OwnedEntry)>) {
    for (name, entry) in tree.children(directory) {
        let name = String::from_utf8(name.to_vec()).unwrap();
        let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        let content = tree.content(&path).map(<[u8]>::to_vec);
        let owned = OwnedEntry {
            kind: entry.kind,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            size: entry.size,
            target: entry.target.map(<[u8]>::to_vec),
            content,
        };
        entries.push((path.clone().into_bytes(), owned));
        if entry.kind == Kind::Directory {
            collect(tree, &path, entries);
        }
    }
}

fn base(manifest: &[u8], config: &[u8]) -> Base {
    let name = BaseName::from_layout(Digest::of(manifest));
    Base::new(name, "base".to_owned(), None, manifest, config).unwrap()
}

fn draft(spec: &Value) -> Option<Draft> {
    let object = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": format!("rendered-worker-{:032}", 0) }, "spec": spec });
    let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [DiffId::of(b"layer")] } });
    let manifest = json!({ "config": {}, "layers": [{}] });
    let base = base(manifest.to_string().as_bytes(), image.to_string().as_bytes());
    Draft::new(BuildRequest::new(RenderedConfig::from_value(object).ok()?, base)).ok()
}

fn specs(configs: impl IntoIterator<Item = Value>) -> Vec<Value> {
    configs.into_iter().map(|config| json!({ "config": config })).collect()
}

/// The same configs in each run.
fn generated() -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    let config = fidelity_generated::config();
    (0..GENERATED).map(|_| config.new_tree(&mut runner).unwrap().current()).collect()
}

fn with_certificate(mut spec: Value) -> Value {
    let file = json!({ "path": ANCHOR, "mode": 0o644, "contents": { "source": "data:,x" } });
    let storage = &mut spec["config"]["storage"];
    match storage["files"].as_array_mut() {
        Some(files) => files.push(file),
        None => storage["files"] = json!([file]),
    }
    spec
}

/// The rendered configs, and the Ignition configs that are valid.
fn testdata() -> Vec<Value> {
    let directory = mosb_tests::repository().join("testdata");
    let mut found = Vec::new();
    rendered(&directory, &mut found);
    let cases = fs::read_to_string(directory.join("ignition/cases.jsonl")).unwrap();
    let mut configs: Vec<(String, Value)> = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let spec = case["spec"].as_str().unwrap();
        let last = spec.rsplit('-').next().unwrap().to_owned();
        let is_valid = case["problems"].as_array().is_some_and(Vec::is_empty);
        if is_valid && last.starts_with('3') && case["config"].is_object() {
            configs.push((last, case["config"].clone()));
        }
    }
    for (version, mut config) in configs {
        if config["ignition"]["version"].is_null() {
            let ignition = &mut config["ignition"];
            if !ignition.is_object() {
                *ignition = json!({});
            }
            ignition["version"] = json!(format!("{version}.0"));
        }
        found.push(json!({ "config": config }));
    }
    found
}

fn rendered(directory: &Path, found: &mut Vec<Value>) {
    let mut paths: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            rendered(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            for object in yaml::parse_all(text.as_bytes(), yaml::Limits::LIST).unwrap() {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if object["kind"] == "MachineConfig" && name.starts_with("rendered-") {
                    found.push(object["spec"].clone());
                }
            }
        }
    }
}
