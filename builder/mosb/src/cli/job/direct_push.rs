//! Builds an image directly in a pod, and pushes it.

use super::inputs::PodInputs;
use super::prepared_base::{os_summary, push_tree, tree_of};
use mosb_build::resolve::ResolvedPlan;
use mosb_build::result::BaseTreeImage;
use mosb_build::{Built, ResultReporter, direct};
use mosb_commands::Result;
use mosb_commands::context::CliContext;
use mosb_plan::plan::diff::OsSummary;
use mosb_registry::Target;
use mosb_types::Finding;

/// An image that was built directly and pushed.
#[derive(Debug)]
pub struct DirectPush {
    pub built: Built,
    /// The tree that was pushed for later builds.
    pub base_tree: Option<BaseTreeImage>,
    pub os_summary: Option<Box<OsSummary>>,
    pub warnings: Vec<Finding>,
}

/// Builds an image directly and pushes it, and at the same time the tree that it was planned on.
///
/// # Errors
/// The image was not pushed.
pub async fn push_directly(
    context: &CliContext,
    inputs: &PodInputs,
    resolved_plan: ResolvedPlan,
    reporter: &ResultReporter,
) -> Result<DirectPush> {
    context.progress.step(&format!("writing the layer, pushing to {}", inputs.spec.push));
    reporter.begin_push();
    let target = Target::from(inputs.spec.push.clone());
    let (built, tree, os_summary) = tokio::join!(
        direct::build(&context.push, &resolved_plan.plan, resolved_plan.lower(), &target, None),
        push_tree(context, inputs, &resolved_plan),
        os_summary(context, inputs, &resolved_plan),
    );
    let mut built = built?;
    let mut warnings = resolved_plan.plan.warnings;
    warnings.append(&mut built.warnings);
    let base_tree = tree_of(tree, &mut warnings);
    Ok(DirectPush { built, base_tree, os_summary, warnings })
}
