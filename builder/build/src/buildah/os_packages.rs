//! The packages of a built image, from the package databases that its layers bring.

use mosb_image::DiffId;
use mosb_image::layer::Layer;
use mosb_image::packages::{Installed, Packages};
use mosb_image::tree::BaseTree;
use mosb_registry::base_tree::{Below, compute, extend};
use mosb_registry::{self as registry, BlobToPush, PushPlan};
use mosb_trust::spdx::OsPackages;

use super::BuiltImage;
use super::container_build::ContainerBuild;

/// The packages of an image with these layers that is about to be pushed. `below` is the tree of its
/// base, or of its prepared base; only the layers above that are read. `None` if they can't be read,
/// because a program can write what mosb can't read.
///
/// # Errors
/// Layers below that must be read, and that their registry does not return.
pub(super) async fn os_packages(
    build: &ContainerBuild,
    built: &BuiltImage,
    below: &BaseTree,
    (push, layers): (&PushPlan, &[Layer]),
) -> Result<Option<OsPackages>, registry::Error> {
    let (tree, of_base) = if built.image.base_layers < build.lower().config.diff_ids.len() {
        (compute(push, layers).await, Packages::default())
    } else {
        let of_base = Installed::of(below).packages;
        let below = Below { tree: below, layers: &layers[..build.layers_below()] };
        (extend(push, below, layers).await, of_base)
    };
    match tree {
        Ok(tree) => {
            Ok(Some(OsPackages { installed: Installed::of(&tree), of_base: Some(of_base) }))
        }
        Err(registry::Error::Layer(error)) => {
            tracing::warn!(%error, "the SBOM has no packages, because a layer can't be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The layers of an image that is about to be pushed, lowest first.
pub(super) fn layers(build: &ContainerBuild, built: &BuiltImage, push: &PushPlan) -> Vec<Layer> {
    let lower = build.lower().config.diff_ids.iter().copied();
    let above = built.image.layers.iter().map(|layer| layer.diff_id);
    let diff_ids = lower.take(built.image.base_layers).chain(above);
    let layer = |(to_push, diff_id): (&BlobToPush, DiffId)| Layer {
        media_type: to_push.blob.media_type.clone(),
        digest: to_push.blob.digest,
        size: to_push.blob.size,
        diff_id,
        annotations: to_push.blob.annotations.clone(),
    };
    push.blobs.iter().zip(diff_ids).map(layer).collect()
}
