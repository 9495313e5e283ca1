//! An object to create, and the body of its request.

use std::sync::Arc;

use kube::core::{DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use crate::rollout::{NodeJobRequest, node_job};
use crate::workload::{Input, Workload};
use mosb_plan::api::{MachineConfig, MachineOsBuild, MachineOsConfig};
use mosb_reconcile::kinds::Kind;

/// A complete object that does not exist yet.
#[derive(Debug, Clone, PartialEq)]
pub enum NewObject {
    /// For a pool that opted in by its label; its status is empty.
    MachineOsConfig(Box<MachineOsConfig>),
    /// Its status is empty.
    MachineOsBuild(Box<MachineOsBuild>),
    /// The MachineConfig that brings a pool its pre-built image.
    Component(Box<MachineConfig>),
    /// A rendered MachineConfig.
    Rendered(Arc<Value>),
    Workload(Workload),
    Input(Box<Input>),
    /// A Job on a machine, owned by its Node.
    NodeJob(Box<NodeJobRequest>),
}

impl NewObject {
    pub fn kind(&self) -> Kind {
        match self {
            Self::MachineOsConfig(_) => Kind::MachineOsConfig,
            Self::MachineOsBuild(_) => Kind::MachineOsBuild,
            Self::Component(_) | Self::Rendered(_) => Kind::MachineConfig,
            Self::Workload(workload) => workload.builder().into(),
            Self::Input(input) => input.kind().into(),
            Self::NodeJob(_) => Kind::NodeJob,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::MachineOsConfig(config) => &config.metadata.name,
            Self::MachineOsBuild(build) => &build.metadata.name,
            Self::Component(config) => &config.metadata.name,
            Self::Rendered(config) => config["metadata"]["name"].as_str().unwrap_or_default(),
            Self::Workload(workload) => workload.name(),
            Self::Input(input) => input.name(),
            Self::NodeJob(job) => &job.name,
        }
    }

    /// UID of the owner that a view shows together with the object.
    pub fn owner_uid(&self) -> Option<&str> {
        match self {
            Self::MachineOsBuild(build) => {
                build.metadata.owner_references.first().map(|owner| &*owner.uid)
            }
            Self::Workload(workload) => first_owner(workload.metadata()),
            Self::Input(input) => first_owner(input.metadata()),
            Self::NodeJob(job) => Some(&job.node_uid),
            Self::MachineOsConfig(_) | Self::Component(_) | Self::Rendered(_) => None,
        }
    }

    /// The body, in JSON.
    pub fn body(&self) -> Vec<u8> {
        match self {
            Self::MachineOsConfig(config) => {
                self.dynamic(json!({ "metadata": config.metadata, "spec": config.spec }))
            }
            Self::MachineOsBuild(build) => self.dynamic(json!(build)),
            Self::Component(config) => self.dynamic(json!(config)),
            Self::Rendered(config) => bytes(&**config),
            Self::Workload(workload) => match workload {
                Workload::Job(job) => bytes(job),
                Workload::Pod(pod) => bytes(pod),
                Workload::Build(build) => bytes(build),
            },
            Self::Input(input) => match &**input {
                Input::ConfigMap(map) => bytes(map),
                Input::Secret(secret) => bytes(secret),
                Input::ServiceAccount(account) => bytes(account),
                Input::Role(role) => bytes(role),
                Input::RoleBinding(binding) => bytes(binding),
            },
            Self::NodeJob(request) => bytes(&node_job(request)),
        }
    }

    /// An object of ours as the API has it: with its kind, and without the metadata that only the
    /// API server sets.
    fn dynamic(&self, mut object: Value) -> Vec<u8> {
        let resource = self.kind().resource();
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let object: DynamicObject = serde_json::from_value(object).expect("an object of the API");
        bytes(&object)
    }
}

fn first_owner(meta: &ObjectMeta) -> Option<&str> {
    meta.owner_references.as_ref()?.first().map(|owner| &*owner.uid)
}

fn bytes(object: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(object).expect("the API's own fields are JSON")
}
