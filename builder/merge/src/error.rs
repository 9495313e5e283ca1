//! Why there is no rendered config.

use serde_json::Value;

use mosb_ignition::snapshot::Reference;
use mosb_types::{Diagnostic, Finding};

use super::explain::Explanation;
use super::reconcile::{Update, unreconcilable};
use mosb_api::{RenderedConfig, RenderedConfigError};

/// Each message names object, cause and remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error("pool {pool}: {} in its MachineConfigs; correct what is listed", faults(problems.len()))]
    #[diagnostic(code = "invalid-machine-configs", class = InvalidInput, findings = problems.clone())]
    Invalid {
        pool: String,
        /// All problems: `object` is file, MachineConfig and field.
        problems: Vec<Finding>,
        /// What was skipped or does nothing, which may be the reason.
        warnings: Vec<Finding>,
    },
    /// Each input is valid, but the merged config is not.
    #[error(
        "pool {pool}: each of its MachineConfigs is valid, but merged they are not: {}; change one of those that are named",
        faults(problems.len())
    )]
    #[diagnostic(code = "invalid-when-merged", class = InvalidInput, findings = problems.clone())]
    Merged {
        pool: String,
        /// All problems: `object` is the field of the merged config and the MachineConfigs
        /// that it comes from.
        problems: Vec<Finding>,
        /// As those of [`Error::Invalid`].
        warnings: Vec<Finding>,
    },
    /// The name of the pool is too long.
    #[error(
        "pool {pool}: its name is too long for that of a rendered MachineConfig, rendered-<pool>-<32 hex digits>, which has at most 253 characters; give the pool a shorter one"
    )]
    #[diagnostic(code = "bad-pool-name", class = InvalidInput)]
    PoolName { pool: String },
    /// Larger than an API server accepts.
    #[error(
        "{name}: {size} bytes of JSON; a rendered MachineConfig has at most {}: move large files out of the MachineConfigs, of which {largest} is the largest",
        mosb_api::RENDERED_LIMIT
    )]
    #[diagnostic(code = "rendered-too-large", class = InvalidInput)]
    TooLarge {
        name: String,
        size: usize,
        /// Name and size of the largest MachineConfig.
        largest: String,
    },
    /// The earlier rendered config, for the comparison, is invalid.
    #[error("{name}: spec.config: {source}")]
    #[diagnostic(transparent)]
    Previous {
        /// Name of the earlier config.
        name: String,
        source: mosb_ignition::Error,
    },
    /// The rendered config can't be read back.
    #[error(
        "{name}: what was rendered is not a rendered MachineConfig: {source}; please report it"
    )]
    #[diagnostic(code = "internal", class = Internal)]
    Result { name: String, source: RenderedConfigError },
}

impl Error {
    /// What was skipped or does nothing, which may be the reason.
    pub fn warnings(&self) -> &[Finding] {
        match self {
            Self::Invalid { warnings, .. } | Self::Merged { warnings, .. } => warnings,
            Self::PoolName { .. }
            | Self::TooLarge { .. }
            | Self::Previous { .. }
            | Self::Result { .. } => &[],
        }
    }

    /// Puts these before the warnings that it has.
    #[must_use]
    pub fn with_warnings(mut self, more: Vec<Finding>) -> Self {
        if let Self::Invalid { warnings, .. } | Self::Merged { warnings, .. } = &mut self {
            warnings.splice(0..0, more);
        }
        self
    }
}

fn faults(count: usize) -> String {
    match count {
        1 => "one fault".to_owned(),
        count => format!("{count} faults"),
    }
}

/// A rendered config, or the references that it needs.
#[derive(Debug)]
pub enum Outcome {
    Rendered(Box<Rendered>),
    /// These must be fetched first. The place of each names its MachineConfig.
    Needs(Vec<Reference>),
}

#[derive(Debug)]
pub struct Rendered {
    /// Checked, as a build takes it.
    pub config: RenderedConfig,
    /// The whole object, to be printed or created.
    pub object: Value,
    /// What an administrator may want to look at.
    pub warnings: Vec<Finding>,
    /// Where everything comes from, if [`super::Request::explain`] asked for it.
    pub explanation: Option<Explanation>,
}

impl Rendered {
    /// What nodes of config `old` can't take of this one, as [`unreconcilable`] says, with the
    /// MachineConfigs that cause it if there is an explanation.
    ///
    /// # Errors
    /// The old config has no Ignition config that can be read.
    pub fn unreconcilable(
        &self,
        old: &RenderedConfig,
        update: Update,
    ) -> Result<Vec<Finding>, Error> {
        let mut found = unreconcilable(old, &self.config, update)?;
        for finding in &mut found {
            let field = finding.object.take().unwrap_or_default();
            let explanation = self.explanation.as_ref();
            let origins = explanation.map(|it| it.origins(&field)).unwrap_or_default();
            // What is gone comes from none of them.
            let place = if origins.is_empty() { field } else { format!("{origins}: {field}") };
            finding.object = Some(place);
        }
        Ok(found)
    }
}
