//! The validated arguments of `mosb job`.

use std::path::PathBuf;

use super::{Buildah, build_args, platform, volumes};
use crate::cli::Result;
use crate::cli::args;
use crate::cli::error::Error;
use crate::cli::unread::{ConfigFile, Unread};
use mosb_build::resolve::UnresolvedBase;
use mosb_controller::sidecar::SidecarConfig;
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::BuildName;
use mosb_plan::plan::{BaseName, BuildRequest, BuilderNodes, MethodChoice};
use mosb_registry::Source;

/// A container of a build's pod.
#[derive(Debug)]
pub enum InPod {
    /// `job build --result`.
    Direct(PodInputs, ResultDirArg),
    /// `job build --image`.
    Containerfile(PodInputs, LeftImage),
    /// `job fetch`.
    Fetch(PodInputs, PathBuf, ResultDirArg),
    /// `job push`.
    Push(PodInputs, PathBuf, ResultDirArg),
    /// `job wait-for-done`.
    WaitForDone(SidecarConfig),
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

/// The folder that the sidecar watches: `--result`.
#[derive(Debug)]
pub struct ResultDirArg(pub PathBuf);

/// Options of buildah, and the output folder of the image.
#[derive(Debug)]
pub struct LeftImage {
    pub image: PathBuf,
    pub failure: PathBuf,
    /// `--volume`, `--storage-driver`.
    pub buildah: Buildah,
    pub require_user_namespace: bool,
}

/// Validates the arguments.
///
/// # Errors
/// An invalid name, image or platform.
pub fn in_pod(typed: args::InPod) -> Result<InPod> {
    Ok(match typed {
        args::InPod::Build(build) => {
            let build = *build;
            match (build.result, build.image, build.failure) {
                (None, Some(image), Some(failure)) => InPod::Containerfile(
                    inputs(build.inputs, MethodChoice::Containerfile)?,
                    LeftImage {
                        image,
                        failure,
                        buildah: Buildah {
                            volumes: volumes(&build.volume)?,
                            context: None,
                            isolation: None,
                            storage_driver: build.storage_driver,
                        },
                        require_user_namespace: build.require_user_namespace,
                    },
                ),
                (Some(result), ..) => {
                    InPod::Direct(inputs(build.inputs, MethodChoice::Auto)?, ResultDirArg(result))
                }
                (None, ..) => unreachable!("clap wants one of them"),
            }
        }
        args::InPod::Push(push) => {
            let inputs = inputs(push.inputs, MethodChoice::Containerfile)?;
            InPod::Push(inputs, push.image, ResultDirArg(push.result))
        }
        args::InPod::Fetch(fetch) => {
            let inputs = inputs(fetch.inputs, MethodChoice::Auto)?;
            InPod::Fetch(inputs, fetch.image, ResultDirArg(fetch.result))
        }
        args::InPod::WaitForDone(wait) => InPod::WaitForDone(SidecarConfig {
            result: wait.result,
            failure: wait.failure,
            config_map: wait.config_map,
            namespace: wait.namespace,
            job_uid: wait.job_uid,
            build: build_name(&wait.build_name)?,
        }),
    })
}

fn inputs(typed: args::JobInputs, method: MethodChoice) -> Result<PodInputs> {
    let prepared = match (typed.prepare, optional("--prepared", typed.prepared)?) {
        (true, _) => PodPrepared::Make,
        (false, Some(image)) => {
            PodPrepared::On { image, tree: optional("--prepared-tree", typed.prepared_tree)? }
        }
        (false, None) => PodPrepared::Without,
    };
    // The instructions of a prepared base are not those of the whole image.
    let method = match prepared {
        PodPrepared::Make | PodPrepared::On { .. } => MethodChoice::Auto,
        PodPrepared::Without => method,
    };
    let base_name = BaseName::from_os_image_url(&typed.base_name)
        .map_err(|e| Error::Usage(format!("--base-name {e}")))?;
    let push: RepoRef = typed.push.parse().map_err(|e| Error::Usage(format!("--push {e}")))?;
    let base = UnresolvedBase {
        image: Some(Source::Registry(pinned("--base", &typed.base)?.into())),
        name: Some(base_name),
        platform: platform(Some(typed.platform))?,
    };
    Ok(PodInputs {
        request: BuildRequest {
            extensions_image: optional("--extensions-image", typed.extensions_image)?
                .map(Into::into),
            containerfile: typed.containerfile,
            build_args: build_args(&typed.build_arg)?,
            trust_bundle: typed.trust_bundle,
            method,
            build_on: typed.build_on,
            push: Some(push.clone()),
            ..BuildRequest::new(ConfigFile::Mounted(typed.machine_config), base)
        },
        build: build_name(&typed.build_name)?,
        push,
        base_tree: optional("--base-tree", typed.base_tree)?,
        prepared,
        nodes: if typed.control_plane { BuilderNodes::ControlPlane } else { BuilderNodes::Any },
        job_uid: typed.job_uid,
        termination_log: typed.termination_log,
    })
}

fn optional(flag: &str, text: Option<String>) -> Result<Option<PinnedRef>, Error> {
    text.map(|text| pinned(flag, &text)).transpose()
}

fn pinned(flag: &str, text: &str) -> Result<PinnedRef, Error> {
    text.parse().map_err(|e| Error::Usage(format!("{flag} {e}")))
}

fn build_name(text: &str) -> Result<BuildName, Error> {
    text.parse().map_err(|e| Error::Usage(format!("--build-name {e}")))
}
