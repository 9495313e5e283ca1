//! `mosb job`: the parts of a build that run inside a build pod. Credentials are named by their files, never typed.

mod build;
mod direct_push;
mod inputs;
mod prepared_base;
mod push;
mod report;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use build::{LeftImage, build_directly, build_with_buildah};
use inputs::{JobInputs, PodInputs};
use mosb_build::buildah::Volume;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, Trees};
use mosb_build::result::Step;
use mosb_commands::build::inputs::{Buildah, StorageDriver};
use mosb_commands::build::planned::draft;
use mosb_commands::context::{CliContext, Session};
use mosb_commands::error::Error;
use mosb_commands::signals::first_signal;
use mosb_commands::{ExitCode, Result, arguments, input};
use mosb_controller::workload::sidecar::{self, SidecarConfig};
use mosb_plan::plan::MethodChoice;
use report::{deliver, new_reporter, report_failure};

#[derive(Debug, Subcommand)]
pub enum JobPart {
    /// Builds: directly, and pushes (--result), or with buildah into a folder (--image)
    ///
    /// Plans again from the mounted inputs; the plan must have the build name of the Job. If a direct build turns out to need
    /// a Containerfile, the result reports that, nothing is pushed, and the exit code is 0.
    ///
    /// Example:
    ///
    ///   mosb job build --spec /run/mosb/spec/build.json --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Build(Box<JobBuild>),
    /// Pushes the image that `mosb job build --image` wrote to a folder, after checking all of it
    ///
    /// Layers of the base are not read from the folder: the registry of the base has them. The others are unpacked, compared
    /// with the image's config, compressed and pushed.
    ///
    /// Example:
    ///
    ///   mosb job push --spec /run/mosb/spec/build.json --image /run/mosb/image --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Push(Box<JobPush>),
    /// Fetches what `mosb job build --image` starts from if it runs only the last part of a Containerfile
    ///
    /// Plans the image on its prepared base, and writes that with the layer of the config into the folder,
    /// without the layers of the base. If something must be run to write the config, the result reports that.
    ///
    /// Example:
    ///
    ///   mosb job fetch --spec /run/mosb/spec/build.json --image /run/mosb/image --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Fetch(Box<JobPush>),
    /// Waits for the result of the other containers, and writes it to a ConfigMap
    ///
    /// The sidecar of a build pod. It uses its pod's token (or KUBECONFIG), may only get and patch that one ConfigMap, and
    /// runs until SIGTERM. On SIGTERM it delivers the result, if there is one, and ends.
    ///
    /// Example:
    ///
    ///   mosb job wait-for-done --spec /run/mosb/spec/build.json --result /run/mosb/result --job-uid 0b9c…
    #[command(verbatim_doc_comment)]
    WaitForDone(WaitForDone),
}

#[derive(Debug, Args)]
pub struct JobBuild {
    #[command(flatten)]
    pub inputs: JobInputs,
    /// Build directly and push; the folder in which the sidecar expects the result
    #[arg(long, value_name = "DIR", required_unless_present = "image", conflicts_with_all = ["image", "failure"])]
    pub result: Option<PathBuf>,
    /// Build with buildah; the folder for the image
    #[arg(long, value_name = "DIR", requires = "failure")]
    pub image: Option<PathBuf>,
    /// With --image: the folder for a failure report
    #[arg(long, value_name = "DIR", requires = "image")]
    pub failure: Option<PathBuf>,
    /// A folder for RUN lines, such as entitlements: read-only, or a copy to write to; may be repeated. Never in a layer
    #[arg(long, value_name = "SRC:DST[:ro|copy]", requires = "image", value_parser = arguments::value::<Volume>("--volume"))]
    pub volume: Vec<Volume>,
    /// How buildah stores layers [default: overlay if it works here, else vfs]
    #[arg(long, value_enum, value_name = "DRIVER", requires = "image")]
    pub storage_driver: Option<StorageDriver>,
    /// Reject the build if the pod's root is root on the node
    #[arg(long, requires = "image")]
    pub require_user_namespace: bool,
}

#[derive(Debug, Args)]
pub struct JobPush {
    #[command(flatten)]
    pub inputs: JobInputs,
    /// The folder with the image
    #[arg(long, value_name = "DIR")]
    pub image: PathBuf,
    /// The folder in which the sidecar expects the result
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
}

#[derive(Debug, Args)]
pub struct WaitForDone {
    /// The inputs of the build, as the controller wrote them
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
    /// The folder with the result of a push
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
    /// The folder with the failure report of a build; only failures are accepted from it
    #[arg(long, value_name = "DIR")]
    pub failure: Option<PathBuf>,
    /// UID of the Job, which must own the ConfigMap
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID")]
    pub job_uid: String,
}

impl JobPart {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let settings = &session.settings;
        match self {
            Self::Build(typed) => typed.run(session).await,
            Self::Fetch(typed) => {
                let (context, inputs) =
                    (session.clients()?, typed.inputs.read(MethodChoice::Auto)?);
                let reporter = new_reporter(&inputs, settings, Step::ImageFetch);
                let fetched = prepared_base::fetch(&context, &inputs, &typed.image).await;
                match fetched.transpose() {
                    // The container with buildah does not start.
                    Some(ended) => deliver(&reporter, &typed.result, ended).await.map(|_| 1),
                    None => Ok(0),
                }
            }
            Self::Push(typed) => {
                let context = session.clients()?;
                let inputs = typed.inputs.read(MethodChoice::Containerfile)?;
                let reporter = new_reporter(&inputs, settings, Step::ImagePush);
                let outcome = push::push(&context, &inputs, &typed.image, &reporter).await;
                deliver(&reporter, &typed.result, outcome).await
            }
            Self::WaitForDone(typed) => typed.run().await,
        }
    }
}

impl JobBuild {
    async fn run(self, session: &Session) -> Result<ExitCode> {
        let (context, settings) = (session.clients()?, &session.settings);
        match (self.result, self.image, self.failure) {
            (None, Some(image), Some(failure)) => {
                let inputs = self.inputs.read(MethodChoice::Containerfile)?;
                let left = LeftImage {
                    image,
                    buildah: Buildah {
                        volumes: self.volume,
                        context: None,
                        isolation: None,
                        storage_driver: self.storage_driver,
                    },
                    require_user_namespace: self.require_user_namespace,
                };
                let reporter = new_reporter(&inputs, settings, Step::ImageBuild);
                let redactor = reporter.redactor();
                let built = build_with_buildah(&context, &inputs, &left, settings, redactor).await;
                report_failure(&reporter, &failure, built)
            }
            (Some(result), ..) => {
                let inputs = self.inputs.read(MethodChoice::Auto)?;
                let reporter = new_reporter(&inputs, settings, Step::ImageBuild);
                let outcome = build_directly(&context, &inputs, &reporter).await;
                deliver(&reporter, &result, outcome).await
            }
            (None, ..) => unreachable!("clap wants one of them"),
        }
    }
}

impl WaitForDone {
    /// Waits for a result and reports it, until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// The result can't be reported.
    async fn run(self) -> Result<ExitCode> {
        let spec = input::build_spec(&self.spec)?;
        let config = SidecarConfig::new(spec, self.job_uid, self.result, self.failure);
        let stop = first_signal()?;
        sidecar::run(sidecar::client().await?, &config, stop).await?;
        Ok(0)
    }
}

/// Plans the Job's build as far as the tree of its base is not needed.
///
/// # Errors
/// The inputs are those of another build.
async fn draft_build(planning: PlanContext<'_>, inputs: &PodInputs) -> Result<ResolvedDraft> {
    let resolved_draft = draft(planning, &inputs.request()).await?;
    let (_, planned) = resolved_draft.draft.names();
    if planned != inputs.spec.build {
        let (planned, wanted) = (planned.to_string(), inputs.spec.build.to_string());
        return Err(Error::OtherBuild { planned, wanted }.into());
    }
    Ok(resolved_draft)
}

/// Plans a build that runs programs, which needs no tree of the base.
async fn plan_to_run(context: &CliContext, inputs: &PodInputs) -> Result<resolve::ResolvedPlan> {
    let on_step = |step: &str| context.progress.step(step);
    let planning = plan_context(context, None, &on_step);
    let resolved_draft = draft_build(planning, inputs).await?;
    Ok(resolve::finish(planning, resolved_draft).await?)
}

fn plan_context<'a>(
    context: &'a CliContext,
    trees: Option<Trees<'a>>,
    on_step: &'a (dyn Fn(&str) + Sync),
) -> PlanContext<'a> {
    PlanContext { client: &context.pull, trees, on_step }
}
