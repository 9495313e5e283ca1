//! `mosb bootstrap` checks the images at real registries before it writes anything.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// A config that brings this policy to machines of pool `worker`.
fn with_policy(policy: &str) -> Value {
    let source = format!("data:;base64,{}", STANDARD.encode(policy));
    let file = json!({ "path": "/etc/containers/policy.json", "mode": 420, "contents": { "source": source } });
    json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": "50-policy", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } } })
}

#[test]
fn unsigned_image_is_not_installed() {
    let registry = Registry::start(Server::Debian, Access::Basic, Transport::Https);
    let desk = Desk(Mosb::new());
    let layout = Layout::create(&desk.at("stock"));
    let digest = layout.put("os", &bootable());
    registry.push(&layout, "os", "os/worker:1");
    registry.push(&layout, "os", "os/stock:stable");
    let image = format!("{}@{digest}", registry.repository("os/worker"));
    let base = format!("{}:stable", registry.repository("os/stock"));
    desk.run("keys new os.key").ok();
    let key = STANDARD.encode(fs::read(desk.at("os.key.pub")).unwrap());
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { registry.repository("os/worker"): [{ "type": "sigstoreSigned", "keyData": key }] } },
    });
    let policy = policy.to_string();
    let plain = || -> Value {
        serde_json::from_str(&at_registry(&registry, &image, &registry.authfile(), &base)).unwrap()
    };
    let mut in_settings = plain();
    let settings = &mut in_settings["items"][4]["data"]["config.yaml"];
    let mut parsed: Value = serde_json::from_str(settings.as_str().unwrap()).unwrap();
    parsed["signaturePolicy"] = json!(policy);
    *settings = json!(parsed.to_string());
    let mut in_config = plain();
    in_config["items"].as_array_mut().unwrap().push(with_policy(&policy));
    let run = |manifests: &Value| {
        desk.write("manifests/all.json", &manifests.to_string());
        desk.run("bootstrap --manifests manifests --output out -o json")
    };
    for (what, manifests, code) in [
        ("the policy of the settings", &in_settings, "preflight-failed"),
        ("the policy of machines", &in_config, "signature-not-accepted"),
    ] {
        let refused = run(manifests);
        let error = refused.json();
        valid(&error);
        assert_eq!((refused.code(), &error["code"]), (Some(1), &json!(code)), "{what}: {error:#}");
        assert!(error.to_string().contains("it has no signature"), "{what}: {error:#}");
        assert!(error.to_string().contains("signature-not-accepted"), "{what}: {error:#}");
        assert!(!desk.at("out").exists(), "{what}");
    }
    let (login, certificates) = (registry.authfile(), registry.certificates());
    let (login, certificates) = (login.display(), certificates.display());
    let access = format!("--authfile {login} --cert-dir {certificates}");
    desk.run(&format!("sign {image} --sign-key os.key {access}")).ok();
    for manifests in [&in_settings, &in_config] {
        run(manifests).ok();
    }
}
