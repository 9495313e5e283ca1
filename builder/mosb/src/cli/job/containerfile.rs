//! `mosb job build --image`: builds with buildah, and writes the image to a folder for the
//! container that pushes.

use std::path::{Path, PathBuf};

use super::inputs::{PodInputs, PodPrepared};
use super::plan_to_run;
use super::prepared_base::{self, CONFIGS, PreparedDraft};
use crate::cli::Result;
use crate::cli::build::buildah::options;
use crate::cli::build::inputs::Buildah;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::settings::Settings;
use mosb_build::Redactor;
use mosb_build::buildah::{self, BaseSource, ConfigsImage, ContainerBuild};
use mosb_build::user_namespace;
use mosb_plan::containerfile;

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
pub async fn build(
    context: &CliContext,
    inputs: &PodInputs,
    left: &LeftImage,
    settings: &Settings,
    secrets: &Redactor,
) -> Result<()> {
    if left.require_user_namespace && !user_namespace::is_own().map_err(Error::System)? {
        return Err(Error::NoUserNamespace.into());
    }
    let (build, base) = match inputs.prepared {
        PodPrepared::Make => {
            let PreparedDraft { resolved_draft, prepared } =
                prepared_base::draft(context, inputs).await?;
            let text = containerfile::render_prepared(&prepared)?;
            (ContainerBuild::of_prepared(&prepared, text), resolved_draft.base)
        }
        PodPrepared::On { .. } => {
            let planned = plan_to_run(context, inputs).await?;
            let configs = ConfigsImage::read(&context.pull, &left.image.join(CONFIGS)).await?;
            let text = containerfile::render_last(&planned.plan, &configs.id())?;
            let build = ContainerBuild::of_last(&planned.plan, configs, text);
            (build.map_err(mosb_build::Error::from)?, planned.base)
        }
        PodPrepared::Without => {
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
