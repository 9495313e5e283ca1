//! The image that the last part of a Containerfile starts from: a prepared base with the layer of a
//! config.
//!
//! mosb makes it, and buildah loads it from a layout without the layers that it has from the prepared
//! base. That one it loads before, from a layout without the layers of the base, which it pulled.
//! Nothing is pushed for it. The prepared base stays in buildah's store for the next config.
//!
//! After the build, the image is removed from the store. Its config has an entry of its own in each
//! build, so that no other build uses it: an entry that buildah doesn't know, and drops.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use mosb_image::Digest;
use mosb_image::media_type::OCI_LAYER_GZIP;
use mosb_plan::plan::{Base, BaseName, BuildPlan};
use mosb_registry::{BlobFrom, BlobRef, BlobToPush, Client, PushPlan, Resolved, Source, Target};
use mosb_types::canonical_json;

use super::commands::{self, Options};
use super::container_build::ContainerBuild;
use super::error::Error;
use super::files::{io, write};
use super::run_again;
use super::store::Store;
use crate::direct;
use crate::exec::Stream;

/// The layouts in a folder, and the tag of the image in each of them.
pub(super) const PREPARED: &str = "prepared";
pub(super) const CONFIGS: &str = "configs";

/// The entry of the config that makes it differ.
const BUILD: &str = "dev.mosb.build";

/// The image, in memory or in a layout.
#[derive(Debug, Clone)]
pub struct ConfigsImage {
    /// Manifest and config of the image.
    pub base: Base,
    /// The config that is loaded, by which a store knows the image.
    id: Digest,
    /// The config of the prepared base, by which a store knows that.
    pub(super) prepared_id: Digest,
    made: Option<Box<Made>>,
    /// The folder that it was read from.
    pub(super) folder: Option<PathBuf>,
}

/// What the image is made of.
#[derive(Debug, Clone)]
struct Made {
    image: direct::Assembled,
    /// Manifest and config that are loaded.
    manifest: Vec<u8>,
    config: Vec<u8>,
    prepared: Resolved,
}

impl ConfigsImage {
    /// The image of a plan on its prepared base. Nothing is read.
    ///
    /// # Errors
    /// A layer that can't be written.
    pub fn new(plan: &BuildPlan, prepared: &Resolved) -> Result<Self, crate::Error> {
        let image = direct::assemble(plan)?;
        let base = as_base(&image.edited.manifest, &image.edited.config)?;
        let mut config = base.config.raw.clone();
        config[BUILD] = json!(of_this_build());
        let config = canonical_json(&config);
        let id = Digest::of(&config);
        let mut manifest = base.manifest.clone();
        manifest["config"]["digest"] = json!(id);
        manifest["config"]["size"] = json!(config.len());
        let manifest = canonical_json(&manifest);
        let made = Made { image, manifest, config, prepared: prepared.clone() };
        let prepared_id = prepared.config.digest;
        Ok(Self { base, id, prepared_id, made: Some(Box::new(made)), folder: None })
    }

    /// The image in a folder that [`write`](Self::write) made.
    ///
    /// # Errors
    /// It is not there.
    pub async fn read(client: &Client, folder: &Path) -> Result<Self, crate::Error> {
        let folder = std::path::absolute(folder).map_err(super::files::io(folder))?;
        let resolve = async |name: &str| {
            let (dir, tag) = (folder.join(name), Some(name.to_owned()));
            client.resolve(&Source::Layout { dir, tag, digest: None }, None).await
        };
        let (configs, prepared) = (resolve(CONFIGS).await?, resolve(PREPARED).await?);
        let base = as_base(&configs.manifest_bytes, &configs.config_bytes)?;
        let (id, prepared_id) = (configs.config.digest, prepared.config.digest);
        Ok(Self { base, id, prepared_id, made: None, folder: Some(folder) })
    }

    /// By which a store knows the image.
    pub fn id(&self) -> Digest {
        self.id
    }

    /// The name under which a store keeps the prepared base: with the same name, the next one would
    /// replace it.
    pub(super) fn prepared_name(&self) -> String {
        format!("{PREPARED}-{}", &self.prepared_id.hex()[..12])
    }

    /// Writes layouts for buildah into a folder, unless it was read from one. `has_prepared` says that
    /// a store has the prepared base.
    ///
    /// # Errors
    /// The prepared base can't be read, or the folder not be written.
    pub async fn write(
        &self,
        client: &Client,
        base: &Base,
        has_prepared: bool,
        folder: &Path,
    ) -> Result<(), crate::Error> {
        let Some(made) = &self.made else {
            return Ok(());
        };
        let target = |name| Target::layout(&folder.join(name));
        if !has_prepared {
            client.push(&target(PREPARED), &made.prepared_plan(base)).await?;
        }
        client.push(&target(CONFIGS), &made.configs_plan()).await?;
        Ok(())
    }

    /// The lower layers of an image on this one, as they are pushed: the prepared base's, then that of
    /// the config.
    pub(super) fn blobs(&self) -> Vec<BlobToPush> {
        let Some(made) = &self.made else {
            return Vec::new();
        };
        let store = &made.prepared.store;
        let from_prepared = |layer: &BlobRef| BlobToPush {
            blob: layer.clone(),
            from: BlobFrom::Store(store.clone()),
        };
        made.prepared.layers.iter().map(from_prepared).chain([made.layer()]).collect()
    }

    /// The layer of the config.
    pub(super) fn layer(&self) -> Option<crate::BuiltLayer> {
        let image = &self.made.as_ref()?.image;
        Some(crate::BuiltLayer {
            digest: image.layer.digest,
            diff_id: image.layer.diff_id,
            size: image.layer.size,
            paths: Some(image.paths),
        })
    }
}

impl Made {
    fn layer(&self) -> BlobToPush {
        let layer = &self.image.layer;
        let blob = BlobRef {
            media_type: OCI_LAYER_GZIP.to_owned(),
            digest: layer.digest,
            size: layer.size,
            annotations: Default::default(),
        };
        BlobToPush { blob, from: BlobFrom::Bytes(layer.bytes.clone()) }
    }

    /// The image with the config's layer only.
    fn configs_plan(&self) -> PushPlan {
        let config = BlobRef {
            media_type: self.prepared.config.media_type.clone(),
            digest: Digest::of(&self.config),
            size: self.config.len() as u64,
            annotations: Default::default(),
        };
        let from = BlobFrom::Bytes(self.config.clone().into());
        PushPlan {
            manifest: self.manifest.clone().into(),
            media_type: self.image.edited.media_type.clone(),
            blobs: vec![self.layer(), BlobToPush { blob: config, from }],
            tags: vec![CONFIGS.to_owned()],
            protected_tag: None,
        }
    }

    /// The prepared base with the layers that are not the base's, byte by byte.
    fn prepared_plan(&self, base: &Base) -> PushPlan {
        let prepared = &self.prepared;
        let layers = base.manifest.get("layers").and_then(Value::as_array);
        let of_base: BTreeSet<&str> =
            layers.into_iter().flatten().filter_map(|layer| layer["digest"].as_str()).collect();
        let layers = prepared.layers.iter();
        let above = layers.filter(|layer| !of_base.contains(&*layer.digest.to_string()));
        let read = |blob: &BlobRef| BlobToPush {
            blob: blob.clone(),
            from: BlobFrom::Store(prepared.store.clone()),
        };
        let config = BlobToPush {
            blob: prepared.config.clone(),
            from: BlobFrom::Bytes(prepared.config_bytes.clone()),
        };
        PushPlan {
            manifest: prepared.manifest_bytes.clone(),
            media_type: prepared.media_type.clone(),
            blobs: above.map(read).chain([config]).collect(),
            tags: vec![PREPARED.to_owned()],
            protected_tag: None,
        }
    }
}

/// A text that no other process of the machine has at this time.
fn of_this_build() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} {}", std::process::id(), time.as_nanos())
}

fn as_base(manifest: &[u8], config: &[u8]) -> Result<Base, Error> {
    let name = BaseName::from_layout(Digest::of(manifest));
    let base =
        Base::new(name, "the prepared base with the config".to_owned(), None, manifest, config);
    base.map_err(|error| Error::Output(error.to_string()))
}

/// Loads the image with the config into the store, and the prepared base below it, which stays there.
pub(super) async fn load(
    configs: &ConfigsImage,
    build: &ContainerBuild,
    store: &Store,
    options: &Options,
    at: &Path,
    on_line: &mut impl FnMut(Stream, &str),
) -> Result<(), Error> {
    let folder = configs.folder.clone().unwrap_or_else(|| at.join(commands::START));
    // A store names an image by the folder that it was loaded from.
    let link = |layout: &str, name: &str| {
        let link = at.join(name);
        symlink(folder.join(layout), &link).map_err(io(&link))
    };
    if !has_image(&configs.prepared_id, store).await {
        let name = configs.prepared_name();
        link(PREPARED, &name)?;
        run_again(&commands::load(&name, PREPARED, build, store, options, at), on_line).await?;
    }
    // Like the built image, it doesn't outlive an interrupted build.
    write(&commands::configs_id(at), configs.id().to_string().as_bytes())?;
    link(CONFIGS, CONFIGS)?;
    run_again(&commands::load(CONFIGS, CONFIGS, build, store, options, at), on_line).await?;
    Ok(())
}

/// Whether a store has an image.
pub(super) async fn has_image(image: &Digest, store: &Store) -> bool {
    commands::inspect(image, store).run(|_, _| ()).await.is_ok()
}

/// Removes the image with the config from the store; the prepared base stays.
pub(super) async fn remove(
    configs: &ConfigsImage,
    store: &Store,
    at: &Path,
    on_line: &mut impl FnMut(Stream, &str),
) -> Result<(), Error> {
    match commands::remove(&configs.id(), store, at).run(on_line).await {
        Ok(_) => {
            let id = commands::configs_id(at);
            fs::remove_file(&id).map_err(io(&id))
        }
        Err(error) => {
            tracing::warn!(%error, "the image with the config stays in buildah's store until the next build");
            Ok(())
        }
    }
}
