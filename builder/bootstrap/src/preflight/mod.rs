//! Preflight checks of an installation: its images can be pulled and replaced, and a cluster would bring
//! them into service.
//!
//! Input: images with the logins that the cluster will have ([`ImageToCheck`]). Output: a
//! [`Report`] with an [`ImageCheck`] for each question. Invariants: no upload is left open in a registry,
//! no message contains a credential, and the checks end within a fixed time.

mod explain;
mod image;
mod report;
mod run;

use std::time::Duration;

use mosb_api::image_checks::ImageCheckSettings;
use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_registry::{Client, LeastSpeed, Options, RetryPolicy, Timeouts};

pub use mosb_plan::image_checks::Cluster;
pub use report::{CheckedImage, Error, ImageCheck, Kind, Outcome, Report};
pub use run::check;

#[derive(Debug, Clone)]
pub struct ImageToCheck {
    /// The object that refers to the image, such as `MachineOSConfig worker`; none for a
    /// command-line argument.
    pub object: Option<String>,
    pub image: ImageRef,
    /// A client with the logins that machines pull with.
    pub pull: Client,
    pub push: Option<Push>,
    /// The platform of the machines, if it is known.
    pub platform: Option<Platform>,
    /// The cluster that the image must be compatible with.
    pub cluster: Cluster,
    /// How that cluster checks images. Here, each failure counts, also of a check that only warns.
    pub checks: ImageCheckSettings,
}

/// A repository that images are pushed to.
#[derive(Debug, Clone)]
pub struct Push {
    pub repo: RepoRef,
    /// A client with the logins that builds push with.
    pub client: Client,
}

/// The kind of input that a remedy suggests to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedies {
    /// Flags of the command line.
    ByHand,
    /// Objects among the manifests.
    Manifests,
}

/// Client options for preflight checks, with shorter timeouts than for a build because an
/// installation waits. The caller sets the other options, such as logins.
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
