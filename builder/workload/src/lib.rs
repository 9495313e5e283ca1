//! Workloads: the objects that run a build in the cluster, and their observed state.
//!
//! Input: a [`JobRequest`]. Output: the [`Workload`] (a [`job()`], a [`pod()`] or an OpenShift
//! Build) and its [`inputs()`], from `job-templates/`, filled field by field. Invariant: credentials are
//! only in Secrets, and each container can read only those that it needs. The [`sidecar`] runs in their
//! pods and brings the result back.

mod check_job;
mod check_progress;
mod input;
mod inputs;
mod job;
mod metadata;
mod names;
mod object;
mod observation;
mod openshift;
mod package_source;
mod placement;
mod pod;
mod pod_containers;
mod request;
mod resources;
mod security_context_constraints;
pub mod sidecar;
mod template;
mod volume;

pub use check_job::{CheckRequest, is_check_job};
pub use check_progress::{CheckProgress, observe_check};
pub use input::{Input, InputKind};
pub use inputs::{account_before, inputs};
pub use job::job;
pub use metadata::{build_annotations, build_labels};
pub use names::mounts;
pub use names::result_name;
pub use object::{Workload, kind, release};
pub use observation::{NoResultCause, Observation, observe};
pub use openshift::OpenShiftSource;
pub use package_source::PackageSource;
pub use placement::{BuildNodes, MachineRole, is_confined_to};
pub use pod::pod;
pub use pod_containers::{container_names, has_started};
pub use request::JobRequest;

#[cfg(test)]
mod tests;
