//! The packages of an image for its SBOM, from trees that builds recorded and from layers that programs
//! wrote.
//!
//! Invariant: the layers of a base are never read, because a base may be hostile and large. Those above it
//! are read as far as their size and the time limit of a lookup allow; no image stays unsigned for them.

use super::direct_image::recorded_tree_of;
use super::{LookupError, Resolver};
use crate::lookup::SignLookup;
use mosb_build::resolve::PlanContext;
use mosb_cluster::resolver::LOOKUP_TIMEOUT;
use mosb_image::layer::Layer;
use mosb_image::packages::Installed;
use mosb_image::tree::BaseTree;
use mosb_image::{DiffId, Digest};
use mosb_reconcile::Problem;
use mosb_registry::base_tree::read_on_top;
use mosb_registry::{Error as RegistryError, Resolved};
use mosb_trust::spdx::OsPackages;

/// The most bytes of the layers of an image that are read for its packages, as the registry has them.
const MAX_SIZE: u64 = 1 << 30;

/// The tree of the image `of`, if a build recorded it.
pub(super) async fn recorded_tree(
    context: PlanContext<'_>,
    lookup: &SignLookup,
    tree: Option<Digest>,
    of: &Digest,
) -> Option<BaseTree> {
    let tree = lookup.plan.push.pinned(tree?);
    recorded_tree_of(context, &tree, of, &lookup.image).await
}

/// The packages of an image with these layers, on an image with the layers `below` and this tree. Without
/// the tree, only a database in a layer above is found. `None` if they are not known.
///
/// # Errors
/// The registry does not return a layer.
pub(super) async fn of_layers(
    resolver: &Resolver,
    image: &Resolved,
    layers: &[Layer],
    below: &[DiffId],
    tree: Option<&BaseTree>,
) -> Result<Option<OsPackages>, LookupError> {
    let Some((first, above)) = layers.split_at_checked(below.len()) else { return Ok(None) };
    // The administrator's Containerfile may make the image of something else.
    if !first.iter().map(|layer| layer.diff_id).eq(below.iter().copied()) {
        return Ok(None);
    }
    let name = image.pinned_text();
    let size = above.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    if size > MAX_SIZE {
        tracing::info!("{name}: its SBOM has no packages, because programs wrote {size} bytes");
        return Ok(None);
    }
    let what = || format!("the layers of {name}");
    let reading = async {
        match read_on_top(&image.store, tree, above).await {
            Err(RegistryError::Layer(error)) => {
                tracing::warn!(%error, "{name}: its SBOM has no packages, because a layer can't be read");
                Ok(None)
            }
            read => Ok(read.map_err(Problem::from)?),
        }
    };
    let read: Result<_, Problem> = resolver.limits.with_timeout(what, reading).await;
    let read = match read {
        Err(problem) if problem.reason == LOOKUP_TIMEOUT => {
            tracing::info!("the SBOM of an image has no packages: {}", problem.message);
            None
        }
        read => read?,
    };
    let of_base = tree.map(|tree| Installed::of(tree).packages);
    let packages = read.map(|read| OsPackages { installed: Installed::of(&read), of_base });
    // Without the tree, the database of the base is not known.
    Ok(packages.filter(|found| {
        let OsPackages { installed, of_base } = found;
        of_base.is_some() || !installed.packages.is_empty() || !installed.warnings.is_empty()
    }))
}
