//! Why there is no rendered config.

use crate::api::RenderedConfigError;
use mosb_types::{ErrorClass, Finding};

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The inputs.
    #[error("pool {pool}: {} in its MachineConfigs; mend what is named", faults(problems.len()))]
    Invalid {
        /// The pool.
        pool: String,
        /// All that is wrong with them: `object` is file, MachineConfig and field.
        problems: Vec<Finding>,
    },
    /// Each is good, and together they are not.
    #[error(
        "pool {pool}: each of its MachineConfigs is valid, but merged they are not: {}; change one of those that are named",
        faults(problems.len())
    )]
    Merged {
        /// The pool.
        pool: String,
        /// All that is wrong: `object` is the field of the merged config and the MachineConfigs that it comes from.
        problems: Vec<Finding>,
    },
    /// The name of the pool leaves no room.
    #[error(
        "pool {pool}: its name is too long for that of a rendered MachineConfig, rendered-<pool>-<32 hex digits>, which has at most 253 characters; give the pool a shorter one"
    )]
    PoolName {
        /// The pool.
        pool: String,
    },
    /// Larger than any API server takes.
    #[error(
        "{name}: {size} bytes of JSON; a rendered MachineConfig has at most {}: move large files out of the MachineConfigs, of which {largest} is the largest",
        crate::api::RENDERED_LIMIT
    )]
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
    Previous {
        /// Name of the earlier config.
        name: String,
        /// What is wrong with it.
        source: mosb_ignition::Error,
    },
    /// What was made can't be read back.
    #[error("{name}: what was rendered is no rendered MachineConfig: {source}; please report it")]
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

impl Error {
    /// What the caller should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Invalid { .. }
            | Self::Merged { .. }
            | Self::PoolName { .. }
            | Self::Previous { .. }
            | Self::TooLarge { .. } => ErrorClass::InvalidInput,
            Self::Result { .. } => ErrorClass::Internal,
        }
    }

    /// The word for scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid-machine-configs",
            Self::Merged { .. } => "invalid-when-merged",
            Self::PoolName { .. } => "bad-pool-name",
            Self::TooLarge { .. } => "rendered-too-large",
            Self::Previous { source, .. } => source.reason(),
            Self::Result { .. } => "internal",
        }
    }

    /// Each problem by itself, where there are several.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid { problems, .. } | Self::Merged { problems, .. } => problems,
            Self::Previous { source: mosb_ignition::Error::Invalid { problems }, .. } => problems,
            Self::PoolName { .. }
            | Self::TooLarge { .. }
            | Self::Previous { .. }
            | Self::Result { .. } => &[],
        }
    }
}
