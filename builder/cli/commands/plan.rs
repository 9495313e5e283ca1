//! `mosb plan`, and `mosb build --dry-run`.

use anyhow::Result;

use super::prepare::{Prepared, prepare};
use crate::api::yaml;
use crate::cli::args::Format;
use crate::cli::objects::Plan;
use crate::cli::output;
use crate::cli::resolve::Wanted;
use crate::cli::world::World;
use crate::plan::{BuildPlan, Method};
use crate::registry::Target;
use crate::{containerfile, payload};

/// Makes a plan and prints it.
///
/// # Errors
/// As for a build, up to the point where something would be written.
pub async fn plan(
    world: &World,
    wanted: &Wanted,
    target: Option<&Target>,
    format: Format,
) -> Result<()> {
    let Prepared { plan, tree, .. } = prepare(world, wanted, target).await?;
    world.progress.end();
    match format {
        Format::Containerfile => output::print_text(&containerfile::render(&plan)?)?,
        Format::Configmap => output::print_text(&config_maps(&plan)?)?,
        Format::Text | Format::Json | Format::Yaml => {
            output::print(format, &Plan::new(&plan, target, tree))?
        }
    }
    Ok(())
}

/// The payload as YAML documents, for `kubectl apply --server-side -f -`.
fn config_maps(plan: &BuildPlan) -> Result<String> {
    let text = match plan.method {
        Method::Containerfile(_) => Some(containerfile::render(plan)?),
        Method::Direct => None,
    };
    let maps = payload::config_maps(plan, text.as_deref(), None)?;
    let documents: Vec<String> = maps
        .iter()
        .map(|map| format!("---\n{}", yaml::to_text(map)))
        .collect();
    Ok(documents.concat())
}
