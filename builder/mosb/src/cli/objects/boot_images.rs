//! The boot images of machine sets.

use schemars::JsonSchema;
use serde::Serialize;

/// The selected machine sets and their boot images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageList {
    /// The ConfigMap with the images to follow, as `namespace/name`.
    pub golden: String,
    /// Problems that are not of one set.
    pub errors: Vec<String>,
    /// Images that are too old, and CAs in user data that expire soon.
    pub warnings: Vec<String>,
    /// What is as it should be in most clusters: that no image waits for the OS of the pools.
    pub notes: Vec<String>,
    /// Days between the oldest image in use whose release is known and the one to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_behind: Option<i64>,
    /// Each selected set, by name.
    pub sets: Vec<BootImageSet>,
}

/// A machine set and its boot image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageSet {
    /// `namespace/Kind.group/name`.
    pub set: String,
    /// The image that it names; none if it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image of the release; none if it is not known or not for this set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// `current`, `updating`, `waiting`, `skipped` or `failed`.
    pub state: String,
    /// One word for the reason; empty if it is current.
    pub code: String,
    /// Why it does not have the image of the release; empty if it has.
    pub reason: String,
    /// The value of its pin: `always` or a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
}

/// What the controller would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImagePlan {
    /// The ConfigMap with the images to follow, as `namespace/name`.
    pub golden: String,
    /// Problems that are not of one set.
    pub errors: Vec<String>,
    /// The sets that would get another image.
    pub changes: Vec<BootImageSet>,
    /// The other selected sets.
    pub unchanged: Vec<BootImageSet>,
}

/// The boot images that a machine set had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageHistory {
    /// The set, as it was named.
    pub set: String,
    /// Oldest first. The first is the image that mosb found.
    pub images: Vec<RecordedBootImage>,
}

/// An image in the history of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedBootImage {
    /// From 1, as `restore --to` takes it.
    pub number: usize,
    /// The image.
    pub image: String,
    /// The template of a set of Cluster API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// When it was seen first (RFC 3339).
    pub since: String,
    /// How often the controller wrote it; 0 for one that was found or put back.
    pub count: u32,
}

/// A change of one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImageRequest {
    /// The set, as it was named.
    pub set: String,
    /// `restore`, `pin` or `unpin`.
    pub action: String,
    /// The image that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}
