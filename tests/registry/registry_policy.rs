//! The client applies a cluster's `policy.json` to images.

use std::path::PathBuf;

use mosb_registry::{Client, Error, Options};
use serde_json::json;

use mosb_tests::registry_fixture::{base, options, plan_on, source, target};
use mosb_tests::{Mosb, Registry};

/// A policy in OpenShift's form: it rejects all but some registries, and some of these require
/// signatures.
fn policy(directory: &std::path::Path, registry: &str) -> PathBuf {
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let policy = json!({
        "default": [{ "type": "reject" }],
        "transports": {
            "atomic": { registry: accept },
            "docker": {
                registry: accept,
                format!("{registry}/acme/secret"): [{ "type": "reject" }],
                format!("{registry}/release"): [{
                    "type": "sigstoreSigned", "keyData": "eA==", "signedIdentity": { "type": "matchRepoDigestOrExact" }
                }],
            },
            "docker-daemon": { "": accept },
        },
    });
    let file = directory.join("policy.json");
    std::fs::write(&file, policy.to_string()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_prevents_pull_and_push() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("layout"), 1 << 10);
    let (registry, other) = (Registry::plain(), Registry::plain());
    for name in ["acme/os:v1", "acme/secret/os:v1", "release/os:v1"] {
        registry.push(&layout, "v1", name);
    }
    other.push(&layout, "v1", "acme/os:v1");
    let file = policy(directory.path(), registry.address());
    let client = |named| {
        Client::new(&Options { signature_policy: Some((file.clone(), named)), ..options() })
            .unwrap()
    };
    let image = |name: &str| source(&registry.repository(name));
    let good = client(true).resolve(&image("acme/os:v1"), None).await.unwrap();
    for (what, rejected) in [
        ("a narrower scope", image("acme/secret/os:v1")),
        ("by digest", image(&format!("acme/secret/os@{}", good.manifest))),
        ("the default", source(&other.repository("acme/os:v1"))),
    ] {
        let error = client(false).resolve(&rejected, None).await.unwrap_err();
        assert!(matches!(error, Error::Rejected { .. }), "{what}: {error}");
        assert!(error.to_string().contains("policy.json"), "{what}: {error}");
    }
    let plan = plan_on(&good, "x", &["new"]);
    let place = target(&registry.repository("acme/secret/new"));
    let error = client(true).push(&place, &plan).await.unwrap_err();
    assert!(matches!(error, Error::Rejected { .. }), "{error}");
    client(false).push(&place, &plan).await.unwrap();

    // A signature that is required is checked before a build, not for each read.
    client(true).resolve(&image("release/os:v1"), None).await.unwrap();

    // The policy comes from the command-line option.
    let mosb = Mosb::new();
    let rejected = registry.repository("acme/secret/os:v1");
    let file = file.to_str().unwrap();
    let finished = mosb.run(["inspect", &rejected, "--signature-policy", file, "-o", "json"]);
    assert_eq!(finished.json()["code"], "rejected", "{finished:?}");
}
