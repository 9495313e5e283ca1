//! `mosb job build --result`: makes the layer and pushes it.

use std::time::Instant;

use super::{of_build, plan_context};
use crate::cli::Result;
use crate::cli::commands::build::tag_moved;
use crate::cli::context::CliContext;
use crate::cli::resolve::PodInputs;
use crate::cli::unread;
use mosb_build::direct;
use mosb_build::resolve::{self, ResolvedPlan, Trees};
use mosb_build::result::{BaseTreeImage, Outcome, Phases, millis};
use mosb_build::{JobMethod, ResultReporter};
use mosb_image::Digest;
use mosb_plan::plan::Method;
use mosb_plan::plan::Reason;
use mosb_registry::base_tree::TreeSource;
use mosb_registry::{Target, tree_image};
use mosb_types::Finding;

/// Builds and pushes, unless the base's tree shows that a program must be run.
///
/// # Errors
/// The image was not pushed.
pub async fn build(
    context: &CliContext,
    inputs: &PodInputs,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let request = unread::read(&inputs.request).await?;
    let on_step = |step: &str| context.progress.step(step);
    let trees = inputs.base_tree.as_ref();
    let trees = trees.map(|image| Trees::Image(&context.push, image));
    let planning = plan_context(context, trees, &on_step);
    let resolved_draft = resolve::draft(planning, request).await?;
    let resolved_draft = of_build(resolved_draft, &inputs.build)?;
    if !resolved_draft.draft.needs_tree() {
        return Ok(needs_containerfile(resolved_draft.draft.reasons()));
    }
    let resolved_plan = resolve::finish(planning, resolved_draft).await?;
    if let Method::Containerfile(reasons) = &resolved_plan.plan.method {
        return Ok(needs_containerfile(reasons));
    }
    context.progress.step(&format!("writing the layer, pushing to {}", inputs.push));
    reporter.begin_push();
    let target = Target::from(inputs.push.clone());
    let (built, tree) = tokio::join!(
        direct::build(&context.push, &resolved_plan.plan, &resolved_plan.base, &target),
        push_tree(context, inputs, &resolved_plan),
    );
    let built = built?;
    let mut warnings = resolved_plan.plan.warnings;
    warnings.extend(built.warnings);
    warnings.extend(tag_moved(&built.pushed, &resolved_plan.plan.build_name.tag()));
    let base_tree = match tree {
        Some(Ok(image)) => Some(BaseTreeImage { base: resolved_plan.base.manifest, image }),
        Some(Err(warning)) => {
            warnings.push(warning);
            None
        }
        None => None,
    };
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Direct,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(resolved_plan.resolving),
            tree: millis(resolved_plan.planning),
            build: millis(built.making),
            push: millis(built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree,
        prepared: None,
        warnings,
    })
}

fn needs_containerfile(reasons: &[Reason]) -> Outcome {
    Outcome::NeedsContainerfile { reasons: reasons.iter().map(Reason::finding).collect() }
}

/// Caches a tree that was read from the base's layers for later builds.
async fn push_tree(
    context: &CliContext,
    inputs: &PodInputs,
    resolved_plan: &ResolvedPlan,
) -> Option<Result<Digest, Finding>> {
    let obtained = resolved_plan.tree.as_ref()?;
    match obtained.source {
        TreeSource::Cache => None,
        TreeSource::Computed => {
            let (repo, base) = (&inputs.push, &resolved_plan.base.manifest);
            Some(tree_image::push(&context.push, repo, base, &obtained.tree).await)
        }
    }
}
