//! What an image is judged by, beside the value that names it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Architecture, Stream};

/// What the set should follow, and what is known about the images in use.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub stream: &'a Stream,
    pub architecture: Architecture,
    pub proof: &'a Proof,
    /// The region of the cluster, for templates of Cluster API, which have none.
    pub region: Option<&'a str>,
    /// `spec` of the cluster's infrastructure object, such as an `OpenStackCluster`.
    pub cluster_spec: Option<&'a Value>,
    /// The administrator's images by release: names of vSphere templates, resource ids of Azure.
    pub by_release: &'a BTreeMap<String, String>,
}

/// What proves that an image in use is of a stream, where its name does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// Images of streams seen earlier, of the set's history, and of the administrator's list.
    pub images: BTreeSet<String>,
    /// The set has the annotation `mosb.dev/boot-image-is-stock: "true"`.
    pub vouched: bool,
}

impl Proof {
    /// Whether this image may be replaced.
    pub fn covers(&self, image: &str) -> bool {
        self.vouched || self.images.contains(image)
    }
}
