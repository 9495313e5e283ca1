//! Validates the image of the annotation `pre-built-image`: only references that the API's status
//! fields accept.

use serde_json::json;

use super::inputs::Inputs;
use mosb_api::{PoolName, RenderedName, is_digest_format};
use mosb_image::{ImageRef, PinnedRef, ReferenceError};
use mosb_types::{Diagnostic, Finding};

/// The API's limit of 447 characters, and a tag.
const LONGEST: usize = 447 + 129;

/// An invalid pre-built image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum PreBuiltError {
    /// The text is empty.
    #[error("the image is missing; write host/repository@sha256:…")]
    #[diagnostic(code = "pre-built-image-missing")]
    Missing,
    /// It is not a reference with a digest.
    #[error(transparent)]
    #[diagnostic(code = "pre-built-image-reference")]
    Reference(#[from] ReferenceError),
    /// It is too long for an image.
    #[error(
        "an image of {0} characters: an image's name with its digest has at most 447; write host/repository@sha256:…"
    )]
    #[diagnostic(code = "pre-built-image-format")]
    TooLong(usize),
    /// The rule of the API rejects it.
    #[error(
        "{0}: the status of a MachineOSConfig can't hold it (a host with a dot or an address, no dot in a path component but the last, at most 447 characters); copy the image to another repository"
    )]
    #[diagnostic(code = "pre-built-image-format")]
    Format(PinnedRef),
    /// The CRDs of this cluster reject it.
    #[error(
        "{0}: this cluster's MachineOSBuilds take at most one path component before an image's name; copy the image to a flatter repository"
    )]
    #[diagnostic(code = "pre-built-image-nested")]
    Nested(PinnedRef),
}

/// Reads a pre-built image: `host/repository@sha256:<64 lower-case hex digits>`. A tag before the
/// digest is left out, with a notice (code `pre-built-image-tag`), because a status field can't
/// hold it.
///
/// `nested`: whether more than one path component before the name is valid, as in mosb's own CRDs;
/// those of an OpenShift cluster reject it.
///
/// # Errors
/// The text is empty, has no digest or another algorithm, or the status of a MachineOSConfig can't
/// contain it.
pub fn pre_built_image(
    text: &str,
    nested: bool,
) -> Result<(PinnedRef, Option<Finding>), PreBuiltError> {
    if text.is_empty() {
        return Err(PreBuiltError::Missing);
    }
    // Every other error quotes the text.
    let length = text.chars().count();
    if length > LONGEST {
        return Err(PreBuiltError::TooLong(length));
    }
    let named: ImageRef = text.parse()?;
    let Some(digest) = named.digest() else {
        return Err(ReferenceError::NoDigest(text.to_owned()).into());
    };
    let image = named.repo().pinned(digest);
    let written = image.to_string();
    if !is_digest_format(&written, true) {
        return Err(PreBuiltError::Format(image));
    }
    if !nested && !is_digest_format(&written, false) {
        return Err(PreBuiltError::Nested(image));
    }
    let notice = named.tag().map(|tag| {
        let message = format!(
            "tag {tag} is left out, as the digest says which image it is and a status can't hold both"
        );
        Finding::new("pre-built-image-tag", message).object(text)
    });
    Ok((image, notice))
}

/// The inputs of the build that represents a pre-built image: the image and its config. They need
/// no request to a registry. Nothing is written, so the image format is not included.
pub fn pre_built_inputs(pool: &PoolName, rendered: &RenderedName, image: &PinnedRef) -> Inputs {
    Inputs::of(&json!({
        "format": 1, "preBuiltImage": image, "renderedName": rendered, "pool": pool,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_built_image_must_fit_a_status() {
        let hex = "0a".repeat(32);
        let plain = format!("quay.io/acme/os@sha256:{hex}");
        for (what, text, want) in [
            ("digest form", plain.clone(), Ok(None)),
            (
                "a tag before the digest",
                format!("quay.io/acme/os:v1@sha256:{hex}"),
                Ok(Some("pre-built-image-tag")),
            ),
            ("nothing", String::new(), Err("pre-built-image-missing")),
            (
                "as long as an annotation can be",
                format!("quay.io/{}@sha256:{hex}", "a".repeat(256 << 10)),
                Err("pre-built-image-format"),
            ),
            ("a tag alone", "quay.io/acme/os:v1".to_owned(), Err("pre-built-image-reference")),
            ("no host", format!("acme/os@sha256:{hex}"), Err("pre-built-image-reference")),
            (
                "short",
                format!("quay.io/acme/os@sha256:{}", &hex[2..]),
                Err("pre-built-image-reference"),
            ),
            (
                "not hex",
                format!("quay.io/acme/os@sha256:{}", "zz".repeat(32)),
                Err("pre-built-image-reference"),
            ),
            (
                "upper case",
                format!("quay.io/acme/os@sha256:{}", "0A".repeat(32)),
                Err("pre-built-image-reference"),
            ),
            (
                "md5",
                format!("quay.io/acme/os@md5:{}", &hex[32..]),
                Err("pre-built-image-reference"),
            ),
            (
                "sha512",
                format!("quay.io/acme/os@sha512:{hex}{hex}"),
                Err("pre-built-image-reference"),
            ),
            ("two digests", format!("{plain}@sha256:{hex}"), Err("pre-built-image-reference")),
            ("a blank before it", format!(" {plain}"), Err("pre-built-image-reference")),
            ("another line behind it", format!("{plain}\n"), Err("pre-built-image-reference")),
            (
                "a host without a dot",
                format!("localhost:5000/os@sha256:{hex}"),
                Err("pre-built-image-format"),
            ),
            (
                "a dot in a namespace",
                format!("quay.io/my.team/os@sha256:{hex}"),
                Err("pre-built-image-format"),
            ),
            ("nested", format!("quay.io/acme/team/os@sha256:{hex}"), Err("pre-built-image-nested")),
        ] {
            let found = pre_built_image(&text, false);
            let code = found.as_ref().map(|(_, notice)| notice.as_ref());
            let code = code.map(|notice| notice.map(|notice| &*notice.code));
            assert_eq!(code.map_err(PreBuiltError::code), want, "{what}");
            if let Ok((image, _)) = found {
                assert_eq!(image.to_string(), plain, "{what}");
            }
        }
        let nested = format!("quay.io/a/b/c/os@sha256:{hex}");
        assert_eq!(pre_built_image(&nested, true).map(|(image, _)| image.to_string()), Ok(nested));
    }
}
