//! From which repositories an image may come, and what machines pull it with.

use std::path::Path;

use crate::{DockerConfigJson, NamedSecret, registries_conf};
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::api::ClusterSettings;
use mosb_registry::registries_conf::{By, RegistriesConf};
use mosb_types::Diagnostic;

/// The repositories that an image may be pulled from: its own, and those of its mirrors (`conf` is
/// a `registries.conf`).
pub fn pull_repositories(repo: &RepoRef, conf: Option<&str>, by: &[By]) -> Vec<RepoRef> {
    let mut all = RegistriesConf::default();
    let is_read = conf.is_some_and(|text| all.add(text, Path::new("mirrors")).is_ok());
    let by = by.iter().filter(|_| is_read);
    let places = by.filter_map(|by| all.pull_sources(repo, *by).ok()).flatten();
    // A source that is never asked may still be the one that a login is written for.
    let mut repos: Vec<RepoRef> = places.map(|place| place.repo).chain([repo.clone()]).collect();
    repos.sort();
    repos.dedup();
    repos
}

/// Machines would get a login that pushes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error(
    "{image}: the login that pulls it is one that secret {secret} pushes with, and every machine would have it; give the pool a pull secret with a login that can only pull (spec.baseImagePullSecret, or globalPullSecret in ConfigMap mosb-config)"
)]
#[diagnostic(code = "push-login", class = InvalidInput)]
pub struct PushLogin {
    pub image: String,
    pub secret: String,
}

/// The login of machines for an image and its mirrors, and for nothing else.
///
/// # Errors
/// It is one that pushes.
pub fn pull_only_login(
    image: &PinnedRef,
    pull: &DockerConfigJson,
    push: Option<&NamedSecret>,
    settings: &ClusterSettings,
) -> Result<DockerConfigJson, PushLogin> {
    let conf = registries_conf(settings);
    let pulled = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
    let login = pull.used_for(&pulled);
    match push {
        Some(push) if login.has_login_of(&push.credentials) => {
            Err(PushLogin { image: image.to_string(), secret: push.name.clone() })
        }
        Some(_) | None => Ok(login),
    }
}
