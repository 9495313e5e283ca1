//! `mosb job fetch`: writes what buildah starts from when it runs only the last part of a Containerfile.
//! It reads the push repository, whose credentials the container with buildah doesn't have.

use std::path::Path;

use super::direct::needs_containerfile;
use super::prepared_base;
use crate::cli::Result;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::resolve::{PodInputs, PodPrepared};
use mosb_build::buildah::ConfigsImage;
use mosb_build::result::Outcome;
use mosb_plan::plan::Method;

/// In the folder that the containers share.
pub const CONFIGS: &str = "configs";

/// Writes the layout. Returns a result if there is nothing for buildah to start from.
///
/// # Errors
/// The prepared base is not there, or can't be read.
pub async fn fetch(
    context: &CliContext,
    inputs: &PodInputs,
    folder: &Path,
) -> Result<Option<Outcome>> {
    let PodPrepared::On { image, .. } = &inputs.prepared else {
        return Err(Error::Usage("--prepared is missing".to_owned()).into());
    };
    let draft = prepared_base::draft(context, inputs).await?;
    let base = draft.resolved_draft.draft.request().base.clone();
    let resolved_plan = prepared_base::plan_on(context, inputs, draft, image).await?;
    let plan = &resolved_plan.plan;
    match &plan.method {
        Method::Containerfile(reasons) => Ok(Some(needs_containerfile(reasons, None))),
        Method::LastPart(_) | Method::Prepared(_) | Method::Direct => {
            context.progress.step(&format!("fetching the prepared base {image}"));
            let configs = ConfigsImage::new(plan, resolved_plan.lower())?;
            configs.write(&context.push, &base, false, &folder.join(CONFIGS)).await?;
            Ok(None)
        }
    }
}
