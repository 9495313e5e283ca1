//! Boot images in the API: which machine sets are managed, as the settings or OpenShift's MachineConfiguration
//! choose it.
//!
//! Input: the settings, a MachineConfiguration as the API serves it. Output: one [`Choice`] for each kind of
//! machine set. What an image is and how it changes is in the crate `boot-image`.

mod choice;
mod machine_configuration;
mod selection;

pub use choice::{Choice, ChoiceError, ChoiceSource, choose};
pub use machine_configuration::{
    BootImageSkewEnforcement, MachineConfiguration, MachineConfigurationSpec,
    MachineConfigurationStatus, MachineManagerEntry, MachineManagers, SkewLimit,
    is_default_platform,
};
pub use selection::{ManagedKind, Selection, SelectionError};
