//! `mosb job push`: pushes what buildah left.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::end::{End, millis};
use super::plan_to_run;
use crate::cli::commands::build::tag_moved;
use crate::cli::resolve::PodInputs;
use crate::cli::world::World;
use mosb_build::JobMethod;
use mosb_build::buildah;
use mosb_build::result::{Outcome, Phases};
use mosb_registry::Target;

/// Takes the image from the folder and pushes it.
///
/// # Errors
/// As [`buildah::take`], and whatever the registry answers.
pub async fn push(world: &World, inputs: &PodInputs, image: &Path, end: &End) -> Result<Outcome> {
    let began = Instant::now();
    let planned = plan_to_run(world, inputs).await?;
    let plan = &planned.plan;
    world.progress.step("compressing what was built");
    let making = Instant::now();
    let made = buildah::take(plan, image).await.map_err(mosb_build::Error::from)?;
    let making = making.elapsed();
    world.progress.step(&format!("pushing to {}", inputs.push));
    end.begin_push();
    let target = Target::from(inputs.push.clone());
    let built = buildah::push(&world.push, plan, &made, &planned.base, &target).await?;
    let mut warnings = planned.plan.warnings.clone();
    warnings.extend(tag_moved(&built.pushed, &plan.build_name.tag()));
    let (bytes_pulled, bytes_pushed) = world.moved();
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
        warnings,
    })
}
