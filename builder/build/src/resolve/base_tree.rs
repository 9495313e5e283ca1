//! The tree of a base, or of a prepared base on it: from a cache, else from its layers.

use mosb_image::PinnedRef;
use mosb_image::layer::Layer;
use mosb_image::tree::BaseTree;
use mosb_plan::plan::Base;
use mosb_registry::base_tree::{self, Below, Obtained, TreeSource};
use mosb_registry::cache::TreeCache;
use mosb_registry::{self as registry, Client, Resolved, tree_image};
use mosb_types::Finding;

use super::base::layers;
use super::{Error, PlanContext, Trees};

/// The tree of a base: from a cache, else from its layers.
pub(super) async fn obtain(
    context: PlanContext<'_>,
    base: &Base,
    resolved: &Resolved,
) -> Result<Obtained, Error> {
    let mut warnings = Vec::new();
    let disk = match context.trees {
        Some(Trees::Images { client, base, .. }) => {
            match pull(client, base, resolved, &mut warnings).await {
                Some(tree) => return Ok(Obtained { tree, source: TreeSource::Cache, warnings }),
                None => None,
            }
        }
        Some(Trees::Disk(cache)) => Some(cache),
        None => None,
    };
    let layers = layers(base, resolved);
    let obtained =
        base_tree::obtain(disk, &resolved.manifest, &resolved.store, &layers, None).await;
    of_image(obtained, resolved, warnings)
}

/// The tree of a base for a list of its packages: from a cache, else from its layers. `None` if they
/// can't be read.
///
/// # Errors
/// The registry does not return a layer.
pub async fn tree_for_packages(
    context: PlanContext<'_>,
    base: &Base,
    resolved: &Resolved,
) -> Result<Option<BaseTree>, Error> {
    (context.on_step)("reading the base's tree");
    match obtain(context, base, resolved).await {
        Ok(obtained) => Ok(Some(obtained.tree)),
        Err(error @ Error::Layer { .. }) => {
            tracing::warn!(%error, "the SBOM has no packages, because a layer can't be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The tree of any image: from the cache, else from its layers and into the cache.
///
/// # Errors
/// A layer can't be read.
pub async fn image_tree(
    cache: Option<&TreeCache>,
    resolved: &Resolved,
    layers: &[Layer],
) -> Result<Obtained, Error> {
    let obtained =
        base_tree::obtain(cache, &resolved.manifest, &resolved.store, layers, None).await;
    of_image(obtained, resolved, Vec::new())
}

/// The tree of a base that only notes follow from, if the cache has it.
pub(super) async fn cached(context: PlanContext<'_>, resolved: &Resolved) -> Option<Obtained> {
    let Some(Trees::Disk(cache)) = context.trees else { return None };
    // A warning about the cache is for who needs it.
    let tree = base_tree::load(cache, &resolved.manifest).await.ok()??;
    Some(Obtained { tree, source: TreeSource::Cache, warnings: Vec::new() })
}

/// The tree of a prepared base: from the cache, else from the base's tree and the layers on top of it.
pub(super) async fn obtain_prepared(
    context: PlanContext<'_>,
    base: (&Base, &Resolved),
    prepared: (&Base, &Resolved),
) -> Result<Obtained, Error> {
    let manifest = &prepared.1.manifest;
    let mut warnings = Vec::new();
    let (disk, found) = match context.trees {
        Some(Trees::Disk(cache)) => match base_tree::load(cache, manifest).await {
            Ok(tree) => (Some(cache), tree),
            Err(warning) => {
                warnings.push(warning);
                (Some(cache), None)
            }
        },
        Some(Trees::Images { client, prepared: image, .. }) => {
            (None, pull(client, image, prepared.1, &mut warnings).await)
        }
        None => (None, None),
    };
    if let Some(tree) = found {
        return Ok(Obtained { tree, source: TreeSource::Cache, warnings });
    }
    let below = obtain(context, base.0, base.1).await?;
    warnings.extend(below.warnings);
    let (of_base, of_prepared) = (layers(base.0, base.1), layers(prepared.0, prepared.1));
    let below = Below { tree: &below.tree, layers: &of_base };
    let store = &prepared.1.store;
    let obtained = base_tree::obtain(disk, manifest, store, &of_prepared, Some(below)).await;
    of_image(obtained, prepared.1, warnings)
}

/// The tree of an image, from the image that an earlier build pushed it as.
async fn pull(
    client: &Client,
    image: Option<&PinnedRef>,
    resolved: &Resolved,
    warnings: &mut Vec<Finding>,
) -> Option<BaseTree> {
    match tree_image::pull(client, image?, &resolved.manifest).await {
        Ok(tree) => tree,
        Err(warning) => {
            warnings.push(warning);
            None
        }
    }
}

fn of_image(
    obtained: Result<Obtained, registry::Error>,
    resolved: &Resolved,
    warnings: Vec<Finding>,
) -> Result<Obtained, Error> {
    match obtained {
        Ok(mut obtained) => {
            obtained.warnings.splice(0..0, warnings);
            Ok(obtained)
        }
        // The error of a layer doesn't name the image.
        Err(registry::Error::Layer(source)) => {
            Err(Error::Layer { image: resolved.pinned_text(), source })
        }
        Err(other) => Err(other.into()),
    }
}
