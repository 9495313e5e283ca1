//! What new machines of a pool boot with: their Ignition config in a Secret, or at `mosb serve-ignition`.
//!
//! Two controllers: `user_data` writes the Secret of a MachineOSConfig, `ignition_server` the Secrets of
//! the server's certificate and of its CA.

mod ignition_server;
mod user_data;

pub use ignition_server::IgnitionServerReconciler;
pub use user_data::{
    IgnitionRequest, MachineIgnition, MachineIgnitionError, USER_DATA, UserDataExecutor,
    UserDataReconciler, machine_ignition,
};
