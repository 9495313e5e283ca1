//! The validated arguments of `mosb preflight`.

use std::path::PathBuf;

use super::bootstrap;
use crate::bootstrap::Cluster;
use crate::cli::Result;
use crate::cli::args;
use crate::cli::error::Error;
use crate::cli::input::Input;
use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_registry::{self as registry, Destination, Target};

/// Arguments of the checks.
#[derive(Debug)]
pub struct Preflight {
    pub of: ValidatedInstall,
    pub platform: Option<Platform>,
}

/// The source of the images.
#[derive(Debug)]
pub enum ValidatedInstall {
    /// Command-line arguments.
    Images {
        /// Without duplicates.
        images: Vec<ImageRef>,
        push: Option<RepoRef>,
        base: Option<ImageRef>,
    },
    /// The manifests of an installation.
    Installation { manifests: Vec<Input>, cluster: Option<Cluster>, pull_secret: Option<PathBuf> },
}

pub(super) fn preflight(typed: args::Preflight) -> Result<Preflight> {
    let platform = super::platform(typed.platform)?;
    if !typed.manifests.is_empty() {
        return Ok(Preflight {
            of: ValidatedInstall::Installation {
                manifests: bootstrap::manifests(&typed.manifests)?,
                cluster: typed.cluster.map(bootstrap::cluster),
                pull_secret: typed.pull_secret,
            },
            platform,
        });
    }
    let mut images: Vec<ImageRef> = Vec::new();
    for text in &typed.images {
        let image = text.parse().map_err(registry::Error::from)?;
        if !images.contains(&image) {
            images.push(image);
        }
    }
    let base = typed.base.as_deref().map(str::parse).transpose();
    Ok(Preflight {
        of: ValidatedInstall::Images {
            images,
            push: typed.push.as_deref().map(repository).transpose()?,
            base: base.map_err(|error| Error::Usage(format!("--base {error}")))?,
        },
        platform,
    })
}

fn repository(text: &str) -> Result<RepoRef> {
    match text.parse::<Target>()?.destination() {
        Destination::Registry(repo) => Ok(repo.clone()),
        Destination::Layout(_) => super::usage(format!("--push {text}: want host/repository")),
    }
}
