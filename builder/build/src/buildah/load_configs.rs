//! Loads the image that a last part starts from into buildah's store, and removes it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::commands::{self, Options};
use super::configs_image::{CONFIGS, ConfigsImage, PREPARED};
use super::container_build::ContainerBuild;
use super::error::Error;
use super::files::{io, write};
use super::run_again;
use super::store::Store;
use crate::exec::Stream;
use mosb_image::Digest;

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
