//! `mosb build`.
//!
//! | file | does |
//! | --- | --- |
//! | `inputs` | the inputs of an image: typed, and read |
//! | `planned` | inputs → a plan |
//! | `newer_base` | whether the base of the previous image got older than its tag |
//! | `prepared_base` | finds or makes what a build is made on |
//! | `buildah` | builds with buildah: its options, and its output as progress |
//! | `signer` | signs the image |
//! | `result`, `verified_image` | what is printed |

pub mod buildah;
pub mod inputs;
pub mod newer_base;
pub mod planned;
pub mod prepared_base;
pub mod result;
pub mod signer;
pub mod verified_image;

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use super::context::{CliContext, Session};
use super::diff::{Operand, operand};
use super::error::Error;
use super::plan::{Commands, PlanCommand, check_previous};
use super::settings::Settings;
use super::{ExitCode, Result, arguments};
use inputs::Inputs;
use mosb_build::resolve::{PlanContext, ResolvedDraft, tree_for_packages};
use mosb_build::result::millis;
use mosb_image::tree::BaseTree;
use mosb_plan::plan::{BuilderNodes, Method, Reason};
use mosb_registry::Target;
use newer_base::newer_base;
use planned::{PlannedBuild, check_tag, complete, draft, planning};
use prepared_base::On;
use result::{BuildResult, LayerInfo, PinnedBase, PrepareResult, pushed_image};
use signer::SignOptions;
use verified_image::VerifiedImage;

/// Builds the image of a rendered MachineConfig, and pushes it
///
/// The image is tagged with the rendered name, which moves, and with the build name, which stays. Built directly,
/// the same inputs are the same image everywhere: same digest.
///
/// Examples:
///
///   mosb build worker.yaml --output registry.example.com/os/worker
///   oc get mc rendered-worker-… -o yaml | mosb build - --output oci:out --digestfile digest
///   mosb build worker.yaml --output registry.example.com/os/worker --sign-key os.key
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Build {
    #[command(flatten)]
    pub inputs: Inputs,
    /// The target: host/repo, or oci:DIR
    #[arg(long, value_name = "TARGET", value_parser = arguments::target)]
    pub output: Target,
    /// Write the image's digest to this file once the target has the image
    #[arg(long, value_name = "FILE")]
    pub digestfile: Option<PathBuf>,
    /// The config or image that machines have: says if the tag of an image's base names a newer one
    #[arg(long, value_name = "CONFIG|IMAGE", value_parser = operand)]
    pub previous: Option<Operand>,
    /// Show the plan without building
    #[arg(long)]
    pub dry_run: bool,
    /// Make only the image with what must be run, for --prepared
    #[arg(long, conflicts_with_all = ["prepared", "dry_run"])]
    pub prepare_only: bool,
    #[command(flatten)]
    pub sign: SignOptions,
}

impl Build {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<()> {
        self.sign.check(&self.inputs.config, &self.output)?;
        check_previous("build", &self.inputs, self.previous.as_ref())
    }

    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        if self.dry_run {
            let Self { inputs, output, previous, .. } = self;
            let output = Some(output);
            let planned = PlanCommand { inputs, output, previous, checks: None };
            return planned.print(session, Commands::Listed).await;
        }
        let (context, settings) = (session.clients()?, &session.settings);
        if self.prepare_only {
            session.print(&prepare(&context, &self, settings).await?)
        } else {
            session.print(&build(&context, &self, settings).await?)
        }
    }
}

/// Builds, pushes, and writes the digest file.
///
/// # Errors
/// The image was not pushed.
async fn build(context: &CliContext, typed: &Build, settings: &Settings) -> Result<BuildResult> {
    let (output, options) = (&typed.output, typed.inputs.buildah());
    let request = typed.inputs.request(Some(output));
    let began = Instant::now();
    if let Some(file) = &typed.digestfile {
        // Reported before the image is built.
        digest_folder(file)?;
    }
    let signer = typed.sign.signer().await?;
    let on_step = |step: &str| context.progress.step(step);
    let planning = planning(context, &on_step);
    let drafted = draft(planning, &request).await?;
    let target = Some(output);
    let (given, mut warnings) = (typed.inputs.prepared.as_ref(), Vec::new());
    let on = prepared_base::find(context, planning, &drafted, given, target, &mut warnings).await?;
    if let (Some(source), On::Prepared(found)) = (given, &on) {
        let inputs = found.base.inputs;
        let pool = drafted.draft.request().config.pool();
        warnings.extend(prepared_base::remember(context, pool, inputs, output, source));
    }
    if let Some(previous) = &typed.previous {
        warnings.extend(newer_base(context, previous).await);
    }
    let is_checked = matches!(on, On::ToMake(_));
    let on = match on {
        On::ToMake(prepared) => {
            // The push checks it too, but only after the programs ran for minutes.
            warnings.extend(check_tag(context, drafted.draft.request(), output).await?);
            let below = match &signer {
                Some(_) => tree_of_draft(planning, &drafted).await?,
                None => None,
            };
            let signing = signer.as_ref().map(|signer| signer.of_prepared_base(below.as_ref()));
            let to = (output, &options);
            let making = prepared_base::make(context, &prepared, &drafted, to, signing, settings);
            let (made, source) = making.await?;
            warnings.extend(made.warnings);
            let found = prepared_base::resolve_made(context, planning, &prepared, &source).await?;
            On::Made(found)
        }
        on => on,
    };
    let prepared_use = on.shown();
    let verified = on.verified(&drafted);
    let completing = complete(planning, drafted, on, &request, &options, target);
    let PlannedBuild { plan, base, prepared, tree, base_tree, .. } = completing.await?;
    let below = match (&signer, &plan.method) {
        (None, _) => None,
        // The tree may be that of a prepared base that is not used, or not be read.
        (Some(_), Method::Containerfile(_)) => {
            tree_for_packages(planning, &plan.request.base, &base).await?
        }
        (Some(_), Method::Direct | Method::Prepared(_) | Method::LastPart(_)) => base_tree,
    };
    let signing = signer.as_ref().map(|signer| signer.of_image(below.as_ref()));
    let built = match &plan.method {
        Method::Direct | Method::Prepared(_) => {
            context.progress.step(&format!("writing the layer, pushing to {output}"));
            let lower = prepared.as_ref().unwrap_or(&base);
            mosb_build::direct::build(&context.push, &plan, lower, output, signing).await?
        }
        Method::LastPart(_) | Method::Containerfile(_) => {
            if !is_checked {
                warnings.extend(check_tag(context, &plan.request, output).await?);
            }
            context.progress.step("building with buildah");
            let made = buildah::container_build(&plan, prepared.as_ref())?;
            buildah::run(context, &made, &base, output, signing, &options, settings).await?
        }
    };
    let digest = *built.pushed.digest.value();
    if let Some(file) = &typed.digestfile {
        write_digest(file, &digest.to_string())?;
    }
    let image = pushed_image(&built.pushed);
    let signed = signer.map(|signer| signer.signed(&built));
    warnings.splice(0..0, plan.warnings.iter().cloned());
    warnings.extend(built.warnings);
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
        signed,
        method: plan.method.as_str().to_owned(),
        reasons: plan.method.reasons().iter().map(Reason::finding).collect(),
        prepared: prepared_use.filter(|_| plan.prepared.is_some()),
        base: PinnedBase::new(&plan.request.base),
        verified,
        base_tree: tree,
        layer,
        inputs: plan.inputs.hex(),
        bytes_pulled,
        bytes_pushed,
        duration_millis: millis(began.elapsed()),
        warnings,
    })
}

/// Makes a prepared base, even if there is one, pushes it, and writes the digest file.
///
/// # Errors
/// There can't be one; it was not pushed.
async fn prepare(
    context: &CliContext,
    typed: &Build,
    settings: &Settings,
) -> Result<PrepareResult> {
    let output = &typed.output;
    let request = typed.inputs.request(Some(output));
    let began = Instant::now();
    if let Some(file) = &typed.digestfile {
        digest_folder(file)?;
    }
    let signer = typed.sign.signer().await?;
    let on_step = |step: &str| context.progress.step(step);
    let planning = planning(context, &on_step);
    let drafted = draft(planning, &request).await?;
    let prepared = prepared_base::prepared(&drafted, BuilderNodes::Any)?;
    let to = (output, &typed.inputs.buildah());
    let below = match &signer {
        Some(_) => tree_of_draft(planning, &drafted).await?,
        None => None,
    };
    let signing = signer.as_ref().map(|signer| signer.of_image(below.as_ref()));
    let making = prepared_base::make(context, &prepared, &drafted, to, signing, settings);
    let (built, _) = making.await?;
    let digest = built.pushed.digest.value().to_string();
    if let Some(file) = &typed.digestfile {
        write_digest(file, &digest)?;
    }
    let (bytes_pulled, bytes_pushed) = context.transfer_stats();
    let mut warnings: Vec<_> = output.notice().into_iter().collect();
    warnings.extend(drafted.warnings);
    let signed = signer.map(|signer| signer.signed(&built));
    warnings.extend(built.warnings);
    Ok(PrepareResult {
        image: pushed_image(&built.pushed),
        tag: prepared.tag().to_string(),
        digest,
        signed,
        inputs: prepared.inputs.hex(),
        reasons: drafted.draft.reasons().iter().map(Reason::finding).collect(),
        base: PinnedBase::new(&prepared.request.base),
        verified: drafted.accepted.iter().map(VerifiedImage::from).collect(),
        bytes_pulled,
        bytes_pushed,
        duration_millis: millis(began.elapsed()),
        warnings,
    })
}

/// The tree of the base of a draft, for the packages in an SBOM.
async fn tree_of_draft(
    planning: PlanContext<'_>,
    drafted: &ResolvedDraft,
) -> Result<Option<BaseTree>> {
    let base = &drafted.draft.request().base;
    Ok(tree_for_packages(planning, base, &drafted.base).await?)
}

/// The folder of a digest file.
fn digest_folder(file: &Path) -> Result<&Path, Error> {
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
fn write_digest(file: &Path, digest: &str) -> Result<(), Error> {
    let wrong = |source| Error::Write { file: file.display().to_string(), source };
    let mut temporary = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(digest_folder(file)?)
        .map_err(wrong)?;
    temporary.write_all(digest.as_bytes()).map_err(wrong)?;
    temporary.persist(file).map_err(|error| wrong(error.error))?;
    Ok(())
}
