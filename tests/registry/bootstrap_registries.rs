//! `mosb bootstrap` checks the images at real registries before it writes anything.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::bootstrap::{API, Desk, files};
use mosb_tests::{
    Access, Compression, Image, Layout, Mosb, Registry, Server, Transport, Tree, valid,
};

/// A base that a node can boot.
pub fn bootable() -> Image {
    let tree = Tree::new()
        .directory("etc", 0o755)
        .file("etc/passwd", 0o644, "root:x:0:0::/root:/bin/sh\n")
        .file("etc/group", 0o644, "root:x:0:\n")
        .directory("usr", 0o755)
        .directory("usr/bin", 0o755)
        .file("usr/bin/systemctl", 0o755, "");
    Image::new()
        .label("containers.bootc", "1")
        .label("ostree.bootable", "1")
        .layer(Compression::Gzip, tree.tar())
}

/// Manifests of a pool with an image at a registry, a pool with the stock image, and credentials
/// for both.
fn at_registry(registry: &Registry, image: &str, login: &Path, base: &str) -> String {
    let object = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": API, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let role = "machineconfiguration.openshift.io/role";
    let pool = |name: &str| {
        let selector = json!({ "machineConfigSelector": { "matchLabels": { role: name } } });
        object("MachineConfigPool", name, selector)
    };
    let mut master = object("MachineConfig", "00-master", json!({}));
    master["metadata"]["labels"] = json!({ role: "master" });
    let push_spec = format!("{}:latest", registry.repository("os/worker"));
    let mut seed = object(
        "MachineOSConfig",
        "worker",
        json!({
            "machineConfigPool": { "name": "worker" }, "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "login" }, "renderedImagePushSpec": push_spec,
        }),
    );
    seed["metadata"]["annotations"] =
        json!({ "machineconfiguration.openshift.io/pre-built-image": image });
    let ca = fs::read_to_string(registry.certificates().join("ca.crt")).unwrap();
    let settings = json!({
        "baseOSContainerImage": base, "globalPullSecret": "login",
        "imageRegistryBundles": { registry.address(): ca },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        pool("worker"), pool("master"), master, seed,
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" }, "data": { "config.yaml": settings.to_string() } },
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login" }, "type": "kubernetes.io/dockerconfigjson",
          "stringData": { ".dockerconfigjson": fs::read_to_string(login).unwrap() } },
    ] })
    .to_string()
}

#[test]
fn nothing_is_written_if_a_registry_rejects() {
    let registry = Registry::start(Server::Debian, Access::Basic, Transport::Https);
    let desk = Desk(Mosb::new());
    let layout = Layout::create(&desk.at("stock"));
    let digest = layout.put("os", &bootable());
    registry.push(&layout, "os", "os/worker:1");
    registry.push(&layout, "os", "os/stock:stable");
    let login = registry.authfile();
    let image = format!("{}@{digest}", registry.repository("os/worker"));
    let missing = format!("{}@sha256:{}", registry.repository("os/worker"), "1".repeat(64));
    let nowhere = format!("127.0.0.1:19/os/worker@{digest}");
    let base = format!("{}:stable", registry.repository("os/stock"));
    for (what, image, login, code) in [
        ("an image that is gone", &missing, &login, 1),
        ("a login that is wrong", &image, &registry.wrong_authfile(), 1),
        ("nobody there", &nowhere, &login, 3),
    ] {
        desk.write("manifests/all.json", &at_registry(&registry, image, login, &base));
        let finished = desk.run("bootstrap --manifests manifests --output out -o json");
        assert_eq!(finished.code(), Some(code), "{what}: {finished:?}");
        valid(&finished.json());
        assert!(!desk.at("out").exists(), "{what}");
        let report = finished.text() + &finished.stderr;
        assert!(
            !report.contains("not-a-secret") && report.contains("MachineOSConfig worker"),
            "{what}: {report}"
        );
    }
    // All checks pass, and the stock image's tag has the digest that the controller would use.
    desk.write("manifests/all.json", &at_registry(&registry, &image, &login, &base));
    desk.run("bootstrap --manifests manifests --output out").ok();
    let out = files(&desk.at("out"));
    let pool = &out["machineconfigpool-master.yaml"].1;
    let pinned = format!("{}@{digest}", registry.repository("os/stock"));
    assert!(pool.contains("mosb.dev/pins: ") && pool.contains(&pinned), "{pool}");
    let codes = desk.bootstrap("--manifests manifests --output out").json();
    assert_eq!(codes["findings"][0]["code"], "image-not-pinned");
    assert_eq!(files(&desk.at("out")), out);
}
