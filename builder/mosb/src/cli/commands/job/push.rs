//! `mosb job push`: pushes the image that buildah built.

use std::path::Path;
use std::time::Instant;

use super::plan_to_run;
use crate::cli::Result;
use crate::cli::commands::build::tag_moved;
use crate::cli::context::CliContext;
use crate::cli::resolve::PodInputs;
use mosb_build::buildah::{self, ContainerBuild};
use mosb_build::result::{Outcome, Phases, millis};
use mosb_build::{JobMethod, ResultReporter};
use mosb_registry::Target;

/// Pushes the image in the folder.
///
/// # Errors
/// As [`buildah::take`]; errors of the registry.
pub async fn push(
    context: &CliContext,
    inputs: &PodInputs,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let planned = plan_to_run(context, inputs).await?;
    let plan = &planned.plan;
    // What was built is already there.
    let build = ContainerBuild::of_plan(plan, "").map_err(mosb_build::Error::from)?;
    context.progress.step("compressing what was built");
    let making = Instant::now();
    let made = buildah::take(&build, image).await.map_err(mosb_build::Error::from)?;
    let making = making.elapsed();
    context.progress.step(&format!("pushing to {}", inputs.push));
    reporter.begin_push();
    let target = Target::from(inputs.push.clone());
    let built = buildah::push(&context.push, &build, &made, &planned.base, &target).await?;
    let mut warnings = planned.plan.warnings.clone();
    warnings.extend(tag_moved(&built.pushed, &plan.build_name.tag()));
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Containerfile,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(planned.resolving),
            tree: millis(planned.planning),
            build: millis(making),
            push: millis(built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree: None,
        prepared: None,
        warnings,
    })
}
