//! Makes the image of a direct build in memory, to compare its digest with that of an image that exists.
//!
//! Input: a draft, and the tree of its base as a build recorded it. The tree is never computed here,
//! because a base may be hostile and large. Output: a digest, or nothing if a Job must find out.

use tokio::task::spawn_blocking;

use super::Resolver;
use crate::lookup::PlanLookup;
use crate::observe::recorded_tree;
use mosb_build::direct::assemble;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::Method;
use mosb_reconcile::Problem;
use mosb_registry::tree_image;

/// The digest of the image that a direct build of this draft makes; `None` if the build is not direct,
/// or if no readable tree of its base is recorded. `image` may be that image, for the log.
///
/// # Errors
/// Those of the plan: a Job would report them too.
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
            "{image} may equal the planned image, but no build for such a pool recorded the tree of base {base}; a Job builds it"
        );
        return Ok(None);
    };
    let tree = match tree_image::pull(context.client, &tree, &base).await {
        Ok(Some(tree)) => tree,
        Ok(None) => {
            tracing::info!(
                "{image} may equal the planned image, but another version of mosb recorded the tree of base {base}; a Job builds it"
            );
            return Ok(None);
        }
        Err(warning) => {
            tracing::info!(
                "{image} may equal the planned image, but {}; a Job builds it",
                warning.message
            );
            return Ok(None);
        }
    };
    let plan = resolve::finish_with_tree(context, resolved_draft, tree).await?.plan;
    if plan.method != Method::Direct {
        return Ok(None);
    }
    let made = spawn_blocking(move || assemble(&plan)).await;
    let made = made.expect("writing a layer does not panic")?;
    Ok(Some(made.edited.digest()))
}
