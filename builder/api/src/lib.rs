//! The Kubernetes kinds as the API has them, and the checked forms that the other crates use.
//!
//! Input: YAML or JSON text. Output: [`MachineConfig`] and similar types, as lenient as the API, and
//! [`RenderedConfig`], which is always valid. This module does not depend on how images are built.

mod annotation;
pub mod boot_images;
pub mod cluster_settings;
mod followed_base;
mod image_builder;
pub mod image_checks;
mod image_format;
pub mod labels;
mod machine_config;
mod machine_os_build;
mod machine_os_config;
mod metadata;
mod names;
pub mod openshift_build;
mod own_check;
mod pool;
mod pre_built;
pub mod promotion;
pub mod rollout;
mod selector;
mod settings;
pub mod yaml;

pub use annotation::AnnotationError;
pub use cluster_settings::{ClusterObjects, ClusterSettings, ClusterSettingsError, JobSettings};
pub use followed_base::{FollowBase, RecordedBase};
pub use image_builder::{BuildOn, ImageBuilderType, ImageBuilderTypeError};
pub use image_format::{is_digest_format, is_tag_format};
pub use machine_config::{
    API_VERSION, GROUP, MachineConfig, RENDERED_LIMIT, RenderedConfig, RenderedConfigError,
    foreign_config,
};
pub use machine_os_build::{
    BuildCondition, Builder, MachineOsBuild, MachineOsBuildSpec, MachineOsBuildStatus,
};
pub use machine_os_config::{
    ContainerFile, ImageBuilder, MachineOsConfig, MachineOsConfigSpec, MachineOsConfigStatus,
    NameRef, ObjectReference,
};
pub use metadata::{Condition, Metadata, OwnerReference, condition};
pub use names::{
    BuildName, NameError, PoolName, RenderedName, is_subdomain as is_object_name, job_name,
    label_value, object_name, shortened,
};
pub use own_check::OwnCheck;
pub use pool::{
    ConfigurationSource, ControllerConfig, MachineConfigPool, PoolConfiguration, PoolSettings,
    PoolStatus, Proxy, RegistryBundle, Status,
};
pub use pre_built::{
    component, component_image, component_name, component_pool, is_component_name,
};
pub use selector::{LabelSelector, Selector, SelectorError};
pub use settings::{EXTENSIONS, FieldError, KernelType, MachineSettings};
