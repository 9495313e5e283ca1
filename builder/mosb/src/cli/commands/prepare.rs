//! `mosb build --prepare-only`.

use std::time::Instant;

use super::build::{digest_folder, write_digest};
use super::make_plan::{draft, planning};
use super::prepared_base;
use super::pushed_image::pushed_image;
use crate::cli::Result;
use crate::cli::context::CliContext;
use crate::cli::objects::{PinnedBase, PrepareResult};
use crate::cli::resolve::{Build, Settings};
use mosb_build::result::millis;
use mosb_plan::plan::{BuilderNodes, Reason};

/// Makes a prepared base, even if there is one, pushes it, and writes the digest file.
///
/// # Errors
/// There can't be one; it was not pushed.
pub async fn prepare(
    context: &CliContext,
    build: &Build,
    settings: &Settings,
) -> Result<PrepareResult> {
    let began = Instant::now();
    if let Some(file) = &build.digestfile {
        digest_folder(file)?;
    }
    let on_step = |step: &str| context.progress.step(step);
    let drafted = draft(planning(context, &on_step), &build.request).await?;
    let prepared = prepared_base::prepared(&drafted, BuilderNodes::Any)?;
    let of = (drafted.draft.request().config.pool(), &drafted.base);
    let making = prepared_base::make(context, &prepared, of, build, settings);
    let (built, _) = making.await?;
    let digest = built.pushed.digest.value().to_string();
    if let Some(file) = &build.digestfile {
        write_digest(file, &digest)?;
    }
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    let mut warnings: Vec<_> = build.target.notice().into_iter().collect();
    warnings.extend(drafted.warnings);
    warnings.extend(built.warnings);
    Ok(PrepareResult {
        image: pushed_image(&built.pushed),
        tag: prepared.tag().to_string(),
        digest,
        inputs: prepared.inputs.hex(),
        reasons: drafted.draft.reasons().iter().map(Reason::finding).collect(),
        base: PinnedBase::new(&prepared.request.base),
        bytes_pulled,
        bytes_pushed,
        duration_millis: millis(began.elapsed()),
        warnings,
    })
}
