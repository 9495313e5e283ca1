//! A build request before any image is resolved.

use std::path::PathBuf;

use bytes::Bytes;

use mosb_image::{ImageRef, Platform};
use mosb_plan::api::{BuildOn, RenderedConfig};
use mosb_plan::plan::{BaseName, Stage};
use mosb_registry::Source;

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
