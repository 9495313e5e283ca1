//! Makes a plan from inputs: resolves the images that they name, once, and reads the base's tree
//! if the plan depends on it.
//!
//! The command line, a build pod and the controller all plan with this module, so that the same
//! inputs are the same build everywhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::spawn_blocking;

use mosb_ignition as ignition;
use mosb_image::layer::{self, Layer};
use mosb_image::tree::BaseTree;
use mosb_image::{ImageRef, PinnedRef, Platform, ReferenceError, RepoRef};
use mosb_plan::api::{KernelType, RenderedConfig};
use mosb_plan::containerfile::{self, has_instruction};
use mosb_plan::plan;
use mosb_plan::plan::Base;
use mosb_plan::plan::BaseName;
use mosb_plan::plan::BuildPlan;
use mosb_plan::plan::Draft;
use mosb_plan::plan::MethodChoice;
use mosb_plan::plan::Request;
use mosb_registry as registry;
use mosb_registry::base_tree::{self, Obtained, TreeSource};
use mosb_registry::cache::TreeCache;
use mosb_registry::{Client, Resolved, Source, tree_image};
use mosb_types::{ErrorClass, Finding};

/// The inputs of a build; no image is resolved yet.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    pub config: RenderedConfig,
    /// Default: the config's `spec.osImageURL`.
    pub base: Option<Source>,
    /// How labels name the base. Default: derived from where the base comes from.
    pub base_name: Option<BaseName>,
    /// The extensions image; without, the config's `spec.baseOSExtensionsContainerImage`. Asked for only where packages are request.
    pub extensions_image: Option<ImageRef>,
    /// The administrator's Containerfile. One without an instruction is ignored.
    pub containerfile: Option<String>,
    /// ARGs of the Containerfile.
    pub build_args: BTreeMap<String, String>,
    /// Certificates in PEM.
    pub trust_bundle: Option<Bytes>,
    /// Which image of an index.
    pub platform: Option<Platform>,
    pub method: MethodChoice,
    /// Whether the base may itself be built from a rendered config.
    pub on_top: bool,
    /// The repository to push to; `None` for an OCI layout.
    pub push: Option<RepoRef>,
}

/// The clients and caches that planning uses.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// Reads registries and layouts.
    pub client: &'a Client,
    /// Where base trees are cached; without, each is computed.
    pub trees: Option<Trees<'a>>,
    /// Called before each step with its description for people.
    pub on_step: &'a (dyn Fn(&str) + Sync),
}

/// Where base trees are cached.
#[derive(Debug, Clone, Copy)]
pub enum Trees<'a> {
    /// A folder, which is read and written.
    Disk(&'a TreeCache),
    /// An image with the tree of this base, and the client that pulls it.
    Image(&'a Client, &'a PinnedRef),
}

impl std::fmt::Debug for PlanContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanContext").field("trees", &self.trees).finish_non_exhaustive()
    }
}

/// A plan without the parts that depend on the base's tree. It has the names of the whole plan.
#[derive(Debug)]
pub struct ResolvedDraft {
    pub draft: Draft,
    /// The base, to build on.
    pub base: Resolved,
    pub warnings: Vec<Finding>,
    /// Time spent waiting for registries.
    pub resolving: Duration,
}

/// A plan, and the images and tree that it was made with.
#[derive(Debug)]
pub struct ResolvedPlan {
    /// Holds all warnings.
    pub plan: BuildPlan,
    /// The base, to build on.
    pub base: Resolved,
    /// The base's tree, if it was needed.
    pub tree: Option<Obtained>,
    /// Time spent waiting for registries.
    pub resolving: Duration,
    /// Time spent reading the base's tree and planning with it.
    pub planning: Duration,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a base nor `spec.osImageURL`.
    #[error("{config}: spec.osImageURL is empty; give the base OS image with --base")]
    NoBase {
        /// Name of the rendered config.
        config: String,
    },
    /// An image that the config names.
    #[error("{config}: {field}: {source}")]
    ConfigImage {
        /// Name of the rendered config.
        config: String,
        /// The field.
        field: &'static str,
        /// What is wrong.
        source: ReferenceError,
    },
    /// The inputs can't be built.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// An image that can't be found or read.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// A layer of the base, which doesn't say of which image it is.
    #[error("{image}: {source}")]
    Layer {
        /// The base.
        image: String,
        /// What is wrong with it.
        source: layer::Error,
    },
}

impl Error {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoBase { .. } | Self::ConfigImage { .. } => ErrorClass::InvalidInput,
            Self::Plan(error) => error.class(),
            Self::Registry(error) => error.class(),
            Self::Layer { source, .. } => source.class(),
        }
    }

    /// One of the reasons of [`plan::Error`], [`registry::Error`] and [`layer::Error`], `no-base`, `bad-reference`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoBase { .. } => "no-base",
            Self::ConfigImage { .. } => "bad-reference",
            Self::Plan(error) => error.reason(),
            Self::Registry(error) => error.reason(),
            Self::Layer { source, .. } => source.reason(),
        }
    }
}

/// Resolves the images that the inputs name, and decides what doesn't depend on the base's tree.
/// Requests only manifests and configs.
///
/// # Errors
/// Input that is missing or wrong, a base that can't be found or isn't one.
pub async fn draft(
    context: PlanContext<'_>,
    request: BuildRequest,
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
    let resolved = resolve(context, "base", &source, request.platform.as_ref()).await?;
    let base = base(&request, &resolved)?;
    let mut warnings: Vec<_> = context.client.unchecked_signature(&source).into_iter().collect();
    let extensions_image = extensions_image(context, &request, &base, &mut warnings).await?;
    let containerfile = request.containerfile.filter(|text| has_instruction(text));
    let build_args = match &containerfile {
        Some(_) => request.build_args,
        None => BTreeMap::new(),
    };
    if let Some(text) = &containerfile {
        let platform = &base.config.platform;
        warnings.extend(unchecked_images(context.client, text, &build_args, platform));
    }
    let resolving = began.elapsed();
    let draft = Draft::new(Request {
        config: request.config,
        base,
        extensions_image,
        containerfile,
        build_args,
        trust_bundle: request.trust_bundle,
        method: request.method,
        on_top: request.on_top,
        push: request.push,
    })?;
    Ok(ResolvedDraft { draft, base: resolved, warnings, resolving })
}

/// Makes the whole plan: [`draft`], then [`finish`].
///
/// # Errors
/// As [`draft`]; a base whose layers can't be read, and what the real Ignition would fail on.
pub async fn plan(context: PlanContext<'_>, request: BuildRequest) -> Result<ResolvedPlan, Error> {
    let resolved_draft = draft(context, request).await?;
    finish(context, resolved_draft).await
}

/// Finishes a plan, reading the base's tree if it is needed.
///
/// # Errors
/// A base whose layers can't be read, and what the real Ignition would fail on.
pub async fn finish(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
) -> Result<ResolvedPlan, Error> {
    let began = Instant::now();
    let tree = match resolved_draft.draft.needs_tree() {
        true => {
            (context.on_step)("reading the base's tree");
            let base = &resolved_draft.draft.request().base;
            Some(obtain(context, base, &resolved_draft.base).await?)
        }
        false => None,
    };
    finish_with(context, resolved_draft, tree, began).await
}

/// Finishes a plan with a tree that the caller has: no layer of the base is read.
///
/// # Errors
/// What the real Ignition would fail on.
pub async fn finish_with_tree(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    tree: BaseTree,
) -> Result<ResolvedPlan, Error> {
    let obtained = Obtained { tree, source: TreeSource::Cache, warnings: Vec::new() };
    finish_with(context, resolved_draft, Some(obtained), Instant::now()).await
}

/// The tree of a base: from a cache, else from its layers.
async fn obtain(
    context: PlanContext<'_>,
    base: &Base,
    resolved: &Resolved,
) -> Result<Obtained, Error> {
    let mut warnings = Vec::new();
    let disk = match context.trees {
        Some(Trees::Image(client, image)) => {
            match tree_image::pull(client, image, &resolved.manifest).await {
                Ok(tree) => {
                    let source = TreeSource::Cache;
                    return Ok(Obtained { tree, source, warnings });
                }
                Err(warning) => warnings.push(warning),
            }
            None
        }
        Some(Trees::Disk(cache)) => Some(cache),
        None => None,
    };
    let layers = layers(base, resolved);
    let obtained = base_tree::obtain(disk, &resolved.manifest, &resolved.store, &layers).await;
    match obtained {
        Ok(mut obtained) => {
            obtained.warnings.splice(0..0, warnings);
            Ok(obtained)
        }
        // The error of a layer doesn't name the image.
        Err(registry::Error::Layer(source)) => {
            Err(Error::Layer { image: resolved.pinned_text(), source })
        }
        Err(other) => Err(other.into()),
    }
}

async fn finish_with(
    context: PlanContext<'_>,
    resolved_draft: ResolvedDraft,
    obtained: Option<Obtained>,
    began: Instant,
) -> Result<ResolvedPlan, Error> {
    (context.on_step)("planning");
    let ResolvedDraft { draft, base, mut warnings, resolving } = resolved_draft;
    let tree = match &obtained {
        Some(obtained) => {
            warnings.extend(obtained.warnings.iter().cloned());
            obtained.tree.clone()
        }
        None => BaseTree::from_entries([]),
    };
    let finished = spawn_blocking(move || draft.finish(&tree)).await;
    let mut plan = finished.expect("planning does not panic and is not cancelled")?;
    plan.warnings.extend(warnings);
    plan.warnings.dedup();
    Ok(ResolvedPlan { plan, base, tree: obtained, resolving, planning: began.elapsed() })
}

/// The layers of an image as manifest and config describe them, lowest first.
pub fn layers(base: &Base, resolved: &Resolved) -> Vec<Layer> {
    let layers = resolved.layers.iter().zip(&base.config.diff_ids);
    layers
        .map(|(blob, diff_id)| Layer {
            media_type: blob.media_type.clone(),
            digest: blob.digest,
            size: blob.size,
            diff_id: *diff_id,
            annotations: blob.annotations.clone(),
        })
        .collect()
}

async fn resolve(
    context: PlanContext<'_>,
    what: &str,
    source: &Source,
    platform: Option<&Platform>,
) -> Result<Resolved, Error> {
    (context.on_step)(&format!("resolving {what} {source}"));
    Ok(context.client.resolve(source, platform).await?)
}

/// The given base, else `spec.osImageURL`.
fn base_source(request: &BuildRequest) -> Result<Source, Error> {
    if let Some(source) = &request.base {
        return Ok(source.clone());
    }
    let config = &request.config;
    let url = config
        .os_image_url
        .as_ref()
        .ok_or_else(|| Error::NoBase { config: config.name().to_string() })?;
    config_image(config, "spec.osImageURL", url).map(Source::Registry)
}

fn config_image(
    config: &RenderedConfig,
    field: &'static str,
    url: &str,
) -> Result<ImageRef, Error> {
    url.parse().map_err(|source| wrong_image(config, field, source))
}

fn wrong_image(config: &RenderedConfig, field: &'static str, source: ReferenceError) -> Error {
    Error::ConfigImage { config: config.name().to_string(), field, source }
}

fn base(request: &BuildRequest, resolved: &Resolved) -> Result<Base, Error> {
    let config = &request.config;
    let name = match (&request.base_name, &request.base, &config.os_image_url) {
        (Some(name), _, _) => name.clone(),
        (None, None, Some(url)) => BaseName::from_os_image_url(url)
            .map_err(|source| wrong_image(config, "spec.osImageURL", source))?,
        (None, _, _) => given_base_name(resolved),
    };
    let base = Base::new(
        name,
        resolved.pinned_text(),
        resolved.index,
        &resolved.manifest_bytes,
        &resolved.config_bytes,
    );
    Ok(base.map_err(plan::Error::from)?)
}

/// How labels name a base that was given instead of named by the config.
pub fn given_base_name(base: &Resolved) -> BaseName {
    match base.pinned() {
        Some(pinned) => BaseName::from_registry(pinned.repo(), base.manifest),
        None => BaseName::from_layout(base.manifest),
    }
}

/// Images that only buildah pulls, for which the policy requires signatures that are not checked.
fn unchecked_images(
    client: &Client,
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Vec<Finding> {
    let images = match containerfile::images(text, build_args, platform) {
        Ok(images) => images,
        Err(error) => {
            // On the command line buildah reports what is wrong; in a cluster the planner does.
            tracing::debug!(%error, "can't list the images whose signatures are not checked");
            return Vec::new();
        }
    };
    let sources = images.into_iter().map(Source::Registry);
    sources.filter_map(|source| client.unchecked_signature(&source)).collect()
}

/// The image with packages, where packages are request.
async fn extensions_image(
    context: PlanContext<'_>,
    request: &BuildRequest,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> Result<Option<PinnedRef>, Error> {
    let config = &request.config;
    let needed = !config.extensions.is_empty() || config.kernel_type != KernelType::Default;
    if !needed {
        if let Some(image) = &request.extensions_image {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            warnings
                .push(Finding::new("extensions-image-unused", message).object(image.to_string()));
        }
        return Ok(None);
    }
    let image = match (&request.extensions_image, &config.extensions_image) {
        (Some(image), _) => image.clone(),
        (None, Some(url)) => config_image(config, "spec.baseOSExtensionsContainerImage", url)?,
        (None, None) => return Ok(None),
    };
    let platform = Some(&base.config.platform);
    let source = Source::Registry(image);
    let resolved = resolve(context, "extensions image", &source, platform).await?;
    warnings.extend(context.client.unchecked_signature(&source));
    Ok(resolved.pinned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_registry::Options;

    #[test]
    fn signatures_of_images_that_only_buildah_pulls_are_reported_as_not_checked() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policy.json");
        let policy = r#"{"default":[{"type":"insecureAcceptAnything"}],
            "transports":{"docker":{"q.io/signed":[{"type":"sigstoreSigned","keyData":"eA=="}]}}}"#;
        std::fs::write(&file, policy).unwrap();
        let client =
            Client::new(&Options { signature_policy: Some((file, true)), ..Options::default() })
                .unwrap();
        let platform = "linux/amd64".parse().unwrap();
        for (what, text, want) in [
            ("FROM", "FROM q.io/signed/a:1", &["q.io/signed/a:1"][..]),
            (
                "COPY and RUN",
                "FROM configs\nARG A\nCOPY --from=q.io/$A/b /a /b\nRUN --mount=from=q.io/signed/c true",
                &["q.io/signed/b", "q.io/signed/c"],
            ),
            ("none is asked for", "FROM q.io/other", &[]),
            ("it can't be decided", "FROM $X", &[]),
        ] {
            let arguments = [("A".to_owned(), "signed".to_owned())].into();
            let found = unchecked_images(&client, text, &arguments, &platform);
            let of: Vec<_> = found.iter().filter_map(|one| one.object.as_deref()).collect();
            assert_eq!(of, want, "{what}: {found:?}");
            assert!(found.iter().all(|one| one.code == "signature-not-checked"));
        }
    }
}
