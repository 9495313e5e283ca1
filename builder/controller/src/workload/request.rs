//! What a Job is made of.

use std::collections::BTreeMap;

use super::{Input, MachineRole, OpenShiftSource};
use mosb_build::{JobMethod, NamedSecret};
use mosb_image::{PinnedRef, Platform, RepoRef};
use mosb_plan::api::cluster_settings::{JobSettings, Proxy};
use mosb_plan::api::{BuildName, ImageBuilderType, PoolName, RenderedName};
use mosb_plan::payload::ConfigMap;

/// A build that is to run in the cluster. Its `Debug` shows no credential.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// The MachineOSBuild.
    pub build: BuildName,
    /// Its UID.
    pub build_uid: String,
    /// The MachineOSConfig's name.
    pub config: String,
    /// The pool.
    pub pool: PoolName,
    /// The rendered config.
    pub rendered: RenderedName,
    /// From 1.
    pub attempt: u32,
    /// What runs it.
    pub builder: ImageBuilderType,
    /// Which containers there are.
    pub method: JobMethod,
    /// Where the Job and its inputs are.
    pub namespace: String,
    /// The base.
    pub base: PinnedRef,
    /// The base as the inputs of the image name it.
    pub base_name: String,
    /// The extensions image, if the build needs it.
    pub extensions: Option<PinnedRef>,
    /// Where the image goes.
    pub push: RepoRef,
    /// What it is for.
    pub platform: Platform,
    /// The rendered config, and the Containerfile and trust bundle if there are any.
    pub payload: Vec<ConfigMap>,
    /// What an OpenShift Build has instead of that; none for a pod of ours.
    pub openshift: Option<OpenShiftSource>,
    /// `ARG`s of the Containerfile.
    pub build_args: BTreeMap<String, String>,
    /// What images are pulled with; the name is of the Secret that goes over the global one.
    pub pull: NamedSecret,
    /// What the image is pushed with.
    pub push_secret: NamedSecret,
    /// Secret with entitlements, if there is one.
    pub entitlement: Option<String>,
    /// ConfigMap with package repositories, if there is one.
    pub repositories: Option<String>,
    /// Secret with keys of packages, if there is one.
    pub package_keys: Option<String>,
    /// Those of the three above that are copies, by the name that they have there.
    pub copies: Vec<Input>,
    /// Mirrors: [`registries_conf`](mosb_build::registries_conf).
    pub registries_conf: Option<String>,
    /// Which images may be pulled: a `policy.json` without signatures.
    pub signature_policy: Option<String>,
    /// CAs (PEM) of registries, by `host[:port]`.
    pub certs: BTreeMap<String, String>,
    /// CAs (PEM) that are trusted at every registry, beside the trust bundle of the payload.
    pub registry_trust: Option<String>,
    /// How registries are reached.
    pub proxy: Option<Proxy>,
    /// The image with the tree of the base, if one is recorded.
    pub base_tree: Option<PinnedRef>,
    /// Pullspec of the image that the pod runs.
    pub builder_image: String,
    /// Overrides.
    pub settings: JobSettings,
    /// What the machines are that it is for, which decides the nodes that it may be built on.
    pub machine_role: MachineRole,
    /// What the pool's nodes are, for the nodes that `RUN` lines run on.
    pub node_platform: Option<Platform>,
    /// Whether its account needs the right to SecurityContextConstraints.
    pub security_context_constraints: bool,
    /// Whether the cluster really has user namespaces, and they are wanted.
    pub user_namespaces: bool,
}
