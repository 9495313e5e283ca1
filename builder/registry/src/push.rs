//! An image into a repository or a layout, with as few requests as can be: what is there is not sent, and what the
//! registry has elsewhere is mounted.

use std::collections::HashSet;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use url::Url;

use mosb_image::{Digest, PinnedRef};

use super::blobs::{BlobStream, Blobs as _};
use super::client::Client;
use super::credentials::normal_host;
use super::error::Error;
use super::folder::file_stream;
use super::layout_write::LayoutWriter;
use super::location::{Place, Target};
use super::manifest::BlobRef;
use super::refused_check::RefusedCheck;
use super::remote::Remote;
use super::store::Store;
use super::token::Scopes;
use super::upload::{Mounted, Put, Reopen};
use super::verify::{collect, verified};

/// What is pushed.
#[derive(Debug, Clone)]
pub struct PushPlan {
    /// The manifest's bytes.
    pub manifest: Bytes,
    /// Its type.
    pub media_type: String,
    /// Config and layers: everything that the manifest names.
    pub blobs: Vec<BlobToPush>,
    /// The tags that name it afterwards; without any it is pushed by digest.
    pub tags: Vec<String>,
}

/// A blob and where its bytes are.
#[derive(Debug, Clone)]
pub struct BlobToPush {
    /// As the manifest describes it.
    pub blob: BlobRef,
    /// Where its bytes are, should they be needed.
    pub from: BlobFrom,
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone)]
pub enum BlobFrom {
    /// Here.
    Bytes(Bytes),
    /// In a file of ours, all of it.
    File(PathBuf),
    /// Where the base was resolved: mounted if it is the same registry, skipped if it is the same repository.
    Store(Store),
}

/// A value that the registry itself confirmed. Only this crate makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed<T>(T);

impl Confirmed<PinnedRef> {
    /// An image for whose digest its registry has just answered.
    pub(super) fn answered_for(image: &PinnedRef) -> Self {
        Self(image.clone())
    }
}

impl<T> Confirmed<T> {
    /// What was confirmed.
    pub fn value(&self) -> &T {
        &self.0
    }

    /// As if a registry had answered, for tests of other modules.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_a_test(value: T) -> Self {
        Self(value)
    }
}

/// What a push left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Where it is.
    pub place: Place,
    /// The manifest that is there.
    pub digest: Confirmed<Digest>,
    /// `host/repo@digest`, where the place is a registry.
    pub image: Option<Confirmed<PinnedRef>>,
    /// The tags that name it.
    pub tags: Vec<String>,
    /// Those of the tags that named something else before, and what.
    pub moved_tags: Vec<(String, Digest)>,
}

/// A push that was [begun](super::Client::begin_push) before all of the image was there.
#[derive(Debug)]
pub struct Push {
    pub(super) client: Client,
    pub(super) target: Target,
    /// None for a layout, which is asked when there is something to write.
    pub(super) begun: Option<Begun>,
}

impl Push {
    /// Pushes the image; as [`Client::push`].
    ///
    /// # Errors
    /// Whatever the target answers.
    pub async fn finish(self, plan: &PushPlan) -> Result<Pushed, Error> {
        self.client.push_begun(&self.target, plan, self.begun).await
    }
}

/// A blob this small is sent in one request, from memory.
const SMALL: u64 = 4 << 20;

/// The bytes of a blob from any place, verified when read from the beginning.
struct Supply {
    to_push: BlobToPush,
    image: String,
}

impl Supply {
    async fn raw(&self, start: u64) -> Result<BlobStream<Error>, Error> {
        let blob = &self.to_push.blob;
        match &self.to_push.from {
            BlobFrom::Bytes(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
                let rest = bytes.slice(start..);
                Ok(stream::once(async { Ok(rest) }).boxed())
            }
            BlobFrom::File(path) => {
                let file = std::fs::File::open(path).map_err(|source| Error::Io {
                    path: path.clone(),
                    doing: "not readable",
                    source,
                })?;
                file_stream(path.clone(), file, start..blob.size)
            }
            BlobFrom::Store(store) => store.open(&blob.digest, start..blob.size).await,
        }
    }
}

impl Reopen for Supply {
    async fn from(&self, start: u64) -> Result<BlobStream<Error>, Error> {
        let bytes = self.raw(start).await?;
        // The rest of a blob can't be verified here; its registry does, before it takes it.
        Ok(match start {
            0 => verified(&self.image, &self.to_push.blob, bytes),
            _ => bytes,
        })
    }
}

/// What tags name, or nothing.
type Named = Vec<(String, Option<Digest>)>;

/// What was asked and begun before the image was there.
#[derive(Debug)]
pub(super) struct Begun {
    state: TargetState,
    refused: RefusedCheck,
}

/// What the tags name, and the uploads that were begun for what is new.
#[derive(Debug)]
struct TargetState {
    named: Named,
    /// Uploads that wait for a blob.
    uploads: Vec<Url>,
}

/// Asks what the tags name. If that is nothing yet, the image is surely new, and uploads are begun for it; else it may be
/// there already, and none would be needed. After a refused check at least one upload is begun, which shows whether one
/// may push at all.
pub(super) async fn begin(
    remote: &Remote,
    tags: &[String],
    uploads: usize,
    parallel: usize,
) -> Result<Begun, Error> {
    let refused = RefusedCheck::default();
    let state = query_target(remote, tags, uploads, &refused, parallel).await?;
    Ok(Begun { state, refused })
}

async fn query_target(
    remote: &Remote,
    tags: &[String],
    uploads: usize,
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<TargetState, Error> {
    let named = named(remote, tags, refused, parallel).await?;
    let is_new = named.iter().all(|(_, found)| found.is_none());
    let uploads = match is_new {
        true => uploads.max(usize::from(refused.is_any())),
        false => 0,
    };
    let uploads = stream::iter(0..uploads)
        .map(|_| remote.begin())
        .buffer_unordered(parallel)
        .try_collect()
        .await
        .map_err(|error| refused.add_to(error))?;
    Ok(TargetState { named, uploads })
}

async fn named(
    remote: &Remote,
    references: &[String],
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<Named, Error> {
    let scopes = &Scopes::push(&remote.repository());
    stream::iter(references.to_vec())
        .map(|reference| async move {
            let found = remote.digest_of(&reference, scopes).await;
            Ok((reference, refused.or_missing(found, None)?))
        })
        .buffered(parallel)
        .try_collect()
        .await
}

/// Pushes to a repository; gives the tags that named something else before, and what.
pub(super) async fn to_remote(
    remote: &Remote,
    plan: &PushPlan,
    begun: Option<Begun>,
    parallel: usize,
) -> Result<Vec<(String, Digest)>, Error> {
    let digest = Digest::of(&plan.manifest);
    let references = match plan.tags.is_empty() {
        true => vec![digest.to_string()],
        false => plan.tags.clone(),
    };
    let (state, refused) = match begun {
        Some(begun) => (Some(begun.state), begun.refused),
        None => (None, RefusedCheck::default()),
    };
    let refused = &refused;
    let state = async {
        match state {
            Some(state) => Ok(state),
            None => query_target(remote, &references, 0, refused, parallel).await,
        }
    };
    // What the tags name now, and which blobs are there, at once: neither needs the other's answer.
    let wanted = stream::iter(unique(plan))
        .map(|to_push| async move {
            let need = need(remote, &to_push, refused).await?;
            Ok::<_, Error>((to_push, need))
        })
        .buffered(parallel)
        .try_collect::<Vec<_>>();
    let (TargetState { named, mut uploads }, mut wanted) = futures_util::try_join!(state, wanted)?;
    let missing: Vec<_> = named
        .iter()
        .filter(|(_, found)| *found != Some(digest))
        .map(|(reference, _)| reference.clone())
        .collect();
    // Where one tag names the manifest already, the registry has all of it.
    if missing.len() == named.len() {
        for (_, need) in &mut wanted {
            if let Need::Bytes(upload @ None) = need {
                *upload = uploads.pop();
            }
        }
        send(remote, wanted, refused, parallel).await?;
    }
    for upload in uploads {
        remote.cancel(&upload).await;
    }
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let refused_too = |error| refused.add_to(error);
    let again = put(remote, plan, missing, parallel).await;
    let again = again.map_err(refused_too)?;
    if let Some((left, error)) = again {
        // Somebody cleaned up between our look and the manifest, or the base's own blobs are not all there.
        tracing::debug!(%error, "checking every blob once more");
        let all: Vec<_> = stream::iter(unique(plan))
            .map(|to_push| async move {
                let need = look(remote, &to_push.blob.digest, refused).await?;
                Ok::<_, Error>((to_push, need))
            })
            .buffered(parallel)
            .try_collect()
            .await?;
        send(remote, all, refused, parallel).await?;
        let again = put(remote, plan, left, parallel).await;
        if let Some((_, error)) = again.map_err(refused_too)? {
            return Err(error);
        }
    }
    let moved = named.into_iter().filter_map(|(tag, found)| {
        let found = found.filter(|found| *found != digest)?;
        Some((tag, found))
    });
    Ok(moved.collect())
}

/// Each blob once, whatever the manifest does.
fn unique(plan: &PushPlan) -> Vec<BlobToPush> {
    let mut seen = HashSet::new();
    let mut blobs = plan.blobs.clone();
    blobs.retain(|to_push| seen.insert(to_push.blob.digest));
    blobs
}

/// What has to be done for a blob.
#[derive(Debug)]
enum Need {
    /// It is there, or was not looked for: the manifest that named it was found in this very repository.
    Nothing,
    /// To be sent; into this upload, if one was begun.
    Bytes(Option<Url>),
}

async fn need(
    remote: &Remote,
    to_push: &BlobToPush,
    refused: &RefusedCheck,
) -> Result<Need, Error> {
    let digest = &to_push.blob.digest;
    if let BlobFrom::Store(store) = &to_push.from
        && let Some(repo) = store.repo()
        && normal_host(repo.host()) == normal_host(remote.repo.host())
    {
        if repo == remote.repo {
            return Ok(Need::Nothing);
        }
        let from = Remote { repo, ..remote.clone() }.repository();
        return Ok(match remote.mount(digest, &from).await? {
            Mounted::Yes => Need::Nothing,
            Mounted::Session(at) => Need::Bytes(Some(at)),
            Mounted::No => look(remote, digest, refused).await?,
        });
    }
    look(remote, digest, refused).await
}

async fn look(remote: &Remote, digest: &Digest, refused: &RefusedCheck) -> Result<Need, Error> {
    if refused.is_any() {
        // The next question would be refused as well, after as many logins.
        return Ok(Need::Bytes(None));
    }
    let scopes = Scopes::push(&remote.repository());
    let there = remote.has_blob(digest, &scopes).await;
    Ok(match refused.or_missing(there, false)? {
        true => Need::Nothing,
        false => Need::Bytes(None),
    })
}

async fn send(
    remote: &Remote,
    wanted: Vec<(BlobToPush, Need)>,
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<(), Error> {
    stream::iter(wanted)
        .map(|(to_push, need)| async move {
            match need {
                Need::Nothing => Ok(()),
                Need::Bytes(session) => {
                    let session = match session {
                        Some(session) => session,
                        None => remote.begin().await.map_err(|e| refused.add_to(e))?,
                    };
                    send_one(remote, to_push, session).await
                }
            }
        })
        .buffer_unordered(parallel)
        .try_collect()
        .await
}

async fn send_one(remote: &Remote, to_push: BlobToPush, session: Url) -> Result<(), Error> {
    let image = remote.shown.to_string();
    let source = Supply { to_push, image };
    let BlobToPush { blob, from } = &source.to_push;
    if blob.size > SMALL {
        return remote.upload_stream(blob, &source, session).await;
    }
    let bytes = match from {
        BlobFrom::Bytes(bytes) => bytes.clone(),
        BlobFrom::File(_) | BlobFrom::Store(_) => {
            let bytes = source.raw(0).await?;
            collect(&source.image, blob, "a blob", SMALL, bytes).await?
        }
    };
    remote.upload(&blob.digest, &bytes, session).await
}

/// Puts the manifest under each reference; gives back those that a missing blob stopped.
async fn put(
    remote: &Remote,
    plan: &PushPlan,
    references: Vec<String>,
    parallel: usize,
) -> Result<Option<(Vec<String>, Error)>, Error> {
    let digest = Digest::of(&plan.manifest);
    let answers: Vec<_> = stream::iter(references)
        .map(|reference| async move {
            let answer =
                remote.put_manifest(&reference, &plan.media_type, &plan.manifest, &digest).await?;
            Ok::<_, Error>((reference, answer))
        })
        .buffered(parallel)
        .try_collect()
        .await?;
    let mut left = None;
    for (reference, answer) in answers {
        if let Put::BlobUnknown(error) = answer {
            left.get_or_insert_with(|| (Vec::new(), error)).0.push(reference);
        }
    }
    Ok(left)
}

/// Writes into a layout; gives the tags that named something else before, and what.
pub(super) async fn to_layout(
    layout: &LayoutWriter,
    plan: &PushPlan,
    parallel: usize,
) -> Result<Vec<(String, Digest)>, Error> {
    stream::iter(unique(plan))
        .map(|to_push| async move {
            let blob = &to_push.blob;
            let there = match &to_push.from {
                BlobFrom::Bytes(bytes) => layout.holds(&blob.digest, bytes)?,
                // The base's are large, and nobody but us and the base's maker named them.
                BlobFrom::File(_) | BlobFrom::Store(_) => layout.has(&blob.digest, blob.size)?,
            };
            if there {
                return Ok(());
            }
            let image = match &to_push.from {
                BlobFrom::Store(store) => store.shown(),
                BlobFrom::Bytes(_) | BlobFrom::File(_) => "the new image".to_owned(),
            };
            let source = Supply { to_push, image };
            layout.put(&source.to_push.blob, source.from(0).await?).await
        })
        .buffer_unordered(parallel)
        .try_collect::<()>()
        .await?;
    layout.commit(&plan.manifest, &plan.media_type, &plan.tags).await
}

pub(super) fn pushed(
    place: Place,
    digest: Digest,
    tags: Vec<String>,
    moved_tags: Vec<(String, Digest)>,
) -> Pushed {
    let image = match &place {
        Place::Registry(repo) => Some(Confirmed(repo.pinned(digest))),
        Place::Layout(_) => None,
    };
    Pushed { place, digest: Confirmed(digest), image, tags, moved_tags }
}
