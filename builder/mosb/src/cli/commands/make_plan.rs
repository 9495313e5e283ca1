//! Makes a plan from the arguments: everything is read, resolved once, and pinned.

use crate::cli::Result;
use crate::cli::context::CliContext;
use crate::cli::objects::{BaseTreeUse, TreeSource};
use crate::cli::resolve::Buildah;
use crate::cli::unread::{self, Unread};
use mosb_build::buildah;
use mosb_build::resolve::{self, PlanContext, Trees};
use mosb_plan::containerfile;
use mosb_plan::plan::BuildPlan;
use mosb_plan::plan::BuildRequest;
use mosb_plan::plan::Method;
use mosb_registry::base_tree;
use mosb_registry::{Resolved, Target};
use mosb_types::Finding;

/// A plan and its inputs.
#[derive(Debug)]
pub struct PlannedBuild {
    pub plan: BuildPlan,
    /// The base image.
    pub base: Resolved,
    /// The base's tree, if it was needed.
    pub tree: Option<BaseTreeUse>,
    /// The buildah of this machine, if one is needed and installed.
    pub buildah: Option<buildah::Version>,
}

/// Reads and resolves all inputs, and plans.
///
/// # Errors
/// An input is missing or invalid, the base can't be read, or the plan can't be made.
pub async fn make_plan(
    context: &CliContext,
    request: &BuildRequest<Unread>,
    options: &Buildah,
    target: Option<&Target>,
) -> Result<PlannedBuild> {
    let planning = PlanContext {
        client: &context.pull,
        trees: context.cache.as_ref().map(Trees::Disk),
        on_step: &|step| context.progress.step(step),
    };
    let resolving = resolve::plan(planning, unread::read(request).await?);
    let resolve::ResolvedPlan { mut plan, base, tree, .. } = resolving.await?;
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
    warnings.extend(unused_options(&plan.method, options));
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    Ok(PlannedBuild { plan, base, tree: used, buildah })
}

/// Warnings about options that a direct build ignores.
fn unused_options(method: &Method, options: &Buildah) -> Vec<Finding> {
    let unused = match method {
        Method::Direct => options.given(),
        Method::Containerfile(_) => return Vec::new(),
    };
    let finding = |option| {
        let message = "is for buildah, and this build is direct, so it does nothing";
        Finding::new("option-unused", message).object(option)
    };
    unused.map(finding).collect()
}

/// Rejects a Containerfile that can't be rendered, or that the buildah of this machine would
/// misread. Without buildah it only warns: the build may be for another machine.
async fn local_buildah(
    plan: &BuildPlan,
    warnings: &mut Vec<Finding>,
) -> Result<Option<buildah::Version>> {
    if matches!(plan.method, Method::Direct) {
        return Ok(None);
    }
    let text = containerfile::render(plan)?;
    match buildah::version().await {
        Ok(version) => {
            buildah::check_heredoc(&text, version).map_err(mosb_build::Error::from)?;
            Ok(Some(version))
        }
        Err(why) => {
            warnings.push(Finding::new("no-buildah", why.to_string()));
            Ok(None)
        }
    }
}
