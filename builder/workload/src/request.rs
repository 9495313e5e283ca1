//! The input of a workload.

use std::collections::BTreeMap;

use super::{Input, MachineRole, OpenShiftSource};
use mosb_api::cluster_settings::{JobSettings, Proxy};
use mosb_api::{ImageBuilderType, PoolName, RenderedName};
use mosb_build::{JobMethod, NamedSecret};
use mosb_image::Platform;
use mosb_plan::payload::{BuildSpec, ConfigMap};

/// A build to run in the cluster. `Debug` shows no credentials.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// What its containers read, and who it is for.
    pub spec: BuildSpec,
    pub build_uid: String,
    pub config: String,
    pub pool: PoolName,
    pub rendered: RenderedName,
    pub attempt: u32,
    pub builder: ImageBuilderType,
    pub method: JobMethod,
    /// The rendered config first, and the Containerfile and trust bundle if there are any.
    pub payload: Vec<ConfigMap>,
    /// For an OpenShift Build, instead of the payload.
    pub openshift: Option<OpenShiftSource>,
    /// Pull credentials; the name is of the Secret over the global one.
    pub pull: NamedSecret,
    pub push_secret: NamedSecret,
    /// Secret with entitlements, if there is one.
    pub entitlement: Option<String>,
    /// ConfigMap with package repositories, if there is one.
    pub repositories: Option<String>,
    /// Secret with keys of packages, if there is one.
    pub package_keys: Option<String>,
    /// Copies among the three above, by their name.
    pub copies: Vec<Input>,
    pub registries_conf: Option<String>,
    /// A `policy.json`, with the signatures that it requires.
    pub signature_policy: Option<String>,
    /// CAs (PEM) of registries, by `host[:port]`.
    pub certs: BTreeMap<String, String>,
    /// CAs (PEM) for all registries, besides the trust bundle of the payload.
    pub registry_trust: Option<String>,
    pub proxy: Option<Proxy>,
    /// Pullspec of the image that the pod runs.
    pub builder_image: String,
    pub settings: JobSettings,
    /// The role of the pool's machines, for node placement.
    pub machine_role: MachineRole,
    /// Platform of the pool's nodes, for the nodes that run `RUN` lines.
    pub node_platform: Option<Platform>,
    /// Whether the ServiceAccount needs permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
    /// Whether the cluster supports user namespaces and they are enabled.
    pub user_namespaces: bool,
}
