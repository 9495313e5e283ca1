//! What a new machine has of its first image before it pulls it, made by the real `mosb bootstrap`.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::mosb::Mosb;

/// The unit that brings a machine to its image.
pub const FIRST_BOOT_UNIT: &str = "mosb-first-boot.service";

/// The directory `first-boot` of a machine whose image is `registry.invalid/REPOSITORY@DIGEST`, and
/// beside it the file of the unit. The registry of the image does not exist: the settings have a mirror
/// at `address`, where the repository has the same name, with this authority and these logins.
#[track_caller]
pub fn first_boot_files(
    repository: &str,
    digest: &str,
    address: &str,
    authority: &str,
    logins: &str,
) -> TempDir {
    let mosb = Mosb::new();
    let image = format!("registry.invalid/{repository}");
    let settings = json!({
        "globalPullSecret": "pull",
        "imageRegistryBundles": { address: authority },
        "mirrors": [{ "source": image, "mirrors": [format!("{address}/{repository}")] }],
    });
    let config = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let role = "machineconfiguration.openshift.io/role";
    let mut seed = config(
        "MachineOSConfig",
        "worker",
        json!({
            "machineConfigPool": { "name": "worker" }, "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": format!("{image}:latest"),
        }),
    );
    seed["metadata"]["annotations"] =
        json!({ "machineconfiguration.openshift.io/pre-built-image": format!("{image}@{digest}") });
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        config("MachineConfigPool", "worker", json!({ "machineConfigSelector": { "matchLabels": { role: "worker" } } })),
        seed,
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" }, "data": { "config.yaml": settings.to_string() } },
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pull" }, "type": "kubernetes.io/dockerconfigjson",
          "stringData": { ".dockerconfigjson": logins } },
    ] });
    let line = ["bootstrap", "--manifests", "-", "--output", "out", "--check-registry=false"];
    mosb.run_with(line, objects.to_string().as_bytes()).ok();
    let config = fs::read(mosb.home().join("work/out/ignition/worker.ign")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let directory = TempDir::new().unwrap();
    for file in config["storage"]["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let Some(name) = path.strip_prefix("/var/lib/mosb/") else {
            continue;
        };
        let source = file["contents"]["source"].as_str().unwrap();
        let bytes = STANDARD.decode(source.strip_prefix("data:;base64,").unwrap()).unwrap();
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let units = config["systemd"]["units"].as_array().unwrap();
    let unit = units.iter().find(|unit| unit["name"] == FIRST_BOOT_UNIT).unwrap();
    let text = unit["contents"].as_str().unwrap();
    fs::write(directory.path().join(FIRST_BOOT_UNIT), text).unwrap();
    directory
}
