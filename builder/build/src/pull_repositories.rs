//! From which repositories an image may come.

use std::path::Path;

use mosb_image::RepoRef;
use mosb_registry::registries_conf::{By, RegistriesConf};

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
