//! A policy of the settings requires signatures of a pool's base. On a real API server, with a real
//! registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{Layout, Mosb, build_fixture, wait};

/// Pushes a base under a tag of its own, and returns its name.
fn push_base(cluster: &Cluster, version: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(&folder.path().join("base"));
    let image = build_fixture::base().label("org.opencontainers.image.version", version);
    layout.put("base", &image);
    let registry = cluster.node.registry();
    let name = format!("{}-base:{version}", cluster.pool);
    registry.push(&layout.reference("base"), &name);
    registry.repository(&name)
}

fn policy(repository: &str, key: &str) -> Value {
    let signed = json!({ "type": "sigstoreSigned", "keyData": STANDARD.encode(key) });
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { repository: [signed] } },
    });
    json!({ "signaturePolicy": policy.to_string() })
}

#[test]
fn a_base_is_built_on_once_it_is_signed() {
    let mut cluster = Cluster::new("signatures");
    let mosb = Mosb::new();
    let file = |name: &str| mosb.home().join(name).display().to_string();
    mosb.run(["keys", "new", &file("os.key")]).ok();
    let key = std::fs::read_to_string(file("os.key.pub")).unwrap();
    let (first_base, second_base) = (push_base(&cluster, "1"), push_base(&cluster, "2"));
    cluster.render_on(&first_base, "first");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");

    let (repository, _) = first_base.rsplit_once(':').unwrap();
    cluster.settings_with(&policy(repository, &key));
    cluster.render_on(&second_base, "second");
    let message = wait("Blocked by the policy", SOON, || {
        let config = cluster.config();
        let all = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let blocked =
            all.into_iter().find(|one| one["type"] == "Blocked" && one["status"] == "True");
        Some(blocked?["message"].as_str().unwrap().to_owned())
    });
    for part in [&*second_base, "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Each new try is planned first.
    wait("its status", SOON, || {
        let status = cluster.mosb(&["status", &cluster.pool]).ok().text();
        status.contains("it has no signature").then_some(())
    });
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(first));
    assert_eq!(cluster.builds().len(), 1, "nothing is built");

    let registry = cluster.node.registry();
    let (authfile, certificates) = (registry.authfile(), registry.certificates());
    let key = file("os.key");
    let mut sign = vec!["sign", &second_base, "--sign-key", &key];
    sign.extend(["--authfile", authfile.to_str().unwrap()]);
    sign.extend(["--cert-dir", certificates.to_str().unwrap()]);
    mosb.run(sign).ok();
    let second = cluster.image_after(&first);
    assert_eq!(cluster.file(&second, "/etc/story"), "second");
    assert_eq!(cluster.builds().len(), 2);
}
