//! The input of a workload.

use std::collections::BTreeMap;

use super::{Input, MachineRole, OpenShiftSource};
use mosb_build::{JobMethod, NamedSecret};
use mosb_image::{PinnedRef, Platform, RepoRef};
use mosb_plan::api::cluster_settings::{JobSettings, Proxy};
use mosb_plan::api::{BuildName, BuildOn, ImageBuilderType, PoolName, RenderedName};
use mosb_plan::payload::ConfigMap;
use mosb_plan::plan::BuilderNodes;

/// What a pod plans with, besides the payload.
#[derive(Debug, Clone)]
pub struct PlanArguments {
    pub base: PinnedRef,
    /// The base as the inputs of the image name it.
    pub base_name: String,
    /// Only there if the build needs it.
    pub extensions_image: Option<PinnedRef>,
    pub platform: Platform,
    pub push: RepoRef,
    pub build_args: BTreeMap<String, String>,
    pub build_on: BuildOn,
    /// Where the images of the pool are built.
    pub nodes: BuilderNodes,
}

/// What a pod has to do with a prepared base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedImageUse {
    /// Nothing.
    Without,
    /// It makes one, and the image on it.
    Make,
    /// It makes the image on this one.
    On {
        image: PinnedRef,
        /// The image with its tree, if one is recorded.
        tree: Option<PinnedRef>,
    },
}

/// A build to run in the cluster. `Debug` shows no credentials.
#[derive(Debug, Clone)]
pub struct JobRequest {
    pub build: BuildName,
    pub build_uid: String,
    pub config: String,
    pub pool: PoolName,
    pub rendered: RenderedName,
    pub attempt: u32,
    pub builder: ImageBuilderType,
    pub method: JobMethod,
    pub prepared: PreparedImageUse,
    /// Where the Job and its inputs are.
    pub namespace: String,
    pub arguments: PlanArguments,
    /// The rendered config, and the Containerfile and trust bundle if there are any.
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
    /// A `policy.json` without signatures.
    pub signature_policy: Option<String>,
    /// CAs (PEM) of registries, by `host[:port]`.
    pub certs: BTreeMap<String, String>,
    /// CAs (PEM) for all registries, besides the trust bundle of the payload.
    pub registry_trust: Option<String>,
    pub proxy: Option<Proxy>,
    /// The image with the tree of the base, if one is recorded.
    pub base_tree: Option<PinnedRef>,
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
