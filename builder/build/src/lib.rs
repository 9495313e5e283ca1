//! Makes a plan from inputs, and carries it out, directly or with buildah. All decisions are in the
//! plan.
//!
//! Input: a [`BuildPlan`](mosb_plan::plan::BuildPlan), the resolved base and a target. Output: the
//! [`Built`] image, confirmed by the target. Invariant: a build that was killed at any point and is
//! run again gives the same image.

pub mod buildah;
mod built;
mod context_dir;
mod copy_containers;
pub mod direct;
mod docker_config;
pub mod exec;
pub mod fetch;
mod named_secret;
pub mod new_machine;
mod pool_policy;
mod pull_permission;
mod pull_settings;
mod redactor;
mod registries_conf;
pub mod registry_client;
pub mod resolve;
pub mod result;
pub mod result_dir;
mod result_reporter;
mod secret_object;
mod signature_verdict;
mod signing;
mod step_failure;
pub mod user_namespace;

use std::fmt;

use serde::{Deserialize, Serialize};

use mosb_types::Diagnostic;

pub use built::{Built, BuiltLayer};
pub use copy_containers::COPY_CONTAINERS;
pub use docker_config::{DOCKER_CONFIG_KEY, DockerConfigJson, SecretError, SecretProblem};
pub use named_secret::NamedSecret;
pub use pool_policy::{PoolPolicyError, with_policy_of};
pub use pull_permission::{PushLogin, pull_only_login, pull_permission, pull_repositories};
pub use pull_settings::{MAX_PULL_SETTINGS, PullSettings, PullSettingsTooLarge};
pub use redactor::Redactor;
pub use registries_conf::registries_conf;
pub use result::JobResult;
pub use result_reporter::ResultReporter;
pub use secret_object::SecretObject;
pub use signature_verdict::signature_verdict;
pub use signing::{ConfigDescription, ConfigLayer, Description, Signing, Subject};
pub use step_failure::StepFailure;

/// Why nothing was built.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The layer can't be written.
    #[error("{config}: {source}")]
    #[diagnostic(transparent, class = Internal)]
    Layer {
        config: String,
        /// The problem of the entry.
        source: mosb_image::layer::Error,
    },
    /// The base can't be read, or the image not be pushed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] mosb_registry::Error),
    /// buildah failed, or its output is invalid.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Buildah(#[from] buildah::Error),
}

/// The build method of a Job's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobMethod {
    /// One container that makes the layer and pushes it.
    Direct,
    /// buildah in one container, the push in another.
    Containerfile,
}

impl JobMethod {
    /// As the annotation `mosb.dev/method` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Containerfile => "containerfile",
        }
    }
}

impl fmt::Display for JobMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
