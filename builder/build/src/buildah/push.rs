//! Pushes a built image: only the layers of the build are sent, the others are where its base is.

use std::time::{Duration, Instant};

use super::BuiltImage;
use super::assemble::NewLayer;
use super::configs_image::ConfigsImage;
use super::container_build::ContainerBuild;
use crate::signing::{ConfigLayer, Description};
use crate::{Built, BuiltLayer, Signing};
use mosb_image::DiffId;
use mosb_image::layer::Layer;
use mosb_image::media_type::{OCI_CONFIG, OCI_LAYER_GZIP};
use mosb_image::packages::{Installed, Packages};
use mosb_image::tree::BaseTree;
use mosb_registry::base_tree::{Below, compute, extend};
use mosb_registry::{
    self as registry, BlobFrom, BlobRef, BlobToPush, Client, PushPlan, Resolved, Target,
};
use mosb_trust::spdx::OsPackages;

/// Pushes a built image: the layers of the base from its source, the others from the build. With
/// `signing`, the image is signed and described before its tags name it.
///
/// # Errors
/// Errors of the target.
pub async fn push(
    client: &Client,
    build: &ContainerBuild,
    built: &BuiltImage,
    base: &Resolved,
    target: &Target,
    signing: Option<Signing<'_>>,
) -> Result<Built, crate::Error> {
    let began = Instant::now();
    let push_plan = push_plan(build, built, base);
    let evidence = match signing {
        Some(signing) => {
            let layers = layers(build, built, &push_plan);
            let packages = match signing.below {
                Some(below) => os_packages(build, built, below, &push_plan, &layers).await?,
                None => None,
            };
            let config = build.configs.as_ref().and_then(ConfigsImage::layer);
            let config = config.map(|layer| {
                // Of the layers, only the files in that of the config are known.
                ConfigLayer { diff_id: layer.diff_id, files: build.config_files.clone() }
            });
            let below = &build.lower().config.diff_ids[..build.layers_below()];
            let origin = build.origin.clone();
            let description = Description::of_layers(origin, below, config, &layers, packages);
            let config = &built.image.config;
            Some(signing.of_push(target, &push_plan, config, description).await)
        }
        None => None,
    };
    let pushed = client.push_with_evidence(target, &push_plan, evidence.as_ref()).await?;
    let layer = |layer: &NewLayer| BuiltLayer {
        digest: layer.digest,
        diff_id: layer.diff_id,
        size: layer.size,
        paths: None,
    };
    let of_config = build.configs.as_ref().and_then(ConfigsImage::layer);
    let above = built.image.layers.iter().map(layer);
    let layers = of_config.into_iter().chain(above).collect();
    Ok(Built::after_push(&push_plan, evidence, pushed, layers, Duration::ZERO, began.elapsed()))
}

/// The plan for pushing a built image, with the source of each blob.
pub fn push_plan(build: &ContainerBuild, built: &BuiltImage, base: &Resolved) -> PushPlan {
    let image = &built.image;
    let blob = |media_type: &str, digest, size| BlobRef {
        media_type: media_type.to_owned(),
        digest,
        size,
        annotations: Default::default(),
    };
    let of_base = |layer: &BlobRef| BlobToPush {
        blob: layer.clone(),
        from: BlobFrom::Store(base.store.clone()),
    };
    let lower = match &build.configs {
        Some(configs) => configs.blobs(),
        None => base.layers.iter().map(of_base).collect(),
    };
    let lower = lower.into_iter().take(image.base_layers);
    let layers = image.layers.iter().map(|layer| BlobToPush {
        blob: blob(OCI_LAYER_GZIP, layer.digest, layer.size),
        from: BlobFrom::File(built.blobs.join(layer.digest.hex())),
    });
    let config = BlobToPush {
        blob: blob(OCI_CONFIG, image.config_digest(), image.config.len() as u64),
        from: BlobFrom::Bytes(image.config.clone().into()),
    };
    PushPlan {
        manifest: image.manifest.clone().into(),
        media_type: image.media_type.to_owned(),
        blobs: lower.chain(layers).chain([config]).collect(),
        tags: build.tags.clone(),
        protected_tag: Some(build.protected_tag.clone()),
    }
}

/// The packages of an image with these layers that is about to be pushed. `below` is the tree of its
/// base, or of its prepared base; only the layers above that are read. `None` if they can't be read,
/// because a program can write what mosb can't read.
///
/// # Errors
/// Layers below that must be read, and that their registry does not return.
async fn os_packages(
    build: &ContainerBuild,
    built: &BuiltImage,
    below: &BaseTree,
    push: &PushPlan,
    layers: &[Layer],
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
fn layers(build: &ContainerBuild, built: &BuiltImage, push: &PushPlan) -> Vec<Layer> {
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
