//! Makes a plan from inputs: resolves the images that they name, once, and reads the base's tree
//! if the plan depends on it.
//!
//! The command line, a build pod and the controller all plan with this module, so that the same
//! inputs are the same build everywhere.

mod base;
mod base_tree;
mod draft;
mod plan;
mod render;
mod signatures;

use std::path::PathBuf;

use bytes::Bytes;

use mosb_api::{BuildOn, RenderedConfig};
use mosb_image::{ImageRef, PinnedRef, Platform, ReferenceError, layer};
use mosb_plan::plan::{BaseName, Stage};
use mosb_registry as registry;
use mosb_registry::cache::TreeCache;
use mosb_registry::{Client, Resolved, Source};
use mosb_types::Diagnostic;

pub use base::{extensions_source, given_base_name, layers};
pub use base_tree::{image_tree, tree_for_packages};
pub use draft::{ResolvedDraft, draft, draft_while};
pub use plan::{
    ResolvedPlan, ResolvedPrepared, finish, finish_on, finish_with_tree, prepared_base,
};
pub use render::{RenderFailure, admit_all, render};

/// Why there is no plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// Neither a base nor `spec.osImageURL`.
    #[error("{config}: spec.osImageURL is empty; give the base OS image with --base")]
    #[diagnostic(code = "no-base", class = InvalidInput)]
    NoBase { config: String },
    /// An image that the config names.
    #[error("{config}: {field}: {source}")]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    ConfigImage { config: String, field: &'static str, source: ReferenceError },
    /// The inputs can't be built.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] mosb_plan::plan::Error),
    /// The Containerfile asks for what the base doesn't have.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Containerfile(#[from] mosb_plan::containerfile::Error),
    /// The directory of the build context.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Context(#[from] crate::context_dir::Error),
    /// An image that buildah would resolve again after its signatures were checked.
    #[error(
        "{image}: its signatures are accepted, but the tag can name another image when buildah pulls it; write {pinned} in the Containerfile"
    )]
    #[diagnostic(code = "image-not-pinned", class = InvalidInput)]
    NotPinned { image: ImageRef, pinned: PinnedRef },
    /// An image that can't be found or read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] registry::Error),
    /// A layer of the base. The error does not contain the image.
    #[error("{image}: {source}")]
    #[diagnostic(transparent)]
    Layer {
        image: String,
        /// What is wrong with it.
        source: layer::Error,
    },
}

/// The clients and caches that planning uses.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
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
    /// Images with the trees of the base and of the prepared base, if there are some, and the client
    /// that pulls them.
    Images { client: &'a Client, base: Option<&'a PinnedRef>, prepared: Option<&'a PinnedRef> },
}

impl std::fmt::Debug for PlanContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanContext").field("trees", &self.trees).finish_non_exhaustive()
    }
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

/// Every file is read; images are named, with or without a digest. A Containerfile may still have
/// no instruction, and is then ignored.
#[derive(Debug, Clone)]
pub struct Unresolved;

impl Stage for Unresolved {
    type Config = RenderedConfig;
    type Containerfile = String;
    type Context = PathBuf;
    type TrustBundle = Bytes;
    type Base = UnresolvedBase;
    type ExtensionsImage = ImageRef;
    type BuildOn = BuildOn;
}

/// How a request names its base.
#[derive(Debug, Clone, Default)]
pub struct UnresolvedBase {
    /// Default: the config's `spec.osImageURL`.
    pub image: Option<Source>,
    /// How labels name the base. Default: derived from where the base comes from.
    pub name: Option<BaseName>,
    /// Which image of an index.
    pub platform: Option<Platform>,
}
