//! The signatures that a policy requires of the images that a build is made on, checked before
//! anything is built.

use std::collections::BTreeMap;

use mosb_image::{ImageRef, Platform};
use mosb_plan::containerfile;
use mosb_registry::{AcceptedImage, Client, Resolved, Source};

use super::{Error, PlanContext};

/// Checks an image that was resolved, by its digest. `None` if no signature is required of it.
///
/// # Errors
/// The policy doesn't accept it, or can't be evaluated.
pub(super) async fn check(
    context: PlanContext<'_>,
    client: &Client,
    image: &Resolved,
    written: Option<&str>,
) -> Result<Option<AcceptedImage>, Error> {
    let Source::Registry(source) = &image.source else {
        return Ok(None);
    };
    let name = written_name(source, written);
    let Some(rule) = client.signature_rule(&name)? else {
        return Ok(None);
    };
    (context.on_step)(&format!("checking the signatures of {name}"));
    Ok(Some(client.check_signatures(&rule, &[image.manifest]).await?))
}

/// The name that signatures must be for. What was pinned since is named by its digest, but it may
/// have been written with a tag.
fn written_name(source: &ImageRef, written: Option<&str>) -> ImageRef {
    let written = written.and_then(|text| text.parse::<ImageRef>().ok());
    let written = written.filter(|written| {
        source.digest().is_some() && written.digest().is_none() && written.repo() == source.repo()
    });
    written.unwrap_or_else(|| source.clone())
}

/// Checks the images that only buildah pulls. Which image of an index it takes is up to `FROM
/// --platform`, so all of them must be accepted.
///
/// # Errors
/// The policy doesn't accept one, or it can't be decided which images the text names. An image that
/// is not named by its digest: buildah resolves it again.
pub(super) async fn check_containerfile(
    context: PlanContext<'_>,
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Result<Vec<AcceptedImage>, Error> {
    let client = context.client;
    let mut accepted = Vec::new();
    if !client.requires_signatures() {
        return Ok(accepted);
    }
    for image in containerfile::images(text, build_args, platform)? {
        (context.on_step)(&format!("checking the signatures of {image}"));
        let Some(found) = client.check_image(&image).await? else {
            continue;
        };
        if image.digest().is_none() {
            return Err(Error::NotPinned { image, pinned: found.image });
        }
        accepted.push(found);
    }
    Ok(accepted)
}

#[cfg(test)]
mod tests {
    use mosb_image::Digest;

    use super::*;

    #[test]
    fn a_pinned_image_keeps_the_name_that_was_written() {
        let digest = Digest::of(b"x");
        let pinned = format!("q.io/os@{digest}");
        for (source, written, want) in [
            (&*pinned, Some("q.io/os:v1"), "q.io/os:v1"),
            (&pinned, Some("q.io/os"), "q.io/os"),
            (&pinned, Some("q.io/other:v1"), &pinned),
            (&pinned, Some("q.io:5000/os:v1"), &pinned),
            (&pinned, Some("not an image"), &pinned),
            (&pinned, Some(&format!("q.io/os@{}", Digest::of(b"y"))), &pinned),
            (&pinned, None, &pinned),
            ("q.io/os:v2", Some("q.io/os:v1"), "q.io/os:v2"),
        ] {
            let name = written_name(&source.parse().unwrap(), written);
            assert_eq!(name.to_string(), want, "{source} {written:?}");
        }
    }
}
