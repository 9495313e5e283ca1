//! Why there is no rendered config.

use crate::api::RenderedConfigError;
use mosb_types::{Diagnostic, Finding};

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The inputs.
    #[error("pool {pool}: {} in its MachineConfigs; mend what is named", faults(problems.len()))]
    #[diagnostic(code = "invalid-machine-configs", class = InvalidInput, findings = problems.clone())]
    Invalid {
        pool: String,
        /// All that is wrong with them: `object` is file, MachineConfig and field.
        problems: Vec<Finding>,
    },
    /// Each is good, and together they are not.
    #[error(
        "pool {pool}: each of its MachineConfigs is valid, but merged they are not: {}; change one of those that are named",
        faults(problems.len())
    )]
    #[diagnostic(code = "invalid-when-merged", class = InvalidInput, findings = problems.clone())]
    Merged {
        pool: String,
        /// All that is wrong: `object` is the field of the merged config and the MachineConfigs
        /// that it comes from.
        problems: Vec<Finding>,
    },
    /// The name of the pool leaves no room.
    #[error(
        "pool {pool}: its name is too long for that of a rendered MachineConfig, rendered-<pool>-<32 hex digits>, which has at most 253 characters; give the pool a shorter one"
    )]
    #[diagnostic(code = "bad-pool-name", class = InvalidInput)]
    PoolName { pool: String },
    /// Larger than any API server takes.
    #[error(
        "{name}: {size} bytes of JSON; a rendered MachineConfig has at most {}: move large files out of the MachineConfigs, of which {largest} is the largest",
        crate::api::RENDERED_LIMIT
    )]
    #[diagnostic(code = "rendered-too-large", class = InvalidInput)]
    TooLarge {
        /// Name of the rendered config.
        name: String,
        /// Bytes.
        size: usize,
        /// Name and size of the largest MachineConfig.
        largest: String,
    },
    /// The earlier rendered config, to compare with.
    #[error("{name}: spec.config: {source}")]
    #[diagnostic(transparent)]
    Previous {
        /// Name of the earlier config.
        name: String,
        /// What is wrong with it.
        source: mosb_ignition::Error,
    },
    /// What was made can't be read back.
    #[error("{name}: what was rendered is no rendered MachineConfig: {source}; please report it")]
    #[diagnostic(code = "internal", class = Internal)]
    Result {
        /// Name of the rendered config.
        name: String,
        /// What is wrong with it.
        source: RenderedConfigError,
    },
}

fn faults(count: usize) -> String {
    match count {
        1 => "one fault".to_owned(),
        count => format!("{count} faults"),
    }
}
