//! The Kubernetes kinds as the wire has them, and the checked forms that the other rooms work with.
//!
//! In comes YAML or JSON text; out go [`MachineConfig`] and the like, as lenient as the API, and [`RenderedConfig`], which can't be wrong.
//! Knows nothing of how anything is built.

pub mod cluster_settings;
mod extensions;
pub mod labels;
mod machine_config;
mod names;
mod pool;
mod selector;
mod settings;
pub mod yaml;

pub use cluster_settings::{ClusterObjects, ClusterSettings, ClusterSettingsError, JobSettings};
pub use extensions::EXTENSIONS;

pub use machine_config::{
    API_VERSION, MachineConfig, Metadata, OwnerReference, RENDERED_LIMIT, RenderedConfig,
    RenderedConfigError,
};
pub use names::{BuildName, NameError, PoolName, RenderedName, job_name, label_value, object_name};
pub(crate) use names::{is_subdomain as is_object_name, shortened};
pub use pool::{Condition, ControllerConfig, MachineConfigPool, PoolSettings, Status};
pub use selector::{LabelSelector, Selector, SelectorError};
pub use settings::{FieldError, KernelType, MachineSettings};
