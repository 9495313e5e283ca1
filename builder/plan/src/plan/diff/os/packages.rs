//! The packages of two images, by name.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Change;
use mosb_image::packages::Package;

/// Packages that differ, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageChanges {
    /// Only the second image has them.
    pub added: Vec<PackageChange>,
    /// Only the first image has them.
    pub removed: Vec<PackageChange>,
    /// Both images have them, in other versions.
    pub changed: Vec<PackageChange>,
}

/// A package that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageChange {
    /// Its name; with `.` and the architecture if an image has the name for several ones.
    pub name: String,
    /// The version of the first image; several with commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version of the second image; several with commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl PackageChange {
    pub fn change(&self) -> Change {
        match (&self.from, &self.to) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (Some(_), Some(_)) => Change::Changed,
        }
    }
}

impl PackageChanges {
    pub(super) fn between<'p>(
        from: impl Iterator<Item = &'p Package>,
        to: impl Iterator<Item = &'p Package>,
    ) -> Self {
        let (from, to) = (versions(from), versions(to));
        let mut found = Self::default();
        for name in from.keys().chain(to.keys()).collect::<BTreeSet<_>>() {
            let none = BTreeMap::new();
            let (before, after) = (from.get(name).unwrap_or(&none), to.get(name).unwrap_or(&none));
            // A package of one architecture may get another one.
            if before.len() <= 1 && after.len() <= 1 {
                let (mut old, mut new) = (only_version(before, false), only_version(after, false));
                if old == new {
                    (old, new) = (only_version(before, true), only_version(after, true));
                }
                found.add((*name).to_owned(), old, new);
                continue;
            }
            for arch in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                let (old, new) = (before.get(arch).cloned(), after.get(arch).cloned());
                found.add(with_arch(name, *arch), old, new);
            }
        }
        found
    }

    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// All of them, sorted by name.
    pub fn all(&self) -> Vec<&PackageChange> {
        let mut all: Vec<_> = self.added.iter().chain(&self.removed).chain(&self.changed).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Adds a package with the versions that only one side has.
    fn add(&mut self, name: String, from: Option<Vec<String>>, to: Option<Vec<String>>) {
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let only = |these: &[String], others: &[String]| {
            let only: Vec<&str> =
                these.iter().filter(|it| !others.contains(it)).map(String::as_str).collect();
            (!only.is_empty()).then(|| only.join(", "))
        };
        let change = PackageChange { name, from: only(&from, &to), to: only(&to, &from) };
        match (&change.from, &change.to) {
            (None, None) => {}
            (None, Some(_)) => self.added.push(change),
            (Some(_), None) => self.removed.push(change),
            (Some(_), Some(_)) => self.changed.push(change),
        }
    }
}

/// The versions of a package of one architecture, with or without the architecture.
fn only_version(arches: &Arches<'_>, with: bool) -> Option<Vec<String>> {
    let (arch, versions) = arches.first_key_value()?;
    let arch = arch.filter(|_| with);
    Some(versions.iter().map(|version| with_arch(version, arch)).collect())
}

fn with_arch(text: &str, arch: Option<&str>) -> String {
    arch.map_or_else(|| text.to_owned(), |arch| format!("{text}.{arch}"))
}

/// The versions of a package by architecture.
type Arches<'p> = BTreeMap<Option<&'p str>, Vec<String>>;

fn versions<'p>(packages: impl Iterator<Item = &'p Package>) -> BTreeMap<&'p str, Arches<'p>> {
    let mut versions: BTreeMap<&str, Arches<'_>> = BTreeMap::new();
    for Package { name, version, arch, .. } in packages {
        let arches = versions.entry(name).or_default();
        arches.entry(arch.as_deref()).or_default().push(version.clone());
    }
    versions
}
