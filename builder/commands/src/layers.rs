//! The layers of an image and their content. Blobs are read through an unnamed temporary file, so
//! that memory use is constant and a blob is used only after its digest was checked.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use futures_util::StreamExt as _;
use tokio::task::spawn_blocking;

use super::error::Error;
use super::files::PathEntry;
use crate::Result;
use mosb_build::resolve::layers;
use mosb_image::layer::{Layer, list_layer, read_file};
use mosb_plan::plan::{Base, BaseName, CURRENT_CONFIG};
use mosb_registry::{Blobs as _, Resolved};

/// The layers as manifest and config describe them, the lowest first.
///
/// # Errors
/// Manifest and config contradict each other.
pub fn of_image(image: &Resolved) -> Result<Vec<Layer>> {
    let name = BaseName::from_layout(image.manifest);
    let base = Base::new(
        name,
        image.pinned_text(),
        image.index,
        &image.manifest_bytes,
        &image.config_bytes,
    );
    let base = base.map_err(mosb_plan::plan::Error::from)?;
    Ok(layers(&base, image))
}

/// Copies the stored bytes of a layer to an unnamed file.
async fn fetch(image: &Resolved, layer: &Layer) -> Result<File> {
    let temporary = |source| Error::Write { file: "a temporary file".to_owned(), source };
    let mut file = tempfile::tempfile().map_err(temporary)?;
    let mut pieces = image.store.open(&layer.digest, 0..layer.size).await?;
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        file = spawn_blocking(move || file.write_all(&piece).map(|()| file))
            .await
            .map_err(Error::stopped("writing"))?
            .map_err(temporary)?;
    }
    file.seek(SeekFrom::Start(0)).map_err(temporary)?;
    Ok(file)
}

/// The layers that a build added to its base, the lowest first, with their paths. The lowest layer
/// of a build contains the rendered config.
///
/// # Errors
/// No layer holds a rendered config; a layer that can't be read.
pub async fn of_build(image: &Resolved) -> Result<Vec<(Layer, Vec<PathEntry>)>> {
    let mut found = Vec::new();
    for layer in of_image(image)?.into_iter().rev() {
        let file = fetch(image, &layer).await?;
        let read = layer.clone();
        let listed = spawn_blocking(move || list_layer(&read, file))
            .await
            .map_err(Error::stopped("reading"))??;
        let holds_config = listed.iter().any(|entry| is_current_config(&entry.path));
        let mut paths: Vec<PathEntry> = listed.iter().map(PathEntry::from).collect();
        paths.sort_by(|one, other| one.path.cmp(&other.path));
        found.push((layer, paths));
        if holds_config {
            found.reverse();
            return Ok(found);
        }
    }
    let image = image.pinned_text();
    Err(Error::NoConfigLayer { image }.into())
}

/// The bytes of the rendered config in the topmost layer that has one.
///
/// # Errors
/// As [`of_build`].
pub async fn current_config(image: &Resolved) -> Result<Vec<u8>> {
    for layer in of_image(image)?.into_iter().rev() {
        let file = fetch(image, &layer).await?;
        let path = CURRENT_CONFIG.trim_start_matches('/');
        let read = spawn_blocking(move || read_file(&layer, file, path.as_bytes(), CONFIG_LIMIT));
        if let Some(content) = read.await.map_err(Error::stopped("reading"))?? {
            return Ok(content);
        }
    }
    let image = image.pinned_text();
    Err(Error::NoConfigLayer { image }.into())
}

/// Limit of a rendered config.
const CONFIG_LIMIT: u64 = mosb_api::yaml::INPUT_LIMIT as u64;

fn is_current_config(path: &[u8]) -> bool {
    path == CURRENT_CONFIG.trim_start_matches('/').as_bytes()
}
