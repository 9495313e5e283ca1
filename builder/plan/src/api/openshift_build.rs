//! `Build` of `build.openshift.io/v1`, as far as a build by Containerfile needs it.
//!
//! Field names are those of the API (OpenShift's `build/v1`); what is not written here keeps its
//! default.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

/// One build of an image, which the cluster carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuild {
    /// `build.openshift.io/v1`, which the items of a list leave out.
    pub api_version: String,
    /// `Build`.
    pub kind: String,
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    pub spec: OpenShiftBuildSpec,
    /// What has come of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<OpenShiftBuildStatus>,
}

impl Default for OpenShiftBuild {
    fn default() -> Self {
        use k8s_openapi::Resource as _;
        Self {
            api_version: Self::API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            metadata: ObjectMeta::default(),
            spec: OpenShiftBuildSpec::default(),
            status: None,
        }
    }
}

impl k8s_openapi::Resource for OpenShiftBuild {
    const API_VERSION: &'static str = "build.openshift.io/v1";
    const GROUP: &'static str = "build.openshift.io";
    const KIND: &'static str = "Build";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "builds";
    type Scope = k8s_openapi::NamespaceResourceScope;
}

impl k8s_openapi::Metadata for OpenShiftBuild {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildSpec {
    /// Seconds until it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_deadline_seconds: Option<i64>,
    /// Which nodes may carry it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Where the image goes.
    pub output: BuildOutput,
    /// What its pod may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Whom its pod runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// What the image is made of.
    pub source: BuildSource,
    pub strategy: BuildStrategy,
}

/// Where an image goes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildOutput {
    pub to: ImageReference,
    /// The Secret it is pushed with.
    pub push_secret: LocalObjectReference,
}

/// An image by its pullspec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageReference {
    /// `DockerImage`.
    pub kind: String,
    pub name: String,
}

/// What an image is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildSource {
    /// `Dockerfile`: it stands here.
    #[serde(rename = "type")]
    pub type_: String,
    /// The text.
    pub dockerfile: String,
    /// ConfigMaps that are copied into the context.
    pub config_maps: Vec<ConfigMapBuildSource>,
}

/// A ConfigMap whose keys become files of the context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMapBuildSource {
    pub config_map: LocalObjectReference,
    /// Folder of the context.
    pub destination_dir: String,
}

/// How an image is built.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildStrategy {
    /// `Docker`.
    #[serde(rename = "type")]
    pub type_: String,
    /// By a Containerfile.
    pub docker_strategy: DockerBuildStrategy,
}

/// By a Containerfile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DockerBuildStrategy {
    /// The Secret that images are pulled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<LocalObjectReference>,
    /// What is mounted while instructions run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<BuildVolume>,
}

/// A volume that instructions see.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolume {
    pub name: String,
    /// Where it is from.
    pub source: BuildVolumeSource,
    /// Where it is seen.
    pub mounts: Vec<BuildVolumeMount>,
}

/// Where a volume is from: one of the two, as `type` says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolumeSource {
    /// `Secret` or `ConfigMap`.
    #[serde(rename = "type")]
    pub type_: String,
    /// A Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<k8s_openapi::api::core::v1::SecretVolumeSource>,
    /// A ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<k8s_openapi::api::core::v1::ConfigMapVolumeSource>,
}

/// Where a volume is seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolumeMount {
    /// Path in the build's containers.
    pub destination_path: String,
}

/// What has come of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatus {
    /// `New`, `Pending`, `Running`, `Complete`, `Failed`, `Error` or `Cancelled`.
    pub phase: String,
    /// A word for what failed, such as `DockerBuildFailed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last lines of the log of one that failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_snippet: String,
    /// When its pod began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When its pod ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    /// The image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OpenShiftBuildStatusOutput>,
}

/// The image of a build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatusOutput {
    /// As it was pushed.
    pub to: OpenShiftBuildStatusOutputTo,
}

/// An image as it was pushed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatusOutputTo {
    /// `sha256:…`; empty if the registry did not tell.
    pub image_digest: String,
}
