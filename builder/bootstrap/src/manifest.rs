//! The manifests of an installation, and what is wrong with them.

use clap::ValueEnum;
use k8s_openapi::api::core::v1;
use serde_json::Value;

use mosb_api::{ControllerConfig, MachineConfigPool, MachineOsConfig, PoolSettings};
use mosb_build::SecretObject;
use mosb_build::new_machine::ConfigError;
use mosb_merge::Component;
use mosb_types::{Diagnostic, Finding, Secret};

/// An object with its origin and its original JSON.
#[derive(Debug, Clone)]
pub struct Manifest<T> {
    /// As `dir/a.yaml (document 2)`.
    pub origin: String,
    /// The fields that mosb knows.
    pub object: T,
    /// The original JSON, with unknown fields.
    pub raw: Value,
}

/// The manifests that matter for an installation.
#[derive(Debug, Default)]
pub struct Manifests {
    pub configs: Vec<Component>,
    pub pools: Vec<Manifest<MachineConfigPool>>,
    pub controller_configs: Vec<Manifest<ControllerConfig>>,
    /// KubeletConfigs and ContainerRuntimeConfigs.
    pub pool_settings: Vec<PoolSettings>,
    pub os_configs: Vec<Manifest<MachineOsConfig>>,
    /// ConfigMaps `mosb-config`.
    pub settings: Vec<Manifest<v1::ConfigMap>>,
    /// Never printed.
    pub secrets: Vec<(String, Secret<SecretObject>)>,
    /// ImageDigestMirrorSets, ImageTagMirrorSets, ImageContentSourcePolicies.
    pub mirror_sets: Vec<Manifest<()>>,
    /// Images `cluster` of OpenShift's configuration.
    pub image_configs: Vec<Manifest<()>>,
}

/// The name under which the controller looks for a ControllerConfig.
const CONTROLLER_CONFIG: &str = "machine-config-controller";

impl Manifests {
    /// All ControllerConfigs with the name that the controller uses; a cluster has at most one.
    pub(super) fn named_controller_configs(
        &self,
    ) -> impl Iterator<Item = &Manifest<ControllerConfig>> {
        let all = self.controller_configs.iter();
        all.filter(|config| config.object.metadata.name == CONTROLLER_CONFIG)
    }

    /// The ControllerConfig that the controller will use.
    pub(super) fn controller_config(&self) -> Option<&Manifest<ControllerConfig>> {
        self.named_controller_configs().next()
    }
}

impl<T> Manifest<T> {
    /// The text by which messages refer to a field of the object, or to the object.
    pub(super) fn place(&self, kind: &str, name: &str, field: &str) -> String {
        let colon = if field.is_empty() { "" } else { ": " };
        format!("{}: {kind} {name}{colon}{field}", self.origin)
    }
}

/// The kind of cluster that an installation makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cluster {
    /// MachineOSConfigs for the installer, which creates the rest.
    Openshift,
    /// All first manifests of a cluster, and its machines' Ignition configs.
    Kubernetes,
}

impl Cluster {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openshift => "openshift",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// Why there is no installation.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one manifest is invalid.
    #[error("the manifests of the installation: {}; correct what is listed, nothing was written", listed(.problems.len()))]
    #[diagnostic(code = "invalid-manifests", class = InvalidInput, findings = problems.clone())]
    Invalid { problems: Vec<Finding> },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Machine(#[from] ConfigError),
}

fn listed(problems: usize) -> String {
    match problems {
        1 => "1 problem in them".to_owned(),
        more => format!("{more} problems in them"),
    }
}
