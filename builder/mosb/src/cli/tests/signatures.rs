//! Keys, signatures, and who signed an image.

use super::{digest, looks_like};
use mosb_commands::keys::KeyInfo;
use mosb_commands::sign::{SignedImage, SignedManifest};
use mosb_commands::verify::*;
use mosb_types::Finding;

const IMAGE: &str = "registry.example.com/os/worker:v1";

#[test]
fn keys() {
    let key = KeyInfo {
        file: "os.key".to_owned(),
        public_file: Some("os.key.pub".to_owned()),
        private: true,
        algorithm: "ECDSA P-256".to_owned(),
        fingerprint: digest("key"),
        public_key: "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n".to_owned(),
    };
    looks_like("key", &key);
}

#[test]
fn a_signed_index() {
    let manifest = |of: &str, platform: Option<&str>, added| SignedManifest {
        digest: digest(of),
        platform: platform.map(str::to_owned),
        tag: format!("{}.sig", digest(of).replace(':', "-")),
        added,
    };
    let signed = SignedImage {
        image: format!("registry.example.com/os/worker@{}", digest("index")),
        key: digest("key"),
        identities: vec![IMAGE.to_owned()],
        manifests: vec![manifest("index", None, true), manifest("a", Some("linux/amd64"), false)],
    };
    looks_like("signed-image", &signed);
}

#[test]
fn an_image_that_is_not_accepted() {
    let signature =
        |key: Option<&str>, identity: Option<&str>, problem: Option<&str>| SignatureInfo {
            key: key.map(digest),
            identity: identity.map(str::to_owned),
            problem: problem.map(str::to_owned),
        };
    let attestation = |kind: &str, key: Option<&str>, problem: Option<&str>| AttestationInfo {
        predicate_type: Some(kind.to_owned()),
        key: key.map(digest),
        description: key.map(|_| "by https://mosb.dev/builder/command-line, of base".to_owned()),
        problem: problem.map(str::to_owned),
    };
    let index = VerifiedManifest {
        digest: digest("index"),
        platform: None,
        accepted: true,
        reason: None,
        signatures: vec![
            signature(Some("key"), Some(IMAGE), None),
            signature(None, None, Some("none of the keys verifies it")),
        ],
        attestations: vec![
            attestation("https://slsa.dev/provenance/v1", Some("key"), None),
            attestation("https://spdx.dev/Document", None, Some("it is about another image")),
        ],
        other_referrers: vec![ReferrerInfo {
            digest: digest("bundle"),
            artifact_type: "application/vnd.dev.sigstore.bundle.v0.3+json".to_owned(),
        }],
        warnings: Vec::new(),
    };
    let image = VerifiedManifest {
        digest: digest("a"),
        platform: Some("linux/amd64".to_owned()),
        accepted: false,
        reason: Some("it has no signature".to_owned()),
        signatures: Vec::new(),
        attestations: Vec::new(),
        other_referrers: Vec::new(),
        warnings: vec![Finding::new("timed-out", "registry.example.com: no answer").object(IMAGE)],
    };
    let verification = Verification {
        image: IMAGE.to_owned(),
        digest: digest("index"),
        accepted: false,
        policy: Some(AppliedPolicy {
            file: "/etc/containers/policy.json".to_owned(),
            scope: "registry.example.com/os".to_owned(),
        }),
        manifests: vec![index, image],
    };
    looks_like("verification", &verification);
}
