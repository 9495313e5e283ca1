//! The inputs of an image, as they are mounted in a pod.

use std::path::PathBuf;

use clap::Args;

use mosb_build::resolve::UnresolvedBase;
use mosb_commands::build::inputs::{ConfigFile, Unread};
use mosb_commands::{Result, input};
use mosb_plan::payload::{BuildSpec, PreparedImageUse};
use mosb_plan::plan::{BuildRequest, MethodChoice};
use mosb_registry::Source;

/// Where a container that builds finds its inputs, and reports its end.
#[derive(Debug, Args)]
pub struct JobInputs {
    /// The inputs of the build, as the controller wrote them
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
    /// UID of the Job, for the result
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID", default_value = "")]
    pub job_uid: String,
    /// The file for the container's termination message, if it exists
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// The build of a pod, and its Job.
#[derive(Debug)]
pub struct PodInputs {
    pub spec: BuildSpec,
    method: MethodChoice,
    pub job_uid: String,
    pub termination_log: PathBuf,
}

impl JobInputs {
    /// The inputs of a pod that builds by this method.
    ///
    /// # Errors
    /// The document can't be read, or is of another version.
    pub fn read(self, method: MethodChoice) -> Result<PodInputs> {
        let spec = input::build_spec(&self.spec)?;
        // The instructions of a prepared base are not those of the whole image.
        let method = match spec.prepared {
            PreparedImageUse::Make | PreparedImageUse::On { .. } => MethodChoice::Auto,
            PreparedImageUse::Without => method,
        };
        let Self { job_uid, termination_log, .. } = self;
        Ok(PodInputs { spec, method, job_uid, termination_log })
    }
}

impl PodInputs {
    /// The request, whose files are not read yet.
    pub fn request(&self) -> BuildRequest<Unread> {
        let spec = self.spec.clone();
        let base = UnresolvedBase {
            image: Some(Source::Registry(spec.base.into())),
            name: Some(spec.base_name),
            platform: Some(spec.platform),
        };
        BuildRequest {
            extensions_image: spec.extensions_image.map(Into::into),
            containerfile: spec.containerfile,
            build_args: spec.build_args,
            trust_bundle: spec.trust_bundle,
            method: self.method,
            build_on: Some(spec.build_on),
            push: Some(spec.push),
            ..BuildRequest::new(ConfigFile::Mounted(spec.machine_config), base)
        }
    }
}
