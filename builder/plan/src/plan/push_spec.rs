//! The repository that `spec.renderedImagePushSpec` names, checked: registries take it, and a
//! status can hold its images.

use mosb_api::{is_digest_format, is_tag_format};
use mosb_image::{Digest, ImageRef, ReferenceError, RepoRef};

/// So much of a wrong one is quoted: one more than any right one has.
const LONGEST: usize = 448;

/// Why images can't be pushed there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushSpecError {
    /// The API's own rule refuses it.
    #[error(
        "{0:?} is refused; want host/repository:tag of at most 447 characters, where the host has a dot"
    )]
    Format(String),
    /// The API takes it, and registries don't.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Pushes go to a tag.
    #[error("{0:?} has a digest; write a tag instead")]
    HasDigest(String),
    /// The status of a MachineOSBuild can't hold its images.
    #[error(
        "{0:?} can't be written with a digest (at most 447 characters, no dot in a path component but the last); push to another repository"
    )]
    NoDigestForm(String),
    /// The CRDs of this cluster refuse it.
    #[error(
        "{0}: this cluster's MachineOSBuilds take at most one path component before an image's name; push to a flatter repository"
    )]
    Nested(RepoRef),
}

/// The repository of a push spec, which is valid for the API, for registries, and in a status.
///
/// `nested`: as of [`super::pre_built_image`].
///
/// # Errors
/// [`PushSpecError`].
pub fn push_repository(text: &str, nested: bool) -> Result<RepoRef, PushSpecError> {
    if !is_tag_format(text) {
        return Err(PushSpecError::Format(text.chars().take(LONGEST).collect()));
    }
    let image: ImageRef = text.parse()?;
    if image.digest().is_some() {
        return Err(PushSpecError::HasDigest(text.to_owned()));
    }
    let repo = image.repo().clone();
    let example = repo.pinned(Digest::of(b"")).to_string();
    if !is_digest_format(&example, true) {
        return Err(PushSpecError::NoDigestForm(text.to_owned()));
    }
    if !nested && !is_digest_format(&example, false) {
        return Err(PushSpecError::Nested(repo));
    }
    Ok(repo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_spec_must_suit_registry_and_status() {
        let of = |what: &str, text: &str, nested: bool| {
            let found = push_repository(text, nested);
            found.map(|repo| repo.to_string()).map_err(|error| {
                let message = error.to_string();
                assert!(message.chars().count() < 700, "{what}: {message}");
                match error {
                    PushSpecError::Format(_) => "format",
                    PushSpecError::Reference(_) => "reference",
                    PushSpecError::HasDigest(_) => "digest",
                    PushSpecError::NoDigestForm(_) => "no digest form",
                    PushSpecError::Nested(_) => "nested",
                }
            })
        };
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (what, text, nested, want) in [
            ("as documented", "quay.io/acme/os:latest".to_owned(), false, Ok("quay.io/acme/os")),
            ("deep", "quay.io/a/b/os:v1".to_owned(), true, Ok("quay.io/a/b/os")),
            ("too deep", "quay.io/a/b/os:v1".to_owned(), false, Err("nested")),
            ("nothing", String::new(), true, Err("format")),
            ("no tag", "quay.io/acme/os".to_owned(), true, Err("format")),
            ("no dot in the host", "host/os:v1".to_owned(), true, Err("format")),
            (
                "as long as an object",
                format!("quay.io/{}:v1", "a".repeat(1 << 20)),
                true,
                Err("format"),
            ),
            ("upper case", "quay.io/Acme/os:v1".to_owned(), true, Err("reference")),
            (
                "a service with a digest",
                format!("os.ns.svc:5000/a/b@{digest}"),
                true,
                Err("digest"),
            ),
            (
                "a dot in a service's namespace",
                "os.ns.svc:5000/my.team/os:v1".to_owned(),
                true,
                Err("no digest form"),
            ),
        ] {
            let found = of(what, &text, nested);
            assert_eq!(found.as_deref().map_err(|code| *code), want, "{what}");
        }
    }
}
