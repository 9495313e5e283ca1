//! The check `signature` of an image that exists: whether the policy of a client accepts it.
//!
//! Input: an image by its digest, as machines pull it. Output: the verdict of the check. Invariant: what
//! can't be evaluated or read is never a yes.

use mosb_image::PinnedRef;
use mosb_plan::image_checks::{CheckFailure, Verdict};
use mosb_registry::{AcceptedImage, Client, Error};
use mosb_types::{Diagnostic as _, ErrorClass, Explained};

/// Whether the policy of this client accepts the signatures of an image.
///
/// # Errors
/// The registry doesn't answer, and may answer later.
pub async fn signature_verdict(client: &Client, image: &PinnedRef) -> Result<Verdict, Error> {
    match client.check_image(&image.clone().into()).await {
        Ok(None) => Ok(Verdict::Passed("no policy requires signatures of it".to_owned())),
        Ok(Some(accepted)) => Ok(Verdict::Passed(signers(&accepted))),
        Err(error) if error.class() == ErrorClass::Transient => Err(error),
        Err(error) => {
            let Explained { cause, remedy } = error.explained();
            Ok(Verdict::Failed(CheckFailure {
                code: error.code(),
                message: cause,
                remedy: remedy
                    .unwrap_or_else(|| "correct the policy, or sign the image".to_owned()),
            }))
        }
    }
}

fn signers(accepted: &AcceptedImage) -> String {
    let signatures = accepted.signatures.iter();
    let signatures = signatures.map(|one| format!("signed for {} with {}", one.identity, one.key));
    let signatures: Vec<String> = signatures.collect();
    let AcceptedImage { file, scope, .. } = accepted;
    format!("{}, as {scope:?} of the policy {file} requires", signatures.join(" and "))
}

#[cfg(test)]
mod tests {
    use mosb_image::Digest;
    use mosb_registry::Options;

    use super::*;

    /// No registry is asked for these.
    #[tokio::test]
    async fn policies_without_signatures_need_no_registry() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.json");
        let accept = r#"{"type":"insecureAcceptAnything"}"#;
        for (what, of_repository, want) in [
            ("accepted", accept, None),
            (
                "rejected",
                r#"{"type":"reject"}"#,
                Some(("rejected", "allow it there, or use another image")),
            ),
            (
                "by GPG",
                r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}"#,
                Some(("unchecked-policy", "use sigstoreSigned with keys")),
            ),
            (
                "a key that is missing",
                r#"{"type":"sigstoreSigned","keyPath":"/none; here"}"#,
                Some(("unchecked-policy", "correct the policy, or sign the image")),
            ),
        ] {
            let policy = format!(
                r#"{{"default":[{accept}],"transports":{{"docker":{{"r.invalid/os":[{of_repository}]}}}}}}"#
            );
            std::fs::write(&file, policy).unwrap();
            let options =
                Options { signature_policy: Some((file.clone(), true)), ..Options::default() };
            let client = Client::new(&options).unwrap();
            let image = format!("r.invalid/os@{}", Digest::of(b"")).parse().unwrap();
            let found = match signature_verdict(&client, &image).await.unwrap() {
                Verdict::Failed(CheckFailure { code, message, remedy }) => {
                    assert!(!message.contains(&remedy), "{what}: {message}");
                    Some((code, remedy))
                }
                verdict => {
                    assert!(matches!(verdict, Verdict::Passed(_)), "{what}: {verdict:?}");
                    None
                }
            };
            let found = found.as_ref().map(|(code, remedy)| (*code, &**remedy));
            assert_eq!(found, want, "{what}");
        }
    }
}
