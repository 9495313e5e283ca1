//! Keeps a tag on its platform: whoever pulls by the tag of a rendered config gets an image for another
//! machine if a build for a second platform moves it.
//!
//! Only what a tag names now is read, and only if that is another image: a push of a new image makes no
//! request for it.

use mosb_image::{Digest, Platform};
use mosb_types::{Diagnostic as _, ErrorClass};

use super::error::Error;
use super::location::{Destination, Source};
use super::manifest::{self, Document};
use super::push_plan::{BlobFrom, PushPlan};
use super::resolve::{Configs, resolve};
use super::store::Store;

/// Checks the tags that are about to move, each with the image that it names now.
///
/// # Errors
/// That image is for another platform, or for several.
pub(super) async fn check(
    destination: &Destination,
    store: &Store,
    plan: &PushPlan,
    moving: &[(String, Digest)],
) -> Result<(), Error> {
    if moving.is_empty() {
        return Ok(());
    }
    let Some(pushed) = platform_of(destination, plan)? else {
        return Ok(());
    };
    for (tag, former) in moving {
        let source = match destination {
            Destination::Registry(repo) => Source::Registry(repo.pinned(*former).into()),
            Destination::Layout(dir) => {
                Source::Layout { dir: dir.clone(), tag: None, digest: Some(*former) }
            }
        };
        let found = resolve(&source, store.clone(), None, &Configs::default()).await;
        let has = match found.map(|former| former.platform) {
            Ok(Some(platform)) => vec![platform.to_string()],
            Err(Error::PlatformAmbiguous { has, .. }) => has,
            Ok(None) => continue,
            Err(error) if error.class() == ErrorClass::Transient => return Err(error),
            // It was deleted, is damaged or not an image, or the login may only push.
            Err(error) => {
                tracing::warn!(%error, "the platform of the tag {tag} is not known, so it moves");
                continue;
            }
        };
        if !is_same(&pushed, &has) {
            let image = format!("{destination}:{tag}");
            return Err(Error::TagOfAnotherPlatform { image, pushed, has });
        }
    }
    Ok(())
}

/// The platform in the config of the image that is pushed.
fn platform_of(destination: &Destination, plan: &PushPlan) -> Result<Option<Platform>, Error> {
    let image = destination.to_string();
    let Document::Image(manifest) = manifest::read(&image, &plan.manifest, &plan.media_type)?
    else {
        return Ok(None);
    };
    let config = plan.blobs.iter().find(|one| one.blob.digest == manifest.config.digest);
    match config.map(|config| &config.from) {
        Some(BlobFrom::Bytes(bytes)) => manifest::config_platform(&image, bytes),
        Some(BlobFrom::File(_) | BlobFrom::Store(_)) | None => Ok(None),
    }
}

/// Whether an image is for the platform of the other one, and for no other. Many configs leave out the
/// variant.
fn is_same(pushed: &Platform, has: &[String]) -> bool {
    let [only] = has else { return false };
    only.parse::<Platform>().is_ok_and(|only| pushed.accepts(&only) || only.accepts(pushed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stays_on_its_platform() {
        for (has, want) in [
            (&["linux/arm64"][..], true),
            (&["linux/arm64/v8"], true),
            (&["linux/amd64"], false),
            (&["linux/arm64", "linux/amd64"], false),
            (&["sha256:00 without a platform"], false),
        ] {
            let has: Vec<String> = has.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(is_same(&"linux/arm64".parse().unwrap(), &has), want, "{has:?}");
            assert_eq!(is_same(&"linux/arm64/v8".parse().unwrap(), &has), want, "{has:?}");
        }
    }
}
