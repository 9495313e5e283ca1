//! A policy of the settings requires signatures of a pool's base, of its images, and of a pre-built one.
//! On a real API server, with a real registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::image_promotion::{annotate, wait_condition};
use crate::test_cluster::{BUILD, Cluster, SOON};
use mosb_tests::{Layout, Mosb, build_fixture, wait};

/// Pushes a base under a tag of its own, and returns its name with the tag, and its digest.
fn push_base(cluster: &Cluster, version: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(&folder.path().join("base"));
    let image = build_fixture::base().label("org.opencontainers.image.version", version);
    let digest = layout.put("base", &image);
    let registry = cluster.node.registry();
    let name = format!("{}-base:{version}", cluster.pool);
    registry.push(&layout.reference("base"), &name);
    (registry.repository(&name), digest)
}

fn policy(repository: &str, key: &str) -> Value {
    let signed = json!({ "type": "sigstoreSigned", "keyData": STANDARD.encode(key) });
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { repository: [signed] } },
    });
    json!({ "signaturePolicy": policy.to_string() })
}

/// A key, and the program that signs with it.
struct Signer {
    mosb: Mosb,
    /// The public key, PEM.
    key: String,
}

impl Signer {
    fn new() -> Self {
        let mosb = Mosb::new();
        let file = mosb.home().join("os.key");
        mosb.run(["keys", "new", file.to_str().unwrap()]).ok();
        let key = std::fs::read_to_string(mosb.home().join("os.key.pub")).unwrap();
        Self { mosb, key }
    }

    fn sign(&self, cluster: &Cluster, image: &str) {
        let registry = cluster.node.registry();
        let key = self.mosb.home().join("os.key");
        let (authfile, certificates) = (registry.authfile(), registry.certificates());
        let mut sign = vec!["sign", image, "--sign-key", key.to_str().unwrap()];
        sign.extend(["--authfile", authfile.to_str().unwrap()]);
        sign.extend(["--cert-dir", certificates.to_str().unwrap()]);
        self.mosb.run(sign).ok();
    }
}

/// Waits until the pool is blocked, and returns why.
fn blocked(cluster: &Cluster) -> String {
    wait("Blocked by the policy", SOON, || {
        let config = cluster.config();
        let all = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let blocked =
            all.into_iter().find(|one| one["type"] == "Blocked" && one["status"] == "True");
        Some(blocked?["message"].as_str().unwrap().to_owned())
    })
}

#[test]
fn a_base_is_built_on_once_it_is_signed() {
    let mut cluster = Cluster::new("signatures");
    let signer = Signer::new();
    let ((first_base, _), (second_base, _)) = (push_base(&cluster, "1"), push_base(&cluster, "2"));
    cluster.render_on(&first_base, "first");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");

    let (repository, _) = first_base.rsplit_once(':').unwrap();
    cluster.settings_with(&policy(repository, &signer.key));
    cluster.render_on(&second_base, "second");
    let message = blocked(&cluster);
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

    signer.sign(&cluster, &second_base);
    let second = cluster.image_after(&first);
    assert_eq!(cluster.file(&second, "/etc/story"), "second");
    assert_eq!(cluster.builds().len(), 2);
}

/// Waits until the newest image is out of service because it has no signature; its build and digest.
fn unsigned(cluster: &Cluster, repository: &str) -> (String, String) {
    let message = wait_condition(cluster, "ImageChecked", "False", "ChecksFailed");
    for part in ["signature: ", "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let (pin, _) = message.split_once(": ").unwrap();
    let (build, digest) = pin.split_once('@').unwrap();
    (build.to_owned(), digest.to_owned())
}

#[test]
fn unsigned_image_stays_out_of_service() {
    let mut cluster = Cluster::new("signed-image");
    let signer = Signer::new();
    let (base, _) = push_base(&cluster, "1");
    cluster.render_on(&base, "first");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");

    // By the policy of the settings.
    let (repository, _) = first.split_once('@').unwrap();
    let policy = policy(repository, &signer.key);
    cluster.settings_with(&policy);
    cluster.render_on(&base, "second");
    cluster.wait_status("checks-failed");
    let (build, digest) = unsigned(&cluster, repository);
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(first));
    let built = format!("{repository}@{digest}");
    signer.sign(&cluster, &built);
    // It is made again at once, and not after some minutes.
    let again = json!({ "metadata": { "annotations": { "mosb.dev/checked": null } } });
    cluster.patch(&format!("machineosbuild/{build}"), &again);
    assert_eq!(cluster.image_after(&first), built);

    // By the policy of the machines' config.
    cluster.settings_with(&json!({}));
    let text = policy["signaturePolicy"].as_str().unwrap();
    let source = format!("data:;base64,{}", STANDARD.encode(text));
    let file = json!({ "path": "/etc/containers/policy.json", "mode": 420, "contents": { "source": source } });
    cluster.render_files(&base, &[file]);
    cluster.wait_status("checks-failed");
    let (_, third) = unsigned(&cluster, repository);
    assert_ne!(third, digest);
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(built));
    // Without its check, it is in service.
    annotate(&cluster, "mosb.dev/checks", "signature=warn");
    assert!(cluster.image_after(&built).ends_with(&third));
}

#[test]
fn unsigned_pre_built_image_changes_nothing() {
    let mut cluster = Cluster::new("signed-seed");
    let signer = Signer::new();
    let (name, digest) = push_base(&cluster, "1");
    let (repository, _) = name.rsplit_once(':').unwrap();
    let image = format!("{repository}@{digest}");
    cluster.settings_with(&policy(repository, &signer.key));
    cluster.render("first");
    cluster.opt_in(None);
    annotate(&cluster, "machineconfiguration.openshift.io/pre-built-image", &image);
    cluster.start();
    let message = blocked(&cluster);
    for part in [&*image, "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let component = format!("machineconfig/10-prebuiltimage-osimageurl-{}", cluster.pool);
    let is_there = || cluster.node.kubectl(&["get", &component]).status.success();
    assert!(!is_there() && cluster.builds().is_empty());

    signer.sign(&cluster, &image);
    wait("its MachineConfig", BUILD, || is_there().then_some(()));
}
