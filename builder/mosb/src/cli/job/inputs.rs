//! The inputs of an image, as they are mounted in a pod.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Result;
use crate::cli::arguments::{self, usage};
use crate::cli::build::inputs::{
    BuildArg, ConfigFile, Unread, build_arg, build_args, distinct_names,
};
use mosb_build::resolve::UnresolvedBase;
use mosb_image::{PinnedRef, Platform, RepoRef};
use mosb_plan::api::{BuildName, BuildOn};
use mosb_plan::plan::{BaseName, BuildRequest, BuilderNodes, MethodChoice};
use mosb_registry::Source;

/// The inputs of an image, as they are mounted in a pod.
#[derive(Debug, Args)]
pub struct JobInputs {
    /// The mount of the rendered MachineConfig: its ConfigMaps in folders 0, 1, …, or one ConfigMap
    #[arg(long, value_name = "DIR", default_value = "/run/mosb/machine-config")]
    pub machine_config: PathBuf,
    /// The administrator's Containerfile
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
    /// Certificates (PEM) to add to the trust store
    #[arg(long, value_name = "FILE")]
    pub trust_bundle: Option<PathBuf>,
    /// The base OS image, by the digest of its manifest
    #[arg(long, value_name = "IMAGE@DIGEST", value_parser = arguments::value::<PinnedRef>("--base"))]
    pub base: PinnedRef,
    /// The name of the base in labels
    #[arg(long, value_name = "TEXT", value_parser = base_name)]
    pub base_name: BaseName,
    /// The image with the packages of spec.extensions, by digest
    #[arg(long, value_name = "IMAGE@DIGEST", value_parser = arguments::value::<PinnedRef>("--extensions-image"))]
    pub extensions_image: Option<PinnedRef>,
    /// The platform of the image, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Platform,
    /// Name of the build that the Job is for
    #[arg(long, value_name = "NAME", value_parser = arguments::value::<BuildName>("--build-name"))]
    pub build_name: BuildName,
    /// The repository that the image is pushed to
    #[arg(long, value_name = "REPO", value_parser = arguments::value::<RepoRef>("--push"))]
    pub push: RepoRef,
    /// An ARG of the Containerfile; may be repeated
    #[arg(long, value_name = "K=V", requires = "containerfile", value_parser = build_arg)]
    pub build_arg: Vec<BuildArg>,
    /// As the annotation mosb.dev/build-on [default: as for build]
    #[arg(long, value_parser = |s: &str| s.parse::<BuildOn>(), value_name = "CONFIGS")]
    pub build_on: Option<BuildOn>,
    /// The image with the base's tree, by digest
    #[arg(long, value_name = "IMAGE@DIGEST", value_parser = arguments::value::<PinnedRef>("--base-tree"))]
    pub base_tree: Option<PinnedRef>,
    /// Make a prepared base of what must be run, and the image on it
    #[arg(long, conflicts_with = "prepared")]
    pub prepare: bool,
    /// The prepared base that the image is made on, by digest
    #[arg(long, value_name = "IMAGE@DIGEST", value_parser = arguments::value::<PinnedRef>("--prepared"))]
    pub prepared: Option<PinnedRef>,
    /// The image with the prepared base's tree, by digest
    #[arg(long, value_name = "IMAGE@DIGEST", requires = "prepared", value_parser = arguments::value::<PinnedRef>("--prepared-tree"))]
    pub prepared_tree: Option<PinnedRef>,
    /// The pool's images are built on control-plane nodes, and so are its prepared bases
    #[arg(long)]
    pub control_plane: bool,
    /// UID of the Job, for the result
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID", default_value = "")]
    pub job_uid: String,
    /// The file for the container's termination message, if it exists
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

fn base_name(text: &str) -> Result<BaseName> {
    BaseName::from_os_image_url(text).or_else(|error| usage(format!("--base-name {error}")))
}

/// The build of a pod, and its Job.
#[derive(Debug)]
pub struct PodInputs {
    pub request: BuildRequest<Unread>,
    pub build: BuildName,
    /// The push target.
    pub push: RepoRef,
    /// The image with the base's tree, if it exists.
    pub base_tree: Option<PinnedRef>,
    pub prepared: PodPrepared,
    /// Which nodes may make the prepared base.
    pub nodes: BuilderNodes,
    pub job_uid: String,
    pub termination_log: PathBuf,
}

/// What the pod has to do with a prepared base.
#[derive(Debug)]
pub enum PodPrepared {
    /// Nothing.
    Without,
    /// It makes one, and the image on it.
    Make,
    /// It makes the image on this one.
    On {
        image: PinnedRef,
        /// The image with its tree, if it exists.
        tree: Option<PinnedRef>,
    },
}

impl JobInputs {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// A build argument is given twice.
    pub fn check(&self) -> Result<()> {
        distinct_names(&self.build_arg)
    }

    /// The inputs of a pod that builds by this method.
    pub fn read(self, method: MethodChoice) -> PodInputs {
        let typed = self;
        let prepared = match (typed.prepare, typed.prepared) {
            (true, _) => PodPrepared::Make,
            (false, Some(image)) => PodPrepared::On { image, tree: typed.prepared_tree },
            (false, None) => PodPrepared::Without,
        };
        // The instructions of a prepared base are not those of the whole image.
        let method = match prepared {
            PodPrepared::Make | PodPrepared::On { .. } => MethodChoice::Auto,
            PodPrepared::Without => method,
        };
        let base = UnresolvedBase {
            image: Some(Source::Registry(typed.base.into())),
            name: Some(typed.base_name),
            platform: Some(typed.platform),
        };
        PodInputs {
            request: BuildRequest {
                extensions_image: typed.extensions_image.map(Into::into),
                containerfile: typed.containerfile,
                build_args: build_args(&typed.build_arg),
                trust_bundle: typed.trust_bundle,
                method,
                build_on: typed.build_on,
                push: Some(typed.push.clone()),
                ..BuildRequest::new(ConfigFile::Mounted(typed.machine_config), base)
            },
            build: typed.build_name,
            push: typed.push,
            base_tree: typed.base_tree,
            prepared,
            nodes: if typed.control_plane { BuilderNodes::ControlPlane } else { BuilderNodes::Any },
            job_uid: typed.job_uid,
            termination_log: typed.termination_log,
        }
    }
}
