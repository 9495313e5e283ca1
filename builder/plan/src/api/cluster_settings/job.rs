//! How build Jobs are made: the one place for overrides of `job-templates/`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// How build Jobs are made. What is left out is as in `job-templates/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobSettings {
    /// What the containers ask for, and what they may have.
    pub resources: ContainerResources,
    /// Seconds after which a build that isn't done has failed, by method.
    pub active_deadline_seconds: Deadlines,
    /// How often a build by Containerfile is tried again whose `RUN` line failed; at most 10.
    pub run_retries: u32,
    /// Taints of nodes that build pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Labels of nodes that build pods may run on, added to those by platform; the same key here wins.
    pub node_selector: BTreeMap<String, String>,
    /// Where the images of control-plane machines are built.
    pub control_plane: ControlPlaneBuilds,
    /// PriorityClass of build pods.
    pub priority_class_name: Option<String>,
    /// When the builder image is pulled. Without it, `IfNotPresent`.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Names of Secrets that the builder image is pulled with.
    pub image_pull_secrets: Vec<String>,
    /// How buildah keeps layers. Without it, `overlay` in a user namespace, else `vfs`.
    pub storage_driver: Option<StorageDriver>,
    /// Whether buildah runs in a user namespace.
    pub user_namespaces: UserNamespaces,
    /// More labels of build pods; those that mosb sets stay.
    pub labels: BTreeMap<String, String>,
    /// More annotations of build pods; those that mosb sets stay.
    pub annotations: BTreeMap<String, String>,
}

/// Resources of each container that there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ContainerResources {
    /// The container of a direct build.
    pub direct: Resources,
    /// The container that runs buildah.
    pub image_build: Resources,
    /// The container that pushes what buildah made.
    pub image_push: Resources,
    /// The sidecar.
    pub wait_for_done: Resources,
}

/// Quantities by resource (`cpu`, `memory`, `ephemeral-storage`); null takes a default away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// What the scheduler keeps free.
    pub requests: BTreeMap<String, Option<String>>,
    /// What may be used at most.
    pub limits: BTreeMap<String, Option<String>>,
}

/// Seconds by method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Deadlines {
    /// Of a direct build.
    pub direct: Option<u32>,
    /// Of a build by Containerfile.
    pub containerfile: Option<u32>,
}

/// A toleration, as a pod has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Toleration {
    /// The taint's key; all if left out, with operator `Exists`.
    pub key: Option<String>,
    /// `Equal` (default) or `Exists`.
    pub operator: Option<String>,
    /// The taint's value.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`; all if left out.
    pub effect: Option<String>,
    /// How long `NoExecute` is borne; for ever if left out.
    pub toleration_seconds: Option<i64>,
}

/// Where the images of pools are built whose machines are control-plane nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ControlPlaneBuilds {
    /// Labels of nodes that these builds may run on, instead of those in `job.nodeSelector`; `{}` is any node. Without it, the
    /// control-plane nodes that the pool's own node selector selects.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that these builds tolerate beside those in `job.tolerations`. Without it, the taints
    /// `node-role.kubernetes.io/control-plane` and `node-role.kubernetes.io/master`.
    pub tolerations: Option<Vec<Toleration>>,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// For each pod.
    Always,
    /// Once for a node.
    IfNotPresent,
    /// It must be there.
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

/// How buildah keeps layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StorageDriver {
    /// One copy of each layer. Needs a user namespace, and a file system of the node that overlays can lie on.
    Overlay,
    /// A whole copy for each layer: works everywhere, slow and large.
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
    /// If the cluster has them.
    #[default]
    Auto,
    /// Always: without them, builds by Containerfile are refused.
    Required,
    /// Never: buildah runs as the node's root with the default capabilities, and without seccomp and AppArmor profiles.
    Never,
}
