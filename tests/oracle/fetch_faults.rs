//! Faults of `image-fetch`: killed at each request, a fault at each request, and a config that does not
//! go together with the prepared base.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::job_pod::{Pod, ended};
use crate::kills::{Moments, Program, Requests};
use crate::pod_faults::{contained, debian};
use mosb_image::Digest;
use mosb_tests::build_fixture::{names, with};
use mosb_tests::{Fault, FaultProxy, Layout, Registry};

const PREPARE: [&str; 1] = ["--prepare"];
/// The file is too large for its content to be in the tree.
const TEXT: &str = "\
FROM base
RUN head -c 70000 /dev/zero > /etc/large
FROM configs
RUN cp /etc/mine /etc/copied
";

/// A registry with a prepared base, behind a proxy.
struct Site {
    registry: Registry,
    proxy: FaultProxy,
    /// The flags of a pod on the prepared base.
    on: Vec<String>,
}

impl Site {
    fn new() -> Self {
        let (registry, proxy) = debian();
        let mut site = Self { registry, proxy, on: Vec::new() };
        let makes = site.pod(&json!({}));
        ended(makes.containerfile(&PREPARE)).ok();
        makes.run(makes.push(&PREPARE)).ok();
        let made = makes.result("result").unwrap();
        let image = |digest: &Value| {
            format!("{}/acme/os@{}", site.proxy.address(), digest.as_str().unwrap())
        };
        let (prepared, tree) =
            (image(&made["prepared"]["image"]), image(&made["baseTree"]["image"]));
        site.on = ["--prepared", &prepared, "--prepared-tree", &tree].map(str::to_owned).into();
        site
    }

    /// A pod for a config with `/etc/mine`, and another file.
    fn pod(&self, file: &Value) -> Pod {
        let mine = json!({ "path": "/etc/mine", "contents": { "source": "data:,mine" } });
        let mut files = vec![mine];
        files.extend(file.get("path").map(|_| file.clone()));
        let config = with("storage", json!({ "files": files }));
        Pod::with(contained(), &self.proxy.address(), &config, Some(TEXT), &[])
    }

    fn on(&self) -> Vec<&str> {
        self.on.iter().map(String::as_str).collect()
    }

    /// Runs `image-fetch` to its end.
    #[track_caller]
    fn fetch(&self, pod: &Pod, what: &str) -> [Value; 2] {
        let finished = pod.run(pod.fetch(&self.on()));
        assert!(finished.status.success(), "{what}: {}", finished.stderr);
        assert_eq!(pod.result("result"), None, "{what}: it is no result");
        left(&pod.volume("image").join("configs"), what)
    }

    /// Runs the other containers, and returns the digest of the image.
    #[track_caller]
    fn finish(&self, pod: &Pod, on: &[&str]) -> Value {
        ended(pod.containerfile(on)).ok();
        pod.run(pod.push(on)).ok();
        pod.result("result").unwrap()["digest"].clone()
    }
}

/// What buildah loads: the manifest of the prepared base, and the layers of the image on it. The config
/// of that one differs at each time. Each blob has its digest.
#[track_caller]
fn left(folder: &Path, what: &str) -> [Value; 2] {
    assert_eq!(names(folder), ["configs", "prepared"], "{what}");
    let [prepared, configs] = ["prepared", "configs"].map(|name| {
        let layout = Layout::at(folder.join(name));
        let blobs = folder.join(name).join("blobs/sha256");
        for blob in names(&blobs) {
            let found = Digest::of(&fs::read(blobs.join(&blob)).unwrap());
            assert_eq!(found.hex().to_string(), blob, "{what}: {name}");
        }
        layout.json(&layout.digest(name))
    });
    [prepared, configs["layers"].clone()]
}

#[test]
fn a_fetch_survives_each_kind_of_request() {
    a_disturbed_fetch_leaves_the_same(Requests::OfEachKind);
}

#[test]
#[ignore = "make test-all: each fault at each request"]
fn a_fetch_survives_each_request() {
    a_disturbed_fetch_leaves_the_same(Requests::All);
}

#[track_caller]
fn a_disturbed_fetch_leaves_the_same(requests: Requests) {
    let site = Site::new();
    let undisturbed = site.pod(&json!({}));
    site.fetch(&undisturbed, "undisturbed");
    let image = site.finish(&undisturbed, &site.on());

    let pod = site.pod(&json!({}));
    let faults = [
        Fault::CutBefore,
        Fault::CutAnswer,
        Fault::CutBody(10),
        Fault::status(500),
        Fault::too_many(0),
    ];
    let program = Program {
        proxy: &site.proxy,
        clear: &|| {
            fs::remove_dir_all(pod.volume("image").join("configs")).ok();
        },
        command: &|| pod.fetch(&site.on()),
        end: &|what| json!(site.fetch(&pod, what)),
        left: &|what, _, _| assert_eq!(pod.result("result"), None, "{what}: it had no time"),
    };
    program.ends_the_same(&Moments { faults: &faults, ..Moments::of(requests, 5) });
    assert_eq!(site.finish(&pod, &site.on()), image);
}

#[test]
fn a_config_against_the_base_runs_at_once() {
    let site = Site::new();
    let line = json!([{ "source": "data:,more" }]);
    let pod = site.pod(&json!({ "path": "/etc/large", "append": line }));
    let fetched = pod.run(pod.fetch(&site.on()));
    assert_eq!(fetched.code(), Some(1), "buildah does not start: {}", fetched.stderr);
    assert!(!pod.volume("image").join("configs").exists());
    let result = pod.result("result").unwrap();
    assert_eq!(result["outcome"], "NeedsContainerfile", "{result:#}");
    let reasons = result["reasons"].to_string();
    assert!(reasons.contains("append-to-base") && reasons.contains("/etc/large"), "{reasons}");

    // The next Job.
    let digest = site.finish(&pod, &[]);
    let out = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:image", out.path().display());
    site.registry.pull(&format!("acme/os@{}", digest.as_str().unwrap()), &layout);
    let layout = Layout::at(out.path().to_owned());
    let mut tree = mosb_tests::Snapshot::default();
    for layer in layout.layers("image") {
        tree = tree.with_layer(layer).unwrap();
    }
    let kind = &tree.0["etc/large"].kind;
    assert!(matches!(kind, mosb_tests::Kind::File { size: 70004, .. }), "{kind:?}");
    assert!(tree.0.contains_key("etc/copied"));
}
