//! A pool with a pre-built image.

use mosb_build::NamedSecret;
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::PoolName;

/// A validated MachineOSConfig with a pre-built image.
#[derive(Debug, Clone)]
pub struct Seed {
    pub config: String,
    /// The file that contains it.
    pub origin: String,
    pub pool: PoolName,
    pub image: PinnedRef,
    /// The repository of later images: that of `spec.renderedImagePushSpec`.
    pub push: RepoRef,
    /// The logins that push later images; `None` if their Secret is not among the manifests.
    pub push_secret: Option<NamedSecret>,
    /// The logins that pull the image: the MachineOSConfig's own over the cluster's. Its name lists
    /// both for messages, as `secret a and secret b`; it is empty without logins.
    pub pull: NamedSecret,
}
