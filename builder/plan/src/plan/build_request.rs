//! The one build request, in its stages: an input that is a file is named, then read; an image is
//! named, then pinned.
//!
//! A new input of a build is a field here. Planning takes a [`Pinned`] request only, so everything
//! that had to be read or resolved is in it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::base::Base;
use super::build_context::BuildContext;
use super::method::MethodChoice;
use crate::api::{BuildOn, RenderedConfig};
use mosb_image::{PinnedRef, RepoRef};

/// How far a request is resolved: the types that its inputs have by then.
pub trait Stage {
    type Config;
    type Containerfile;
    /// The directory that the Containerfile copies of.
    type Context;
    /// Certificates in PEM.
    type TrustBundle;
    type Base;
    type ExtensionsImage;
    /// None as long as it follows from a config that is not read.
    type BuildOn: Default;
}

/// Every file is read, and every image has a digest.
#[derive(Debug, Clone)]
pub struct Pinned;

impl Stage for Pinned {
    type Config = RenderedConfig;
    type Containerfile = String;
    type Context = BuildContext;
    type TrustBundle = Bytes;
    type Base = Base;
    type ExtensionsImage = PinnedRef;
    type BuildOn = BuildOn;
}

/// The inputs of a build.
#[derive(Debug, Clone)]
pub struct BuildRequest<S: Stage = Pinned> {
    pub config: S::Config,
    pub base: S::Base,
    /// Overrides the config's `spec.baseOSExtensionsContainerImage`; once pinned, only there if the
    /// config needs packages.
    pub extensions_image: Option<S::ExtensionsImage>,
    /// The administrator's own.
    pub containerfile: Option<S::Containerfile>,
    /// What the Containerfile copies of a directory; none in a cluster.
    pub context: Option<S::Context>,
    /// ARGs of the Containerfile.
    pub build_args: BTreeMap<String, String>,
    pub trust_bundle: Option<S::TrustBundle>,
    pub method: MethodChoice,
    /// Whether the base may itself be built from a rendered config.
    pub on_top: bool,
    /// Which configs get an image: with `every-config`, it brings files below `/var` to machines.
    pub build_on: S::BuildOn,
    /// The repository to push to; `None` for an OCI layout.
    pub push: Option<RepoRef>,
}

impl<S: Stage> BuildRequest<S> {
    /// A build of nothing but a config on a base, into an OCI layout.
    pub fn new(config: S::Config, base: S::Base) -> Self {
        Self {
            config,
            base,
            extensions_image: None,
            containerfile: None,
            context: None,
            build_args: BTreeMap::new(),
            trust_bundle: None,
            method: MethodChoice::Auto,
            on_top: false,
            build_on: S::BuildOn::default(),
            push: None,
        }
    }
}
