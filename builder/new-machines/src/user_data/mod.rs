//! The user data of machines that join later: the Ignition config with which a new machine of a pool
//! boots the pool's current image, in a Secret that an administrator made for it.
//!
//! Input: a MachineOSConfig whose annotation names a Secret, the image that machines of its pool
//! should run, the rendered config that this image was built of, and the settings. Output: the content
//! of that Secret, and the condition `UserData`.
//!
//! Invariant: only a Secret with our label is written, and only if its content differs. Its login is
//! for pulling the image, and never one that pushes. Contents of Secrets are in no log, condition or
//! `Debug`.
//!
//! | file | does |
//! | --- | --- |
//! | `snapshot`, `observe` | the input of a decision; cache → snapshot |
//! | `target` | which image a new machine boots |
//! | `content` | the Ignition config of a machine |
//! | `join_tokens` | the tokens that join machines, and whether they have ended |
//! | `served_config` | the config at `mosb serve-ignition`, and the stub that fetches it |
//! | `decide`, `reason` | snapshot → lookups or actions, and why |
//! | `condition` | what the MachineOSConfig shows |
//! | `lookups`, `machine_inputs` | read the Secret, and what the config is made of |
//! | `effect` | writes the Secret |
//! | `reconciler` | gives these functions to the driver |
//! | `view` | what `mosb ignition` prints |

mod condition;
mod content;
mod decide;
mod effect;
mod join_tokens;
mod lookups;
mod machine_inputs;
mod observe;
mod reason;
mod reconciler;
mod served_config;
mod snapshot;
mod target;
mod view;

#[cfg(test)]
mod tests;

pub use condition::USER_DATA;
pub use content::{JoinConfig, MachineInputs};
pub use effect::{Action, UserDataExecutor, UserDataWrite};
pub use reconciler::UserDataReconciler;
pub use view::{IgnitionRequest, MachineIgnition, MachineIgnitionError, machine_ignition};
