//! Whether the base of the image that machines have got older than what its tag names now.

use crate::Result;
use crate::context::CliContext;
use crate::diff::Operand;
use crate::inspect::info;
use mosb_build::resolve::given_base_name;
use mosb_image::{Digest, ImageRef};
use mosb_plan::plan::{self, Base, BaseRelease, TagState};
use mosb_registry::{Resolved, Source};
use mosb_types::Finding;
use tracing::info;

/// A finding if the tag that the base of a previous image is named by names a newer image. Nothing is
/// said of a config, of a base that is named by digest, and where a registry does not answer.
pub async fn newer_base(context: &CliContext, previous: &Operand) -> Option<Finding> {
    let Operand::Image(image) = previous else { return None };
    match look_up(context, image).await {
        Ok(finding) => finding,
        Err(failure) => {
            info!("whether the base of {image} is the newest is not known: {}", failure.message());
            None
        }
    }
}

async fn look_up(context: &CliContext, image: &Source) -> Result<Option<Finding>> {
    let previous = context.resolve("image", image, None).await?;
    let info = info(&previous)?;
    let Some(base) = info.base else { return Ok(None) };
    let digest = base.digest.and_then(|digest| digest.parse::<Digest>().ok());
    let tag = base.name.parse::<ImageRef>().ok().filter(|named| named.digest().is_none());
    let Some((digest, tag)) = digest.zip(tag) else { return Ok(None) };
    let platform = info.platform.and_then(|platform| platform.parse().ok());
    let newest = context.resolve("base", &Source::Registry(tag.clone()), platform.as_ref()).await?;
    let newest = (newest.manifest, release(&newest)?);
    if newest.0 == digest {
        return Ok(None);
    }
    let pinned = Source::Registry(tag.repo().pinned(digest).into());
    let before = match context.resolve("base", &pinned, platform.as_ref()).await {
        Ok(base) => release(&base)?,
        // An image has the labels of its base, which may be deleted by now.
        Err(_) => release(&previous)?,
    };
    let before = (digest, before);
    Ok(match TagState::of((&before.0, &before.1), (&newest.0, &newest.1)) {
        TagState::Current | TagState::MovedBack => None,
        TagState::Newer => {
            let message = format!(
                "{} was built on {}, and {tag} is {} now",
                info.image,
                described(&before),
                described(&newest)
            );
            Some(Finding::new("newer-base", message).object(tag.to_string()))
        }
    })
}

fn release(image: &Resolved) -> Result<BaseRelease> {
    let (name, text) = (given_base_name(image), image.pinned_text());
    let (manifest, config) = (&image.manifest_bytes, &image.config_bytes);
    Ok(Base::new(name, text, image.index, manifest, config).map_err(plan::Error::from)?.release())
}

fn described((digest, release): &(Digest, BaseRelease)) -> String {
    match release.to_string() {
        release if release.is_empty() => digest.to_string(),
        release => format!("{digest} ({release})"),
    }
}
