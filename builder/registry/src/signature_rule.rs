//! What a policy requires of the signatures of one image.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mosb_image::signature_policy::{SignaturePolicy, Verdict};
use mosb_image::{Digest, ImageRef};
use mosb_trust::KEY_LIMIT;
use mosb_trust::evaluate::{AcceptedSignature, PreparedRequirement};
use mosb_trust::signature::UntrustedSignature;
use mosb_types::error_text;

use crate::error::Error;

/// What a policy requires of an image, with the keys for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureRule {
    /// The name that signatures must be for.
    pub(super) image: ImageRef,
    /// The policy: a file, or the setting of a cluster.
    pub file: String,
    /// The scope of the image in it, or `default`.
    pub scope: String,
    pub required: PreparedRequirement,
}

impl SignatureRule {
    /// Reads the keys that a policy names for this image, with `read` for files.
    pub(super) fn new(
        policy: &SignaturePolicy,
        file: &str,
        image: &ImageRef,
        read: impl Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, Error> {
        let name = pulled_name(image)?;
        let Verdict { scope, requirement } = policy.verdict(&name.to_string());
        let required = PreparedRequirement::of_policy(requirement, read).map_err(|source| {
            Error::UncheckedPolicy {
                image: image.to_string(),
                scope: scope.clone(),
                file: file.to_owned(),
                source,
            }
        })?;
        Ok(Self { image: name, file: file.to_owned(), scope, required })
    }

    pub(super) fn check(
        &self,
        digest: &Digest,
        signatures: &[UntrustedSignature],
    ) -> Result<Vec<AcceptedSignature>, Error> {
        self.required.check(&self.image, digest, signatures).map_err(|missing| {
            Error::SignatureNotAccepted {
                image: self.image.to_string(),
                manifest: *digest,
                scope: self.scope.clone(),
                file: self.file.clone(),
                missing,
            }
        })
    }
}

/// The name by which podman pulls an image: without tag and digest it is `latest`, and with a digest
/// the tag does not count.
///
/// # Errors
/// Never for a name that was parsed.
pub fn pulled_name(image: &ImageRef) -> Result<ImageRef, Error> {
    match (image.tag(), image.digest()) {
        (None, None) => Ok(image.repo().tagged("latest")?),
        (Some(_), Some(digest)) => Ok(image.repo().pinned(digest).into()),
        (Some(_), None) | (None, Some(_)) => Ok(image.clone()),
    }
}

/// The bytes of a key, or one more than it may have.
pub(super) fn read_key(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut text = Vec::new();
        File::open(path)?.take(KEY_LIMIT as u64 + 1).read_to_end(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    read().map_err(|error| error_text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_a_pull() {
        let digest = Digest::of(b"x");
        for (image, want) in [
            ("q.io/os".to_owned(), "q.io/os:latest".to_owned()),
            ("q.io/os:v1".to_owned(), "q.io/os:v1".to_owned()),
            (format!("q.io/os@{digest}"), format!("q.io/os@{digest}")),
            (format!("q.io/os:v1@{digest}"), format!("q.io/os@{digest}")),
        ] {
            let name = pulled_name(&image.parse().unwrap()).unwrap();
            assert_eq!(name.to_string(), want, "{image}");
        }
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_names_its_image() {
        let rule = |requirement: &str, image: &str| {
            let text = format!(
                r#"{{"default":[{{"type":"insecureAcceptAnything"}}],"transports":{{"docker":{{"q.io":[{requirement}]}}}}}}"#
            );
            let policy = SignaturePolicy::parse(text.as_bytes()).unwrap();
            SignatureRule::new(&policy, "p.json", &image.parse().unwrap(), read_key)
        };
        let gpg = r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}"#;
        let missing = r#"{"type":"sigstoreSigned","keyPath":"/none/k"}"#;
        let endless = r#"{"type":"sigstoreSigned","keyPath":"/dev/zero"}"#;
        for (requirement, want) in
            [(gpg, "signedBy"), (missing, "/none/k: not readable: No such"), (endless, "/dev/zero")]
        {
            let error = rule(requirement, "q.io/os:v1").unwrap_err();
            assert!(matches!(error, Error::UncheckedPolicy { .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("q.io/os:v1: \"q.io\" of the policy p.json: "), "{text}");
            assert!(text.contains(want), "{text}");
            // Nothing is asked for of other images.
            let other = rule(requirement, "other.example/os").unwrap();
            assert_eq!(other.required, PreparedRequirement::Accept);
        }
    }
}
