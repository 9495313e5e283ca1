//! The tree of a base, or of a prepared base on it: from a cache, else from its layers.

use mosb_plan::plan::Base;
use mosb_registry::base_tree::{self, Below, Obtained, TreeSource};
use mosb_registry::{self as registry, Resolved, tree_image};
use mosb_types::Finding;

use super::base::layers;
use super::context::{PlanContext, Trees};
use super::error::Error;

/// The tree of a base: from a cache, else from its layers.
pub(super) async fn obtain(
    context: PlanContext<'_>,
    base: &Base,
    resolved: &Resolved,
) -> Result<Obtained, Error> {
    let mut warnings = Vec::new();
    let disk = match context.trees {
        Some(Trees::Image(client, image)) => {
            match tree_image::pull(client, image, &resolved.manifest).await {
                Ok(Some(tree)) => {
                    let source = TreeSource::Cache;
                    return Ok(Obtained { tree, source, warnings });
                }
                Ok(None) => {}
                Err(warning) => warnings.push(warning),
            }
            None
        }
        Some(Trees::Disk(cache)) => Some(cache),
        None => None,
    };
    let layers = layers(base, resolved);
    let obtained =
        base_tree::obtain(disk, &resolved.manifest, &resolved.store, &layers, None).await;
    of_image(obtained, resolved, warnings)
}

/// The tree of a prepared base: from the cache, else from the base's tree and the layers on top of it.
pub(super) async fn obtain_prepared(
    context: PlanContext<'_>,
    base: (&Base, &Resolved),
    prepared: (&Base, &Resolved),
) -> Result<Obtained, Error> {
    let disk = match context.trees {
        Some(Trees::Disk(cache)) => Some(cache),
        Some(Trees::Image(..)) | None => None,
    };
    let manifest = &prepared.1.manifest;
    let mut warnings = Vec::new();
    if let Some(cache) = disk {
        match base_tree::load(cache, manifest).await {
            Ok(Some(tree)) => {
                return Ok(Obtained { tree, source: TreeSource::Cache, warnings });
            }
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let below = obtain(context, base.0, base.1).await?;
    warnings.extend(below.warnings);
    let (of_base, of_prepared) = (layers(base.0, base.1), layers(prepared.0, prepared.1));
    let below = Below { tree: &below.tree, layers: &of_base };
    let store = &prepared.1.store;
    let obtained = base_tree::obtain(disk, manifest, store, &of_prepared, Some(below)).await;
    of_image(obtained, prepared.1, warnings)
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
