//! `mosb job build --result`: makes the layer and pushes it.

use std::time::Instant;

use super::inputs::{PodInputs, PodPrepared};
use super::{of_build, plan_context, prepared_base};
use crate::cli::Result;
use crate::cli::build::inputs as build_inputs;
use crate::cli::build::result::tag_moved;
use crate::cli::context::CliContext;
use mosb_build::direct;
use mosb_build::resolve;
use mosb_build::result::{Outcome, Phases, PreparedImage, millis};
use mosb_build::{JobMethod, ResultReporter};
use mosb_plan::plan::Method;
use mosb_plan::plan::Reason;
use mosb_registry::Target;

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
    let resolved_plan = match &inputs.prepared {
        PodPrepared::On { image, .. } => {
            let draft = prepared_base::draft(context, inputs).await?;
            prepared_base::plan_on(context, inputs, draft, image).await?
        }
        PodPrepared::Without | PodPrepared::Make => {
            let on_step = |step: &str| context.progress.step(step);
            let planning = plan_context(context, prepared_base::trees(context, inputs), &on_step);
            let resolved_draft = resolve::draft_while(
                planning,
                &inputs.request.base,
                build_inputs::read(&inputs.request),
            )
            .await?;
            let resolved_draft = of_build(resolved_draft, &inputs.build)?;
            if !resolved_draft.draft.needs_tree() {
                return Ok(needs_containerfile(resolved_draft.draft.reasons(), None));
            }
            resolve::finish(planning, resolved_draft).await?
        }
    };
    if let Method::LastPart(reasons) | Method::Containerfile(reasons) = &resolved_plan.plan.method {
        return Ok(needs_containerfile(reasons, None));
    }
    context.progress.step(&format!("writing the layer, pushing to {}", inputs.push));
    reporter.begin_push();
    let target = Target::from(inputs.push.clone());
    let (built, tree) = tokio::join!(
        direct::build(&context.push, &resolved_plan.plan, resolved_plan.lower(), &target),
        prepared_base::push_tree(context, inputs, &resolved_plan),
    );
    let built = built?;
    let mut warnings = resolved_plan.plan.warnings;
    warnings.extend(built.warnings);
    warnings.extend(tag_moved(&built.pushed, &resolved_plan.plan.build_name.tag()));
    let base_tree = match tree {
        Some(Ok(image)) => Some(image),
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

pub fn needs_containerfile(reasons: &[Reason], prepared: Option<PreparedImage>) -> Outcome {
    Outcome::NeedsContainerfile {
        reasons: reasons.iter().map(Reason::finding).collect(),
        prepared: prepared.map(Box::new),
    }
}
