//! Attaches evidence to an image: signatures and attestations, by tag and as referrers. Nothing locks
//! these tags, so what is written is read again, until it verifies.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use mosb_image::media_type::{OCI_INDEX, OCI_MANIFEST};
use mosb_image::{BlobRef, Digest, RepoRef};
use mosb_trust::attached::referrers_tag;
use mosb_trust::{AttachmentKind, Evidence};
use mosb_types::canonical_json;

use crate::attached::{Limits, find, parse, read_layers, readable, referrers_api};
use crate::client::Client;
use crate::error::Error;
use crate::manifest::invalid;
use crate::remote::Remote;
use crate::store::Store;
use crate::upload::ManifestPut;

/// Tries to add to a tag that others change, too.
const TRIES: usize = 8;
/// How often a list that the registry makes is read. A long list has several pages, and only the first
/// one is read.
const LIST_READS: usize = 3;

impl Client {
    /// Attaches evidence to an image, until what the registry returns verifies. Returns whether
    /// anything was written.
    ///
    /// # Errors
    /// The registry refuses it, it can't be signed, or others change the tag all the time.
    pub async fn attach(&self, repo: &RepoRef, evidence: &Evidence<'_>) -> Result<bool, Error> {
        attach(&self.pushing(repo)?, evidence, self.parallel()).await
    }
}

/// As [`Client::attach`].
pub(super) async fn attach(
    remote: &Remote,
    evidence: &Evidence<'_>,
    parallel: usize,
) -> Result<bool, Error> {
    let kinds = [AttachmentKind::Signature, AttachmentKind::Attestation];
    let kinds: Vec<_> = kinds.into_iter().filter(|kind| evidence.has(*kind)).collect();
    let attached: Vec<Attachment> = stream::iter(kinds)
        .map(|kind| attach_kind(remote, kind, evidence, parallel))
        .buffered(parallel)
        .try_collect()
        .await?;
    list_referrers(remote, &evidence.subject.digest, &attached).await?;
    Ok(attached.iter().any(|attachment| !attachment.written_over.is_empty()))
}

/// A manifest that is attached to an image.
struct Attachment {
    kind: AttachmentKind,
    manifest: Bytes,
    /// What its tag named before each of our writes.
    written_over: Vec<Option<Digest>>,
}

async fn attach_kind(
    remote: &Remote,
    kind: AttachmentKind,
    evidence: &Evidence<'_>,
    parallel: usize,
) -> Result<Attachment, Error> {
    let digest = evidence.subject.digest;
    let tag = kind.tag(&digest);
    let shown = remote.named(&tag);
    let store = Store::remotes(vec![remote.clone()]);
    let mut written_over = Vec::new();
    for _ in 0..TRIES {
        let bytes = find(remote, &tag).await?;
        let attached = match &bytes {
            Some(bytes) => {
                let manifest = parse(&shown, bytes)?;
                let is_asked = |layer: &BlobRef| evidence.may_be_ours(kind, layer);
                let readable = readable(manifest.layers(), Limits::of(kind), is_asked);
                Some(read_layers(&store, &shown, manifest, readable, parallel).await?)
            }
            None => None,
        };
        let missing = evidence.missing(kind, attached.as_ref());
        let missing = missing.map_err(|source| {
            let image = remote.named(&digest.to_string());
            Error::Sign { image, source }
        })?;
        let Some(new) = missing else {
            let manifest = bytes.expect("our layers are in a manifest");
            return Ok(Attachment { kind, manifest, written_over });
        };
        written_over.push(bytes.map(|bytes| Digest::of(&bytes)));
        stream::iter(new.blobs.clone())
            .map(|blob| async move { push_blob(remote, &blob).await })
            .buffer_unordered(parallel)
            .try_collect::<()>()
            .await?;
        put(remote, &tag, OCI_MANIFEST, &new.manifest).await?;
    }
    Err(Error::AttachConflict { image: shown })
}

/// Pushes a blob that is probably new, without asking for it.
async fn push_blob(remote: &Remote, bytes: &Bytes) -> Result<(), Error> {
    let digest = Digest::of(bytes);
    let session = remote.start_upload().await?;
    remote.upload(&digest, bytes, session).await
}

async fn put(
    remote: &Remote,
    reference: &str,
    media_type: &str,
    bytes: &Bytes,
) -> Result<(), Error> {
    match remote.put_manifest(reference, media_type, bytes, &Digest::of(bytes)).await? {
        ManifestPut::Confirmed => Ok(()),
        ManifestPut::BlobUnknown(error) => Err(error),
    }
}

/// Sees to it that what is attached is among the referrers. A registry with the API makes the list
/// itself, but one that does not lock it (olareg 0.1.2) loses what is pushed at the same time, so that
/// is pushed again.
async fn list_referrers(
    remote: &Remote,
    digest: &Digest,
    attached: &[Attachment],
) -> Result<(), Error> {
    for reads_left in (0..LIST_READS).rev() {
        let Some(listed) = referrers_api(remote, digest).await? else {
            return add_to_tag(remote, digest, attached).await;
        };
        let attached = attached.iter().map(|it| (Digest::of(&it.manifest), &it.manifest));
        let is_lost = |(digest, _): &(Digest, _)| listed.iter().all(|it| it.digest != *digest);
        let lost: Vec<_> = attached.filter(is_lost).collect();
        if lost.is_empty() {
            return Ok(());
        }
        if reads_left == 0 {
            break;
        }
        for (digest, manifest) in lost {
            // Not by its tag, which others may have changed since.
            put(remote, &digest.to_string(), OCI_MANIFEST, manifest).await?;
        }
    }
    tracing::warn!(
        "{}: its signatures or attestations are not on the first page of its referrers, so tools that look there may not find them; if the registry has no more pages, `mosb sign` pushes them again",
        remote.named(&digest.to_string())
    );
    Ok(())
}

/// In a registry without the API, the list of referrers is a tag, which clients keep (OCI
/// distribution spec 1.1, "Referrers Tag Schema").
async fn add_to_tag(
    remote: &Remote,
    digest: &Digest,
    attached: &[Attachment],
) -> Result<(), Error> {
    let tag = referrers_tag(digest);
    let entry = |attachment: &Attachment| {
        let mut entry = json!(BlobRef::of(OCI_MANIFEST, &attachment.manifest));
        entry["artifactType"] = json!(attachment.kind.artifact_type());
        entry
    };
    let ours: Vec<Value> = attached.iter().map(entry).collect();
    let is_ours = |entry: &Value| ours.iter().any(|ours| entry["digest"] == ours["digest"]);
    let replaced = attached.iter().flat_map(|attachment| &attachment.written_over).flatten();
    let replaced: Vec<Value> = replaced.map(|digest| json!(digest)).collect();
    for _ in 0..TRIES {
        let mut index = match find(remote, &tag).await? {
            Some(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| invalid(&remote.named(&tag), error))?,
            None => json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [] }),
        };
        let Some(entries) = index.get_mut("manifests").and_then(Value::as_array_mut) else {
            tracing::warn!(
                "{}: it is not an index of referrers; tools that look for referrers don't find the signature of {}",
                remote.named(&tag),
                remote.named(&digest.to_string())
            );
            return Ok(());
        };
        let before = entries.len();
        entries.retain(|entry| !replaced.contains(&entry["digest"]) || is_ours(entry));
        let lacks = |ours: &&Value| entries.iter().all(|entry| entry["digest"] != ours["digest"]);
        let new: Vec<Value> = ours.iter().filter(lacks).cloned().collect();
        if new.is_empty() && entries.len() == before {
            return Ok(());
        }
        entries.extend(new);
        put(remote, &tag, OCI_INDEX, &canonical_json(&index).into()).await?;
    }
    Err(Error::AttachConflict { image: remote.named(&tag) })
}
