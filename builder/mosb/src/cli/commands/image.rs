//! `mosb inspect` and `mosb files`.

use crate::cli::Result;
use crate::cli::args::LayerChoice;
use crate::cli::context::{CliContext, json};
use crate::cli::error::Error;
use crate::cli::layers;
use crate::cli::objects::{FileLayer, FileList, ImageInfo};
use mosb_image::Platform;
use mosb_registry::{Resolved, Source};

/// Describes an image.
///
/// # Errors
/// The image can't be found or read.
pub async fn inspect(
    context: &CliContext,
    image: &Source,
    platform: Option<&Platform>,
) -> Result<ImageInfo> {
    let resolved = context.resolve("image", image, platform).await?;
    Ok(info(&resolved)?)
}

/// The information in manifest and config of a resolved image.
pub(super) fn info(image: &Resolved) -> Result<ImageInfo, Error> {
    let manifest = json(image, "manifest", &image.manifest_bytes)?;
    let config = json(image, "config", &image.config_bytes)?;
    let index = image.index.map(|digest| digest.to_string());
    Ok(ImageInfo::new(image.pinned_text(), image.manifest.to_string(), index, &manifest, &config))
}

/// Lists the paths that a build added.
///
/// # Errors
/// mosb did not build the image.
pub async fn files(
    context: &CliContext,
    image: &Source,
    only: Option<LayerChoice>,
    platform: Option<&Platform>,
) -> Result<FileList> {
    let resolved = context.resolve("image", image, platform).await?;
    let info = info(&resolved)?;
    if !info.built_by_mosb {
        return Err(Error::NotBuilt { image: info.image }.into());
    }
    context.progress.step("reading the layers of the build");
    let layers = layers::of_build(&resolved).await?;
    // The lowest layer contains the config.
    let shown = match only {
        Some(LayerChoice::Config) => 1,
        None => layers.len(),
    };
    let layers = layers.into_iter().take(shown).enumerate();
    Ok(FileList {
        image: info.image,
        layers: layers
            .map(|(at, (layer, paths))| FileLayer {
                digest: layer.digest.to_string(),
                config: at == 0,
                paths,
            })
            .collect(),
    })
}
