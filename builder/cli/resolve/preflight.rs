//! What `mosb preflight` was told, understood.

use crate::cli::args;
use crate::cli::error::Error;
use crate::image::{ImageRef, Platform, RepoRef};
use crate::registry::{self, Place, Target};

/// What to check.
#[derive(Debug)]
pub struct Preflight {
    /// The images, each once.
    pub images: Vec<ImageRef>,
    /// `--push`.
    pub push: Option<RepoRef>,
    /// `--platform`.
    pub platform: Option<Platform>,
    /// `--base`.
    pub base: Option<ImageRef>,
}

pub(super) fn preflight(typed: args::Preflight) -> anyhow::Result<Preflight> {
    let mut images: Vec<ImageRef> = Vec::new();
    for text in &typed.images {
        let image = text.parse().map_err(registry::Error::from)?;
        if !images.contains(&image) {
            images.push(image);
        }
    }
    let base = typed.base.as_deref().map(str::parse).transpose();
    Ok(Preflight {
        images,
        push: typed.push.as_deref().map(repository).transpose()?,
        platform: super::platform(typed.platform)?,
        base: base.map_err(|error| Error::Usage(format!("--base {error}")))?,
    })
}

fn repository(text: &str) -> anyhow::Result<RepoRef> {
    match text.parse::<Target>()?.place() {
        Place::Registry(repo) => Ok(repo.clone()),
        Place::Layout(_) => super::usage(format!("--push {text}: want host/repository")),
    }
}
