//! `mosb job`: the parts of a build that run inside a build pod.

mod containerfile;
mod direct;
mod push;
mod result_reporter;

use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::resolve::{InPod, PodInputs, Settings};
use crate::cli::{ExitCode, Failure, Result, input};
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, Trees};
use mosb_build::result::Step;
use mosb_controller::sidecar::{self, SidecarConfig};
use mosb_plan::api::BuildName;
use mosb_plan::plan::Format;
use mosb_plan::plan::MethodChoice;
use mosb_registry::Source;
use result_reporter::ResultReporter;

/// One of the parts that build or push, and its exit code.
///
/// # Errors
/// What went wrong, after it was told as the result.
pub async fn in_pod(context: &CliContext, part: &InPod, settings: &Settings) -> Result<ExitCode> {
    match part {
        InPod::Direct(inputs, told) => {
            let reporter = ResultReporter::new(inputs, settings, Step::ImageBuild);
            let outcome = direct::build(context, inputs, &reporter).await;
            reporter.deliver(&told.0, outcome).await
        }
        InPod::Containerfile(inputs, left) => {
            let reporter = ResultReporter::new(inputs, settings, Step::ImageBuild);
            let built =
                containerfile::build(context, inputs, left, settings, &reporter.secrets).await;
            reporter.report_failure(&left.failure, built)
        }
        InPod::Push(inputs, image, told) => {
            let reporter = ResultReporter::new(inputs, settings, Step::ImagePush);
            let outcome = push::push(context, inputs, image, &reporter).await;
            reporter.deliver(&told.0, outcome).await
        }
        InPod::WaitForDone(post) => wait_for_done(post).await.map(|()| 0),
    }
}

/// Waits for a result and tells it, until SIGTERM or SIGINT.
///
/// # Errors
/// It could not be told.
pub async fn wait_for_done(post: &SidecarConfig) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).map_err(Error::System)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Error::System)?;
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    Ok(sidecar::run(sidecar::client().await?, post, stop).await?)
}

/// What is mounted, to be planned by this method.
async fn read_request(inputs: &PodInputs, method: MethodChoice) -> Result<resolve::BuildRequest> {
    let (folder, containerfile, trust_bundle) =
        (inputs.machine_config.clone(), inputs.containerfile.clone(), inputs.trust_bundle.clone());
    let read = spawn_blocking(move || {
        let config = input::mounted_config(&folder)?;
        let containerfile = containerfile.as_deref().map(input::containerfile);
        let trust_bundle = trust_bundle.as_deref().map(input::trust_bundle);
        Ok::<_, Failure>((config, containerfile.transpose()?, trust_bundle.transpose()?))
    });
    let (config, containerfile, trust_bundle) = read.await.map_err(Error::stopped("reading"))??;
    Ok(resolve::BuildRequest {
        config,
        base: Some(Source::Registry(inputs.base.clone().into())),
        base_name: Some(inputs.base_name.clone()),
        extensions_image: inputs.extensions_image.clone().map(Into::into),
        containerfile,
        build_args: inputs.build_args.clone(),
        trust_bundle: trust_bundle.map(Bytes::from),
        platform: Some(inputs.platform.clone()),
        method,
        on_top: false,
        push: Some(inputs.push.clone()),
    })
}

/// The Job's own build, in the format that its name is made with: a Job of an earlier version ends as it would have with that.
/// Refuses to go on with another build.
fn of_build(mut resolved_draft: ResolvedDraft, build: &BuildName) -> Result<ResolvedDraft, Error> {
    let draft = resolved_draft.draft;
    let format = Format::all().find(|format| draft.names_in(*format).1 == *build);
    let format = format.ok_or_else(|| Error::OtherBuild {
        planned: draft.names().1.to_string(),
        wanted: build.to_string(),
    })?;
    resolved_draft.draft = draft.in_format(format);
    Ok(resolved_draft)
}

/// The plan of a build that runs something, which needs no tree of the base.
async fn plan_to_run(context: &CliContext, inputs: &PodInputs) -> Result<resolve::ResolvedPlan> {
    let request = read_request(inputs, MethodChoice::Containerfile).await?;
    let on_step = |step: &str| context.progress.step(step);
    let planning = plan_context(context, None, &on_step);
    let resolved_draft = resolve::draft(planning, request).await?;
    let resolved_draft = of_build(resolved_draft, &inputs.build)?;
    Ok(resolve::finish(planning, resolved_draft).await?)
}

fn plan_context<'a>(
    context: &'a CliContext,
    trees: Option<Trees<'a>>,
    on_step: &'a (dyn Fn(&str) + Sync),
) -> PlanContext<'a> {
    PlanContext { client: &context.pull, trees, on_step }
}
