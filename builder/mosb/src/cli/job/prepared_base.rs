//! The prepared base of a build in a pod: pushed, checked, and the image on it.

use std::path::Path;

use super::inputs::PodInputs;
use super::report::needs_containerfile;
use super::{draft_build, plan_context};
use mosb_build::buildah::ConfigsImage;
use mosb_build::resolve::{
    self, PlanContext, ResolvedDraft, ResolvedPlan, ResolvedPrepared, Trees,
};
use mosb_build::result::{BaseTreeImage, Outcome};
use mosb_commands::Result;
use mosb_commands::arguments::usage;
use mosb_commands::build::prepared_base::prepared;
use mosb_commands::context::CliContext;
use mosb_commands::error::Error;
use mosb_image::PinnedRef;
use mosb_plan::payload::{ImageInService, PreparedImageUse};
use mosb_plan::plan::diff::OsSummary;
use mosb_plan::plan::{Method, Prepared};
use mosb_registry::base_tree::TreeSource;
use mosb_registry::{Error as RegistryError, Source, tree_image};
use mosb_types::Finding;
use tokio::task::spawn_blocking;
use tracing::info;

/// The layout, in the folder that the containers share.
pub const CONFIGS: &str = "configs";

/// A draft, and the prepared base of its inputs.
pub struct PreparedDraft {
    pub resolved_draft: ResolvedDraft,
    pub prepared: Prepared,
}

/// Plans as far as the prepared base, which is the same in the pod that uses it as in the one that
/// makes it.
///
/// # Errors
/// There can be none: another version planned the Job.
pub async fn draft(context: &CliContext, inputs: &PodInputs) -> Result<PreparedDraft> {
    let on_step = |step: &str| context.progress.step(step);
    let planning = plan_context(context, None, &on_step);
    let resolved_draft = draft_build(planning, inputs).await?;
    let prepared = prepared(&resolved_draft, inputs.spec.nodes)?;
    Ok(PreparedDraft { resolved_draft, prepared })
}

/// Plans the image on a prepared base in the push repository.
///
/// # Errors
/// It is not there, or something else; as [`resolve::finish_on`].
pub async fn plan_on(
    context: &CliContext,
    inputs: &PodInputs,
    draft: PreparedDraft,
    image: &PinnedRef,
) -> Result<ResolvedPlan> {
    let on_step = |step: &str| context.progress.step(step);
    let planning = plan_context(context, trees(context, inputs), &on_step);
    let source = Source::Registry(image.clone().into());
    let found = find(context, planning, &draft.prepared, &source).await?;
    Ok(resolve::finish_on(planning, draft.resolved_draft, found).await?)
}

/// Whether a policy requires signatures of a prepared base that it does not have yet.
///
/// # Errors
/// The policy can't be evaluated; errors of the registry.
pub async fn awaits_signature(context: &CliContext, image: &PinnedRef) -> Result<bool> {
    let Some(rule) = context.push.signature_rule(&image.clone().into())? else {
        return Ok(false);
    };
    match context.push.check_signatures(&rule, &[image.digest()]).await {
        Ok(_) => Ok(false),
        Err(RegistryError::SignatureNotAccepted { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

async fn find(
    context: &CliContext,
    planning: PlanContext<'_>,
    prepared: &Prepared,
    source: &Source,
) -> Result<ResolvedPrepared> {
    let found = resolve::prepared_base(planning, &context.push, prepared, source).await;
    found.map_err(|error| match error {
        // It was there when the Job was made.
        resolve::Error::Registry(RegistryError::NotFound { .. }) => {
            Error::PreparedMissing { image: source.to_string() }.into()
        }
        other => other.into(),
    })
}

/// The images with trees that earlier builds pushed.
pub fn trees<'a>(context: &'a CliContext, inputs: &'a PodInputs) -> Option<Trees<'a>> {
    let prepared = match &inputs.spec.prepared {
        PreparedImageUse::On { tree, .. } => tree.as_ref(),
        PreparedImageUse::Without | PreparedImageUse::Make => None,
    };
    Some(Trees::Images { client: &context.push, base: inputs.spec.base_tree.as_ref(), prepared })
}

/// Pushes a tree that was read from layers, for later builds: that of what the plan is on.
pub async fn push_tree(
    context: &CliContext,
    inputs: &PodInputs,
    resolved_plan: &ResolvedPlan,
) -> Option<Result<BaseTreeImage, Finding>> {
    let obtained = resolved_plan.tree.as_ref()?;
    match obtained.source {
        TreeSource::Cache => None,
        TreeSource::Computed => {
            let base = resolved_plan.lower().manifest;
            let pushed =
                tree_image::push(&context.push, &inputs.spec.push, &base, &obtained.tree).await;
            Some(pushed.map(|image| BaseTreeImage { base, image }))
        }
    }
}

/// What of the OS changes, compared with the image in service: what the plan is on with what that one is on.
/// None if they are the same, or not both known; that fails no build.
pub async fn os_summary(
    context: &CliContext,
    inputs: &PodInputs,
    resolved_plan: &ResolvedPlan,
) -> Option<Box<OsSummary>> {
    let ImageInService { image, on, tree } = inputs.spec.in_service.as_ref()?;
    let after = resolved_plan.tree.as_ref()?.tree.clone();
    if resolved_plan.lower().manifest == *on {
        return None;
    }
    let before = match tree_image::pull(&context.push, tree, on).await {
        Ok(before) => before?,
        Err(warning) => {
            info!("the OS is not compared with the image in service: {}", warning.message);
            return None;
        }
    };
    let image = *image;
    let compare = move || Box::new(OsSummary::between(image, &before, &after));
    // Not even a fault of the comparison fails a build.
    spawn_blocking(compare).await.ok()
}

/// Writes what buildah starts from when it runs only the last part of a Containerfile. It reads the push repository,
/// whose credentials the container with buildah does not have. Returns a result if there is nothing to start from.
///
/// # Errors
/// The prepared base is not there, or can't be read.
pub async fn fetch(
    context: &CliContext,
    inputs: &PodInputs,
    folder: &Path,
) -> Result<Option<Outcome>> {
    let PreparedImageUse::On { image, .. } = &inputs.spec.prepared else {
        return usage(format!(
            "job fetch: the inputs of {} name no prepared base; it is only for a build on one",
            inputs.spec.build
        ));
    };
    let draft = draft(context, inputs).await?;
    let base = draft.resolved_draft.draft.request().base.clone();
    let resolved_plan = plan_on(context, inputs, draft, image).await?;
    let plan = &resolved_plan.plan;
    match &plan.method {
        Method::Containerfile(reasons) => Ok(Some(needs_containerfile(reasons, None))),
        Method::LastPart(_) | Method::Prepared(_) | Method::Direct => {
            context.progress.step(&format!("fetching the prepared base {image}"));
            let configs = ConfigsImage::new(plan, resolved_plan.lower())?;
            configs.write(&context.push, &base, false, &folder.join(CONFIGS)).await?;
            Ok(None)
        }
    }
}

/// A tree that was pushed, or a warning.
pub fn tree_of(
    pushed: Option<Result<BaseTreeImage, Finding>>,
    warnings: &mut Vec<Finding>,
) -> Option<BaseTreeImage> {
    pushed?.map_err(|warning| warnings.push(warning)).ok()
}
