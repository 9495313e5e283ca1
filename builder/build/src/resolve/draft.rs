//! The part of a plan that needs no tree of the base.

use std::collections::BTreeMap;
use std::future::ready;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use futures_util::{FutureExt as _, TryFutureExt as _, try_join};
use tokio::task::spawn_blocking;

use mosb_api::RenderedConfig;
use mosb_ignition::Parsed;
use mosb_image::Platform;
use mosb_plan::containerfile::{self, AtLine, has_instruction};
use mosb_plan::plan::{BuildContext, BuildRequest, Draft, parse_ignition};
use mosb_registry::{AcceptedImage, Resolved, Source};
use mosb_types::Finding;

use super::base::{base, base_source, extensions_image};
use super::base_tree::cached;
use super::signatures::{check, check_containerfile};
use super::{Error, PlanContext, Unresolved, UnresolvedBase, resolve};
use crate::context_dir;

/// A plan without the parts that depend on the base's tree. It has the names of the whole plan.
#[derive(Debug)]
pub struct ResolvedDraft {
    pub draft: Draft,
    /// The base, to build on.
    pub base: Resolved,
    pub warnings: Vec<Finding>,
    /// The images whose signatures a policy requires, with those that it accepted.
    pub accepted: Vec<AcceptedImage>,
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
    let base = request.base.clone();
    draft_while(context, &base, ready(Ok(request))).await
}

/// The same with a request that is still read, whose base is known: a base that isn't left to the
/// config is resolved meanwhile.
///
/// # Errors
/// As [`draft`], and those of reading. A broken config is reported whatever a registry answers, and
/// without waiting for one.
pub async fn draft_while<E: From<Error>>(
    context: PlanContext<'_>,
    base: &UnresolvedBase,
    reading: impl Future<Output = Result<BuildRequest<Unresolved>, E>>,
) -> Result<ResolvedDraft, E> {
    let platform = base.platform.as_ref();
    let given = base.image.as_ref().map(|source| resolve_base(context, source, platform));
    let given = OptionFuture::from(given);
    let read = async {
        let request = reading.await?;
        let source = base_source(&request);
        let named = source.as_ref().ok().filter(|_| base.image.is_none());
        let named = named.map(|source| resolve_base(context, source, platform));
        let named = OptionFuture::from(named);
        let parsing = parse(request.config.clone()).map_err(E::from);
        let (ignition, named) = try_join!(parsing, named.map(Ok))?;
        Ok::<_, E>((request, ignition, source, named))
    };
    // On the heap, as what follows: a worker's stack holds all that it polls.
    let resolving = Box::pin(async { try_join!(read, given.map(Ok)) });
    let ((request, ignition, source, named), given) = resolving.await?;
    source?;
    let (resolved, resolving) = given.or(named).expect("one of both is asked for a source")?;
    Ok(Box::pin(complete(context, request, ignition, resolved, resolving)).await?)
}

/// The base, and the time spent waiting for its registry.
async fn resolve_base(
    context: PlanContext<'_>,
    source: &Source,
    platform: Option<&Platform>,
) -> Result<(Resolved, Duration), Error> {
    let began = Instant::now();
    let resolved = Box::pin(resolve(context, "base", source, platform)).await?;
    Ok((resolved, began.elapsed()))
}

/// Much of it is text to check, so not on the async threads.
async fn parse(config: RenderedConfig) -> Result<Option<Parsed>, Error> {
    let parsed = spawn_blocking(move || parse_ignition(&config)).await;
    Ok(parsed.expect("parsing does not panic and is not cancelled")?)
}

async fn complete(
    context: PlanContext<'_>,
    request: BuildRequest<Unresolved>,
    ignition: Option<Parsed>,
    resolved: Resolved,
    resolving: Duration,
) -> Result<ResolvedDraft, Error> {
    let began = Instant::now();
    let base = base(&request, &resolved)?;
    let name = Some(base.name.as_str());
    let accepted = check(context, context.client, &resolved, name).await?;
    let (mut accepted, mut warnings) = (Vec::from_iter(accepted), Vec::new());
    let extensions = extensions_image(context, &request, &base, &mut warnings).await?;
    let extensions_image = extensions.as_ref().and_then(Resolved::pinned);
    if let Some(image) = &extensions {
        let name = request.config.extensions_image.as_deref();
        accepted.extend(check(context, context.client, image, name).await?);
    }
    let containerfile = request.containerfile.filter(|text| has_instruction(text));
    let mut build_args = BTreeMap::new();
    if let Some(text) = &containerfile {
        build_args = request.build_args;
        let platform = &base.config.platform;
        accepted.extend(check_containerfile(context, text, &build_args, platform).await?);
    }
    let resolving = resolving + began.elapsed();
    let given = (containerfile.as_deref(), request.context);
    let platform = &base.config.platform;
    let build_context = build_context(given, &build_args, platform, &mut warnings).await?;
    let request = BuildRequest {
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
    };
    let draft = Draft::with_ignition(request, ignition)?;
    let decided_names = check_names(context, &draft, &resolved).await?;
    Ok(ResolvedDraft { draft, base: resolved, warnings, accepted, decided_names, resolving })
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
