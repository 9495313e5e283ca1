//! `Build` of `build.openshift.io/v1`, as far as a build by Containerfile needs it.
//!
//! Field names are those of the API (OpenShift's `build/v1`); what is not written here keeps its
//! default.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

/// A Build, which the cluster runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuild {
    /// `build.openshift.io/v1`, which the items of a list leave out.
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: OpenShiftBuildSpec,
    /// Set by the cluster.
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

/// `spec` of a Build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildSpec {
    /// The time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_deadline_seconds: Option<i64>,
    /// Selects the nodes that may run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// The target of the image.
    pub output: BuildOutput,
    /// Resources of its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// ServiceAccount of its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The inputs of the image.
    pub source: BuildSource,
    pub strategy: BuildStrategy,
}

/// The target of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildOutput {
    pub to: ImageReference,
    /// The Secret for the push.
    pub push_secret: LocalObjectReference,
}

/// An image by its pullspec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageReference {
    pub kind: String,
    pub name: String,
}

/// The inputs of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildSource {
    /// `Dockerfile`: the text is in this object.
    #[serde(rename = "type")]
    pub type_: String,
    pub dockerfile: String,
    /// ConfigMaps that are copied to the build context.
    pub config_maps: Vec<ConfigMapBuildSource>,
}

/// A ConfigMap whose keys become files of the build context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMapBuildSource {
    pub config_map: LocalObjectReference,
    /// Folder of the build context.
    pub destination_dir: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildStrategy {
    #[serde(rename = "type")]
    pub type_: String,
    pub docker_strategy: DockerBuildStrategy,
}

/// Settings of a Containerfile build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DockerBuildStrategy {
    /// The Secret for pulling images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<LocalObjectReference>,
    /// Volumes that are mounted while instructions run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<BuildVolume>,
}

/// A volume that is mounted while instructions run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolume {
    pub name: String,
    pub source: BuildVolumeSource,
    pub mounts: Vec<BuildVolumeMount>,
}

/// The source of a volume; `type` selects the field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolumeSource {
    /// `Secret` or `ConfigMap`.
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<k8s_openapi::api::core::v1::SecretVolumeSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<k8s_openapi::api::core::v1::ConfigMapVolumeSource>,
}

/// A mount of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuildVolumeMount {
    /// Path in the build's containers.
    pub destination_path: String,
}

/// `status` of a Build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatus {
    /// `New`, `Pending`, `Running`, `Complete`, `Failed`, `Error` or `Cancelled`.
    pub phase: String,
    /// The reason of a failure, such as `DockerBuildFailed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last lines of the log, if the build failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_snippet: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OpenShiftBuildStatusOutput>,
}

/// The image of a build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatusOutput {
    pub to: OpenShiftBuildStatusOutputTo,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OpenShiftBuildStatusOutputTo {
    /// `sha256:…`; empty if the registry did not return one.
    pub image_digest: String,
}
