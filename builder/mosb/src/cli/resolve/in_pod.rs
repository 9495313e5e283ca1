//! The parts of a build that run inside a build pod, understood.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Buildah, build_args, platform, volumes};
use crate::cli::Result;
use crate::cli::args;
use crate::cli::error::Error;
use mosb_controller::sidecar::SidecarConfig;
use mosb_image::{PinnedRef, Platform, RepoRef};
use mosb_plan::api::BuildName;
use mosb_plan::plan::BaseName;

/// One of the parts.
#[derive(Debug)]
pub enum InPod {
    /// `job build --result`.
    Direct(PodInputs, ResultDirArg),
    /// `job build --image`.
    Containerfile(PodInputs, LeftImage),
    /// `job push`.
    Push(PodInputs, PathBuf, ResultDirArg),
    /// `job wait-for-done`.
    WaitForDone(SidecarConfig),
}

/// What an image is made of, as a pod finds it.
#[derive(Debug)]
pub struct PodInputs {
    /// `--machine-config`.
    pub machine_config: PathBuf,
    /// `--containerfile`.
    pub containerfile: Option<PathBuf>,
    /// `--trust-bundle`.
    pub trust_bundle: Option<PathBuf>,
    /// `--base`.
    pub base: PinnedRef,
    /// `--base-name`.
    pub base_name: BaseName,
    /// `--extensions-image`.
    pub extensions_image: Option<PinnedRef>,
    /// `--platform`.
    pub platform: Platform,
    /// `--build-name`.
    pub build: BuildName,
    /// `--push`.
    pub push: RepoRef,
    /// `--build-arg`.
    pub build_args: BTreeMap<String, String>,
    /// `--base-tree`.
    pub base_tree: Option<PinnedRef>,
    /// `--job-uid`.
    pub job_uid: String,
    /// `--termination-log`.
    pub termination_log: PathBuf,
}

/// Where the sidecar waits for the result: `--result`.
#[derive(Debug)]
pub struct ResultDirArg(pub PathBuf);

/// How buildah is run, and where to.
#[derive(Debug)]
pub struct LeftImage {
    /// `--image`.
    pub image: PathBuf,
    /// `--failure`.
    pub failure: PathBuf,
    /// `--volume`, `--storage-driver`.
    pub buildah: Buildah,
    /// `--require-user-namespace`.
    pub require_user_namespace: bool,
}

/// Decides what was meant.
///
/// # Errors
/// A name, image or platform that is none.
pub fn in_pod(typed: args::InPod) -> Result<InPod> {
    Ok(match typed {
        args::InPod::Build(build) => {
            let build = *build;
            let inputs = inputs(build.inputs)?;
            match (build.result, build.image, build.failure) {
                (None, Some(image), Some(failure)) => InPod::Containerfile(
                    inputs,
                    LeftImage {
                        image,
                        failure,
                        buildah: Buildah {
                            volumes: volumes(&build.volume)?,
                            isolation: None,
                            storage_driver: build.storage_driver,
                        },
                        require_user_namespace: build.require_user_namespace,
                    },
                ),
                (Some(result), ..) => InPod::Direct(inputs, ResultDirArg(result)),
                (None, ..) => unreachable!("clap wants one of them"),
            }
        }
        args::InPod::Push(push) => {
            InPod::Push(inputs(push.inputs)?, push.image, ResultDirArg(push.result))
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

fn inputs(typed: args::JobInputs) -> Result<PodInputs> {
    let base_name = BaseName::from_os_image_url(&typed.base_name)
        .map_err(|e| Error::Usage(format!("--base-name {e}")))?;
    let push: RepoRef = typed.push.parse().map_err(|e| Error::Usage(format!("--push {e}")))?;
    Ok(PodInputs {
        base: pinned("--base", &typed.base)?,
        base_name,
        extensions_image: typed
            .extensions_image
            .map(|image| pinned("--extensions-image", &image))
            .transpose()?,
        platform: platform(Some(typed.platform))?.expect("one was given"),
        build: build_name(&typed.build_name)?,
        push,
        build_args: build_args(&typed.build_arg)?,
        base_tree: typed.base_tree.map(|image| pinned("--base-tree", &image)).transpose()?,
        machine_config: typed.machine_config,
        containerfile: typed.containerfile,
        trust_bundle: typed.trust_bundle,
        job_uid: typed.job_uid,
        termination_log: typed.termination_log,
    })
}

fn pinned(flag: &str, text: &str) -> Result<PinnedRef, Error> {
    text.parse().map_err(|e| Error::Usage(format!("{flag} {e}")))
}

fn build_name(text: &str) -> Result<BuildName, Error> {
    text.parse().map_err(|e| Error::Usage(format!("--build-name {e}")))
}
