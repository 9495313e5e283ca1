//! The build as an object of the cluster, and what its pod tells.
//!
//! In comes a [`JobRequest`]; out go the [`Runner`], a [`job`], a [`pod`] or an OpenShift Build, and the [`inputs`] that it needs, from `job-templates/`,
//! filled field by field. The invariant: credentials are in Secrets only, and each container can read those alone that its work needs.

mod arguments;
mod docker_config;
pub mod handover;
mod hidden;
mod input;
mod inputs;
mod metadata;
mod names;
mod object;
mod observation;
mod openshift;
mod package_source;
mod placement;
mod pod;
mod pull_permission;
mod pull_repositories;
mod registries_conf;
mod request;
mod resources;
pub mod result;
mod runner;
mod security_context_constraints;
mod template;
mod volume;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use docker_config::{DockerConfigJson, SecretError, SecretProblem};
pub use hidden::Hidden;
pub use input::{Input, InputKind};
pub use inputs::{account_before, inputs};
pub use names::{input_names, result_name};
pub use object::job;
pub use observation::{Lost, Observation, observe};
pub use openshift::OpenShiftSource;
pub use package_source::PackageSource;
pub use placement::{CONTROL_PLANE_LABELS, MachineRole};
pub use pod::pod;
pub use pull_permission::pull_permission;
pub use pull_repositories::pull_repositories;
pub use registries_conf::registries_conf;
pub use request::{JobRequest, NamedSecret};
pub use result::JobResult;
pub use runner::{Runner, is_runner, kind, release};

/// What a Job's pod is made for.
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

#[cfg(test)]
mod tests;
