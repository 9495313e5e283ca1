//! The files that buildah reads and writes, beneath a folder of our own.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::container_build::ContainerBuild;
use super::{Error, commands};
use mosb_image::Digest;
use mosb_image::media_type::OCI_MANIFEST;
use mosb_plan::payload::context;
use mosb_plan::plan::Base;

pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

pub(super) fn make_dir(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(io(path))
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    use std::io::Write as _;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(io(path))
}

/// Writes the files that the build copies of; `dir` is the administrator's build context.
pub(super) fn write_context(
    build: &ContainerBuild,
    dir: Option<&Path>,
    at: &Path,
) -> Result<(), Error> {
    let is_shared = build.context.is_none();
    let own = at.join(if is_shared { commands::CONTEXT } else { commands::FILES });
    let folder = own.join(context::FOLDER);
    make_dir(&folder)?;
    if let Some(context) = &build.context {
        let to = at.join(commands::CONTEXT);
        make_dir(&to)?;
        let missing = || Error::Output("no directory for its build context".to_owned());
        crate::context_dir::copy(dir.ok_or_else(missing)?, context, &to)?;
    }
    write(&at.join(commands::CONTAINERFILE), build.containerfile.as_bytes())?;
    for file in &build.files {
        let path = folder.join(&file.name);
        make_dir(path.parent().unwrap_or(&folder))?;
        match &file.what {
            context::What::File(content) => write(&path, content)?,
            context::What::Link(target) => symlink(target, &path).map_err(io(&path))?,
        }
    }
    Ok(())
}

/// A layout with only the base's manifest of another layout, whatever else that one holds.
pub(super) fn write_view(base: &Base, layout: &Path, view: &Path) -> Result<(), Error> {
    make_dir(view)?;
    let layout = layout.canonicalize().map_err(io(layout))?;
    symlink(layout.join("blobs"), view.join("blobs")).map_err(io(view))?;
    let blob = layout.join("blobs/sha256").join(base.manifest_digest.hex());
    let size = fs::metadata(&blob).map_err(io(&blob))?.len();
    let media_type = base.manifest.get("mediaType").and_then(Value::as_str).unwrap_or(OCI_MANIFEST);
    let index = json!({ "schemaVersion": 2, "manifests": [{
        "mediaType": media_type, "digest": base.manifest_digest, "size": size,
        "annotations": { "org.opencontainers.image.ref.name": commands::VIEW_TAG },
    }] });
    write(&view.join("index.json"), index.to_string().as_bytes())?;
    write(&view.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)
}

/// The layout that buildah writes to. It seems to have the base's layers already, so buildah
/// doesn't write them.
pub(super) fn write_out(base: &Base, out: &Path) -> Result<(), Error> {
    let layout = out.join(commands::LAYOUT);
    let blobs = layout.join("blobs/sha256");
    // The container that pushes it may run as another user.
    fs::create_dir_all(&blobs).map_err(io(&blobs))?;
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let mut layers = base.config.diff_ids.clone();
    layers.sort();
    layers.dedup();
    layers.iter().try_for_each(|layer| write(&blobs.join(layer.hex()), b""))
}

pub(super) fn read_digest(path: &Path) -> Result<Digest, Error> {
    let text = fs::read_to_string(path).map_err(io(path))?;
    text.trim().parse().map_err(|e| Error::Output(format!("it gave no digest ({e})")))
}
