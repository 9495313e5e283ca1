//! `registries.conf`, version 2 (containers-registries.conf(5)): where a name is really pulled
//! from.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use mosb_image::RepoRef;
use mosb_types::Explained;

use crate::auth::login_key::path_in_registry;
use crate::error::Error;
use crate::signature_policy::SettingNames;

/// All entries of a file and its drop-ins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistriesConf {
    registries: Vec<Registry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default, rename = "mirror")]
    mirrors: Vec<Mirror>,
    /// What messages call the file that it is in.
    #[serde(skip)]
    from: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: Which,
}

/// `pull-from-mirror`: which references a mirror serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Which {
    #[default]
    #[serde(alias = "")]
    All,
    DigestOnly,
    TagOnly,
}

/// The version 1 tables are read only to say that they are not.
#[derive(Deserialize)]
struct RawConf {
    #[serde(default, rename = "registry")]
    registries: Vec<Registry>,
    #[serde(default, rename = "registries")]
    version_1: Option<toml::Value>,
}

/// A repository to pull from: the named one or a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullSource {
    pub repo: RepoRef,
    /// Whether its certificate is not checked and plain HTTP is fine.
    pub insecure: bool,
    /// Whether it is a mirror, which may well not have the image.
    pub mirror: bool,
}

/// How a reference is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Tag,
    Digest,
}

impl RegistriesConf {
    /// The file and its drop-ins (`<file>.d/*.conf`, in the order of their names; a later entry of
    /// the same prefix replaces an earlier one). Without `required`, a file that isn't there holds
    /// nothing.
    pub fn read(file: &Path, required: bool, names: &SettingNames) -> Result<Self, Error> {
        let mut all = Self::default();
        match std::fs::read_to_string(file) {
            Ok(text) => all.add(&text, file)?,
            Err(e) if !required && e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(wrong(file, format!("not readable: {e}"))),
        }
        let mut folder = file.as_os_str().to_owned();
        folder.push(".d");
        let folder = PathBuf::from(folder);
        let mut drop_ins = match std::fs::read_dir(&folder) {
            Ok(entries) => entries
                .map(|entry| entry.map(|e| e.path()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| wrong(&folder, format!("not readable: {e}")))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(wrong(&folder, format!("not readable: {e}"))),
        };
        drop_ins.retain(|path| path.extension().is_some_and(|e| e == "conf"));
        drop_ins.sort();
        for path in drop_ins {
            let text = std::fs::read_to_string(&path)
                .map_err(|e| wrong(&path, format!("not readable: {e}")))?;
            all.add(&text, &path)?;
        }
        for registry in &mut all.registries {
            if let Some(name) = names.blocked.get(&registry.prefix) {
                registry.from.clone_from(name);
            }
        }
        Ok(all)
    }

    /// Adds the entries of one file's text.
    pub fn add(&mut self, text: &str, file: &Path) -> Result<(), Error> {
        let raw: RawConf =
            toml::from_str(text).map_err(|e| wrong(file, e.to_string().trim_end().to_owned()))?;
        if raw.version_1.is_some() {
            return Err(wrong(
                file,
                Explained::new(
                    "version 1 ([registries.search] and the like)",
                    "write [[registry]] entries, as version 2 has them",
                ),
            ));
        }
        for mut new in raw.registries {
            new.from = file.display().to_string();
            let mirrors = new.mirrors.iter_mut().map(|mirror| &mut mirror.location);
            for place in mirrors.chain([&mut new.prefix, &mut new.location]) {
                without_slashes(place).map_err(|cause| wrong(file, cause))?;
            }
            if new.prefix.is_empty() {
                new.prefix = new.location.clone();
            }
            if new.prefix.is_empty() {
                return Err(wrong(
                    file,
                    "a [[registry]] has neither prefix nor location".to_owned(),
                ));
            }
            if new.location.is_empty() && !new.prefix.starts_with("*.") {
                new.location = new.prefix.clone();
            }
            self.registries.retain(|old| old.prefix != new.prefix);
            self.registries.push(new);
        }
        Ok(())
    }

    /// The entry with the longest prefix that matches, and how much of the name it covers.
    fn entry(&self, name: &str) -> Option<(&Registry, usize)> {
        self.registries
            .iter()
            .filter_map(|r| Some((r, covers(&r.prefix, name)?)))
            .max_by_key(|(r, _)| r.prefix.len())
    }

    /// Where to pull from, in order: the mirrors, then the location itself. Only the location can
    /// be blocked, as in buildah.
    pub fn pull_sources(&self, repo: &RepoRef, by: By) -> Result<Vec<PullSource>, Error> {
        let name = full_name(repo);
        let Some((registry, covered)) = self.entry(&name) else {
            return Ok(vec![PullSource { repo: repo.clone(), insecure: false, mirror: false }]);
        };
        let at = |location: &str, insecure, mirror| -> Result<PullSource, Error> {
            let moved = if location.is_empty() {
                name.clone()
            } else {
                format!("{location}{}", &name[covered..])
            };
            Ok(PullSource { repo: moved.parse()?, insecure, mirror })
        };
        let mut sources = Vec::new();
        for mirror in &registry.mirrors {
            let serves = match (registry.mirror_by_digest_only, mirror.pull_from_mirror, by) {
                (true, _, by) | (false, Which::DigestOnly, by) => by == By::Digest,
                (false, Which::TagOnly, by) => by == By::Tag,
                (false, Which::All, _) => true,
            };
            if serves {
                sources.push(at(&mirror.location, mirror.insecure, true)?);
            }
        }
        if !registry.blocked {
            sources.push(at(&registry.location, registry.insecure, false)?);
        } else if sources.is_empty() {
            return Err(blocked(repo, registry));
        }
        Ok(sources)
    }

    /// Whether a repository that is pushed to is insecure; pushes go to the name itself, never to a
    /// mirror.
    pub fn push_insecure(&self, repo: &RepoRef) -> Result<bool, Error> {
        match self.entry(&full_name(repo)) {
            Some((registry, _)) if registry.blocked => Err(blocked(repo, registry)),
            Some((registry, _)) => Ok(registry.insecure),
            None => Ok(false),
        }
    }
}

/// The name by which containers' tools look for an entry: they know Docker Hub by two, and give its
/// own images a namespace.
pub fn full_name(repo: &RepoRef) -> String {
    match repo.host() {
        "docker.io" | "index.docker.io" => format!("docker.io/{}", path_in_registry(repo)),
        _ => repo.to_string(),
    }
}

fn blocked(repo: &RepoRef, registry: &Registry) -> Error {
    Error::Blocked {
        image: repo.to_string(),
        prefix: registry.prefix.clone(),
        by: registry.from.clone(),
    }
}

/// Prefixes and locations are read as containers' tools read them: slashes at the end mean nothing,
/// and a URI scheme is an error.
fn without_slashes(place: &mut String) -> Result<(), Explained> {
    place.truncate(place.trim_end_matches('/').len());
    for scheme in ["https://", "http://"] {
        if let Some(rest) = place.strip_prefix(scheme) {
            return Err(Explained::new(
                format!("{place:?} has a URI scheme, which is not taken here"),
                format!("write {rest:?}"),
            ));
        }
    }
    Ok(())
}

/// How many bytes of `host/repository` a prefix covers: whole components, or `*.domain` for the
/// hosts below it.
pub fn covers(prefix: &str, name: &str) -> Option<usize> {
    if let Some(domain) = prefix.strip_prefix('*') {
        let host = name.split('/').next()?;
        // A port written in the prefix must be the host's.
        let matched = host.len() > domain.len() && host.ends_with(domain);
        return matched.then_some(host.len());
    }
    let rest = name.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(prefix.len())
}

fn wrong(file: &Path, cause: impl Into<Explained>) -> Error {
    Error::RegistriesConf { file: file.display().to_string(), cause: cause.into() }
}

#[cfg(test)]
mod tests;
