//! Pushes an image to a repository of a registry with as few requests as possible: existing blobs
//! are not sent, and blobs of another repository of the registry are mounted.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use url::Url;

use mosb_image::Digest;
use mosb_image::media_type::OCI_MANIFEST;
use mosb_trust::Evidence;

use super::tag_platform;
use crate::attach::attach;
use crate::auth::login_key::normal_host;
use crate::auth::token::Scopes;
use crate::error::Error;
use crate::location::Destination;
use crate::push::{BlobFrom, BlobSource, BlobToPush, MovedTag, PushPlan, former_tag};
use crate::refused_check::RefusedCheck;
use crate::remote::Remote;
use crate::store::Store;
use crate::upload::{ManifestPut, MountResult};

/// A blob this small is sent in one request, from memory.
const SMALL_BLOB: u64 = 4 << 20;

/// What was asked and started before the image was complete.
#[derive(Debug)]
pub(super) struct PreparedPush {
    state: RepositoryState,
    refused: RefusedCheck,
}

/// What the tags name, and the uploads that were started for new blobs.
#[derive(Debug)]
struct RepositoryState {
    tags: Vec<(String, Option<Digest>)>,
    uploads: Vec<Url>,
}

/// Asks what the tags name. If they name nothing, the image is new, and `uploads` are started for
/// it; else it may exist already. After a refused check at least one upload is started, which shows
/// whether pushing is permitted.
pub(super) async fn prepare(
    remote: &Remote,
    tags: &[String],
    uploads: usize,
    parallel: usize,
) -> Result<PreparedPush, Error> {
    let refused = RefusedCheck::default();
    let state = query_repository(remote, tags, uploads, &refused, parallel).await?;
    Ok(PreparedPush { state, refused })
}

async fn query_repository(
    remote: &Remote,
    tags: &[String],
    uploads: usize,
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<RepositoryState, Error> {
    let tags = tagged_digests(remote, tags, refused, parallel).await?;
    let is_new = tags.iter().all(|(_, found)| found.is_none());
    let uploads = if is_new { uploads.max(usize::from(refused.is_any())) } else { 0 };
    let uploads = stream::iter(0..uploads)
        .map(|_| remote.start_upload())
        .buffer_unordered(parallel)
        .try_collect()
        .await
        .map_err(|error| refused.add_to(error))?;
    Ok(RepositoryState { tags, uploads })
}

async fn tagged_digests(
    remote: &Remote,
    references: &[String],
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<Vec<(String, Option<Digest>)>, Error> {
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

/// Pushes to a repository. Returns the tags that named something else before.
pub(super) async fn push(
    remote: &Remote,
    plan: &PushPlan,
    evidence: Option<&Evidence<'_>>,
    prepared: Option<PreparedPush>,
    parallel: usize,
) -> Result<Vec<MovedTag>, Error> {
    let digest = Digest::of(&plan.manifest);
    let was_prepared = prepared.is_some();
    let references =
        if plan.tags.is_empty() { vec![digest.to_string()] } else { plan.tags.clone() };
    let (state, refused) = match prepared {
        Some(prepared) => (Some(prepared.state), prepared.refused),
        None => (None, RefusedCheck::default()),
    };
    let refused = &refused;
    let state = async {
        match state {
            Some(state) => Ok(state),
            None => query_repository(remote, &references, 0, refused, parallel).await,
        }
    };
    // Concurrent, as neither needs the other's answer.
    let transfers = stream::iter(plan.unique_blobs())
        .map(|to_push| async move {
            let transfer = plan_transfer(remote, &to_push, refused).await?;
            Ok::<_, Error>((to_push, transfer))
        })
        .buffered(parallel)
        .try_collect::<Vec<_>>();
    let (RepositoryState { tags, mut uploads }, mut transfers) =
        futures_util::try_join!(state, transfers)?;
    let moving: Vec<_> = tags
        .iter()
        .filter_map(|(tag, found)| Some((tag.clone(), (*found)?)))
        .filter(|(_, former)| *former != digest)
        .collect();
    let destination = Destination::Registry(remote.shown.clone());
    let store = Store::remotes(vec![remote.clone()]);
    tag_platform::check(&destination, &store, plan, &moving).await?;
    let missing: Vec<_> = tags
        .iter()
        .filter(|(_, found)| *found != Some(digest))
        .map(|(reference, _)| reference.clone())
        .collect();
    // Where one tag names the manifest already, the registry has all of it.
    if missing.len() == tags.len() {
        for (_, transfer) in &mut transfers {
            if let Transfer::Upload(upload @ None) = transfer {
                *upload = uploads.pop();
            }
        }
        upload_blobs(remote, transfers, refused, parallel).await?;
    }
    for upload in uploads {
        remote.cancel_upload(&upload).await;
    }
    if let Some(evidence) = evidence {
        if missing.len() == tags.len() {
            put(remote, plan, vec![digest.to_string()], refused, parallel).await?;
        }
        attach(remote, evidence, parallel).await.map_err(|source| Error::NotSigned {
            image: remote.named(&digest.to_string()),
            source: Box::new(source),
        })?;
    }
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let with_refused_check = |error| refused.add_to(error);
    let protected = match &plan.protected_tag {
        Some(tag) if missing.contains(tag) => {
            let found = tags.iter().find(|(one, _)| one == tag).and_then(|(_, found)| *found);
            let found = if was_prepared && !refused.is_any() {
                tag_now(remote, tag, found, refused).await?
            } else {
                found
            };
            if found.is_none() && refused.is_any() {
                tracing::warn!(
                    "{}: the registry refuses to show what the tag {tag} names; if it names an image that machines run, that image has no tag after this push; use a login that may also pull",
                    remote.shown
                );
            }
            let former = found.filter(|found| *found != digest);
            protect_former(remote, tag, former).await.map_err(with_refused_check)?
        }
        Some(_) | None => None,
    };
    put(remote, plan, missing, refused, parallel).await?;
    let moved = tags.into_iter().filter_map(|(tag, found)| {
        if plan.protected_tag.as_ref() == Some(&tag) {
            return protected.clone();
        }
        let former = found.filter(|found| *found != digest)?;
        Some(MovedTag { tag, former, former_tag: None })
    });
    Ok(moved.collect())
}

/// Puts the manifest under each reference. If the registry misses a blob, all of them are checked.
async fn put(
    remote: &Remote,
    plan: &PushPlan,
    references: Vec<String>,
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<(), Error> {
    let with_refused_check = |error| refused.add_to(error);
    let rejected = put_manifests(remote, plan, references, parallel).await;
    let Some((references, error)) = rejected.map_err(with_refused_check)? else {
        return Ok(());
    };
    // A garbage collection ran after our checks, or the base's own blobs are incomplete.
    tracing::debug!(%error, "checking every blob once more");
    let all: Vec<_> = stream::iter(plan.unique_blobs())
        .map(|to_push| async move {
            let transfer = check_blob(remote, &to_push.blob.digest, refused).await?;
            Ok::<_, Error>((to_push, transfer))
        })
        .buffered(parallel)
        .try_collect()
        .await?;
    upload_blobs(remote, all, refused, parallel).await?;
    let rejected = put_manifests(remote, plan, references, parallel).await;
    match rejected.map_err(with_refused_check)? {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// What a tag names now: since it was read, a build may have taken an hour, and another one may
/// have pushed. `before` is what it named then.
async fn tag_now(
    remote: &Remote,
    tag: &str,
    before: Option<Digest>,
    refused: &RefusedCheck,
) -> Result<Option<Digest>, Error> {
    let scopes = Scopes::push(&remote.repository());
    refused.or_missing(remote.digest_of(tag, &scopes).await, before)
}

/// Gives the image that a tag names another tag, before that one moves.
async fn protect_former(
    remote: &Remote,
    tag: &str,
    former: Option<Digest>,
) -> Result<Option<MovedTag>, Error> {
    let Some(former) = former else {
        return Ok(None);
    };
    let moved = |former_tag| Some(MovedTag { tag: tag.to_owned(), former, former_tag });
    let document = match remote.manifest(&former.to_string()).await {
        Ok(document) => document,
        // It was deleted since: there is nothing to protect.
        Err(Error::NotFound { .. }) => return Ok(moved(None)),
        Err(error) => return Err(error),
    };
    let media_type = document.media_type.as_deref().unwrap_or(OCI_MANIFEST);
    let new_tag = former_tag(tag, &former);
    match remote.put_manifest(&new_tag, media_type, &document.bytes, &former).await? {
        ManifestPut::Confirmed => Ok(moved(Some(new_tag))),
        ManifestPut::BlobUnknown(error) => {
            tracing::warn!(%error, "{tag}: its former image {former} is not whole and gets no tag");
            Ok(moved(None))
        }
    }
}

/// What has to be done for a blob.
#[derive(Debug)]
enum Transfer {
    /// It exists, or was not checked, as the manifest that names it is in the same repository.
    Skip,
    /// To this upload, if one was started.
    Upload(Option<Url>),
}

async fn plan_transfer(
    remote: &Remote,
    to_push: &BlobToPush,
    refused: &RefusedCheck,
) -> Result<Transfer, Error> {
    let digest = &to_push.blob.digest;
    if let BlobFrom::Store(store) = &to_push.from
        && let Some(repo) = store.repo()
        && normal_host(repo.host()) == normal_host(remote.repo.host())
    {
        if repo == remote.repo {
            return Ok(Transfer::Skip);
        }
        let from = Remote { repo, ..remote.clone() }.repository();
        return Ok(match remote.mount(digest, &from).await? {
            MountResult::Mounted => Transfer::Skip,
            MountResult::UploadStarted(session) => Transfer::Upload(Some(session)),
            MountResult::Rejected => check_blob(remote, digest, refused).await?,
        });
    }
    check_blob(remote, digest, refused).await
}

async fn check_blob(
    remote: &Remote,
    digest: &Digest,
    refused: &RefusedCheck,
) -> Result<Transfer, Error> {
    if refused.is_any() {
        // The next check would be refused as well, after as many logins.
        return Ok(Transfer::Upload(None));
    }
    let scopes = Scopes::push(&remote.repository());
    let exists = refused.or_missing(remote.has_blob(digest, &scopes).await, false)?;
    Ok(if exists { Transfer::Skip } else { Transfer::Upload(None) })
}

async fn upload_blobs(
    remote: &Remote,
    transfers: Vec<(BlobToPush, Transfer)>,
    refused: &RefusedCheck,
    parallel: usize,
) -> Result<(), Error> {
    stream::iter(transfers)
        .map(|(to_push, transfer)| async move {
            let session = match transfer {
                Transfer::Skip => return Ok(()),
                Transfer::Upload(Some(session)) => session,
                Transfer::Upload(None) => {
                    remote.start_upload().await.map_err(|e| refused.add_to(e))?
                }
            };
            upload_blob(remote, to_push, session).await
        })
        .buffer_unordered(parallel)
        .try_collect()
        .await
}

async fn upload_blob(remote: &Remote, to_push: BlobToPush, session: Url) -> Result<(), Error> {
    let source = BlobSource { to_push, image: remote.shown.to_string() };
    let blob = &source.to_push.blob;
    if blob.size > SMALL_BLOB {
        return remote.upload_stream(blob, &source, session).await;
    }
    let bytes = source.bytes(SMALL_BLOB).await?;
    remote.upload(&blob.digest, &bytes, session).await
}

/// Puts the manifest under each reference. Returns the references for which a blob is missing, and
/// the first error.
async fn put_manifests(
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
    let mut rejected = None;
    for (reference, answer) in answers {
        if let ManifestPut::BlobUnknown(error) = answer {
            rejected.get_or_insert_with(|| (Vec::new(), error)).0.push(reference);
        }
    }
    Ok(rejected)
}
