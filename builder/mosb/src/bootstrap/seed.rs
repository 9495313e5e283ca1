//! A pool whose image exists already.

use mosb_build::NamedSecret;
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::PoolName;

/// A MachineOSConfig with an image that exists already, checked.
#[derive(Debug, Clone)]
pub struct Seed {
    pub config: String,
    /// Where it was read.
    pub origin: String,
    pub pool: PoolName,
    pub image: PinnedRef,
    /// Where later images go: the repository of `spec.renderedImagePushSpec`.
    pub push: RepoRef,
    /// The logins that push later images; none if their Secret is not among the manifests.
    pub push_secret: Option<NamedSecret>,
    /// The logins that pull the image: the MachineOSConfig's own over the cluster's. Its name is how messages call them all, as
    /// `secret a and secret b`; empty where there are none.
    pub pull: NamedSecret,
}
