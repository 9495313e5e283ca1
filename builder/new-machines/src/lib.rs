//! What new machines of a pool boot with: their Ignition config in a Secret, or at `mosb serve-ignition`.
//!
//! One controller. Its keys are the MachineOSConfigs, each with a Secret that its annotation names,
//! and the two Secrets of the server: its CA and what it mounts.
//!
//! Invariant: only a Secret with our label is written, and only if its content differs. Contents of
//! Secrets are in no log, condition or `Debug`.
//!
//! | file | does |
//! | --- | --- |
//! | `observe` | cache → snapshot; which keys a change affects |
//! | `snapshot` | the input of a decision, and its lookups |
//! | `user_data` | evaluates the snapshot of a MachineOSConfig; what `mosb ignition` prints |
//! | `ignition_server` | evaluates the snapshot of the server |
//! | `evaluation` | what that results in: writes, and why |
//! | `decide` | evaluation → actions, the condition, and the next time |
//! | `lookups` | reads Secrets, and what configs are made of; generates keys |
//! | `effect` | writes a Secret |
//! | `reconciler` | gives these functions to the driver |

mod decide;
mod effect;
mod evaluation;
mod ignition_server;
mod lookups;
mod observe;
mod reconciler;
mod snapshot;
mod user_data;

pub use effect::SecretExecutor;
pub use reconciler::NewMachinesReconciler;
pub use user_data::{
    IgnitionRequest, MachineIgnition, MachineIgnitionError, USER_DATA, machine_ignition,
};
