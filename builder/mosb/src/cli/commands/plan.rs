//! `mosb plan`, and `mosb build --dry-run`.

use super::containerfile::{check_space, command_lines};
use super::make_plan::{PlannedBuild, make_plan};
use crate::cli::Result;
use crate::cli::args::Format;
use crate::cli::context::CliContext;
use crate::cli::objects::{Plan, PlannedStage};
use crate::cli::output;
use crate::cli::resolve::{self, Settings};
use mosb_plan::api::yaml;
use mosb_plan::containerfile;
use mosb_plan::payload;
use mosb_plan::plan::BuildPlan;
use mosb_plan::plan::Method;

/// Makes a plan and prints it.
///
/// # Errors
/// As for a build, without the writes.
pub async fn plan(
    context: &CliContext,
    planned: &resolve::Plan,
    settings: &Settings,
) -> Result<()> {
    let target = planned.target.as_ref();
    let PlannedBuild { plan, tree, base, buildah } =
        make_plan(context, &planned.request, &planned.buildah, target).await?;
    // Containerfile and ConfigMaps are for another machine, whose space is unknown.
    let here = !matches!(settings.format, Format::Containerfile | Format::Configmap);
    if here && buildah.is_some() {
        check_space(&plan, &planned.buildah, settings)?;
    }
    let commands = match &plan.method {
        Method::Containerfile(_) if planned.dry_run => {
            command_lines(&plan, &base, &planned.buildah, settings).await?
        }
        Method::Containerfile(_) | Method::Direct => Vec::new(),
    };
    context.progress.end();
    match settings.format {
        Format::Containerfile => output::print_text(&containerfile::render(&plan)?)?,
        Format::Configmap => output::print_text(&config_maps(&plan)?)?,
        format @ (Format::Text | Format::Json | Format::Yaml | Format::Name) => {
            let split = containerfile::split(&plan.request)?;
            let hint = containerfile::hint(&split, &plan);
            let stages = PlannedStage::all(&split, hint.as_ref());
            let shown = Plan { commands, stages, ..Plan::new(&plan, target, tree) };
            output::print(format, &shown)?;
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
    let documents: Vec<String> =
        maps.iter().map(|map| format!("---\n{}", yaml::to_text(map))).collect();
    Ok(documents.concat())
}
