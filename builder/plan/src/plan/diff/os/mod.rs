//! The differences of the OS in two images, whoever built them: packages, kernel, files, users, groups, units,
//! presets, labels.
//!
//! They come from the [trees](BaseTree) of the images. A tree knows type, mode, owner, size and link
//! target of each path, and the contents of the files that planning reads. So a file with another
//! content of the same length is not seen, unless its content is retained.

mod accounts;
mod packages;
mod summary;
mod units;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Change, Changed, ContentState, PathChange, PathState, SettingChange, State, UnitChange,
    changed, side::octal,
};
use crate::plan::base::MODULES;
pub use accounts::{GroupChange, GroupState, UserChange, UserState};
use mosb_image::packages::Installed;
use mosb_image::tree::retained::PRESET_DIRECTORIES;
use mosb_image::tree::{BaseTree, Difference, Kind, Sided};
use mosb_types::Finding;
pub use packages::{PackageChange, PackageChanges};
pub use summary::OsSummary;

/// Components of the directories by which files are counted: `/usr/lib/modules`.
const COUNTED_DEPTH: usize = 3;

/// The OS in an image.
#[derive(Debug, Clone, Copy)]
pub struct OsSide<'a> {
    pub tree: &'a BaseTree,
    /// The labels in the image's config.
    pub labels: &'a BTreeMap<String, String>,
}

/// What differs between the OS in two images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsDiff {
    /// Packages in the databases of rpm and dpkg.
    pub packages: PackageChanges,
    /// The kernels, from `/usr/lib/modules`.
    pub kernel: KernelChange,
    /// All paths, by type, mode, owner, size and link target, and by content where that is known.
    pub files: FileChanges,
    /// Users in `passwd`, by name.
    pub users: Vec<UserChange>,
    /// Groups in `group`, by name.
    pub groups: Vec<GroupChange>,
    /// systemd units, by name.
    pub units: Vec<UnitChange>,
    /// Files with presets of systemd, by path.
    pub presets: Vec<PathChange>,
    /// Labels of the image, by key.
    pub labels: Vec<SettingChange>,
    /// Package databases that can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<Finding>,
}

/// The kernels of two images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KernelChange {
    /// Before; absent if there is none. Several are joined by `, `.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// After.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The paths that differ, counted; directories and links are among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChanges {
    /// Paths that only the second image has.
    pub added: u64,
    /// Paths that only the first image has.
    pub removed: u64,
    /// Paths that both have, with differences.
    pub changed: u64,
    /// The same by directory, at most three components deep.
    pub directories: Vec<DirectoryChanges>,
    /// With `--files`: each path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub list: Vec<PathChange>,
}

/// The paths that differ in a directory and below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryChanges {
    /// The directory.
    pub directory: String,
    /// Paths that only the second image has.
    pub added: u64,
    /// Paths that only the first image has.
    pub removed: u64,
    /// Paths that both have, with differences.
    pub changed: u64,
}

/// Whether each path that differs is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileList {
    Listed,
    Counted,
}

impl OsDiff {
    /// Compares two images.
    pub fn between(from: OsSide<'_>, to: OsSide<'_>, list: FileList) -> Self {
        let (files, presets) = files(from.tree, to.tree, list);
        let (before, after) = (Installed::of(from.tree), Installed::of(to.tree));
        let packages = PackageChanges::between(before.packages.iter(), after.packages.iter());
        let units = (units::units(from.tree), units::units(to.tree));
        Self {
            packages,
            kernel: KernelChange::between(from.tree, to.tree),
            files,
            users: accounts::users(from.tree, to.tree),
            groups: accounts::groups(from.tree, to.tree),
            units: changed(&units.0, &units.1, |name, changed| UnitChange { name, changed }),
            presets,
            labels: SettingChange::all(from.labels, to.labels),
            warnings: [before.warnings, after.warnings].concat(),
        }
    }

    /// Whether nothing differs as far as the trees and labels show it.
    pub fn is_same(&self) -> bool {
        // All others are in files.
        let FileChanges { added, removed, changed, .. } = self.files;
        added + removed + changed == 0 && self.packages.is_same() && self.labels.is_empty()
    }
}

impl KernelChange {
    fn between(from: &BaseTree, to: &BaseTree) -> Self {
        let kernel = |tree| {
            let kernels = kernels(tree);
            (!kernels.is_empty()).then(|| kernels.join(", "))
        };
        Self { from: kernel(from), to: kernel(to) }
    }

    pub fn is_same(&self) -> bool {
        self.from == self.to
    }
}

/// The versions of the kernels that machines can boot, sorted: the directories that have a `vmlinuz`.
/// A label may name another one, which the image had before its kernel was replaced.
pub fn kernels(tree: &BaseTree) -> Vec<String> {
    let directories = tree.children(MODULES).into_iter();
    let names = directories.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
    names.filter(|name| tree.get(&format!("{MODULES}/{name}/vmlinuz")).is_some()).collect()
}

/// The paths that differ, and those of them that are presets.
fn files(from: &BaseTree, to: &BaseTree, list: FileList) -> (FileChanges, Vec<PathChange>) {
    let mut files = FileChanges::default();
    let mut directories: BTreeMap<Vec<u8>, DirectoryChanges> = BTreeMap::new();
    let mut presets = Vec::new();
    from.differences(to, |found| {
        let change = match (found.from, found.to) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (Some(_), Some(_)) => Change::Changed,
        };
        let directory = counted_directory(found.path);
        if !directories.contains_key(directory) {
            let name = format!("/{}", String::from_utf8_lossy(directory));
            let counts = DirectoryChanges { directory: name, ..DirectoryChanges::default() };
            directories.insert(directory.to_vec(), counts);
        }
        let counts = directories.get_mut(directory).expect("it was just put there");
        let (count, total) = match change {
            Change::Added => (&mut counts.added, &mut files.added),
            Change::Removed => (&mut counts.removed, &mut files.removed),
            Change::Changed => (&mut counts.changed, &mut files.changed),
        };
        *count += 1;
        *total += 1;
        if is_preset(found.path) {
            presets.push(path_change(&found, change));
        }
        if list == FileList::Listed {
            files.list.push(path_change(&found, change));
        }
    });
    files.directories = directories.into_values().collect();
    (files, presets)
}

/// The directory of a path, or the one above it with the most components that are counted.
fn counted_directory(path: &[u8]) -> &[u8] {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let end = slashes.map(|(at, _)| at).take(COUNTED_DEPTH).last();
    &path[..end.unwrap_or_default()]
}

fn is_preset(path: &[u8]) -> bool {
    let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let is_in = |directory: &str| directory.as_bytes() == &path[..at];
    path.ends_with(b".preset") && PRESET_DIRECTORIES.iter().any(|directory| is_in(directory))
}

fn path_change(found: &Difference<'_, '_>, change: Change) -> PathChange {
    let (mut from, mut to) = (found.from.map(path_state), found.to.map(path_state));
    let contents = [&mut from, &mut to].map(|side| side.as_mut()?.content.as_mut());
    if let [Some(from), Some(to)] = contents
        && from.digest.is_some() != to.digest.is_some()
    {
        // Only the size of one is known.
        (from.digest, to.digest) = (None, None);
    }
    let both = from.as_ref().zip(to.as_ref());
    let what = both.map(|(from, to)| from.differences(to)).unwrap_or_default();
    PathChange {
        path: format!("/{}", String::from_utf8_lossy(found.path)),
        changed: Changed { change, what, from, to },
    }
}

fn path_state(Sided { entry, content }: Sided<'_>) -> PathState {
    let digest = content.and_then(|content| ContentState::of(content).digest);
    PathState {
        kind: match entry.kind {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Symlink => "symlink",
            Kind::Other => "other",
        },
        mode: Some(octal(entry.mode)),
        user: Some(entry.uid.to_string()),
        group: Some(entry.gid.to_string()),
        content: (entry.kind == Kind::File).then_some(ContentState { size: entry.size, digest }),
        target: entry.target.map(|target| String::from_utf8_lossy(target).into_owned()),
        ..PathState::default()
    }
}
