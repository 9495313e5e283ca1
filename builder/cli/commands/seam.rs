//! Where the Containerfile build is called; until it stands, it is refused.

use anyhow::Result;

use crate::backend::Built;
use crate::cli::error::Error;
use crate::cli::resolve::{Build, Settings};
use crate::cli::world::World;
use crate::plan::BuildPlan;
use crate::registry::Resolved;

/// Builds the Containerfile of a plan with buildah and pushes the image.
///
/// # Errors
/// Always, for now.
pub async fn containerfile_build(
    _world: &World,
    plan: &BuildPlan,
    _base: &Resolved,
    _build: &Build,
    _settings: &Settings,
) -> Result<Built> {
    let config = plan.request.config.name();
    Err(Error::Usage(format!("{config}: builds with buildah are not there yet")).into())
}
