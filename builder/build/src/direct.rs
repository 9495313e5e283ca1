//! The direct build: one layer on top of the manifest of the base, or of a prepared base. Nothing is
//! run, nothing of the base is fetched.

use std::time::Instant;

use tokio::task::spawn_blocking;

use mosb_image::edit::{Edited, NewLayer, append_layer};
use mosb_image::layer::{self, LayerBlob, write_layer};
use mosb_image::media_type::OCI_LAYER_GZIP;
use mosb_image::overlay::LayerEntry;
use mosb_plan::plan::BuildPlan;
use mosb_registry::{BlobFrom, BlobRef, BlobToPush, Client, PushPlan, Resolved, Target};

use super::signing::ConfigDescription;
use super::{Built, BuiltLayer, Error, Signing};

/// An image in memory: the layer, and the base's manifest and config with it on top.
#[derive(Debug, Clone)]
pub struct Assembled {
    pub layer: LayerBlob,
    pub edited: Edited,
    /// Paths that the layer adds or removes.
    pub paths: usize,
}

/// Makes the image of a plan that has a layer. Pure: the same plan, the same bytes.
///
/// # Errors
/// A layer that can't be written.
pub fn assemble(plan: &BuildPlan) -> Result<Assembled, Error> {
    let layer = write_layer(&plan.layer).map_err(|source| cant_write(plan, source))?;
    Ok(put_on_base(plan, layer))
}

fn cant_write(plan: &BuildPlan, source: layer::Error) -> Error {
    let config = plan.request.config.name().to_string();
    Error::Layer { config, source }
}

fn put_on_base(plan: &BuildPlan, layer: LayerBlob) -> Assembled {
    let created_by = format!("mosb build {}", plan.request.config.name());
    let new =
        NewLayer { digest: layer.digest, size: layer.size, diff_id: layer.diff_id, created_by };
    let base = plan.lower();
    let (labels, annotations) = (&plan.labels, &plan.annotations);
    let edited = append_layer(&base.manifest, &base.config.raw, &new, labels, annotations);
    let paths = plan.layer.iter().filter(|entry| !matches!(entry, LayerEntry::Parent(..))).count();
    Assembled { layer, edited, paths }
}

/// How an assembled image is pushed. `base` is what it is on: the base, or the prepared base.
pub fn push_plan(plan: &BuildPlan, image: &Assembled, base: &Resolved) -> PushPlan {
    let blob = |media_type: &str, digest, size: usize| BlobRef {
        media_type: media_type.to_owned(),
        digest,
        size: size as u64,
        annotations: Default::default(),
    };
    let base_layers = base
        .layers
        .iter()
        .map(|layer| BlobToPush { blob: layer.clone(), from: BlobFrom::Store(base.store.clone()) });
    let layer = BlobToPush {
        blob: blob(OCI_LAYER_GZIP, image.layer.digest, image.layer.bytes.len()),
        from: BlobFrom::Bytes(image.layer.bytes.clone()),
    };
    let config = BlobToPush {
        blob: blob(
            &base.config.media_type,
            image.edited.config_digest(),
            image.edited.config.len(),
        ),
        from: BlobFrom::Bytes(image.edited.config.clone().into()),
    };
    PushPlan {
        manifest: image.edited.manifest.clone().into(),
        media_type: image.edited.media_type.clone(),
        blobs: base_layers.chain([layer, config]).collect(),
        tags: plan.tags.to_vec(),
        protected_tag: Some(plan.build_name.tag()),
    }
}

/// The new parts of an image: its layer and its config.
const NEW_BLOBS: usize = 2;

/// Makes the image of a plan and pushes it. While the layer is written, the missing blobs of the
/// target are looked up, and the uploads start. `base` is what the layer is put on: the base, or the
/// prepared base. With `signing`, the image is signed and described before its tags name it.
///
/// # Errors
/// As [`assemble`]; errors of the target.
pub async fn build(
    client: &Client,
    plan: &BuildPlan,
    base: &Resolved,
    target: &Target,
    signing: Option<Signing<'_>>,
) -> Result<Built, Error> {
    let began = Instant::now();
    let entries = plan.layer.clone();
    let writing = spawn_blocking(move || write_layer(&entries));
    let describing = signing.map(|signing| {
        let (plan, below) = (plan.clone(), signing.below.cloned());
        let describe = move || ConfigDescription::new(&plan, below.as_ref());
        (signing, spawn_blocking(describe))
    });
    let push = client.begin_push(target, &plan.tags, NEW_BLOBS).await?;
    let layer = writing.await.expect("writing a layer does not panic");
    let image = put_on_base(plan, layer.map_err(|source| cant_write(plan, source))?);
    let making = began.elapsed();
    let push_plan = push_plan(plan, &image, base);
    let evidence = match describing {
        Some((signing, describing)) => {
            let description = describing.await.expect("describing a layer does not panic");
            let description = description.with_layer(image.layer.digest);
            let config = &image.edited.config;
            Some(signing.of_push(target, &push_plan, config, description).await)
        }
        None => None,
    };
    let pushed = push.finish(&push_plan, evidence.as_ref()).await?;
    let layer = BuiltLayer {
        digest: image.layer.digest,
        diff_id: image.layer.diff_id,
        size: image.layer.size,
        paths: Some(image.paths),
    };
    let pushing = began.elapsed() - making;
    Ok(Built::after_push(&push_plan, evidence, pushed, vec![layer], making, pushing))
}
