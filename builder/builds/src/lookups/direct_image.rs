//! Makes the image of a direct build in memory, to compare its digest with that of an image that exists.
//!
//! Input: a draft, and the tree of its base as a build recorded it. The tree is never computed here,
//! because a base may be hostile and large. Output: an image, or nothing if that must be found out
//! elsewhere.

use tokio::task::spawn_blocking;

use super::Resolver;
use crate::lookup::PlanLookup;
use crate::observe::recorded_tree;
use mosb_build::direct::{Assembled, assemble};
use mosb_build::resolve::{self, PlanContext, ResolvedDraft};
use mosb_image::tree::BaseTree;
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::{BuildPlan, Method};
use mosb_reconcile::Problem;
use mosb_registry::tree_image;

/// The image that a direct build makes, in memory.
pub(super) struct DirectImage {
    pub plan: BuildPlan,
    pub assembled: Assembled,
    /// Of the base.
    pub tree: BaseTree,
}

/// The image that a direct build of this draft makes, from the tree of its base; `None` if the build is
/// not direct, or if the tree can't be read. `image` may be that image, for the log.
///
/// # Errors
/// Those of the plan: a Job would report them too.
pub(super) async fn direct_image(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    tree: &PinnedRef,
    image: &PinnedRef,
) -> Result<Option<DirectImage>, Problem> {
    if !resolved_draft.draft.needs_tree() {
        return Ok(None);
    }
    let base = resolved_draft.base.manifest;
    let tree = match tree_image::pull(context.client, tree, &base).await {
        Ok(Some(tree)) => tree,
        Ok(None) => {
            tracing::info!(
                "{image} is not compared with the planned image: another version of mosb recorded the tree of base {base}"
            );
            return Ok(None);
        }
        Err(warning) => {
            tracing::info!("{image} is not compared with the planned image: {}", warning.message);
            return Ok(None);
        }
    };
    let plan = resolve::finish_with_tree(context, resolved_draft, tree.clone()).await?.plan;
    if plan.method != Method::Direct {
        return Ok(None);
    }
    let making = move || assemble(&plan).map(|assembled| DirectImage { plan, assembled, tree });
    let made = spawn_blocking(making).await;
    Ok(Some(made.expect("writing a layer does not panic")?))
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
    let base = resolved_draft.base.manifest;
    let pool = lookup.pool.as_str();
    let Some(tree) = recorded_tree(&resolver.cache, pool, &lookup.push, &base) else {
        tracing::info!(
            "{image} is not compared with the planned image: no build for such a pool recorded the tree of base {base}"
        );
        return Ok(None);
    };
    let made = direct_image(context, resolved_draft, &tree, image).await?;
    Ok(made.map(|made| made.assembled.edited.digest()))
}
