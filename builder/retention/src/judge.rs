//! Decides about each image that builds of a MachineOSConfig made: it is kept, with all reasons, or
//! deleted. Pure.
//!
//! Invariant: an image is deleted only if nothing needs it, a build of this very MachineOSConfig made
//! it, and each tag that names it is one of its own builds'.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use mosb_api::cluster_settings::Retention;
use mosb_image::Digest;
use mosb_plan::plan::PreparedTag;
use mosb_registry::TaggedImage;

/// Why an image stays in the registry. An image may have several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepReason {
    /// Of the MachineOSConfig of this name.
    InService(String),
    /// The annotation `mosb.dev/rollout-build` or `mosb.dev/rollout-once` of that MachineOSConfig.
    Pinned(String),
    /// It was in service, and a roll-out may go back to it.
    History(String),
    /// The machine of this name booted it.
    Booted(String),
    Staged(String),
    /// The machine can go back to it by itself.
    Rollback(String),
    /// An object, as `node worker-1`, has its digest.
    Named(String),
    /// It is the base, the prepared base or the first of the live images of an image that is kept.
    NeededBy(String),
    /// A tag that is not one of its own builds.
    Tag(String),
    /// The index of this tag contains it.
    Index(String),
    /// A build that runs pushes this tag.
    Building(String),
    /// No build of this MachineOSConfig made it, as far as is known.
    NotMadeHere,
    /// One of so many newest.
    Newest(u16),
    /// Built in the last so many days.
    Young(u16),
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InService(config) => write!(f, "in service of {config}"),
            Self::Pinned(config) => write!(f, "{config} is pinned to it"),
            Self::History(config) => write!(f, "in the history of {config}"),
            Self::Booted(machine) => write!(f, "node {machine} booted it"),
            Self::Staged(machine) => write!(f, "node {machine} has staged it"),
            Self::Rollback(machine) => write!(f, "node {machine} can go back to it"),
            Self::Named(object) => write!(f, "{object} names it"),
            Self::NeededBy(image) => write!(f, "{image} is kept and names it"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Index(tag) => write!(f, "in the index of tag {tag}"),
            Self::Building(build) => write!(f, "build {build} runs and pushes its tag"),
            Self::NotMadeHere => f.write_str("not made by a build of this MachineOSConfig"),
            Self::Newest(keep) => write!(f, "one of the {keep} newest"),
            Self::Young(days) => write!(f, "younger than {days} days"),
        }
    }
}

/// Why each digest is needed.
pub type NeededImages = BTreeMap<Digest, BTreeSet<KeepReason>>;
/// What each tag of the push repository names.
pub type Tags = BTreeMap<String, TaggedImage>;

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageKind {
    Machines,
    PreparedBase,
}

/// A build of the MachineOSConfig whose image was pushed to the push repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// Name of the MachineOSBuild.
    pub build: String,
    pub digest: Digest,
    /// The name of the build, and of its rendered config.
    pub tags: BTreeSet<String>,
    pub time: Timestamp,
    /// A workload of the build made it: it is not another build's image, or one from elsewhere.
    pub is_made_here: bool,
    /// The prepared base that it was made on.
    pub prepared: Option<Digest>,
    /// All digests that the build names, without its own.
    pub names: BTreeSet<Digest>,
    /// Since when a process deletes the image, or did so before it ended.
    pub deleting_since: Option<Timestamp>,
    /// Its image was deleted, and the prepared base may be there.
    pub is_deleted: bool,
}

/// What a decision depends on beside the registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionFacts {
    pub builds: Vec<BuiltImage>,
    pub needed: NeededImages,
    /// Tags that builds push which run now, with the build.
    pub running_tags: BTreeMap<String, String>,
    pub retention: Retention,
}

/// An image, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedImage {
    pub digest: Digest,
    pub kind: ImageKind,
    /// Names of the MachineOSBuilds that have it.
    pub builds: BTreeSet<String>,
    /// The tags that name it.
    pub tags: BTreeSet<String>,
    /// When it was built; for a prepared base, when an image was last built on it.
    pub time: Timestamp,
    /// Why it is kept; empty if it is to be deleted.
    pub reasons: BTreeSet<KeepReason>,
}

impl JudgedImage {
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }

    /// Whether the registry may have it. Nothing shows whether a prepared base without a tag is there.
    pub fn may_be_there(&self) -> bool {
        self.kind == ImageKind::Machines || !self.tags.is_empty()
    }
}

/// All images that the builds made, newest first.
pub fn judge(facts: &RetentionFacts, tags: &Tags, now: Timestamp) -> Vec<JudgedImage> {
    let mut images = images(facts, tags, now);
    // A kept image keeps what it names, and the tags of its builds.
    loop {
        let kept = images.iter().filter(|image| image.is_kept()).map(|image| image.digest);
        let kept: BTreeSet<Digest> = kept.collect();
        let reasons: Vec<_> =
            images.iter().map(|image| more_reasons(image, &kept, facts, tags)).collect();
        let mut changed = false;
        for (image, more) in images.iter_mut().zip(reasons) {
            changed |= !image.is_kept() && !more.is_empty();
            image.reasons.extend(more);
        }
        if !changed {
            break;
        }
    }
    images.sort_by(|a, b| (b.time, a.digest).cmp(&(a.time, b.digest)));
    images
}

/// The images with the reasons that do not depend on other images.
fn images(facts: &RetentionFacts, tags: &Tags, now: Timestamp) -> Vec<JudgedImage> {
    let Retention { keep, days } = facts.retention;
    let mut images: BTreeMap<Digest, JudgedImage> = BTreeMap::new();
    let mut made_here = BTreeSet::new();
    for build in &facts.builds {
        let of_machines = (!build.is_deleted).then_some((build.digest, ImageKind::Machines));
        let prepared = build.prepared.map(|base| (base, ImageKind::PreparedBase));
        for (digest, kind) in of_machines.into_iter().chain(prepared) {
            if build.is_made_here {
                made_here.insert(digest);
            }
            let image = images.entry(digest).or_insert_with(|| JudgedImage {
                digest,
                kind,
                builds: BTreeSet::new(),
                tags: tags_of(digest, tags),
                time: build.time,
                reasons: facts.needed.get(&digest).cloned().unwrap_or_default(),
            });
            image.kind = image.kind.min(kind);
            image.time = image.time.max(build.time);
            image.builds.insert(build.build.clone());
        }
    }
    let mut images: Vec<_> = images.into_values().collect();
    images.sort_by_key(|image| std::cmp::Reverse(image.time));
    let limit = SignedDuration::from_hours(24 * i64::from(days));
    let mut newest = usize::from(keep);
    for image in &mut images {
        if image.kind == ImageKind::Machines && newest > 0 {
            newest -= 1;
            image.reasons.insert(KeepReason::Newest(keep));
        }
        if now.duration_since(image.time) < limit {
            image.reasons.insert(KeepReason::Young(days));
        }
        if !made_here.contains(&image.digest) {
            image.reasons.insert(KeepReason::NotMadeHere);
        }
        for (tag, build) in &facts.running_tags {
            if image.tags.contains(tag) {
                image.reasons.insert(KeepReason::Building(build.clone()));
            }
        }
    }
    images
}

fn tags_of(digest: Digest, tags: &Tags) -> BTreeSet<String> {
    let named = tags.iter().filter(|(_, tagged)| tagged.digest == digest);
    named.map(|(tag, _)| tag.clone()).collect()
}

/// The reasons that follow from other images and from tags.
fn more_reasons(
    image: &JudgedImage,
    kept: &BTreeSet<Digest>,
    facts: &RetentionFacts,
    tags: &Tags,
) -> BTreeSet<KeepReason> {
    let mut reasons = BTreeSet::new();
    for build in facts.builds.iter().filter(|build| build.digest != image.digest) {
        if build.names.contains(&image.digest) && kept.contains(&build.digest) {
            reasons.insert(KeepReason::NeededBy(build.build.clone()));
        }
    }
    let is_own = |tag: &str| match image.kind {
        ImageKind::PreparedBase => tag.parse::<PreparedTag>().is_ok(),
        ImageKind::Machines => {
            let mut own = facts.builds.iter().filter(|build| build.digest == image.digest);
            let mut others = facts.builds.iter().filter(|build| build.digest != image.digest);
            own.any(|build| build.tags.contains(tag))
                && !others.any(|build| build.tags.contains(tag) && kept.contains(&build.digest))
        }
    };
    for (tag, tagged) in tags {
        if tagged.digest == image.digest && !is_own(tag) {
            reasons.insert(KeepReason::Tag(tag.clone()));
        }
        if tagged.instances.contains(&image.digest) {
            reasons.insert(KeepReason::Index(tag.clone()));
        }
    }
    reasons
}
