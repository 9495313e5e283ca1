//! Whether a machine verifies the signature of an image that it pulls, and whether it refused one.
//!
//! bootc and rpm-ostree leave that to skopeo and to `policy.json` (containers-policy.json(5)). Of the
//! policy, they refuse only one that accepts everything by default: with any other, they pull an image
//! without a signature if its scope accepts that. Of skopeo, they ask nothing, and an old one verifies
//! nothing. So both are looked at before.

use std::time::Duration;

use mosb_api::rollout::NodeTarget;
use mosb_build::PullSettings;
use mosb_image::signature_policy::{LIMIT, SignaturePolicy};
use mosb_plan::plan::MACHINE_POLICY;

use crate::error::Error;
use crate::host::{Host, words};
use crate::host_root::HostRoot;

/// How skopeo says that a policy does not accept an image (go.podman.io/image, package `signature`).
const REFUSALS: [&str; 7] = [
    "A signature was required, but no signature exists",
    "None of the signatures were accepted",
    "cryptographic signature verification failed",
    "Signature for identity",
    "Signature for digest",
    "Signature for docker digest",
    "is rejected by policy",
];
/// How long skopeo may take to name its version.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Checks that the signature of the image of a target will be verified, if it must be.
///
/// # Errors
/// The skopeo of the machine verifies nothing, or the policy with which the image would be pulled
/// requires no signature of it, or bootc and rpm-ostree refuse that policy.
pub(crate) async fn check(
    host: &Host,
    target: &NodeTarget,
    settings: &PullSettings,
) -> Result<(), Error> {
    if !target.verify {
        return Ok(());
    }
    let answer = host.run("skopeo", &words(["skopeo", "--version"]), ANSWER_LIMIT).await?;
    if !verifies(&answer) {
        let (image, found) = (target.image.to_string(), answer.trim().chars().take(60).collect());
        return Err(Error::NothingVerifies { image, found });
    }
    check_policy(host.root(), target, settings)
}

/// Whether skopeo of this version applies the policy when it pulls for bootc and rpm-ostree: since 1.13.0
/// (`experimental-image-proxy`). Before, it pulls whatever the policy says.
fn verifies(answer: &str) -> bool {
    let version = answer.trim().strip_prefix("skopeo version ").unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) >= (1, 13))
}

fn check_policy(
    root: &HostRoot,
    target: &NodeTarget,
    settings: &PullSettings,
) -> Result<(), Error> {
    let image = target.image.to_string();
    let (origin, text) = match settings.signatures().policy() {
        Some(text) => ("its config", Some(text.as_bytes().to_vec())),
        None => ("the machine", root.read(MACHINE_POLICY, LIMIT as u64)?),
    };
    let weakness = match text {
        Some(text) => SignaturePolicy::weakness(&text, &image),
        None => Some("is missing".to_owned()),
    };
    match weakness {
        Some(cause) => Err(Error::WeakPolicy { image, origin, cause }),
        None => Ok(()),
    }
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

    fn target() -> NodeTarget {
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        serde_json::from_value(json!({ "image": image, "verify": true })).unwrap()
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
        match check_policy(&root, target, &settings) {
            Ok(()) => String::new(),
            Err(Error::WeakPolicy { origin, cause, .. }) => format!("{origin}: {cause}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_old_skopeo_verifies_nothing() {
        for (answer, want) in [
            ("skopeo version 1.18.0\n", true),
            ("skopeo version 1.13.3", true),
            ("skopeo version 1.14.0-dev", true),
            ("skopeo version 2.0.0", true),
            ("skopeo version 1.9.3", false),
            ("skopeo version 1.12.0", false),
            ("skopeo version 0.1.41", false),
            ("another program", false),
            ("", false),
        ] {
            assert_eq!(verifies(answer), want, "{answer}");
        }
    }

    #[test]
    fn policy_must_require_a_signature_of_the_image() {
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
            let found = cause(&target(), own.as_deref(), None);
            assert!(
                found.starts_with(want) && want.is_empty() == found.is_empty(),
                "{what}: {found}"
            );
            assert_eq!(cause(&target(), own.as_deref(), Some(&strict)), "", "{what}");
        }
        let weak = cause(&target(), Some(&strict), Some(&policy(ANY, &[])));
        assert!(weak.starts_with("its config: accepts it"), "{weak}");
    }

    /// As skopeo 1.18 wrote them.
    #[test]
    fn refusals_differ_from_other_failures() {
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
            ("error: pinging container registry: connection refused", false),
            ("error: writing: no space left on device", false),
        ] {
            assert_eq!(is_refusal(output), want, "{output}");
        }
    }
}
