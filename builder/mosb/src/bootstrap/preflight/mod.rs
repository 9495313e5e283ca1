//! The checks before an installation: may these images really be pulled and replaced, and will machines boot them?
//!
//! In come images with the logins that the cluster will have ([`ImageToCheck`]); out goes a [`Report`], a [`Check`] each. The invariant:
//! no upload is left open in a registry, no message holds a credential, and it ends within a fixed time, whatever the other side does.

mod compatibility;
mod error;
mod explain;
mod image;
mod push;
mod report;
mod run;

use std::time::Duration;

use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_registry::{Client, LeastSpeed, Options, RetryPolicy, Timeouts};

pub use error::Error;
pub use report::{Check, ImageReport, Kind, Outcome, Report};
pub use run::check;

/// An image to be checked.
#[derive(Debug, Clone)]
pub struct ImageToCheck {
    /// The object that names it, such as `MachineOSConfig worker`; empty by hand.
    pub what: String,
    pub image: ImageRef,
    /// With the logins that machines pull with.
    pub pull: Client,
    pub push: Option<Push>,
    /// What the machines are, where that is known.
    pub platform: Option<Platform>,
    /// What the image must go with.
    pub cluster: Cluster,
}

/// A repository that images are pushed to.
#[derive(Debug, Clone)]
pub struct Push {
    /// The repository.
    pub repo: RepoRef,
    /// With the logins that builds push with.
    pub client: Client,
}

/// What a cluster says of its own OS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its own OS image (`baseOSContainerImage`).
    pub base: Option<ImageRef>,
    /// Its release (annotation `release-image-version` of the ControllerConfig).
    pub release: Option<String>,
}

/// Where a remedy tells to put something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedies {
    /// Flags of the command line.
    ByHand,
    /// Objects among the manifests.
    Manifests,
}

/// What clients for these checks are made of: an installation waits, so they are given up sooner than a build is. Whatever else
/// there is to say, such as logins, is for the caller.
pub fn options() -> Options {
    Options {
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            least_speed: LeastSpeed { window: Duration::from_secs(10), ..LeastSpeed::default() },
        },
        retry: RetryPolicy {
            tries: 4,
            first: Duration::from_millis(300),
            cap: Duration::from_secs(4),
            total: Duration::from_secs(12),
        },
        ..Options::default()
    }
}
