//! Images of a Containerfile whose signatures are not checked.

use std::collections::BTreeMap;

use mosb_image::Platform;
use mosb_plan::containerfile;
use mosb_registry::{Client, Source};
use mosb_types::Finding;

/// Images that only buildah pulls, for which the policy requires signatures that are not checked.
pub(super) fn unchecked_images(
    client: &Client,
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Vec<Finding> {
    let images = match containerfile::images(text, build_args, platform) {
        Ok(images) => images,
        Err(error) => {
            // On the command line buildah reports such errors; in a cluster the planner does.
            tracing::debug!(%error, "can't list the images whose signatures are not checked");
            return Vec::new();
        }
    };
    let sources = images.into_iter().map(Source::Registry);
    sources.filter_map(|source| client.unchecked_signature(&source)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_registry::Options;

    #[test]
    fn signatures_of_images_that_only_buildah_pulls_are_reported_as_not_checked() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policy.json");
        let policy = r#"{"default":[{"type":"insecureAcceptAnything"}],
            "transports":{"docker":{"q.io/signed":[{"type":"sigstoreSigned","keyData":"eA=="}]}}}"#;
        std::fs::write(&file, policy).unwrap();
        let client =
            Client::new(&Options { signature_policy: Some((file, true)), ..Options::default() })
                .unwrap();
        let platform = "linux/amd64".parse().unwrap();
        for (what, text, want) in [
            ("FROM", "FROM q.io/signed/a:1", &["q.io/signed/a:1"][..]),
            (
                "COPY and RUN",
                "FROM configs\nARG A\nCOPY --from=q.io/$A/b /a /b\nRUN --mount=from=q.io/signed/c,target=/x true",
                &["q.io/signed/b", "q.io/signed/c"],
            ),
            ("none is asked for", "FROM q.io/other", &[]),
            ("it can't be decided", "FROM $X", &[]),
        ] {
            let arguments = [("A".to_owned(), "signed".to_owned())].into();
            let found = unchecked_images(&client, text, &arguments, &platform);
            let of: Vec<_> = found.iter().filter_map(|one| one.object.as_deref()).collect();
            assert_eq!(of, want, "{what}: {found:?}");
            assert!(found.iter().all(|one| one.code == "signature-not-checked"));
        }
    }
}
