//! A repository as a whole: its tags, what they name, who marked it as theirs, and the deletion of
//! a manifest (OCI distribution spec, content discovery and content management).
//!
//! Invariant: the list of tags is complete, or an error.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Method;
use reqwest::header::LINK;
use serde::Deserialize;
use serde_json::json;

use crate::auth::token::Scopes;
use crate::client::Client;
use crate::error::Error;
use crate::location::Target;
use crate::manifest::{self, Document};
use crate::remote::Remote;
use crate::small_image::small_image;
use crate::transport::request::{RegistryMessage, Response};
use mosb_image::reference::is_tag;
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_trust::{attachment_tags, is_attachment_tag};
use mosb_types::null_is_empty;

/// The most tags of a repository that are listed: each is asked for.
pub const MAX_TAGS: usize = 2000;
/// The most tags of attachments of images, which are skipped.
const MAX_ATTACHMENTS: usize = 3 * MAX_TAGS;
/// Tags of a page.
const PAGE: usize = 1000;
/// The most bytes of a page: a registry may send all tags at once, of 128 characters each.
const PAGE_LIMIT: u64 = 1 << 20;
/// What the tag begins with by which a cluster marks a repository as its own.
const OWNER_MARK: &str = "mosb-owner-";
/// Hex digits of the owner in that tag.
const OWNER_LEN: usize = 32;

/// What a tag names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedImage {
    /// Digest of the manifest or index.
    pub digest: Digest,
    /// What an index names in turn; empty for a manifest.
    pub instances: Vec<Digest>,
}

/// The answer to a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    Deleted,
    /// The registry does not have it.
    Missing,
    /// The registry deletes nothing by its API.
    Unsupported(String),
}

#[null_is_empty]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TagPage {
    tags: Vec<String>,
}

/// The tag by which the owner of this ID marks a repository.
pub fn owner_tag(id: &str) -> String {
    format!("{OWNER_MARK}{}", &Digest::of(id.as_bytes()).hex()[..OWNER_LEN])
}

/// The tags of other owners.
pub fn other_owners<'a>(
    tags: impl IntoIterator<Item = &'a String>,
    id: &str,
) -> BTreeSet<&'a String> {
    let own = owner_tag(id);
    tags.into_iter().filter(|tag| tag.starts_with(OWNER_MARK) && **tag != own).collect()
}

impl Client {
    /// All tags of a repository, without those of what is attached to images, as signatures are; none
    /// of a repository that does not exist.
    ///
    /// # Errors
    /// There are more than [`MAX_TAGS`], or three times as many of what is attached, or the registry
    /// does not list them.
    pub async fn tags(&self, repo: &RepoRef) -> Result<BTreeSet<String>, Error> {
        self.pushing(repo)?.tags().await
    }

    /// What each of these tags names. A tag that is gone by now is left out. Whether a digest that is
    /// not one of `manifests` is an index is looked up.
    pub async fn tagged(
        &self,
        repo: &RepoRef,
        tags: &BTreeSet<String>,
        manifests: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<String, TaggedImage>, Error> {
        let remote = &self.pushing(repo)?;
        let asked = stream::iter(tags.clone()).map(|tag| async move {
            let named = remote.tagged(&tag, manifests).await?;
            Ok::<_, Error>(named.map(|named| (tag, named)))
        });
        let found = asked.buffer_unordered(self.parallel()).try_collect::<Vec<_>>().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Deletes a manifest, with all tags that name it.
    ///
    /// # Errors
    /// The credentials may not do this, or the registry does not answer.
    pub async fn delete_manifest(&self, image: &PinnedRef) -> Result<Deletion, Error> {
        self.pushing(image.repo())?.delete_manifest(&image.digest()).await
    }

    /// Deletes what is attached to a manifest, whether that is there or not: what the tags name that
    /// follow from its digest. `others` stay, whatever names them.
    ///
    /// # Errors
    /// The credentials may not do this, or the registry does not answer.
    pub async fn delete_attached(
        &self,
        image: &PinnedRef,
        others: &BTreeSet<Digest>,
    ) -> Result<(), Error> {
        let remote = self.pushing(image.repo())?;
        let scopes = Scopes::pull(&remote.repository());
        for tag in attachment_tags(&image.digest()) {
            let attached = remote.digest_of(&tag, &scopes).await?;
            if let Some(attached) = attached.filter(|digest| !others.contains(digest)) {
                remote.delete_manifest(&attached).await?;
            }
        }
        Ok(())
    }

    /// Marks a repository as used by this owner: a small image with a tag of its own.
    ///
    /// # Errors
    /// It can't be pushed.
    pub async fn mark_owner(&self, repo: &RepoRef, id: &str) -> Result<(), Error> {
        let tag = owner_tag(id);
        let labels = json!({ "mosb.dev/owner": tag });
        let text = "A cluster pushes images of machines here, and deletes old ones.\n";
        let plan = small_image("owner", text.as_bytes(), &labels, tag);
        self.push(&Target::from(repo.clone()), &plan).await.map(drop)
    }
}

impl Remote {
    async fn tags(&self) -> Result<BTreeSet<String>, Error> {
        const DOING: &str = "the request for its tags";
        let repository = self.repository();
        let mut call = self.call(Method::GET, &format!("tags/list?n={PAGE}")).await?;
        call.limit = Some(PAGE_LIMIT);
        let bad = |what: String| Error::BadAnswer {
            image: self.shown.to_string(),
            host: self.endpoint.host().to_owned(),
            doing: DOING,
            what,
        };
        let (mut tags, mut attachments) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let answer = self.endpoint.send(&call, &Scopes::pull(&repository), &repository).await?;
            if answer.status == 404 && answer.message().is_missing() {
                return Ok(tags);
            }
            if !answer.is_success() {
                let image = self.shown.to_string();
                return Err(self
                    .endpoint
                    .response_error(&answer, &image, &repository, DOING)
                    .await);
            }
            if answer.body.len() as u64 > PAGE_LIMIT {
                return Err(self.too_many_tags(MAX_TAGS, "tags"));
            }
            let page: TagPage = serde_json::from_slice(&answer.body)
                .map_err(|error| bad(format!("no list of tags: {error}")))?;
            let before = tags.len() + attachments.len();
            for tag in page.tags {
                if !is_tag(&tag) {
                    let begin: String = tag.chars().take(40).collect();
                    return Err(bad(format!("{begin:?}, which is not a tag")));
                }
                let list = if is_attachment_tag(&tag) { &mut attachments } else { &mut tags };
                list.insert(tag);
            }
            if tags.len() > MAX_TAGS {
                return Err(self.too_many_tags(MAX_TAGS, "tags"));
            }
            if attachments.len() > MAX_ATTACHMENTS {
                return Err(self.too_many_tags(MAX_ATTACHMENTS, "tags of attachments"));
            }
            let Some(next) = next_page(&answer) else {
                return Ok(tags);
            };
            if tags.len() + attachments.len() == before {
                return Err(bad("another page of tags that it has listed".to_owned()));
            }
            // Only the query: the registry may write another host or path than that by which it is
            // reached.
            call.url.set_query(Some(&next));
        }
    }

    fn too_many_tags(&self, limit: usize, what: &'static str) -> Error {
        Error::TooManyTags { repository: self.shown.to_string(), limit, what }
    }

    async fn tagged(
        &self,
        tag: &str,
        manifests: &BTreeSet<Digest>,
    ) -> Result<Option<TaggedImage>, Error> {
        let scopes = Scopes::pull(&self.repository());
        let Some(digest) = self.digest_of(tag, &scopes).await? else {
            return Ok(None);
        };
        if manifests.contains(&digest) {
            return Ok(Some(TaggedImage { digest, instances: Vec::new() }));
        }
        let document = match self.manifest(&digest.to_string()).await {
            Ok(document) => document,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let image = self.named(tag);
        let read = manifest::media_type(&image, &document.bytes, document.media_type.as_deref())
            .and_then(|media_type| manifest::read(&image, &document.bytes, &media_type));
        let instances = match read {
            Ok(Document::Index(entries)) => entries.into_iter().map(|one| one.digest).collect(),
            // Signatures and other artifacts name no images.
            Ok(Document::Image(_)) | Err(Error::UnsupportedMediaType { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Some(TaggedImage { digest, instances }))
    }

    /// Registries want the right to push, or, as the distribution project's, one of its own.
    async fn delete_manifest(&self, digest: &Digest) -> Result<Deletion, Error> {
        const DOING: &str = "the deletion of a manifest";
        let (repository, image) = (self.repository(), self.named(&digest.to_string()));
        let call = self.call(Method::DELETE, &format!("manifests/{digest}")).await?;
        let mut refused = None;
        for scopes in [Scopes::push(&repository), Scopes::delete(&repository)] {
            let answer = match self.endpoint.send(&call, &scopes, &repository).await {
                Ok(answer) => answer,
                // A token server that does not know the right to delete.
                Err(error) if refused.is_none() => return Err(error),
                Err(_) => break,
            };
            match answer.status {
                200..=299 => return Ok(Deletion::Deleted),
                404 if answer.message().is_missing() => return Ok(Deletion::Missing),
                401 | 403 => drop(refused.get_or_insert(answer)),
                405 => return Ok(unsupported(&answer)),
                _ if RegistryMessage::has_code(&answer.body, &["UNSUPPORTED"]) => {
                    return Ok(unsupported(&answer));
                }
                _ => {
                    let error = self.endpoint.response_error(&answer, &image, &repository, DOING);
                    return Err(error.await);
                }
            }
        }
        let refused = refused.expect("the first answer was a refusal");
        Err(self.endpoint.response_error(&refused, &image, &repository, DOING).await)
    }
}

fn unsupported(answer: &Response) -> Deletion {
    Deletion::Unsupported(format!("{}{}", answer.status, answer.message()))
}

/// The query of the next page, if there is one (RFC 8288, `rel="next"`).
fn next_page(answer: &Response) -> Option<String> {
    let link = answer.text(LINK.as_str())?;
    let next =
        link.split(',').find(|one| one.contains("rel=\"next\"") || one.contains("rel=next"))?;
    let (target, _) = next.trim().strip_prefix('<')?.split_once('>')?;
    let (_, query) = target.split_once('?')?;
    Some(query.to_owned())
}
