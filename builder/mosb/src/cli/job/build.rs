//! `mosb job build`: directly, with a push (`--result`), or with buildah, into a folder for the container that pushes
//! (`--image`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::direct_push::{DirectPush, push_directly};
use super::inputs::PodInputs;
use super::prepared_base::{self, CONFIGS, PreparedDraft};
use super::report::needs_containerfile;
use super::{draft_build, plan_context, plan_to_run};
use mosb_build::buildah::{self, BaseSource, ConfigsImage, ContainerBuild};
use mosb_build::result::{Outcome, Phases, millis};
use mosb_build::{JobMethod, Redactor, ResultReporter, resolve, user_namespace};
use mosb_commands::Result;
use mosb_commands::build::buildah::options;
use mosb_commands::build::inputs::Buildah;
use mosb_commands::context::CliContext;
use mosb_commands::error::Error;
use mosb_commands::settings::Settings;
use mosb_plan::containerfile;
use mosb_plan::payload::PreparedImageUse;
use mosb_plan::plan::Method;

/// Options of buildah, and the output folder of the image.
#[derive(Debug)]
pub struct LeftImage {
    pub image: PathBuf,
    /// `--volume`, `--storage-driver`.
    pub buildah: Buildah,
    pub require_user_namespace: bool,
}

/// Builds into the folder.
///
/// # Errors
/// The planned user namespace is missing; as [`buildah::leave`].
pub async fn build_with_buildah(
    context: &CliContext,
    inputs: &PodInputs,
    left: &LeftImage,
    settings: &Settings,
    secrets: &Redactor,
) -> Result<()> {
    if left.require_user_namespace && !user_namespace::is_own().map_err(Error::System)? {
        return Err(Error::NoUserNamespace.into());
    }
    let (build, base) = match inputs.spec.prepared {
        PreparedImageUse::Make => {
            let PreparedDraft { resolved_draft, prepared } =
                prepared_base::draft(context, inputs).await?;
            let text = containerfile::render_prepared(&prepared)?;
            (ContainerBuild::of_prepared(&prepared, text), resolved_draft.base)
        }
        PreparedImageUse::On { .. } => {
            let planned = plan_to_run(context, inputs).await?;
            let configs = ConfigsImage::read(&context.pull, &left.image.join(CONFIGS)).await?;
            let text = containerfile::render_last(&planned.plan, &configs.id())?;
            let build = ContainerBuild::of_last(&planned.plan, configs, text);
            (build.map_err(mosb_build::Error::from)?, planned.base)
        }
        PreparedImageUse::Without => {
            let planned = plan_to_run(context, inputs).await?;
            let text = containerfile::render(&planned.plan)?;
            let build = ContainerBuild::of_plan(&planned.plan, text);
            (build.map_err(mosb_build::Error::from)?, planned.base)
        }
    };
    let mut options = options(&left.buildah, settings)?;
    if options.storage_driver.is_none() {
        let driver = buildah::usable_driver(&options.cache_dir).await;
        options.storage_driver = Some(driver.map_err(mosb_build::Error::from)?.to_owned());
    }
    // Every container on a node with a subscription has it, even without entitlements.
    options.volumes.extend(buildah::of_the_node(Path::new("/")));
    context.progress.step("building with buildah");
    // `mosb logs` shows these lines.
    let on_line = |_, line: &str| tracing::info!("{}", secrets.redact(line));
    let base = BaseSource::of(&base);
    let left = buildah::leave(&build, &base, &options, &left.image, on_line).await;
    Ok(left.map_err(mosb_build::Error::from)?)
}

/// Builds and pushes, unless the base's tree shows that a program must be run.
///
/// # Errors
/// The image was not pushed.
pub async fn build_directly(
    context: &CliContext,
    inputs: &PodInputs,
    reporter: &ResultReporter,
) -> Result<Outcome> {
    let began = Instant::now();
    let resolved_plan = match &inputs.spec.prepared {
        PreparedImageUse::On { image, .. } => {
            let draft = prepared_base::draft(context, inputs).await?;
            prepared_base::plan_on(context, inputs, draft, image).await?
        }
        PreparedImageUse::Without | PreparedImageUse::Make => {
            let on_step = |step: &str| context.progress.step(step);
            let planning = plan_context(context, prepared_base::trees(context, inputs), &on_step);
            let resolved_draft = draft_build(planning, inputs).await?;
            if !resolved_draft.draft.needs_tree() {
                return Ok(needs_containerfile(resolved_draft.draft.reasons(), None));
            }
            resolve::finish(planning, resolved_draft).await?
        }
    };
    if let Method::LastPart(reasons) | Method::Containerfile(reasons) = &resolved_plan.plan.method {
        return Ok(needs_containerfile(reasons, None));
    }
    let (resolving, planning) = (resolved_plan.resolving, resolved_plan.planning);
    let DirectPush { built, base_tree, os_summary, warnings } =
        push_directly(context, inputs, resolved_plan, reporter).await?;
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    Ok(Outcome::Succeeded {
        digest: *built.pushed.digest.value(),
        method: JobMethod::Direct,
        bytes_pulled,
        bytes_pushed,
        phases: Phases {
            resolve: millis(resolving),
            tree: millis(planning),
            build: millis(built.making),
            push: millis(built.pushing),
            total: millis(began.elapsed()),
        },
        base_tree,
        prepared: None,
        os_summary,
        warnings,
    })
}
