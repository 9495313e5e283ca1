//! From what was named to a plan: everything is read, resolved once, and pinned.

use std::collections::BTreeMap;

use anyhow::Context as _;
use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::api::{KernelType, RenderedConfig};
use crate::backend::{self, buildah};
use crate::cli::error::Error;
use crate::cli::input;
use crate::cli::objects::{BaseTreeUse, TreeSource};
use crate::cli::resolve::{Buildah, Wanted};
use crate::cli::world::{World, pinned_text};
use crate::containerfile;
use crate::ignition;
use crate::image::tree::BaseTree;
use crate::image::{ImageRef, PinnedRef};
use crate::plan::{Base, BaseName, BuildPlan, Draft, Method, Request};
use crate::registry;
use crate::registry::base_tree::{self, Obtained};
use crate::registry::{Resolved, Source, Target};
use crate::report::Finding;

/// A plan, and what it was made with.
#[derive(Debug)]
pub struct Prepared {
    /// The plan.
    pub plan: BuildPlan,
    /// The base, to build on.
    pub base: Resolved,
    /// The base's tree, if it was needed.
    pub tree: Option<BaseTreeUse>,
    /// The buildah of this machine, if one is needed and here.
    pub buildah: Option<buildah::Version>,
}

/// Reads, resolves and decides.
///
/// # Errors
/// Input that is missing or wrong, a base that can't be read, a plan that can't be made.
pub async fn prepare(
    world: &World,
    wanted: &Wanted,
    target: Option<&Target>,
) -> anyhow::Result<Prepared> {
    let (config, containerfile, trust_bundle) = read_files(wanted).await?;
    let (containerfile, empty) = match containerfile {
        Some(text) if !input::has_instruction(&text) => (None, wanted.containerfile.as_deref()),
        containerfile => (containerfile, None),
    };
    let build_args = match &containerfile {
        Some(_) => wanted.build_args.clone(),
        None => BTreeMap::new(),
    };
    // A broken config is told before anything is asked of a registry.
    if let Some(raw) = config.ignition() {
        ignition::parse(raw).map_err(|source| crate::plan::Error::Ignition {
            config: config.name().to_string(),
            source,
        })?;
    }
    let source = base_source(wanted, &config)?;
    let resolved = world
        .resolve("base", &source, wanted.platform.as_ref())
        .await?;
    let base = base(wanted, &config, &resolved)?;
    let mut warnings: Vec<Finding> = target.and_then(Target::notice).into_iter().collect();
    let extensions_image = extensions_image(world, wanted, &config, &base, &mut warnings).await?;
    let draft = Draft::new(Request {
        config,
        base,
        extensions_image,
        containerfile,
        build_args,
        trust_bundle: trust_bundle.map(Bytes::from),
        method: wanted.method,
        on_top: wanted.on_top,
        push: target.and_then(Target::repo).cloned(),
    })?;
    let obtained = match draft.needs_tree() {
        true => Some(tree(world, &resolved).await?),
        false => None,
    };
    let used = obtained.as_ref().map(|obtained| {
        let source = match obtained.source {
            base_tree::TreeSource::Cache => TreeSource::Cache,
            base_tree::TreeSource::Computed => TreeSource::Computed,
        };
        BaseTreeUse::new(obtained.tree.digest(), source)
    });
    world.progress.step("planning");
    let (tree, of_tree) = match obtained {
        Some(Obtained { tree, warnings, .. }) => (tree, warnings),
        None => (BaseTree::from_entries([]), Vec::new()),
    };
    let finish = spawn_blocking(move || draft.finish(&tree)).await;
    let mut plan = finish.context("planning stopped")??;
    warnings.extend(of_tree);
    warnings.extend(empty.map(|file| {
        let message = "holds no instruction, so it is as if it had not been given";
        Finding::new("containerfile-empty", message).on(file.display().to_string())
    }));
    let buildah = local_buildah(&plan, &mut warnings).await?;
    warnings.extend(unused_options(&plan.method, &wanted.buildah));
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    Ok(Prepared {
        plan,
        base: resolved,
        tree: used,
        buildah,
    })
}

/// Options that mean nothing to a direct build.
fn unused_options(method: &Method, options: &Buildah) -> Vec<Finding> {
    let unused = match method {
        Method::Direct => options.given(),
        Method::Containerfile(_) => return Vec::new(),
    };
    let told = |option| {
        let message = "is for buildah, and this build is direct, so it does nothing";
        Finding::new("option-unused", message).on(option)
    };
    unused.map(told).collect()
}

/// Refuses a Containerfile that can't be rendered, or that the buildah of this machine would misread; a machine may also plan
/// what another one builds.
async fn local_buildah(
    plan: &BuildPlan,
    warnings: &mut Vec<Finding>,
) -> anyhow::Result<Option<buildah::Version>> {
    if matches!(plan.method, Method::Direct) {
        return Ok(None);
    }
    let text = containerfile::render(plan)?;
    match buildah::version().await {
        Ok(version) => {
            buildah::check_heredoc(&text, version).map_err(backend::Error::from)?;
            Ok(Some(version))
        }
        Err(why) => {
            warnings.push(Finding::new("no-buildah", why.to_string()));
            Ok(None)
        }
    }
}

/// The config, the Containerfile, the trust bundle. Stdin may take for ever, so it must not hold up a signal.
async fn read_files(
    wanted: &Wanted,
) -> anyhow::Result<(RenderedConfig, Option<String>, Option<Vec<u8>>)> {
    let (config, containerfile, bundle) = (
        wanted.config.clone(),
        wanted.containerfile.clone(),
        wanted.trust_bundle.clone(),
    );
    let read = spawn_blocking(move || {
        let config = input::config(&config)?;
        let containerfile = containerfile
            .as_deref()
            .map(input::containerfile)
            .transpose()?;
        let bundle = bundle.as_deref().map(input::trust_bundle).transpose()?;
        Ok::<_, Error>((config, containerfile, bundle))
    });
    Ok(read.await.context("reading stopped")??)
}

/// `--base`, else `spec.osImageURL`.
fn base_source(wanted: &Wanted, config: &RenderedConfig) -> Result<Source, Error> {
    if let Some(source) = &wanted.base {
        return Ok(source.clone());
    }
    let url = config.os_image_url.as_ref().ok_or_else(|| Error::NoBase {
        config: config.name().to_string(),
    })?;
    config_image(config, "spec.osImageURL", url).map(Source::Registry)
}

fn config_image(
    config: &RenderedConfig,
    field: &'static str,
    url: &str,
) -> Result<ImageRef, Error> {
    url.parse().map_err(|source| Error::ConfigImage {
        config: config.name().to_string(),
        field,
        source,
    })
}

fn base(wanted: &Wanted, config: &RenderedConfig, resolved: &Resolved) -> anyhow::Result<Base> {
    let name = match (&wanted.base, &config.os_image_url) {
        (None, Some(url)) => {
            BaseName::from_os_image_url(url).map_err(|source| Error::ConfigImage {
                config: config.name().to_string(),
                field: "spec.osImageURL",
                source,
            })?
        }
        _ => given_base_name(resolved),
    };
    let base = Base::new(
        name,
        pinned_text(resolved),
        resolved.index,
        &resolved.manifest_bytes,
        &resolved.config_bytes,
    );
    Ok(base.map_err(crate::plan::Error::from)?)
}

/// What labels call the image that `--base` gave.
pub(super) fn given_base_name(base: &Resolved) -> BaseName {
    match base.pinned() {
        Some(pinned) => BaseName::from_registry(pinned.repo(), base.manifest),
        None => BaseName::from_layout(base.manifest),
    }
}

/// The image with packages, where packages are wanted.
async fn extensions_image(
    world: &World,
    wanted: &Wanted,
    config: &RenderedConfig,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> anyhow::Result<Option<PinnedRef>> {
    let needed = !config.extensions.is_empty() || config.kernel_type != KernelType::Default;
    if !needed {
        if let Some(image) = &wanted.extensions_image {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            warnings.push(Finding::new("extensions-image-unused", message).on(image.to_string()));
        }
        return Ok(None);
    }
    let image = match (&wanted.extensions_image, &config.extensions_image) {
        (Some(image), _) => image.clone(),
        (None, Some(url)) => config_image(config, "spec.baseOSExtensionsContainerImage", url)?,
        (None, None) => return Ok(None),
    };
    let platform = Some(&base.config.platform);
    let resolved = world
        .resolve("extensions image", &Source::Registry(image), platform)
        .await?;
    Ok(resolved.pinned())
}

/// The base's tree: what must be known of it before a layer can be written.
async fn tree(world: &World, base: &Resolved) -> anyhow::Result<Obtained> {
    let layers = crate::cli::layers::of_image(base)?;
    world.progress.step("reading the base's tree");
    let obtained =
        base_tree::obtain(world.cache.as_ref(), &base.manifest, &base.store, &layers).await;
    // What is wrong with a layer doesn't say of which image.
    obtained.map_err(|error| match &error {
        registry::Error::Layer(_) => anyhow::Error::from(error).context(pinned_text(base)),
        _ => error.into(),
    })
}
