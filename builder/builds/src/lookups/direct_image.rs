//! Makes the image of a config on its base, or on a prepared base, in memory, to compare its digest with
//! that of an image that exists.
//!
//! Input: a draft, and the tree of what it is on as a build recorded it. The tree is never computed here,
//! because a base may be hostile and large. Output: an image, or nothing if that must be found out
//! elsewhere.

use tokio::task::spawn_blocking;

use super::Resolver;
use crate::lookup::PlanLookup;
use crate::observe::recorded_tree;
use mosb_build::direct::{Assembled, assemble};
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, ResolvedPrepared};
use mosb_image::tree::BaseTree;
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::{BuildPlan, Method};
use mosb_reconcile::Problem;
use mosb_registry::tree_image;

/// An image of one layer on its base, or on its prepared base, in memory.
pub(super) struct DirectImage {
    pub plan: BuildPlan,
    pub assembled: Assembled,
    /// Of what it is on.
    pub tree: BaseTree,
}

/// The image of the config of this draft, from the tree of its base, or of the prepared base that it is
/// `on`. `None` if something must be run for the config. A Containerfile may have a last part, which runs
/// on the image.
///
/// # Errors
/// Those of the plan: a Job would report them too.
pub(super) async fn direct_image(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    on: Option<ResolvedPrepared>,
    tree: BaseTree,
) -> Result<Option<DirectImage>, Problem> {
    let plan = resolve::finish_with_tree(context, resolved_draft, on, tree.clone()).await?.plan;
    match plan.method {
        Method::Direct | Method::Prepared(_) | Method::LastPart(_) => {}
        Method::Containerfile(_) => return Ok(None),
    }
    let making = move || assemble(&plan).map(|assembled| DirectImage { plan, assembled, tree });
    let made = spawn_blocking(making).await;
    Ok(Some(made.expect("writing a layer does not panic")?))
}

/// The tree of the image `of`, which a build pushed as `tree`; `None` if it can't be read, which the log
/// says of `image`.
pub(super) async fn recorded_tree_of(
    context: PlanContext<'_>,
    tree: &PinnedRef,
    of: &Digest,
    image: &PinnedRef,
) -> Option<BaseTree> {
    let pulled = tree_image::pull(context.client, tree, of).await;
    let why_not = match pulled {
        Ok(Some(tree)) => return Some(tree),
        Ok(None) => format!("another version of mosb recorded the tree of {of}"),
        Err(warning) => warning.message,
    };
    tracing::info!("{image} is not compared with what it is made from: {why_not}");
    None
}

/// The digest of [`direct_image`]; `None` also if no tree of the base is recorded.
///
/// # Errors
/// Those of the plan.
pub(super) async fn direct_digest(
    resolver: &Resolver,
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    lookup: &PlanLookup,
    image: &PinnedRef,
) -> Result<Option<Digest>, Problem> {
    if !resolved_draft.draft.needs_tree() {
        return Ok(None);
    }
    let base = resolved_draft.base.manifest;
    let pool = lookup.pool.as_str();
    let Some(tree) = recorded_tree(&resolver.cache, pool, &lookup.push, &base) else {
        tracing::info!(
            "{image} is not compared with the planned image: no build for such a pool recorded the tree of base {base}"
        );
        return Ok(None);
    };
    let Some(tree) = recorded_tree_of(context, &tree, &base, image).await else {
        return Ok(None);
    };
    let made = direct_image(context, resolved_draft, None, tree).await?;
    Ok(made.map(|made| made.assembled.edited.digest()))
}
