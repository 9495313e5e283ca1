//! From inputs to a plan: what they name in registries is resolved once, and the base's tree is read where it decides.
//!
//! The command line, a build pod and the controller all plan by this, so that the same inputs are one build everywhere.

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

/// What somebody wants built; nothing of it is resolved yet.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The rendered config.
    pub config: RenderedConfig,
    /// The base; without, the config's `spec.osImageURL`.
    pub base: Option<Source>,
    /// What labels call the base; without, what follows from where it was named.
    pub base_name: Option<BaseName>,
    /// The extensions image; without, the config's `spec.baseOSExtensionsContainerImage`. Asked for only where packages are wanted.
    pub extensions_image: Option<ImageRef>,
    /// The administrator's Containerfile. One without an instruction is none.
    pub containerfile: Option<String>,
    /// Its ARGs.
    pub build_args: BTreeMap<String, String>,
    /// Certificates in PEM.
    pub trust_bundle: Option<Bytes>,
    /// Which image of an index.
    pub platform: Option<Platform>,
    /// How to build.
    pub method: MethodChoice,
    /// The base may itself be built from a rendered config.
    pub on_top: bool,
    /// The repository to push to; none for an OCI layout.
    pub push: Option<RepoRef>,
}

/// What it is done with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Registries and layouts, to read.
    pub client: &'a Client,
    /// Where base trees are kept; none, and each is computed.
    pub trees: Option<Trees<'a>>,
    /// Told before each step, in words for people.
    pub on_step: &'a (dyn Fn(&str) + Sync),
}

/// Where base trees are kept.
#[derive(Debug, Clone, Copy)]
pub enum Trees<'a> {
    /// A folder, which is read and written.
    Disk(&'a TreeCache),
    /// The image with the tree of the one base that is meant, which is read, and what it is read with.
    Image(&'a Client, &'a PinnedRef),
}

impl std::fmt::Debug for Means<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("trees", &self.trees).finish_non_exhaustive()
    }
}

/// A plan without what the base's tree decides. Its names are those of the whole plan.
#[derive(Debug)]
pub struct Drafted {
    /// The draft.
    pub draft: Draft,
    /// The base, to build on.
    pub base: Resolved,
    /// What the reader should know.
    pub warnings: Vec<Finding>,
    /// How long registries took.
    pub resolving: Duration,
}

/// A plan, and what it was made with.
#[derive(Debug)]
pub struct Prepared {
    /// The plan; its warnings hold all there were.
    pub plan: BuildPlan,
    /// The base, to build on.
    pub base: Resolved,
    /// The base's tree, if it was needed.
    pub tree: Option<Obtained>,
    /// How long registries took.
    pub resolving: Duration,
    /// How long it took to read the base's tree, and to plan with it.
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
    /// What the caller should do.
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

/// Resolves what the inputs name, and decides what can be decided without the base's tree. Asks registries for manifests
/// and configs only.
///
/// # Errors
/// Input that is missing or wrong, a base that can't be found or isn't one.
pub async fn draft(means: Means<'_>, wanted: Wanted) -> Result<Drafted, Error> {
    let began = Instant::now();
    let config = &wanted.config;
    // A broken config is told before anything is asked of a registry.
    if let Some(raw) = config.ignition() {
        ignition::parse(raw).map_err(|source| plan::Error::Ignition {
            config: config.name().to_string(),
            source,
        })?;
    }
    let source = base_source(&wanted)?;
    let resolved = resolve(means, "base", &source, wanted.platform.as_ref()).await?;
    let base = base(&wanted, &resolved)?;
    let mut warnings: Vec<_> = means.client.unchecked_signature(&source).into_iter().collect();
    let extensions_image = extensions_image(means, &wanted, &base, &mut warnings).await?;
    let containerfile = wanted.containerfile.filter(|text| has_instruction(text));
    let build_args = match &containerfile {
        Some(_) => wanted.build_args,
        None => BTreeMap::new(),
    };
    if let Some(text) = &containerfile {
        let platform = &base.config.platform;
        warnings.extend(unchecked_images(means.client, text, &build_args, platform));
    }
    let resolving = began.elapsed();
    let draft = Draft::new(Request {
        config: wanted.config,
        base,
        extensions_image,
        containerfile,
        build_args,
        trust_bundle: wanted.trust_bundle,
        method: wanted.method,
        on_top: wanted.on_top,
        push: wanted.push,
    })?;
    Ok(Drafted { draft, base: resolved, warnings, resolving })
}

/// Makes the whole plan: [`draft`], then the base's tree where it is needed, then the rest.
///
/// # Errors
/// As [`draft`]; a base whose layers can't be read, and what the real Ignition would fail on.
pub async fn plan(means: Means<'_>, wanted: Wanted) -> Result<Prepared, Error> {
    let drafted = draft(means, wanted).await?;
    finish(means, drafted).await
}

/// The rest of a plan, by the base's tree where it is needed.
///
/// # Errors
/// A base whose layers can't be read, and what the real Ignition would fail on.
pub async fn finish(means: Means<'_>, drafted: Drafted) -> Result<Prepared, Error> {
    let began = Instant::now();
    let tree = match drafted.draft.needs_tree() {
        true => {
            (means.on_step)("reading the base's tree");
            let base = &drafted.draft.request().base;
            Some(obtain(means, base, &drafted.base).await?)
        }
        false => None,
    };
    finish_with(means, drafted, tree, began).await
}

/// The rest of a plan by a tree that is at hand: no layer of the base is read.
///
/// # Errors
/// What the real Ignition would fail on.
pub async fn finish_by(
    means: Means<'_>,
    drafted: Drafted,
    tree: BaseTree,
) -> Result<Prepared, Error> {
    let obtained = Obtained { tree, source: TreeSource::Cache, warnings: Vec::new() };
    finish_with(means, drafted, Some(obtained), Instant::now()).await
}

/// The tree of a base: kept somewhere, else from its layers.
async fn obtain(means: Means<'_>, base: &Base, resolved: &Resolved) -> Result<Obtained, Error> {
    let mut warnings = Vec::new();
    let disk = match means.trees {
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
        // What is wrong with a layer doesn't say of which image.
        Err(registry::Error::Layer(source)) => {
            Err(Error::Layer { image: resolved.pinned_text(), source })
        }
        Err(other) => Err(other.into()),
    }
}

async fn finish_with(
    means: Means<'_>,
    drafted: Drafted,
    obtained: Option<Obtained>,
    began: Instant,
) -> Result<Prepared, Error> {
    (means.on_step)("planning");
    let Drafted { draft, base, mut warnings, resolving } = drafted;
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
    Ok(Prepared { plan, base, tree: obtained, resolving, planning: began.elapsed() })
}

/// The layers of an image as manifest and config describe them, the lowest first.
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
    means: Means<'_>,
    what: &str,
    source: &Source,
    platform: Option<&Platform>,
) -> Result<Resolved, Error> {
    (means.on_step)(&format!("resolving {what} {source}"));
    Ok(means.client.resolve(source, platform).await?)
}

/// The base that was given, else `spec.osImageURL`.
fn base_source(wanted: &Wanted) -> Result<Source, Error> {
    if let Some(source) = &wanted.base {
        return Ok(source.clone());
    }
    let config = &wanted.config;
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

fn base(wanted: &Wanted, resolved: &Resolved) -> Result<Base, Error> {
    let config = &wanted.config;
    let name = match (&wanted.base_name, &wanted.base, &config.os_image_url) {
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

/// What labels call a base that was given, and not named by the config.
pub fn given_base_name(base: &Resolved) -> BaseName {
    match base.pinned() {
        Some(pinned) => BaseName::from_registry(pinned.repo(), base.manifest),
        None => BaseName::from_layout(base.manifest),
    }
}

/// What the policy asks for the images that only buildah pulls, and nobody checks.
fn unchecked_images(
    client: &Client,
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Vec<Finding> {
    let images = match containerfile::images(text, build_args, platform) {
        Ok(images) => images,
        Err(error) => {
            // By hand, buildah reads it and says what is wrong; in a cluster, whoever asked for the plan does.
            tracing::debug!(%error, "it is not known whose signatures are not checked");
            return Vec::new();
        }
    };
    let sources = images.into_iter().map(Source::Registry);
    sources.filter_map(|source| client.unchecked_signature(&source)).collect()
}

/// The image with packages, where packages are wanted.
async fn extensions_image(
    means: Means<'_>,
    wanted: &Wanted,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> Result<Option<PinnedRef>, Error> {
    let config = &wanted.config;
    let needed = !config.extensions.is_empty() || config.kernel_type != KernelType::Default;
    if !needed {
        if let Some(image) = &wanted.extensions_image {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            warnings
                .push(Finding::new("extensions-image-unused", message).object(image.to_string()));
        }
        return Ok(None);
    }
    let image = match (&wanted.extensions_image, &config.extensions_image) {
        (Some(image), _) => image.clone(),
        (None, Some(url)) => config_image(config, "spec.baseOSExtensionsContainerImage", url)?,
        (None, None) => return Ok(None),
    };
    let platform = Some(&base.config.platform);
    let source = Source::Registry(image);
    let resolved = resolve(means, "extensions image", &source, platform).await?;
    warnings.extend(means.client.unchecked_signature(&source));
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
