//! What rendering comes to.

use serde_json::Value;

use super::Error;
use super::explain::Explanation;
use super::reconcile::{Update, unreconcilable};
use crate::api::RenderedConfig;
use mosb_ignition::snapshot::Reference;
use mosb_types::Finding;

/// A rendered config, or the references that it needs.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Rendered(Box<Rendered>),
    /// These must be fetched first. The place of each names its MachineConfig.
    Needs(Vec<Reference>),
}

/// A rendered config.
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
