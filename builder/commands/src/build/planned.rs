//! Makes a plan from the arguments: everything is read, resolved once, and pinned.

use super::inputs::{self, Buildah, Unread};
use super::prepared_base::On;
use super::result::{BaseTreeUse, PreparedUse, TreeSource};
use crate::Result;
use crate::context::CliContext;
use mosb_build::buildah;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, ResolvedPlan, Trees};
use mosb_image::tree::BaseTree;
use mosb_plan::containerfile;
use mosb_plan::plan::{BuildPlan, BuildRequest, Method};
use mosb_registry::{Resolved, Target, base_tree};
use mosb_types::Finding;

/// A plan and its inputs.
#[derive(Debug)]
pub struct PlannedBuild {
    pub plan: BuildPlan,
    /// The base image.
    pub base: Resolved,
    /// The prepared base that the plan's layer is put on.
    pub prepared: Option<Resolved>,
    /// The tree of the base or prepared base, if it was needed.
    pub tree: Option<BaseTreeUse>,
    pub base_tree: Option<BaseTree>,
    /// The buildah of this machine, if one is needed and installed.
    pub buildah: Option<buildah::Version>,
}

/// The clients and caches that planning uses. `on_step` gets each step.
pub fn planning<'c>(
    context: &'c CliContext,
    on_step: &'c (dyn Fn(&str) + Sync),
) -> PlanContext<'c> {
    PlanContext { client: &context.pull, trees: context.cache.as_ref().map(Trees::Disk), on_step }
}

/// Reads and resolves all inputs, and decides what doesn't depend on the tree of the base.
///
/// # Errors
/// An input is missing or invalid, or the base can't be read.
pub async fn draft(
    planning: PlanContext<'_>,
    request: &BuildRequest<Unread>,
) -> Result<ResolvedDraft> {
    resolve::draft_while(planning, &request.base, inputs::read(request)).await
}

/// Checks that the tag with the name of the rendered config would stay on its platform. The other tag
/// is made of the inputs, with the platform. A finding says if the target can't tell.
///
/// # Errors
/// It names an image for another platform.
pub async fn check_tag(
    context: &CliContext,
    request: &BuildRequest,
    target: &Target,
) -> Result<Option<Finding>> {
    let (tag, platform) = (request.config.name().tag(), &request.base.config.platform);
    context.progress.step(&format!("checking the tag of {target}"));
    Ok(context.push.check_tag(target, &tag.to_string(), platform).await?)
}

/// Completes a plan on its base, or on its prepared base. One that must be made first is not there yet:
/// then it is the plan that runs everything at once, which has the same names.
///
/// # Errors
/// The base can't be read, or the plan can't be made.
pub async fn complete(
    planning: PlanContext<'_>,
    drafted: ResolvedDraft,
    on: On,
    request: &BuildRequest<Unread>,
    options: &Buildah,
    target: Option<&Target>,
) -> Result<PlannedBuild> {
    let shown = on.shown();
    let resolved = match on {
        On::Prepared(prepared) | On::Made(prepared) => {
            resolve::finish_on(planning, drafted, prepared).await?
        }
        On::Base | On::ToMake(_) => resolve::finish(planning, drafted).await?,
    };
    let ResolvedPlan { mut plan, base, prepared, tree, .. } = resolved;
    let base_tree = tree.as_ref().map(|obtained| obtained.tree.clone());
    let used = tree.map(|obtained| {
        let source = match obtained.source {
            base_tree::TreeSource::Cache => TreeSource::Cache,
            base_tree::TreeSource::Computed => TreeSource::Computed,
        };
        BaseTreeUse::new(obtained.tree.digest(), source)
    });
    let mut warnings: Vec<Finding> = target.and_then(Target::notice).into_iter().collect();
    if let (Some(file), None) = (&request.containerfile, &plan.request.containerfile) {
        let message = "holds no instruction, so it is as if it had not been given";
        let finding = Finding::new("containerfile-empty", message);
        warnings.push(finding.object(file.display().to_string()));
    }
    warnings.extend(containerfile::split(&plan.request)?.warnings());
    let buildah = local_buildah(&plan, &mut warnings).await?;
    warnings.extend(unused_options(&plan.method, shown.as_ref(), options));
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    Ok(PlannedBuild { plan, base, prepared, tree: used, base_tree, buildah })
}

/// Warnings about options that a build without buildah ignores.
fn unused_options(
    method: &Method,
    prepared: Option<&PreparedUse>,
    options: &Buildah,
) -> Vec<Finding> {
    let message = match (method, prepared) {
        (Method::Direct, _) => "is for buildah, and this build is direct, so it does nothing",
        (Method::Prepared(_), Some(prepared)) if prepared.reused => {
            "is for buildah, and the prepared base is there already, so it does nothing"
        }
        (Method::Prepared(_) | Method::LastPart(_) | Method::Containerfile(_), _) => {
            return Vec::new();
        }
    };
    options.given().map(|option| Finding::new("option-unused", message).object(option)).collect()
}

/// Rejects a Containerfile that can't be rendered, or that the buildah of this machine would
/// misread. Without buildah it only warns: the build may be for another machine.
async fn local_buildah(
    plan: &BuildPlan,
    warnings: &mut Vec<Finding>,
) -> Result<Option<buildah::Version>> {
    match plan.method {
        Method::Direct | Method::Prepared(_) => return Ok(None),
        Method::LastPart(_) | Method::Containerfile(_) => {}
    }
    containerfile::render(plan)?;
    match buildah::version().await {
        Ok(version) => {
            let own = plan.request.containerfile.as_deref().unwrap_or_default();
            buildah::check_needs(own, version).map_err(mosb_build::Error::from)?;
            Ok(Some(version))
        }
        Err(why) => {
            warnings.push(Finding::new("no-buildah", why.to_string()));
            Ok(None)
        }
    }
}
