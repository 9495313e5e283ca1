//! The Kubernetes kinds as the wire has them, and the checked forms that the other rooms work with.
//!
//! In comes YAML or JSON text; out go [`MachineConfig`], as lenient as the API, and [`RenderedConfig`], which can't be wrong.
//! Knows nothing of how anything is built.

pub mod labels;
mod machine_config;
mod names;
pub mod yaml;

pub use machine_config::{
    API_VERSION, KernelType, MachineConfig, Metadata, OwnerReference, RENDERED_LIMIT,
    RenderedConfig, RenderedConfigError,
};
pub(crate) use names::shortened;
pub use names::{BuildName, NameError, PoolName, RenderedName};
