//! `mosb build`.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use super::containerfile;
use super::make_plan::{PlannedBuild, check_tag, complete, draft, planning};
use super::prepared_base::{self, On};
use super::pushed_image::{pushed_image, tag_moved};
use crate::cli::Result;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::objects::{BuildResult, LayerInfo, PinnedBase};
use crate::cli::resolve::{Build, Settings};
use mosb_build::result::millis;
use mosb_plan::plan::Method;
use mosb_plan::plan::Reason;

/// Builds, pushes, and writes the digest file.
///
/// # Errors
/// The image was not pushed.
pub async fn build(
    context: &CliContext,
    build: &Build,
    settings: &Settings,
) -> Result<BuildResult> {
    let began = Instant::now();
    if let Some(file) = &build.digestfile {
        // Reported before the image is built.
        digest_folder(file)?;
    }
    let on_step = |step: &str| context.progress.step(step);
    let planning = planning(context, &on_step);
    let drafted = draft(planning, &build.request).await?;
    let target = Some(&build.target);
    let (given, mut warnings) = (build.prepared.as_ref(), Vec::new());
    let on = prepared_base::find(context, planning, &drafted, given, target, &mut warnings).await?;
    if let (Some(source), On::Prepared(found)) = (given, &on) {
        let inputs = found.base.inputs;
        let pool = drafted.draft.request().config.pool();
        warnings.extend(prepared_base::remember(context, pool, inputs, &build.target, source));
    }
    let is_checked = matches!(on, On::ToMake(_));
    let on = match on {
        On::ToMake(prepared) => {
            // The push checks it too, but only after the programs ran for minutes.
            warnings.extend(check_tag(context, drafted.draft.request(), &build.target).await?);
            let of = (drafted.draft.request().config.pool(), &drafted.base);
            let making = prepared_base::make(context, &prepared, of, build, settings);
            let (made, source) = making.await?;
            warnings.extend(made.warnings);
            let found = prepared_base::resolve_made(context, planning, &prepared, &source).await?;
            On::Made(found)
        }
        on => on,
    };
    let prepared_use = on.shown();
    let completing = complete(planning, drafted, on, &build.request, &build.buildah, target);
    let PlannedBuild { plan, base, prepared, tree, .. } = completing.await?;
    let built = match &plan.method {
        Method::Direct | Method::Prepared(_) => {
            context.progress.step(&format!("writing the layer, pushing to {}", build.target));
            let lower = prepared.as_ref().unwrap_or(&base);
            mosb_build::direct::build(&context.push, &plan, lower, &build.target).await?
        }
        Method::LastPart(_) | Method::Containerfile(_) => {
            if !is_checked {
                warnings.extend(check_tag(context, &plan.request, &build.target).await?);
            }
            context.progress.step("building with buildah");
            let made = containerfile::container_build(&plan, prepared.as_ref())?;
            containerfile::run(context, &made, &base, build, settings).await?
        }
    };
    let digest = *built.pushed.digest.value();
    if let Some(file) = &build.digestfile {
        write_digest(file, &digest.to_string())?;
    }
    let image = pushed_image(&built.pushed);
    warnings.splice(0..0, plan.warnings.iter().cloned());
    warnings.extend(built.warnings);
    warnings.extend(tag_moved(&built.pushed, &plan.build_name.tag()));
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    // Only a Containerfile makes several layers, and then none of them is *the* layer.
    let layer = match &built.layers[..] {
        [layer] => Some(LayerInfo {
            digest: layer.digest.to_string(),
            diff_id: layer.diff_id.to_string(),
            size: layer.size,
            paths: layer.paths,
        }),
        _ => None,
    };
    Ok(BuildResult {
        rendered_config: plan.request.config.name().to_string(),
        pool: plan.request.config.pool().to_string(),
        image,
        tags: built.pushed.tags.clone(),
        digest: digest.to_string(),
        method: plan.method.as_str().to_owned(),
        reasons: plan.method.reasons().iter().map(Reason::finding).collect(),
        prepared: prepared_use.filter(|_| plan.prepared.is_some()),
        base: PinnedBase::new(&plan.request.base),
        base_tree: tree,
        layer,
        inputs: plan.inputs.hex(),
        bytes_pulled,
        bytes_pushed,
        duration_millis: millis(began.elapsed()),
        warnings,
    })
}

/// The folder of a digest file.
pub(super) fn digest_folder(file: &Path) -> Result<&Path, Error> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let unusable = |kind: std::io::ErrorKind, cause| Error::Write {
        file: file.display().to_string(),
        source: std::io::Error::new(kind, cause),
    };
    if file.is_dir() {
        return Err(unusable(std::io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(unusable(std::io::ErrorKind::NotFound, "its folder is not there"))
    }
}

/// Writes the digest atomically, without a newline, like buildah's `--digestfile`. It is not
/// secret: its mode follows the umask, so that another user's step can read it.
pub(super) fn write_digest(file: &Path, digest: &str) -> Result<(), Error> {
    let wrong = |source| Error::Write { file: file.display().to_string(), source };
    let mut temporary = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(digest_folder(file)?)
        .map_err(wrong)?;
    temporary.write_all(digest.as_bytes()).map_err(wrong)?;
    temporary.persist(file).map_err(|error| wrong(error.error))?;
    Ok(())
}
