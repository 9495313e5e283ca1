//! Keeps a tag on its platform: whoever pulls by the tag of a rendered config gets an image for another
//! machine if a build for a second platform moves it.
//!
//! Only what a tag names now is read, and only if that is another image: a push of a new image makes no
//! request for it. A plan, and a build that runs programs for minutes, ask before.

use std::time::Duration;

use mosb_image::{Digest, Platform};
use mosb_types::{Diagnostic as _, ErrorClass, Finding};

use crate::auth::token::Scopes;
use crate::client::Client;
use crate::error::Error;
use crate::layout::folder::Folder;
use crate::layout::{ImageFolder, named_by, read_index};
use crate::location::{Destination, Source, Target};
use crate::manifest::{self, Document};
use crate::push::{BlobFrom, PushPlan};
use crate::resolve::{Configs, resolve};
use crate::store::Store;

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
        match platforms_of(destination, store.clone(), *former).await {
            Ok(has) => stays(destination, tag, &pushed, has)?,
            Err(error) if error.class() == ErrorClass::Transient => return Err(error),
            // It was deleted, is damaged or not an image, or the login may only push.
            Err(error) => {
                tracing::warn!(%error, "the platform of the tag {tag} is not known, so it moves");
            }
        }
    }
    Ok(())
}

/// The longest wait for a target before a build.
const WAIT: Duration = Duration::from_secs(10);

impl Client {
    /// Checks, before an image for a platform is built, that a push would leave the tag on its
    /// platform. A finding says if the target can't tell; the push asks again.
    ///
    /// # Errors
    /// The tag names an image for another platform, or for several.
    pub async fn check_tag(
        &self,
        target: &Target,
        tag: &str,
        platform: &Platform,
    ) -> Result<Option<Finding>, Error> {
        let destination = target.destination();
        let asked = tokio::time::timeout(WAIT, self.platforms_of_tag(destination, tag)).await;
        let why = match asked {
            Ok(Ok(has)) => {
                return stays(destination, tag, platform, has.unwrap_or_default()).map(|()| None);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {} s", WAIT.as_secs()),
        };
        let message = format!(
            "not checked whether it is an image for another platform, which a push refuses to replace: {why}"
        );
        let object = format!("{destination}:{tag}");
        Ok(Some(Finding::new("tag-not-checked", message).object(object)))
    }

    /// The platforms of the image that a tag names; `None` if it names nothing.
    async fn platforms_of_tag(
        &self,
        destination: &Destination,
        tag: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let (store, former) = match destination {
            Destination::Registry(repo) => {
                let remote = self.pushing(repo)?;
                let scopes = Scopes::pull(&remote.repository());
                let Some(former) = remote.digest_of(tag, &scopes).await? else {
                    return Ok(None);
                };
                (Store::remotes(vec![remote]), former)
            }
            Destination::Layout(dir) if !dir.exists() => return Ok(None),
            Destination::Layout(dir) => {
                let index = read_index(&Folder::open(dir)?)?;
                let Some(former) = index.and_then(|index| named_by(&index, tag)) else {
                    return Ok(None);
                };
                (Store::folder(ImageFolder::layout(dir)?), former)
            }
        };
        platforms_of(destination, store, former).await.map(Some)
    }
}

/// The platforms of an image in a destination; none if its config names none.
async fn platforms_of(
    destination: &Destination,
    store: Store,
    image: Digest,
) -> Result<Vec<String>, Error> {
    let source = match destination {
        Destination::Registry(repo) => Source::Registry(repo.pinned(image).into()),
        Destination::Layout(dir) => {
            Source::Layout { dir: dir.clone(), tag: None, digest: Some(image) }
        }
    };
    match resolve(&source, store, None, &Configs::default()).await {
        Ok(found) => Ok(found.platform.iter().map(Platform::to_string).collect()),
        Err(Error::PlatformAmbiguous { has, .. }) => Ok(has),
        Err(error) => Err(error),
    }
}

/// Rejects an image for a platform under a tag that names one for these platforms, if it names any.
fn stays(
    destination: &Destination,
    tag: &str,
    pushed: &Platform,
    has: Vec<String>,
) -> Result<(), Error> {
    if has.is_empty() || is_same(pushed, &has) {
        return Ok(());
    }
    let image = format!("{destination}:{tag}");
    Err(Error::TagOfAnotherPlatform { image, pushed: pushed.clone(), has })
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
    use crate::client::Options;
    use crate::http::RetryPolicy;

    #[tokio::test]
    async fn unreadable_targets_are_findings() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("empty")).unwrap();
        std::fs::create_dir(path("damaged")).unwrap();
        std::fs::write(path("damaged").join("index.json"), "{").unwrap();
        let retry = RetryPolicy { tries: 1, ..RetryPolicy::default() };
        let client = Client::new(&Options { retry, ..Options::default() }).unwrap();
        for (target, is_asked) in [
            (Target::layout(&path("none")), true),
            (Target::layout(&path("empty")), true),
            (Target::layout(&path("damaged")), false),
            ("127.0.0.1:1/acme/os".parse().unwrap(), false),
        ] {
            let platform = "linux/arm64".parse().unwrap();
            let found = client.check_tag(&target, "name", &platform).await.unwrap();
            assert_eq!(found.is_none(), is_asked, "{target}: {found:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_target_is_not_waited_for() {
        // The kernel accepts the connections.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("{}/acme/os", silent.local_addr().unwrap()).parse().unwrap();
        let client = Client::new(&Options::default()).unwrap();
        let begun = tokio::time::Instant::now();
        let platform = "linux/arm64".parse().unwrap();
        let found = client.check_tag(&target, "name", &platform).await.unwrap();
        assert_eq!(found.map(|found| found.code).as_deref(), Some("tag-not-checked"));
        assert!(begun.elapsed() <= WAIT, "{:?}", begun.elapsed());
    }

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
