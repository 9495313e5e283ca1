//! `mosb job push`: pushes the image that buildah built.

use std::path::Path;
use std::time::Instant;

use jiff::{Timestamp, Unit};

use super::build::needs_containerfile;
use super::inputs::{PodInputs, PodPrepared};
use super::prepared_base::tree_of;
use super::{plan_to_run, prepared_base};
use crate::cli::Result;
use crate::cli::build::buildah::container_build;
use crate::cli::build::result::tag_moved;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use mosb_build::buildah::{self, ContainerBuild};
use mosb_build::direct;
use mosb_build::resolve::ResolvedPlan;
use mosb_build::result::{Outcome, Phases, PreparedImage, millis};
use mosb_build::{JobMethod, ResultReporter};
use mosb_plan::plan::Method;
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
    match &inputs.prepared {
        PodPrepared::Make => push_prepared(context, inputs, image, reporter).await,
        PodPrepared::On { image: on, .. } => {
            let draft = prepared_base::draft(context, inputs).await?;
            let planned = prepared_base::plan_on(context, inputs, draft, on).await?;
            push_whole(context, inputs, planned, image, reporter).await
        }
        PodPrepared::Without => {
            let planned = plan_to_run(context, inputs).await?;
            push_whole(context, inputs, planned, image, reporter).await
        }
    }
}

/// Pushes the prepared base in the folder, and then the image on it. If this is killed in between, the
/// next run does the same again.
async fn push_prepared(
    context: &CliContext,
    inputs: &PodInputs,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let draft = prepared_base::draft(context, inputs).await?;
    let resolving = draft.resolved_draft.resolving;
    let (prepared, base) = (&draft.prepared, &draft.resolved_draft.base);
    // What was built is already there.
    let build = ContainerBuild::of_prepared(prepared, "");
    context.progress.step("compressing the prepared base");
    let taking = Instant::now();
    let made = buildah::take(&build, image).await.map_err(mosb_build::Error::from)?;
    let taking = taking.elapsed();
    context.progress.step(&format!("pushing the prepared base to {}", inputs.push));
    reporter.begin_push();
    let target = Target::from(inputs.push.clone());
    let pushed = buildah::push(&context.push, &build, &made, base, &target).await?;
    let pushing = pushed.pushing;
    let (tag, inputs_digest) = (prepared.tag().to_string(), prepared.inputs.digest());
    let digest = *pushed.pushed.digest.value();
    let made_at = Timestamp::now().round(Unit::Second).map_err(|error| {
        Error::System(std::io::Error::other(format!("the clock of this node: {error}")))
    })?;
    let prepared = PreparedImage { inputs: inputs_digest, image: digest, made_at };
    let mut warnings: Vec<_> = tag_moved(&pushed.pushed, &tag).into_iter().collect();
    let resolved_plan =
        prepared_base::plan_on(context, inputs, draft, &inputs.push.pinned(digest)).await?;
    match &resolved_plan.plan.method {
        Method::Containerfile(reasons) => {
            return Ok(needs_containerfile(reasons, Some(prepared)));
        }
        // Its instructions may not run where the push credentials are.
        Method::LastPart(_) => {
            let tree = prepared_base::push_tree(context, inputs, &resolved_plan).await;
            let base_tree = tree_of(tree, &mut warnings);
            let prepared = Box::new(prepared);
            return Ok(Outcome::Prepared { prepared, base_tree, warnings });
        }
        Method::Prepared(_) | Method::Direct => {}
    }
    context.progress.step(&format!("writing the layer, pushing to {}", inputs.push));
    let (built, tree) = tokio::join!(
        direct::build(&context.push, &resolved_plan.plan, resolved_plan.lower(), &target),
        prepared_base::push_tree(context, inputs, &resolved_plan),
    );
    let built = built?;
    warnings.extend(resolved_plan.plan.warnings);
    warnings.extend(built.warnings);
    warnings.extend(tag_moved(&built.pushed, &resolved_plan.plan.build_name.tag()));
    let base_tree = tree_of(tree, &mut warnings);
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Containerfile,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(resolving),
            tree: millis(resolved_plan.planning),
            build: millis(taking + built.making),
            push: millis(pushing + built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree,
        prepared: Some(Box::new(prepared)),
        warnings,
    })
}

/// Pushes the image that the whole Containerfile made, or its last part.
async fn push_whole(
    context: &CliContext,
    inputs: &PodInputs,
    planned: ResolvedPlan,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let plan = &planned.plan;
    // What was built is already there.
    let build = container_build(plan, planned.prepared.as_ref())?;
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
