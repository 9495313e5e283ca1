//! What `bootstrap` and `seed` take.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

/// `mosb bootstrap`.
#[derive(Debug, Args)]
pub struct Bootstrap {
    /// The cluster's first manifests: files, directories (their *.yaml, *.yml and *.json), or - for stdin
    #[arg(long, value_name = "DIR", required = true, num_args = 1..)]
    pub manifests: Vec<PathBuf>,
    /// The directory for the result: a new or empty one, or that of an earlier run, which is replaced
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// The kind of cluster [default: openshift if a ControllerConfig is among the manifests, else kubernetes]
    #[arg(long = "for", value_name = "CLUSTER", value_enum)]
    pub cluster: Option<ClusterKind>,
    /// Credentials that machines pull their image with, instead of a Secret among the manifests
    #[arg(long, value_name = "FILE")]
    pub pull_secret: Option<PathBuf>,
    /// With =false, no registry is contacted
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", hide_possible_values = true)]
    pub check_registry: bool,
}

/// `--for`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClusterKind {
    /// MachineOSConfigs for the installer, which creates the rest.
    Openshift,
    /// All first manifests of a cluster, and its machines' Ignition configs.
    Kubernetes,
}

/// `mosb seed`.
#[derive(Debug, Subcommand)]
pub enum Seed {
    /// Prints a MachineOSConfig that puts an image that exists already into service
    ///
    /// Example:
    ///
    ///   mosb seed new --pool worker --image registry.example.com/os/worker@sha256:… \
    ///     --push-secret push --push-spec registry.example.com/os/worker:latest > worker.yaml
    #[command(verbatim_doc_comment)]
    New(SeedNew),
}

/// `mosb seed new`.
#[derive(Debug, Args)]
pub struct SeedNew {
    /// The pool's name
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// The image, by digest
    #[arg(long, value_name = "REPO@DIGEST")]
    pub image: String,
    /// Name of the Secret that later images are pushed with
    #[arg(long, value_name = "NAME")]
    pub push_secret: String,
    /// The repository for later images; the tag is replaced
    #[arg(long, value_name = "REPO:TAG")]
    pub push_spec: String,
    /// Your own Containerfile, for later images
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
}
