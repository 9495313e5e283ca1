//! Pushes an image to a registry or an OCI layout directory.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use mosb_image::{Digest, PinnedRef};

use super::client::Client;
use super::confirmed::Confirmed;
use super::error::Error;
use super::layout::ImageFolder;
use super::layout_write::LayoutWriter;
use super::location::{Destination, Target};
use super::push_plan::{BlobFrom, BlobSource, MovedTag, PushPlan};
use super::push_remote::{self, PreparedPush};
use super::store::Store;
use super::tag_platform;
use super::upload::Reopen as _;

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub destination: Destination,
    /// Digest of the manifest.
    pub digest: Confirmed<Digest>,
    /// `host/repo@digest`, if the destination is a registry.
    pub image: Option<Confirmed<PinnedRef>>,
    pub tags: Vec<String>,
    pub moved_tags: Vec<MovedTag>,
}

/// A push that was [prepared](Client::begin_push) before the image was complete.
#[derive(Debug)]
pub struct Push {
    client: Client,
    target: Target,
    /// `None` for a layout, which needs no preparation.
    prepared: Option<PreparedPush>,
}

impl Push {
    /// Pushes the image, as [`Client::push`] does.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn finish(self, plan: &PushPlan) -> Result<Pushed, Error> {
        let Self { client, target, prepared } = self;
        let parallel = client.parallel();
        let moved_tags = match target.destination() {
            Destination::Registry(repo) => {
                push_remote::push(&client.pushing(repo)?, plan, prepared, parallel).await?
            }
            Destination::Layout(dir) => {
                let layout = LayoutWriter::open(dir).await?;
                let moving = layout.moving(&Digest::of(&plan.manifest), &plan.tags)?;
                let store = Store::folder(ImageFolder::layout(dir)?);
                tag_platform::check(target.destination(), &store, plan, &moving).await?;
                push_to_layout(&layout, plan, parallel).await?
            }
        };
        // Here everything was answered for.
        let digest = Digest::of(&plan.manifest);
        Ok(Pushed {
            destination: target.destination().clone(),
            digest: Confirmed::new(digest),
            image: target.repo().map(|repo| Confirmed::new(repo.pinned(digest))),
            tags: plan.tags.clone(),
            moved_tags,
        })
    }
}

impl Client {
    /// Prepares the push of an image that is still being built: asks what its tags name, and if
    /// they name nothing, starts this many uploads for blobs that are surely new. Those that turn
    /// out not to be needed are cancelled.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn begin_push(
        &self,
        target: &Target,
        tags: &[String],
        uploads: usize,
    ) -> Result<Push, Error> {
        let prepared = match target.destination() {
            Destination::Registry(repo) => {
                let remote = self.pushing(repo)?;
                Some(push_remote::prepare(&remote, tags, uploads, self.parallel()).await?)
            }
            Destination::Layout(_) => None,
        };
        Ok(Push { client: self.clone(), target: target.clone(), prepared })
    }

    /// Pushes an image. Afterwards the registry has answered for the digest under every tag, or the
    /// layout holds all of it. What exists is neither sent nor put again.
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn push(&self, target: &Target, plan: &PushPlan) -> Result<Pushed, Error> {
        let push = Push { client: self.clone(), target: target.clone(), prepared: None };
        push.finish(plan).await
    }
}

/// Writes into a layout. Returns the tags that named something else before; that has no tag now.
async fn push_to_layout(
    layout: &LayoutWriter,
    plan: &PushPlan,
    parallel: usize,
) -> Result<Vec<MovedTag>, Error> {
    stream::iter(plan.unique_blobs())
        .map(|to_push| async move {
            let blob = &to_push.blob;
            let exists = match &to_push.from {
                BlobFrom::Bytes(bytes) => layout.holds(&blob.digest, bytes)?,
                // Often large, so the size decides, and they are not hashed again.
                BlobFrom::File(_) | BlobFrom::Store(_) => layout.has(&blob.digest, blob.size)?,
            };
            if exists {
                return Ok(());
            }
            let image = match &to_push.from {
                BlobFrom::Store(store) => store.shown(),
                BlobFrom::Bytes(_) | BlobFrom::File(_) => "the new image".to_owned(),
            };
            let source = BlobSource { to_push, image };
            layout.put(&source.to_push.blob, source.from(0).await?).await
        })
        .buffer_unordered(parallel)
        .try_collect::<()>()
        .await?;
    let moved = layout.commit(&plan.manifest, &plan.media_type, &plan.tags).await?;
    Ok(moved.into_iter().map(|(tag, former)| MovedTag { tag, former, former_tag: None }).collect())
}
