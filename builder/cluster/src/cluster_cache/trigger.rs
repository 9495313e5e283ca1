//! The subject of a change in the cluster.

use std::collections::BTreeMap;

/// Decides which keys a change enqueues.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// The MachineOSConfig of this name, for the pool of the second name.
    Config(String, String),
    /// An object that belongs to the MachineOSConfig of this name.
    ManagedObject(String),
    Pool(String),
    /// The MachineConfig of this name, and the MachineOSConfig that claimed it.
    MachineConfig(String, Option<String>),
    Secret(String),
    /// A machine with these labels, which decide its pool.
    Machine(BTreeMap<String, String>),
    /// A Job of a roll-out, its pod or its Secret.
    NodeJob {
        pool: String,
        /// Whether the Job ended, so that another one may begin.
        has_ended: bool,
    },
    /// Something that boot images depend on, and nothing else.
    BootImages,
    /// Something that every pool depends on.
    All,
    /// Nothing that a pool depends on.
    Unrelated,
}
