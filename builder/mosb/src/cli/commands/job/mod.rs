//! `mosb job`: the parts of a build that run inside a build pod.

mod containerfile;
mod direct;
mod fetch;
mod prepared_base;
mod push;
mod report;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::resolve::{InPod, PodInputs, Settings};
use crate::cli::{ExitCode, Result, unread};
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, Trees};
use mosb_build::result::Step;
use mosb_controller::sidecar::{self, SidecarConfig};
use mosb_plan::api::BuildName;
use report::{deliver, new_reporter, report_failure};

/// Runs a part that builds or pushes, and returns its exit code.
///
/// # Errors
/// An error that was already reported as the result.
pub async fn in_pod(context: &CliContext, part: &InPod, settings: &Settings) -> Result<ExitCode> {
    match part {
        InPod::Direct(inputs, result) => {
            let reporter = new_reporter(inputs, settings, Step::ImageBuild);
            let outcome = direct::build(context, inputs, &reporter).await;
            deliver(&reporter, &result.0, outcome).await
        }
        InPod::Containerfile(inputs, left) => {
            let reporter = new_reporter(inputs, settings, Step::ImageBuild);
            let redactor = reporter.redactor();
            let built = containerfile::build(context, inputs, left, settings, redactor).await;
            report_failure(&reporter, &left.failure, built)
        }
        InPod::Fetch(inputs, image, result) => {
            let reporter = new_reporter(inputs, settings, Step::ImageFetch);
            match fetch::fetch(context, inputs, image).await.transpose() {
                // The container with buildah does not start.
                Some(ended) => deliver(&reporter, &result.0, ended).await.map(|_| 1),
                None => Ok(0),
            }
        }
        InPod::Push(inputs, image, result) => {
            let reporter = new_reporter(inputs, settings, Step::ImagePush);
            let outcome = push::push(context, inputs, image, &reporter).await;
            deliver(&reporter, &result.0, outcome).await
        }
        InPod::WaitForDone(sidecar) => wait_for_done(sidecar).await.map(|()| 0),
    }
}

/// Waits for a result and reports it, until SIGTERM or SIGINT.
///
/// # Errors
/// The result can't be reported.
pub async fn wait_for_done(config: &SidecarConfig) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).map_err(Error::System)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Error::System)?;
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    Ok(sidecar::run(sidecar::client().await?, config, stop).await?)
}

/// Rejects another build than that of the Job.
fn of_build(resolved_draft: ResolvedDraft, build: &BuildName) -> Result<ResolvedDraft, Error> {
    let (_, planned) = resolved_draft.draft.names();
    if planned != *build {
        return Err(Error::OtherBuild { planned: planned.to_string(), wanted: build.to_string() });
    }
    Ok(resolved_draft)
}

/// Plans a build that runs programs, which needs no tree of the base.
async fn plan_to_run(context: &CliContext, inputs: &PodInputs) -> Result<resolve::ResolvedPlan> {
    let on_step = |step: &str| context.progress.step(step);
    let planning = plan_context(context, None, &on_step);
    let resolved_draft =
        resolve::draft_while(planning, &inputs.request.base, unread::read(&inputs.request)).await?;
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
