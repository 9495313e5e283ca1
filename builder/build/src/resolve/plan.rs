//! The whole plan, with the tree of the base if it is needed.

use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use mosb_image::tree::BaseTree;
use mosb_plan::plan::{BuildPlan, BuildRequest};
use mosb_registry::Resolved;
use mosb_registry::base_tree::{Obtained, TreeSource};

use super::base_tree::obtain;
use super::context::PlanContext;
use super::draft::{ResolvedDraft, draft};
use super::error::Error;
use super::unresolved::Unresolved;

/// A plan, and the images and tree that it was made with.
#[derive(Debug)]
pub struct ResolvedPlan {
    /// Includes the warnings about its inputs.
    pub plan: BuildPlan,
    /// The base, to build on.
    pub base: Resolved,
    /// The base's tree, if it was needed.
    pub tree: Option<Obtained>,
    /// Time spent waiting for registries.
    pub resolving: Duration,
    /// Time spent reading the base's tree and planning with it.
    pub planning: Duration,
}

/// Makes the whole plan: [`draft`], then [`finish`].
///
/// # Errors
/// As [`draft`]; a base with unreadable layers, and errors that the real Ignition would return too.
pub async fn plan(
    context: PlanContext<'_>,
    request: BuildRequest<Unresolved>,
) -> Result<ResolvedPlan, Error> {
    let resolved_draft = draft(context, request).await?;
    finish(context, resolved_draft).await
}

/// Finishes a plan, reading the base's tree if it is needed.
///
/// # Errors
/// A base with unreadable layers, and errors that the real Ignition would return too.
pub async fn finish(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
) -> Result<ResolvedPlan, Error> {
    let began = Instant::now();
    let tree = if resolved_draft.draft.needs_tree() {
        (context.on_step)("reading the base's tree");
        let base = &resolved_draft.draft.request().base;
        Some(obtain(context, base, &resolved_draft.base).await?)
    } else {
        None
    };
    finish_with(context, resolved_draft, tree, began).await
}

/// Finishes a plan with a tree that the caller has: no layer of the base is read.
///
/// # Errors
/// Errors that the real Ignition would return too.
pub async fn finish_with_tree(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    tree: BaseTree,
) -> Result<ResolvedPlan, Error> {
    let obtained = Obtained { tree, source: TreeSource::Cache, warnings: Vec::new() };
    finish_with(context, resolved_draft, Some(obtained), Instant::now()).await
}

async fn finish_with(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    obtained: Option<Obtained>,
    began: Instant,
) -> Result<ResolvedPlan, Error> {
    (context.on_step)("planning");
    let ResolvedDraft { draft, base, mut warnings, resolving } = resolved_draft;
    let tree = match &obtained {
        Some(obtained) => {
            warnings.extend(obtained.warnings.iter().cloned());
            obtained.tree.clone()
        }
        None => BaseTree::from_entries([]),
    };
    let finished = spawn_blocking(move || draft.finish(&tree)).await;
    let mut plan = finished.expect("planning does not panic and is not cancelled")?;
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    Ok(ResolvedPlan { plan, base, tree: obtained, resolving, planning: began.elapsed() })
}
