//! What a plan is made of. Everything that had to be fetched is in it already.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::base::Base;
use super::method::MethodChoice;
use crate::api::RenderedConfig;
use mosb_image::{PinnedRef, RepoRef};

/// What somebody wants built.
#[derive(Debug, Clone)]
pub struct Request {
    /// The rendered config.
    pub config: RenderedConfig,
    /// The base, resolved.
    pub base: Base,
    /// The extensions image, resolved; from `--extensions-image`, else the config's own if it is
    /// needed.
    pub extensions_image: Option<PinnedRef>,
    /// The administrator's own Containerfile.
    pub containerfile: Option<String>,
    /// `--build-arg`.
    pub build_args: BTreeMap<String, String>,
    /// `--trust-bundle`: certificates in PEM.
    pub trust_bundle: Option<Bytes>,
    /// `--method`.
    pub method: MethodChoice,
    /// `--on-top`: the base may itself be built from a rendered config.
    pub on_top: bool,
    /// The repository to push to; none for an OCI layout.
    pub push: Option<RepoRef>,
}
