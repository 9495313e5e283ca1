//! Instructions that need the config, in pods: one makes the prepared base, another fetches it, runs
//! only these on it, and pushes.

use std::fs;

use serde_json::{Value, json};

use crate::job_containerfile::{debian_registry, pod};
use crate::job_pod::ended;
use mosb_tests::build_fixture::with;
use mosb_tests::{Layout, Snapshot};

const TEXT: &str = "\
FROM base
RUN test ! -e /etc/mine && cp /proc/sys/kernel/random/uuid /usr/share/uuid
FROM configs
COPY --from=base /etc/debian_version /etc/version
RUN cp /etc/mine /etc/copied
";

#[test]
fn a_last_part_runs_on_another_pods_base() {
    let registry = debian_registry();
    let file = json!({ "path": "/etc/mine", "contents": { "source": "data:,mine" } });
    let pod = pod(&registry, &with("storage", json!({ "files": [file] })), TEXT);
    ended(pod.containerfile(&["--prepare"])).ok();
    pod.run(pod.push(&["--prepare"])).ok();
    let made = pod.result("result").unwrap();
    assert_eq!(made["outcome"], "Prepared", "{made:#}");
    let image =
        |digest: &Value| format!("{}/acme/os@{}", registry.address(), digest.as_str().unwrap());
    let (prepared, tree) = (image(&made["prepared"]["image"]), image(&made["baseTree"]["image"]));

    // The volumes of another pod.
    for volume in ["result", "image"] {
        fs::remove_dir_all(pod.volume(volume)).unwrap();
        fs::create_dir(pod.volume(volume)).unwrap();
    }
    let on = ["--prepared", &*prepared, "--prepared-tree", &*tree];
    pod.run(pod.fetch(&on)).ok();
    assert_eq!(pod.result("result"), None, "it is no result");
    let built = ended(pod.containerfile(&on)).ok();
    let ran = |text: &str| built.stderr.contains(text);
    assert!(ran("RUN cp /etc/mine") && !ran("RUN test"), "{}", built.stderr);
    pod.run(pod.push(&on)).ok();
    let result = pod.result("result").unwrap();
    assert_eq!(result["outcome"], "Succeeded", "{result:#}");
    assert_eq!((&result["method"], &result["prepared"]), (&json!("containerfile"), &Value::Null));
    let out = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:image", out.path().display());
    registry.pull(&format!("acme/os:{}", pod.build), &layout);
    let layout = Layout::at(out.path().to_owned());
    let manifest = layout.json(&layout.digest("image"));
    let config = layout.json(manifest["config"]["digest"].as_str().unwrap());
    assert_eq!(config["config"]["Labels"]["mosb.dev/prepared"], made["prepared"]["image"]);
    let mut tree = Snapshot::default();
    for layer in layout.layers("image") {
        tree = tree.with_layer(layer).unwrap();
    }
    for path in ["etc/mine", "etc/copied", "etc/version", "usr/share/uuid"] {
        assert!(tree.0.contains_key(path), "{path}");
    }

    // The container with the instructions reads nothing of the repository that is pushed to.
    registry.forget("acme/os");
    ended(pod.containerfile(&on)).ok();
    let missing = pod.run(pod.fetch(&on));
    assert_eq!(missing.code(), Some(3), "{}", missing.stderr);
    let failed = pod.result("result").unwrap();
    assert_eq!(
        (&failed["step"], &failed["reason"]),
        (&json!("image-fetch"), &json!("prepared-missing"))
    );
}
