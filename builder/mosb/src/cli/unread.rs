//! A build request before its files are read.

use std::path::PathBuf;

use tokio::task::spawn_blocking;

use super::error::Error;
use super::input::{self, Input};
use super::{Failure, Result};
use mosb_build::resolve::{Unresolved, UnresolvedBase};
use mosb_image::ImageRef;
use mosb_plan::api::BuildOn;
use mosb_plan::plan::{BuildRequest, Stage, default_build_on};

/// Contains paths of files, and images as in [`Unresolved`].
#[derive(Debug, Clone)]
pub struct Unread;

impl Stage for Unread {
    type Config = ConfigFile;
    type Containerfile = PathBuf;
    type Context = PathBuf;
    type TrustBundle = PathBuf;
    type Base = UnresolvedBase;
    type ExtensionsImage = ImageRef;
    type BuildOn = Option<BuildOn>;
}

/// The source of the rendered config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFile {
    Input(Input),
    #[cfg(feature = "cluster")]
    /// The folder where a pod's ConfigMaps are mounted.
    Mounted(PathBuf),
}

/// Reads the files of a request. Reading stdin may never end, so it must not delay a signal.
///
/// # Errors
/// A file can't be read or is invalid.
pub async fn read(request: &BuildRequest<Unread>) -> Result<BuildRequest<Unresolved>> {
    let request = request.clone();
    let reading = spawn_blocking(move || {
        let trust_bundle = |path: PathBuf| input::trust_bundle(&path).map(Into::into);
        let config = match &request.config {
            ConfigFile::Input(input) => input::config(input)?,
            #[cfg(feature = "cluster")]
            ConfigFile::Mounted(folder) => input::mounted_config(folder)?,
        };
        Ok::<_, Failure>(BuildRequest::<Unresolved> {
            build_on: request.build_on.unwrap_or_else(|| default_build_on(&config)),
            config,
            containerfile: request
                .containerfile
                .as_deref()
                .map(input::containerfile)
                .transpose()?,
            context: request.context,
            trust_bundle: request.trust_bundle.map(trust_bundle).transpose()?,
            base: request.base,
            extensions_image: request.extensions_image,
            build_args: request.build_args,
            method: request.method,
            on_top: request.on_top,
            push: request.push,
        })
    });
    reading.await.map_err(Error::stopped("reading"))?
}
