//! The tree of a base as a small image beside the images that are built on it: a cache that all
//! builds of a cluster share.
//!
//! It is one layer with one file. Every client that can write to the repository could replace it,
//! so it is read only by a digest from a trusted record. It is only a shortcut: a failure here is
//! not an error.

use std::io::Read as _;

use bytes::Bytes;
use serde_json::{Value, json};
use tar::Archive;
use tokio::task::spawn_blocking;

use crate::client::Client;
use crate::location::Source;
use crate::push::PushPlan;
use crate::small_image::small_image;
use crate::verify::collect;
use crate::{Blobs as _, Target};
use mosb_image::tree::{self, BaseTree};
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_types::{Finding, error_text};

/// Label of the image: manifest of the base.
const LABEL: &str = "mosb.dev/base-tree";
/// Label of the image: [`tree::VERSION`].
const VERSION_LABEL: &str = "mosb.dev/base-tree-version";
/// The one file in its layer.
const FILE: &str = "base-tree";
/// The most that is read of a layer; a tree of 100 000 paths has some 4 MB, compressed a quarter of
/// that.
const LAYER_LIMIT: u64 = 64 << 20;
/// The most that is read of a tree.
const TREE_LIMIT: u64 = 256 << 20;

/// The tag of the image with the tree of this base; a tag only keeps a registry from throwing it
/// away.
pub fn tag(base: &Digest) -> String {
    format!("base-tree-{}", &base.hex()[..32])
}

/// Pushes the tree of a base into a repository; the digest is the image's.
///
/// # Errors
/// A warning if it can't be pushed.
pub async fn push(
    client: &Client,
    repo: &RepoRef,
    base: &Digest,
    tree: &BaseTree,
) -> Result<Digest, Finding> {
    let (base_, tree) = (*base, tree.clone());
    let made = spawn_blocking(move || image(&base_, tree.as_bytes())).await;
    let plan = made.expect("packing does not panic and is not cancelled");
    let pushed = client.push(&Target::from(repo.clone()), &plan).await;
    match pushed {
        Ok(pushed) => Ok(*pushed.digest.value()),
        Err(error) => Err(warning(
            &format!("{repo}:{}", tag(base)),
            "can't be pushed, so the next build reads the base again",
            &error,
        )),
    }
}

fn image(base: &Digest, tree: &[u8]) -> PushPlan {
    let labels = json!({ LABEL: base, VERSION_LABEL: tree::VERSION.to_string() });
    small_image(FILE, tree, &labels, tag(base))
}

/// The tree of a base from an image that was recorded to have it; none if another version of mosb
/// wrote it, whose trees are made anew.
///
/// # Errors
/// A warning if it can't be read, or is of another base.
pub async fn pull(
    client: &Client,
    image: &PinnedRef,
    base: &Digest,
) -> Result<Option<BaseTree>, Finding> {
    let shown = image.to_string();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        warning(&shown, "can't be read, so the base is", error)
    };
    let read = async {
        let source = Source::Registry(image.clone().into());
        let found = client.resolve(&source, None).await?;
        let labels = labels(&found.config_bytes);
        let layer = match &found.layers[..] {
            [layer] if layer.size <= LAYER_LIMIT => layer.clone(),
            _ => return Ok(Read::Odd),
        };
        if labels[LABEL] != json!(base) {
            return Ok(Read::Odd);
        }
        if labels[VERSION_LABEL] != json!(tree::VERSION.to_string()) {
            return Ok(Read::OtherVersion);
        }
        let bytes = found.store.open(&layer.digest, 0..layer.size).await?;
        let bytes = collect(&shown, &layer, "its layer", LAYER_LIMIT, bytes).await?;
        Ok::<_, crate::Error>(Read::Layer(bytes))
    };
    let odd = || {
        Finding::new(
            "base-tree-image",
            format!("the image {shown} holds no tree of this base, so the base is read"),
        )
        .object(&shown)
    };
    let layer = match read.await.map_err(|error| failed(&error))? {
        Read::Layer(layer) => layer,
        Read::OtherVersion => return Ok(None),
        Read::Odd => return Err(odd()),
    };
    let unpacked = spawn_blocking(move || unpack(&layer)).await;
    let unpacked = unpacked.expect("unpacking does not panic and is not cancelled");
    let bytes = unpacked.map_err(|error| failed(&error))?.ok_or_else(odd)?;
    BaseTree::from_bytes(bytes).map(Some).map_err(|error| failed(&error))
}

/// What an image turned out to be.
enum Read {
    /// A tree of this version, packed.
    Layer(Bytes),
    OtherVersion,
    Odd,
}

/// The labels of an image; null without any.
fn labels(config: &[u8]) -> Value {
    let mut config: Value = serde_json::from_slice(config).unwrap_or_default();
    config["config"]["Labels"].take()
}

fn unpack(layer: &Bytes) -> std::io::Result<Option<Vec<u8>>> {
    let mut archive = Archive::new(flate2::read::GzDecoder::new(&layer[..]).take(TREE_LIMIT));
    let Some(entry) = archive.entries()?.next() else {
        return Ok(None);
    };
    let mut entry = entry?;
    if entry.path_bytes() != FILE.as_bytes() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn warning(image: &str, what: &str, error: &(dyn std::error::Error + 'static)) -> Finding {
    let message = format!("the image with the base's tree {what}: {}", error_text(error));
    Finding::new("base-tree-image", message).object(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlobFrom;
    use mosb_image::tree::OwnedEntry;

    #[test]
    fn packing_and_unpacking_preserve_a_tree() {
        let tree = BaseTree::from_entries([(b"etc/a".to_vec(), OwnedEntry::file(b"x"))]);
        let base = Digest::of(b"base");
        let plan = image(&base, tree.as_bytes());
        assert_eq!(plan.tags, [format!("base-tree-{}", &base.hex()[..32])]);
        assert_eq!(image(&base, tree.as_bytes()).manifest, plan.manifest);
        let BlobFrom::Bytes(layer) = &plan.blobs[0].from else {
            panic!("{:?}", plan.blobs[0]);
        };
        let bytes = unpack(layer).unwrap().unwrap();
        assert_eq!(BaseTree::from_bytes(bytes), Ok(tree));
        assert!(unpack(&Bytes::from_static(b"x")).is_err());
    }
}
