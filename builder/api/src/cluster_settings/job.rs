//! How build Jobs are made: the one place for overrides of `job-templates/`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of build Jobs. Defaults are in `job-templates/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobSettings {
    /// Resource requests and limits of the containers.
    pub resources: ContainerResources,
    /// The time limit of a build in seconds, by method.
    pub active_deadline_seconds: Deadlines,
    /// How often a Containerfile build is retried after a `RUN` line failed; at most 10.
    pub run_retries: u32,
    /// Taints of nodes that build pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Labels of nodes that build pods may run on, in addition to those for the platform. If a key is in
    /// both, this one wins.
    pub node_selector: BTreeMap<String, String>,
    /// The nodes on which images of control-plane machines are built.
    pub control_plane: ControlPlaneBuilds,
    /// PriorityClass of build pods.
    pub priority_class_name: Option<String>,
    /// When the builder image is pulled. Without it, `IfNotPresent`.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Names of the Secrets for pulling the builder image.
    pub image_pull_secrets: Vec<String>,
    /// How buildah stores layers. Without it, `overlay` in a user namespace, else `vfs`.
    pub storage_driver: Option<StorageDriver>,
    /// Whether buildah runs in a user namespace.
    pub user_namespaces: UserNamespaces,
    /// Additional labels of build pods; those that mosb sets can't be changed.
    pub labels: BTreeMap<String, String>,
    /// Additional annotations of build pods; those that mosb sets can't be changed.
    pub annotations: BTreeMap<String, String>,
}

/// Resources by container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContainerResources {
    /// The container of a direct build.
    pub direct: Resources,
    /// The container that runs buildah.
    pub image_build: Resources,
    /// The container that pushes buildah's image.
    pub image_push: Resources,
    /// The sidecar, which reports the result.
    pub wait_for_done: Resources,
}

/// Quantities by resource (`cpu`, `memory`, `ephemeral-storage`); null removes a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// The requests, which the scheduler reserves.
    pub requests: BTreeMap<String, Option<String>>,
    /// The limits.
    pub limits: BTreeMap<String, Option<String>>,
}

/// Seconds by method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Deadlines {
    /// The limit of a direct build.
    pub direct: Option<u32>,
    /// The limit of a Containerfile build.
    pub containerfile: Option<u32>,
}

/// A toleration, as in a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Toleration {
    /// The taint's key. Without it, all taints, with operator `Exists`.
    pub key: Option<String>,
    /// `Equal` (default) or `Exists`.
    pub operator: Option<String>,
    /// The taint's value.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`. Without it, all.
    pub effect: Option<String>,
    /// How long `NoExecute` is tolerated. Without it, for ever.
    pub toleration_seconds: Option<i64>,
}

/// The nodes on which images of control-plane machines are built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ControlPlaneBuilds {
    /// Labels of nodes that these builds may run on, instead of those in `job.nodeSelector`; `{}` is any
    /// node. Without it, the control-plane nodes that the pool's own node selector selects.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that these builds tolerate, in addition to those in `job.tolerations`. Without it, the taints
    /// `node-role.kubernetes.io/control-plane` and `node-role.kubernetes.io/master`.
    pub tolerations: Option<Vec<Toleration>>,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Once for each pod.
    Always,
    /// Once for each node.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

impl ImagePullPolicy {
    /// As a pod spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// How buildah stores layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StorageDriver {
    /// One copy of each layer. Needs a user namespace, and a file system of the node that supports
    /// overlays.
    Overlay,
    /// A full copy for each layer: works everywhere, but is slow and needs much disk space.
    Vfs,
}

impl StorageDriver {
    /// As buildah spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Vfs => "vfs",
        }
    }
}

/// Whether buildah runs in a user namespace (`hostUsers: false`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UserNamespaces {
    /// If the cluster supports them.
    #[default]
    Auto,
    /// Always: without them, Containerfile builds are rejected.
    Required,
    /// Never: buildah runs as the node's root with the default capabilities, and without seccomp and
    /// AppArmor profiles.
    Never,
}
