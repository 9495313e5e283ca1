//! `mosb job push`: pushes the image that buildah built.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{Timestamp, Unit};

use super::direct_push::{DirectPush, push_directly};
use super::inputs::PodInputs;
use super::prepared_base::tree_of;
use super::report::needs_containerfile;
use super::{plan_to_run, prepared_base};
use mosb_build::buildah::{self, BuiltImage, ContainerBuild};
use mosb_build::resolve::ResolvedPlan;
use mosb_build::result::{Outcome, Phases, PreparedImage, millis};
use mosb_build::{Built, JobMethod, ResultReporter};
use mosb_commands::Result;
use mosb_commands::build::buildah::container_build;
use mosb_commands::context::CliContext;
use mosb_commands::error::Error;
use mosb_plan::payload::PreparedImageUse;
use mosb_plan::plan::Method;
use mosb_registry::{Resolved, Target};

/// Pushes the image in the folder.
///
/// # Errors
/// As [`buildah::take`]; errors of the registry.
pub async fn push(
    context: &CliContext,
    inputs: &PodInputs,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    match &inputs.spec.prepared {
        PreparedImageUse::Make => push_prepared(context, inputs, image, reporter).await,
        PreparedImageUse::On { image: on, .. } => {
            let draft = prepared_base::draft(context, inputs).await?;
            let planned = prepared_base::plan_on(context, inputs, draft, on).await?;
            push_whole(context, inputs, planned, image, reporter).await
        }
        PreparedImageUse::Without => {
            let planned = plan_to_run(context, inputs).await?;
            push_whole(context, inputs, planned, image, reporter).await
        }
    }
}

/// Pushes the prepared base in the folder, and then the image on it. If this is killed in between, the
/// next run does the same again.
async fn push_prepared(
    context: &CliContext,
    inputs: &PodInputs,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let draft = prepared_base::draft(context, inputs).await?;
    let resolving = draft.resolved_draft.resolving;
    let (prepared, base) = (&draft.prepared, &draft.resolved_draft.base);
    // What was built is already there.
    let build = ContainerBuild::of_prepared(prepared, "");
    context.progress.step("compressing the prepared base");
    let taken = Taken::from_folder(build, image).await?;
    context.progress.step(&format!("pushing the prepared base to {}", inputs.spec.push));
    let pushed = taken.push(context, inputs, base, reporter).await?;
    let inputs_digest = prepared.inputs.digest();
    let digest = *pushed.pushed.digest.value();
    let made_at = Timestamp::now().round(Unit::Second).map_err(|error| {
        Error::System(std::io::Error::other(format!("the clock of this node: {error}")))
    })?;
    let prepared = PreparedImage { inputs: inputs_digest, image: digest, made_at };
    let mut warnings = pushed.warnings;
    let image = inputs.spec.push.pinned(digest);
    if prepared_base::awaits_signature(context, &image).await? {
        // The controller has the key, and another pod builds on it.
        let prepared = Box::new(prepared);
        return Ok(Outcome::Prepared { prepared, base_tree: None, warnings });
    }
    let resolved_plan = prepared_base::plan_on(context, inputs, draft, &image).await?;
    match &resolved_plan.plan.method {
        Method::Containerfile(reasons) => {
            return Ok(needs_containerfile(reasons, Some(prepared)));
        }
        // Its instructions may not run where the push credentials are.
        Method::LastPart(_) => {
            let tree = prepared_base::push_tree(context, inputs, &resolved_plan).await;
            let base_tree = tree_of(tree, &mut warnings);
            let prepared = Box::new(prepared);
            return Ok(Outcome::Prepared { prepared, base_tree, warnings });
        }
        Method::Prepared(_) | Method::Direct => {}
    }
    let planning = resolved_plan.planning;
    let direct = push_directly(context, inputs, resolved_plan, reporter).await?;
    let DirectPush { built, base_tree, os_summary, warnings: of_image } = direct;
    warnings.extend(of_image);
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Containerfile,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(resolving),
            tree: millis(planning),
            build: millis(pushed.making + built.making),
            push: millis(pushed.pushing + built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree,
        prepared: Some(Box::new(prepared)),
        os_summary,
        warnings,
    })
}

/// Pushes the image that the whole Containerfile made, or its last part.
async fn push_whole(
    context: &CliContext,
    inputs: &PodInputs,
    planned: ResolvedPlan,
    image: &Path,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let plan = &planned.plan;
    // What was built is already there.
    let build = container_build(plan, planned.prepared.as_ref())?;
    context.progress.step("compressing what was built");
    let taken = Taken::from_folder(build, image).await?;
    context.progress.step(&format!("pushing to {}", inputs.spec.push));
    let (built, os_summary) = tokio::join!(
        taken.push(context, inputs, &planned.base, reporter),
        prepared_base::os_summary(context, inputs, &planned),
    );
    let built = built?;
    let mut warnings = planned.plan.warnings.clone();
    warnings.extend(built.warnings);
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Containerfile,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(planned.resolving),
            tree: millis(planned.planning),
            build: millis(built.making),
            push: millis(built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree: None,
        prepared: None,
        os_summary,
        warnings,
    })
}

/// What buildah built, read from the folder and checked.
#[derive(Debug)]
struct Taken {
    build: ContainerBuild,
    image: BuiltImage,
    /// How long that took.
    making: Duration,
}

impl Taken {
    async fn from_folder(build: ContainerBuild, folder: &Path) -> Result<Self> {
        let began = Instant::now();
        let image = buildah::take(&build, folder).await.map_err(mosb_build::Error::from)?;
        Ok(Self { build, image, making: began.elapsed() })
    }

    async fn push(
        self,
        context: &CliContext,
        inputs: &PodInputs,
        base: &Resolved,
        reporter: &ResultReporter,
    ) -> Result<Built> {
        reporter.begin_push();
        let target = Target::from(inputs.spec.push.clone());
        let (build, image) = (&self.build, &self.image);
        let built = buildah::push(&context.push, build, image, base, &target, None).await?;
        Ok(Built { making: self.making, ..built })
    }
}
