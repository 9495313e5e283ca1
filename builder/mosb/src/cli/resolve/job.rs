//! A command with its validated operands.

use std::path::PathBuf;

use clap_complete::Shell;

use super::bootstrap::Bootstrap;
#[cfg(feature = "cluster")]
use super::cluster::InCluster;
#[cfg(feature = "cluster")]
use super::in_pod::InPod;
#[cfg(feature = "cluster")]
use super::node::NodeCommand;
use super::preflight::Preflight;
use super::render::Render;
#[cfg(feature = "cluster")]
use crate::cli::args::ServeIgnition;
use crate::cli::args::{Golden, Isolation, LayerChoice, SeedNew, StorageDriver};
use crate::cli::input::Input;
use crate::cli::unread::Unread;
use mosb_build::buildah::Volume;
use mosb_image::Platform;
use mosb_plan::plan::BuildRequest;
use mosb_registry::{Source, Target};

/// A command with its validated operands.
#[derive(Debug)]
pub enum Job {
    Build(Build),
    /// `build --prepare-only`.
    Prepare(Build),
    /// `plan`, and `build --dry-run`.
    Plan(Plan),
    Render(Box<Render>),
    Bootstrap(Bootstrap),
    SeedNew(SeedNew),
    /// `boot-images golden`.
    Golden(Golden),
    Diff(Diff),
    Inspect(Source, Option<Platform>),
    Files(Source, Option<LayerChoice>, Option<Platform>),
    CacheList,
    CachePrune,
    #[cfg(feature = "cluster")]
    /// `job`.
    InPod(Box<InPod>),
    #[cfg(feature = "cluster")]
    /// `node report`, `node stage`, `node apply`.
    Node(Box<NodeCommand>),
    #[cfg(feature = "cluster")]
    /// `node drift`.
    Drift,
    #[cfg(feature = "cluster")]
    /// `node adopt`.
    Adopt {
        config: Option<PathBuf>,
        is_dry_run: bool,
    },
    Preflight(Preflight),
    #[cfg(feature = "cluster")]
    /// `controller`, `status`, `rebuild`, `logs`, `wait`, `builds`, `nodes`, `ignition`,
    /// `rollout`.
    InCluster(Box<InCluster>),
    #[cfg(feature = "cluster")]
    ServeIgnition(ServeIgnition),
    Version,
    Completion(Shell),
}

/// Arguments of a build.
#[derive(Debug)]
pub struct Build {
    pub request: BuildRequest<Unread>,
    /// `--prepared`: the prepared base, by its digest.
    pub prepared: Option<Source>,
    pub buildah: Buildah,
    pub target: Target,
    pub digestfile: Option<PathBuf>,
}

/// Arguments of a plan.
#[derive(Debug)]
pub struct Plan {
    pub request: BuildRequest<Unread>,
    /// `--prepared`: the prepared base, by its digest.
    pub prepared: Option<Source>,
    pub buildah: Buildah,
    /// The push target of a build.
    pub target: Option<Target>,
    /// `--previous`: what machines have.
    pub previous: Option<Operand>,
    /// `build --dry-run`: prints the command lines of a build too.
    pub dry_run: bool,
}

/// Arguments of a comparison.
#[derive(Debug)]
pub struct Diff {
    /// The side before.
    pub from: Operand,
    /// The side after.
    pub to: Operand,
    /// `--base`: the base of sides that are configs.
    pub base: Option<Source>,
    pub platform: Option<Platform>,
}

impl Diff {
    /// Whether an image must be read.
    pub fn needs_images(&self) -> bool {
        let images = [&self.from, &self.to].map(|side| matches!(side, Operand::Image(_)));
        self.base.is_some() || images.contains(&true)
    }
}

/// Options of buildah.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Buildah {
    pub volumes: Vec<Volume>,
    /// `--context`: the directory that the Containerfile copies of.
    pub context: Option<PathBuf>,
    pub isolation: Option<Isolation>,
    pub storage_driver: Option<StorageDriver>,
}

impl Buildah {
    /// The options that were set.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (!self.volumes.is_empty(), "--volume"),
            (self.isolation.is_some(), "--isolation"),
            (self.storage_driver.is_some(), "--storage-driver"),
        ];
        given.into_iter().filter_map(|(is, name)| is.then_some(name))
    }
}

/// One side of a `diff`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A rendered config.
    Config(Input),
    Image(Source),
}
