//! Which images one pass deletes. A pass records them on their builds first; from then on nobody takes
//! them, and only that pass deletes them. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::judge::{BuiltImage, ImageKind, JudgedImage, RetentionFacts};

/// Deletions of one pass: its lists of the cluster count for a short time.
const MAX_DELETIONS: usize = 10;
/// A process that has not ended a deletion for so long has died.
const TAKEOVER: SignedDuration = SignedDuration::from_mins(10);

/// The images that a pass records, oldest first. Those that another process deletes are left to it.
pub fn batch(judged: &[JudgedImage], facts: &RetentionFacts, now: Timestamp) -> Vec<JudgedImage> {
    let is_free = |image: &&JudgedImage| {
        let mut since = builds_of(image, facts).filter_map(|build| build.deleting_since);
        since.all(|since| now.duration_since(since) > TAKEOVER)
    };
    let deletable = judged.iter().rev().filter(|image| !image.is_kept() && image.may_be_there());
    deletable.filter(is_free).take(MAX_DELETIONS).cloned().collect()
}

/// An image of a batch, judged again.
#[derive(Debug)]
pub struct RecordedImage<'a> {
    pub image: &'a JudgedImage,
    /// The builds with the record of this pass.
    pub builds: Vec<&'a str>,
    pub may_be_deleted: bool,
}

/// The images of a batch, from a list that was made
/// [`IMAGE_DELETION_DELAY`](mosb_reconcile::waits::IMAGE_DELETION_DELAY) after the record, whose time
/// is `own`.
pub fn judged_again<'a>(
    batch: &[JudgedImage],
    judged: &'a [JudgedImage],
    facts: &'a RetentionFacts,
    own: Timestamp,
) -> Vec<RecordedImage<'a>> {
    let again = |before: &JudgedImage| {
        let image = judged.iter().find(|image| image.digest == before.digest)?;
        let is_own = |build: &&BuiltImage| build.deleting_since == Some(own);
        let own: Vec<_> = builds_of(image, facts).filter(is_own).map(|it| &*it.build).collect();
        // A prepared base has no record: no pool takes one that the ConfigMap does not name.
        let is_recorded =
            image.kind == ImageKind::PreparedBase || own.len() == builds_of(image, facts).count();
        Some(RecordedImage { image, builds: own, may_be_deleted: is_recorded && !image.is_kept() })
    };
    batch.iter().filter_map(again).collect()
}

fn builds_of<'a>(
    image: &'a JudgedImage,
    facts: &'a RetentionFacts,
) -> impl Iterator<Item = &'a BuiltImage> {
    facts.builds.iter().filter(|build| build.digest == image.digest && !build.is_deleted)
}
