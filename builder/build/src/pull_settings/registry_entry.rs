//! Where the repository of an image is pulled from.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use mosb_image::RepoRef;
use mosb_registry::registries_conf::{By, RegistriesConf, full_name};

/// The entry of a `registries.conf` for the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RegistryEntry {
    pub location: String,
    pub insecure: bool,
    /// Only its mirrors may be asked.
    pub blocked: bool,
    pub mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mirror {
    pub location: String,
    pub insecure: bool,
}

impl RegistryEntry {
    /// None if a machine without an entry does the same. An image is always pulled by its digest.
    pub fn of(repo: &RepoRef, conf: &str) -> Option<Self> {
        let mut all = RegistriesConf::default();
        all.add(conf, Path::new("mirrors")).ok()?;
        let location = full_name(repo);
        // A source that is blocked and has no mirrors.
        let Ok(sources) = all.pull_sources(repo, By::Digest) else {
            return Some(Self { location, insecure: false, blocked: true, mirrors: Vec::new() });
        };
        let own = sources.iter().find(|source| !source.mirror);
        let mirrors = sources.iter().filter(|source| source.mirror);
        let mirrors = mirrors
            .map(|one| Mirror { location: full_name(&one.repo), insecure: one.insecure })
            .collect();
        let insecure = own.is_some_and(|own| own.insecure);
        let made = Self { location, insecure, blocked: own.is_none(), mirrors };
        (made.insecure || made.blocked || !made.mirrors.is_empty()).then_some(made)
    }

    /// The entry as `registries.conf` has it.
    pub fn to_conf(&self) -> String {
        let place = |text: &mut String, location: &str, insecure: bool| {
            writeln!(text, "location = \"{location}\"\ninsecure = {insecure}")
                .expect("a String takes it");
        };
        let mut text = "[[registry]]\n".to_owned();
        place(&mut text, &self.location, self.insecure);
        writeln!(text, "blocked = {}", self.blocked).expect("a String takes it");
        for mirror in &self.mirrors {
            text.push_str("[[registry.mirror]]\n");
            place(&mut text, &mirror.location, mirror.insecure);
        }
        text
    }
}
