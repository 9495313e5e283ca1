//! Whether a machine verifies the signature of an image that it pulls, and whether it refused one.
//!
//! bootc and rpm-ostree leave that to `policy.json` (containers-policy.json(5)), and refuse only one
//! that accepts everything by default. With any other, they pull an image without a signature if its
//! scope accepts that; so the policy is read before they are asked.

use mosb_api::rollout::NodeTarget;
use mosb_build::PullSettings;
use mosb_image::signature_policy::{DEFAULT, LIMIT, Requirement, SignaturePolicy};
use mosb_plan::plan::MACHINE_POLICY;

use crate::error::Error;
use crate::host_root::HostRoot;

/// How containers' tools say that a policy does not accept an image (go.podman.io/image, package
/// `signature`); the last one is Debian 12's, whose tools refuse each signature of sigstore.
const REFUSALS: [&str; 8] = [
    "A signature was required, but no signature exists",
    "None of the signatures were accepted",
    "cryptographic signature verification failed",
    "Signature for identity",
    "Signature for digest",
    "Signature for docker digest",
    "is rejected by policy",
    "sigstore disabled",
];

/// Checks that a policy requires a signature of the image of a target that must be verified.
///
/// # Errors
/// The policy with which the image would be pulled accepts it without one, or the tools refuse the
/// policy.
pub(crate) fn check(
    root: &HostRoot,
    target: &NodeTarget,
    settings: &PullSettings,
) -> Result<(), Error> {
    if !target.verify {
        return Ok(());
    }
    let image = target.image.to_string();
    let (origin, text) = match settings.signatures().policy() {
        Some(text) => ("its config", Some(text.as_bytes().to_vec())),
        None => ("the machine", root.read(MACHINE_POLICY, LIMIT as u64)?),
    };
    let weak = |cause: String| Err(Error::WeakPolicy { image: image.clone(), origin, cause });
    let Some(text) = text else {
        return weak("is missing".to_owned());
    };
    let policy = match SignaturePolicy::parse(&text) {
        Ok(policy) => policy,
        Err(error) => return weak(format!("is not valid: {error}")),
    };
    let accepts = |name: &str| policy.verdict(name).requirement == &Requirement::Accept;
    if accepts(&image) {
        let scope = policy.verdict(&image).scope;
        return weak(format!("accepts it without a signature, by {scope:?}"));
    }
    // As the tools check it.
    if policy.default_requirement() == &Requirement::Accept {
        return weak(format!(
            "accepts everything by {DEFAULT:?}, which bootc and rpm-ostree refuse"
        ));
    }
    Ok(())
}

/// Whether what a tool wrote is that a policy did not accept the image.
pub(crate) fn is_refusal(output: &str) -> bool {
    REFUSALS.iter().any(|text| output.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;
    use serde_json::{Value, json};

    const SIGNED: &str = r#"[{"type":"sigstoreSigned","keyPath":"/etc/os.pub"}]"#;
    const ANY: &str = r#"[{"type":"insecureAcceptAnything"}]"#;
    const NEVER: &str = r#"[{"type":"reject"}]"#;

    fn target(verify: bool) -> NodeTarget {
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        serde_json::from_value(json!({ "image": image, "verify": verify })).unwrap()
    }

    fn policy(default: &str, scopes: &[(&str, &str)]) -> String {
        let json = |text| serde_json::from_str::<Value>(text).unwrap();
        let scopes: Value =
            scopes.iter().map(|(scope, one)| ((*scope).to_owned(), json(one))).collect();
        json!({ "default": json(default), "transports": { "docker": scopes } }).to_string()
    }

    /// The cause; empty if the policy is strict enough.
    fn cause(target: &NodeTarget, own: Option<&str>, given: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        if let Some(text) = own {
            root.write(MACHINE_POLICY, text.as_bytes(), 0o644).unwrap();
        }
        let given =
            given.map_or(json!({}), |text| json!({ "signatures": { "policy.json": text } }));
        let settings = PullSettings::parse(given.to_string().as_bytes()).unwrap();
        match check(&root, target, &settings) {
            Ok(()) => String::new(),
            Err(Error::WeakPolicy { origin, cause, .. }) => format!("{origin}: {cause}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_policy_must_require_a_signature_of_the_image() {
        let strict = policy(NEVER, &[("reg.example", SIGNED)]);
        for (what, own, want) in [
            ("a scope", Some(strict.clone()), ""),
            ("the default", Some(policy(SIGNED, &[("quay.io", ANY)])), ""),
            ("it rejects", Some(policy(NEVER, &[])), ""),
            ("no policy", None, "the machine: is missing"),
            ("another one", Some("{}".to_owned()), "the machine: is not valid: not a policy of"),
            (
                "the usual one",
                Some(policy(ANY, &[])),
                "the machine: accepts it without a signature",
            ),
            (
                "a lax scope",
                Some(policy(NEVER, &[("reg.example", SIGNED), ("reg.example/os", ANY)])),
                "the machine: accepts it without a signature, by \"reg.example/os\"",
            ),
            (
                "a lax default",
                Some(policy(ANY, &[("reg.example/os", SIGNED)])),
                "the machine: accepts everything by \"default\"",
            ),
        ] {
            let found = cause(&target(true), own.as_deref(), None);
            assert!(
                found.starts_with(want) && want.is_empty() == found.is_empty(),
                "{what}: {found}"
            );
            assert_eq!(cause(&target(true), own.as_deref(), Some(&strict)), "", "{what}");
            assert_eq!(cause(&target(false), own.as_deref(), None), "", "{what}");
        }
        let weak = cause(&target(true), Some(&strict), Some(&policy(ANY, &[])));
        assert!(weak.starts_with("its config: accepts it"), "{weak}");
    }

    /// As containers/image 5.42 and skopeo 1.9 of Debian wrote them.
    #[test]
    fn refusals_are_told_from_other_failures() {
        for (output, want) in [
            (
                "error: Source image rejected: A signature was required, but no signature exists",
                true,
            ),
            (
                "cryptographic signature verification failed: invalid signature when validating",
                true,
            ),
            ("Signature for identity \"reg.example/os:1\" is not accepted", true),
            ("Running image docker://reg.example/os is rejected by policy.", true),
            ("Error parsing signature policy: Debian-local change: sigstore disabled", true),
            ("error: pinging container registry: connection refused", false),
            ("error: writing: no space left on device", false),
        ] {
            assert_eq!(is_refusal(output), want, "{output}");
        }
    }
}
