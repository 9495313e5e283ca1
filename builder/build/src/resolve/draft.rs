//! The part of a plan that needs no tree of the base.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use mosb_ignition as ignition;
use mosb_image::Platform;
use mosb_plan::containerfile::{self, AtLine, has_instruction};
use mosb_plan::plan::{self, BuildContext, BuildRequest, Draft};
use mosb_registry::Resolved;
use mosb_types::Finding;

use super::base::{base, base_source};
use super::base_tree::cached;
use super::context::{PlanContext, resolve};
use super::error::Error;
use super::extensions_image::extensions_image;
use super::unchecked_images::unchecked_images;
use super::unresolved::Unresolved;
use crate::context_dir;

/// A plan without the parts that depend on the base's tree. It has the names of the whole plan.
#[derive(Debug)]
pub struct ResolvedDraft {
    pub draft: Draft,
    /// The base, to build on.
    pub base: Resolved,
    pub warnings: Vec<Finding>,
    /// Users and groups of the Containerfile that the base has.
    pub decided_names: Vec<AtLine>,
    /// Time spent waiting for registries.
    pub resolving: Duration,
}

/// Resolves the images that the inputs name, and decides what doesn't depend on the base's tree.
/// Requests only manifests and configs.
///
/// # Errors
/// Input that is missing or wrong, a base that can't be found or isn't one.
pub async fn draft(
    context: PlanContext<'_>,
    request: BuildRequest<Unresolved>,
) -> Result<ResolvedDraft, Error> {
    let began = Instant::now();
    let config = &request.config;
    // A broken config is reported before any registry is contacted.
    if let Some(raw) = config.ignition() {
        ignition::parse(raw).map_err(|source| plan::Error::Ignition {
            config: config.name().to_string(),
            source,
        })?;
    }
    let source = base_source(&request)?;
    let resolved = resolve(context, "base", &source, request.base.platform.as_ref()).await?;
    let base = base(&request, &resolved)?;
    let mut warnings: Vec<_> = context.client.unchecked_signature(&source).into_iter().collect();
    let extensions_image = extensions_image(context, &request, &base, &mut warnings).await?;
    let containerfile = request.containerfile.filter(|text| has_instruction(text));
    let mut build_args = BTreeMap::new();
    if let Some(text) = &containerfile {
        build_args = request.build_args;
        let platform = &base.config.platform;
        warnings.extend(unchecked_images(context.client, text, &build_args, platform));
    }
    let resolving = began.elapsed();
    let given = (containerfile.as_deref(), request.context);
    let platform = &base.config.platform;
    let build_context = build_context(given, &build_args, platform, &mut warnings).await?;
    let draft = Draft::new(BuildRequest {
        config: request.config,
        base,
        extensions_image,
        containerfile,
        context: build_context,
        build_args,
        trust_bundle: request.trust_bundle,
        method: request.method,
        on_top: request.on_top,
        build_on: request.build_on,
        push: request.push,
    })?;
    let decided_names = check_names(context, &draft, &resolved).await?;
    Ok(ResolvedDraft { draft, base: resolved, warnings, decided_names, resolving })
}

/// Checks the users and groups that the Containerfile names, if the cache has the base's tree.
async fn check_names(
    context: PlanContext<'_>,
    draft: &Draft,
    resolved: &Resolved,
) -> Result<Vec<AtLine>, Error> {
    // What is wrong with the text itself is said where it is rendered.
    let names = containerfile::looked_up(draft.request()).unwrap_or_default();
    if names.is_empty() {
        return Ok(names);
    }
    match cached(context, resolved).await {
        Some(obtained) => Ok(containerfile::check_names(&names, &obtained.tree)?),
        None => Ok(Vec::new()),
    }
}

/// What the Containerfile uses of the given directory.
async fn build_context(
    (text, dir): (Option<&str>, Option<PathBuf>),
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
    warnings: &mut Vec<Finding>,
) -> Result<Option<BuildContext>, Error> {
    let Some(dir) = dir else {
        return Ok(None);
    };
    let uses = containerfile::context_paths(text.unwrap_or_default(), build_args, platform);
    if uses.is_empty() {
        let message = "your Containerfile copies and mounts nothing of it, so it does nothing";
        warnings.push(Finding::new("option-unused", message).object("--context"));
        return Ok(None);
    }
    let read = spawn_blocking(move || context_dir::read(&dir, &uses)).await;
    Ok(Some(read.expect("reading does not panic and is not cancelled")?))
}
