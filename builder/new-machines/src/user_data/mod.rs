//! The user data of machines that join later: the Ignition config with which a new machine of a pool
//! boots the pool's current image, in a Secret that an administrator made for it.
//!
//! Input: a MachineOSConfig whose annotation names a Secret, the image that machines of its pool
//! should run, the rendered config that this image was built of, and the settings. Output: the content
//! of that Secret, and the condition `UserData`.
//!
//! Invariant: the login in it is for pulling the image, and never one that pushes.
//!
//! | file | does |
//! | --- | --- |
//! | `evaluate` | snapshot → lookups or writes, and why |
//! | `machine_inputs` | reads what the config is made of |
//! | `content` | the Ignition config of a machine |
//! | `join_tokens` | the tokens that join machines, and whether they have ended |
//! | `served_config` | the config at `mosb serve-ignition`, and the stub that fetches it |
//! | `condition` | what the MachineOSConfig shows |
//! | `view` | what `mosb ignition` prints |

mod condition;
mod content;
mod evaluate;
mod join_tokens;
mod machine_inputs;
mod served_config;
mod view;

#[cfg(test)]
mod tests;

pub use condition::{USER_DATA, report};
pub use content::MachineInputs;
pub use evaluate::evaluate;
pub use join_tokens::ClusterInfo;
pub use machine_inputs::new_machine;
pub use view::{IgnitionRequest, MachineIgnition, MachineIgnitionError, machine_ignition};
