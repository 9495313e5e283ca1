//! The MachineOSBuild: one image of one rendered config, from the request to the digest.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::labels;
use super::machine_os_config::{NameRef, ObjectReference};
use super::metadata::{Condition, Metadata, condition};
use mosb_types::null_is_empty;

/// A MachineOSBuild (`machineconfiguration.openshift.io/v1`) as the API serves it.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineOsBuild {
    /// Name, labels, annotations, owner.
    pub metadata: Metadata,
    /// What is built; can't be changed.
    pub spec: MachineOsBuildSpec,
    /// How far it is.
    pub status: MachineOsBuildStatus,
}

/// `spec` of a MachineOSBuild.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOsBuildSpec {
    pub machine_config: NameRef,
    /// The MachineOSConfig that requested it.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: NameRef,
    /// `host[:port]/repository:tag` of the image.
    pub rendered_image_push_spec: String,
}

/// `status` of a MachineOSBuild.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOsBuildStatus {
    /// The five, or none yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What builds it; none for an adopted image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<Builder>,
    /// Whole seconds; can't be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_start: Option<Time>,
    /// Whole seconds, later than the start; can't be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_end: Option<Time>,
    /// The image: `host/repository@sha256:…`; empty until a registry answered for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digested_image_push_spec: String,
}

#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Builder {
    pub image_builder_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<ObjectReference>,
}

/// The conditions of a MachineOSBuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildCondition {
    /// Its Job is there and has not begun.
    Prepared,
    /// Its Job runs, or another one will.
    Building,
    /// It won't become an image.
    Failed,
    /// The build is not needed any more.
    Interrupted,
    /// The image is there.
    Succeeded,
}

impl BuildCondition {
    /// All of them, in the order in which a status lists them.
    pub const ALL: [Self; 5] =
        [Self::Prepared, Self::Building, Self::Failed, Self::Interrupted, Self::Succeeded];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "Prepared",
            Self::Building => "Building",
            Self::Failed => "Failed",
            Self::Interrupted => "Interrupted",
            Self::Succeeded => "Succeeded",
        }
    }

    /// The reason that it carries in every state.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Succeeded => "Ready",
            other => other.as_str(),
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::Prepared => "Build Prepared and Pending",
            Self::Building => "Image Build In Progress",
            Self::Failed => "Build Failed",
            Self::Interrupted => "Build Interrupted",
            Self::Succeeded => "Build Ready",
        }
    }

    /// Whether the conditions can't change any more once this one is true.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Interrupted | Self::Succeeded)
    }
}

impl MachineOsBuild {
    /// Whether it represents an image that was built elsewhere.
    pub fn is_pre_built(&self) -> bool {
        let label = self.metadata.labels.get(labels::PRE_BUILT_IMAGE);
        label.is_some_and(|label| label == "true")
    }

    /// Whether the registry had its image already, so that no workload made it.
    pub fn is_found(&self) -> bool {
        let is_planned = self.metadata.annotation(labels::METHOD).is_some();
        is_planned && self.status.builder.is_none() && self.status.image().is_some()
    }
}

impl MachineOsBuildStatus {
    /// The condition that is true; none for a build that nothing was done for yet.
    pub fn state(&self) -> Option<BuildCondition> {
        // A terminal one first: it freezes the list, whatever else the list says.
        let order = [
            BuildCondition::Succeeded,
            BuildCondition::Failed,
            BuildCondition::Interrupted,
            BuildCondition::Building,
            BuildCondition::Prepared,
        ];
        let is = |kind: &BuildCondition| {
            condition(&self.conditions, kind.as_str()).is_some_and(Condition::is_true)
        };
        order.into_iter().find(is)
    }

    /// Whether its conditions are frozen.
    pub fn is_terminal(&self) -> bool {
        self.state().is_some_and(BuildCondition::is_terminal)
    }

    /// The image of a build that succeeded.
    pub fn image(&self) -> Option<&str> {
        let there = self.state() == Some(BuildCondition::Succeeded)
            && !self.digested_image_push_spec.is_empty();
        there.then_some(&*self.digested_image_push_spec)
    }
}
