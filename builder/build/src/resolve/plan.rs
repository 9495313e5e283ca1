//! The whole plan, with the tree of the base if it is needed.

use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use mosb_image::tree::BaseTree;
use mosb_plan::plan::{self, Base, BuildPlan, Prepared, PreparedBase};
use mosb_registry::base_tree::{Obtained, TreeSource};
use mosb_registry::{AcceptedImage, Client, Resolved, Source};

use super::base::given_base_name;
use super::base_tree::{cached, obtain, obtain_prepared};
use super::draft::ResolvedDraft;
use super::signatures::check;
use super::{Error, PlanContext};

/// A plan, and the images and tree that it was made with.
#[derive(Debug)]
pub struct ResolvedPlan {
    /// Includes the warnings about its inputs.
    pub plan: BuildPlan,
    /// The base, to build on.
    pub base: Resolved,
    /// The prepared base that the plan's layer is put on.
    pub prepared: Option<Resolved>,
    /// The base's tree, if it was needed, or if it was in the cache.
    pub tree: Option<Obtained>,
    /// Time spent waiting for registries.
    pub resolving: Duration,
    /// Time spent reading the base's tree and planning with it.
    pub planning: Duration,
}

impl ResolvedPlan {
    /// What the plan's layer is put on.
    pub fn lower(&self) -> &Resolved {
        self.prepared.as_ref().unwrap_or(&self.base)
    }
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
        Some(Box::pin(obtain(context, base, &resolved_draft.base)).await?)
    } else {
        cached(context, &resolved_draft.base).await
    };
    finish_with(context, resolved_draft, None, tree, began).await
}

/// Finishes a plan on a prepared base.
///
/// # Errors
/// As [`finish`].
pub async fn finish_on(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    prepared: ResolvedPrepared,
) -> Result<ResolvedPlan, Error> {
    let began = Instant::now();
    (context.on_step)("reading the prepared base's tree");
    let base = (&resolved_draft.draft.request().base, &resolved_draft.base);
    let image = (&prepared.base.image, &prepared.resolved);
    let tree = Box::pin(obtain_prepared(context, base, image)).await?;
    finish_with(context, resolved_draft, Some(prepared), Some(tree), began).await
}

/// Finishes a plan with a tree that the caller has, of the base or of the prepared base that it is on:
/// no layer is read.
///
/// # Errors
/// Errors that the real Ignition would return too.
pub async fn finish_with_tree(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    on: Option<ResolvedPrepared>,
    tree: BaseTree,
) -> Result<ResolvedPlan, Error> {
    let obtained = Obtained { tree, source: TreeSource::Cache, warnings: Vec::new() };
    finish_with(context, resolved_draft, on, Some(obtained), Instant::now()).await
}

async fn finish_with(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    prepared: Option<ResolvedPrepared>,
    obtained: Option<Obtained>,
    began: Instant,
) -> Result<ResolvedPlan, Error> {
    (context.on_step)("planning");
    let ResolvedDraft { draft, base, mut warnings, resolving, .. } = resolved_draft;
    if let Some(obtained) = &obtained {
        warnings.extend(obtained.warnings.iter().cloned());
    }
    let tree = obtained.as_ref().map(|obtained| obtained.tree.clone());
    let (prepared, resolved) = match prepared {
        Some(prepared) => (Some(prepared.base), Some(prepared.resolved)),
        None => (None, None),
    };
    let finished = spawn_blocking(move || match (tree, prepared) {
        (Some(tree), Some(prepared)) => draft.finish_on(prepared, &tree),
        (Some(tree), None) => draft.finish(&tree),
        (None, _) => Ok(draft.finish_unread()),
    })
    .await;
    let mut plan = finished.expect("planning does not panic and is not cancelled")?;
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    let prepared = resolved.filter(|_| plan.prepared.is_some());
    Ok(ResolvedPlan { plan, base, prepared, tree: obtained, resolving, planning: began.elapsed() })
}

/// A prepared base in its registry or layout, checked.
#[derive(Debug)]
pub struct ResolvedPrepared {
    pub base: PreparedBase,
    pub resolved: Resolved,
    /// Its signatures, if a policy requires some.
    pub accepted: Option<AcceptedImage>,
}

/// Resolves an image that is this prepared base, and checks its signatures. Requests only its
/// manifest and config, and what is attached to it.
///
/// # Errors
/// It can't be found, is something else, or the policy of `client` doesn't accept it.
pub async fn prepared_base(
    context: PlanContext<'_>,
    client: &Client,
    prepared: &Prepared,
    source: &Source,
) -> Result<ResolvedPrepared, Error> {
    (context.on_step)(&format!("resolving prepared base {source}"));
    let platform = &prepared.request.base.config.platform;
    let resolved = client.resolve(source, Some(platform)).await?;
    let image = Base::new(
        given_base_name(&resolved),
        resolved.pinned_text(),
        resolved.index,
        &resolved.manifest_bytes,
        &resolved.config_bytes,
    );
    let base = image.map_err(plan::Error::from)?;
    let base = prepared.check(base).map_err(plan::Error::from)?;
    let accepted = check(context, client, &resolved, None).await?;
    Ok(ResolvedPrepared { base, resolved, accepted })
}
