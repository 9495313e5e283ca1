//! The tree of a base: from a cache, else from its layers.

use mosb_plan::plan::Base;
use mosb_registry::base_tree::{self, Obtained, TreeSource};
use mosb_registry::{self as registry, Resolved, tree_image};

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
