//! The differences of two rendered configs: paths, units, settings, base; and what they cost a
//! machine.
//!
//! Contents are reported only by size and digest, and fields that mosb does not know only by name,
//! so that no secret is shown.

mod os;
mod side;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::kernel_state::is_kept_by_kernel;
use super::live::{LiveChange, live_change};
use super::machine_part::is_same_but_login;
use super::var_files::may_lie_below_var;
use crate::render::{self, Update};
use mosb_image::Digest;
use mosb_types::Finding;
pub use os::{
    DirectoryChanges, FileChanges, FileList, GroupChange, GroupState, KernelChange, OsDiff, OsSide,
    OsSummary, PackageChange, PackageChanges, UserChange, UserState, kernels,
};
pub use side::Side;

/// Settings of which only the layer with the config depends, as [`SettingChange::field`] has them.
const SETTINGS_OF_CONFIG_LAYER: [&str; 7] = [
    "metadata.name",
    "metadata.labels",
    "pool",
    "release",
    "spec.config.ignition",
    "spec.config.passwd",
    OTHER_WORDS,
];
/// [`SettingChange::field`] of a config that is the same but for its spelling.
const OTHER_WORDS: &str = "spec (other words, same meaning)";

/// How an entry changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Only the second side has it.
    Added,
    /// Only the first side has it.
    Removed,
    /// Both sides have it, with differences.
    Changed,
}

/// What a change costs a machine to which mosb brings images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Disruption {
    /// Nothing: the machine has all of it.
    #[default]
    None,
    /// No reboot: a roll-out sets the SSH keys and the password of `core` on the machines, and nothing
    /// else changes.
    Live,
    /// One reboot, into another image with the same kernel, initramfs, kernel arguments and SELinux
    /// policy: a soft reboot is enough where the machine can do one.
    SoftReboot,
    /// One reboot, into another image.
    Reboot,
    /// No image is built of it, unless the MachineOSConfig accepts it: see `unreconcilable`.
    Reinstall,
}

/// All changes; empty if both sides give the same image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Name, base, and the fields of the spec beside the Ignition config.
    pub settings: Vec<SettingChange>,
    /// Files, directories and links, by path.
    pub paths: Vec<PathChange>,
    /// systemd units, by name.
    pub units: Vec<UnitChange>,
    /// What becomes of the changed paths on machines, as far as that differs from other paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<Finding>,
    /// What the change costs a machine to which mosb brings images.
    #[serde(flatten)]
    pub cost: ChangeCost,
}

/// What a change costs a machine, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeCost {
    /// What the change costs a machine to which mosb brings images.
    pub disruption: Disruption,
    /// If the change costs a reboot of either kind, and only files differ that a running machine could take: these
    /// files, and what is done for them. A roll-out does that where the pool has it set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveChange>,
    /// Changes that such a machine can't take without a reinstallation; `object` is the field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub unreconcilable: Vec<Finding>,
}

/// A setting that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingChange {
    /// The field, such as `spec.kernelType`; `base` for the base image.
    pub field: String,
    /// How it changes.
    pub change: Change,
    /// Its old value, unless it may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its new value, unless it may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A path that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathChange {
    /// The path as the config spells it.
    pub path: String,
    /// How it changes.
    #[serde(flatten)]
    pub changed: Changed<PathState>,
}

/// The change of an entry with several properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changed<S> {
    /// How it changes.
    pub change: Change,
    /// The properties that differ, if both sides have the entry. For a path: `type`, `content`, `append`,
    /// `mode`, `user`, `group`, `target`, `overwrite`; for a unit: `enabled`, `masked`, `content`, `dropins`;
    /// for a user or group: the names of its other fields.
    pub what: Vec<&'static str>,
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<S>,
    /// After.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<S>,
}

/// The properties of a path in a config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathState {
    /// `file`, `directory`, `symlink` or `hardlink`; in the files of an OS also `other`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Octal, four digits; absent if the config does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Name or number; absent if the config does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Name or number; absent if the config does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The contents of a file; absent if the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentState>,
    /// The contents that are appended to a file, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub append: Vec<ContentState>,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `overwrite` in the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// Size and digest of contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentState {
    /// Unpacked, in bytes.
    pub size: u64,
    /// `sha256:…` of the unpacked bytes; absent if only the size of a file of the OS is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A unit that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitChange {
    /// Its name.
    pub name: String,
    /// How it changes.
    #[serde(flatten)]
    pub changed: Changed<UnitState>,
}

/// The properties of a unit in a config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitState {
    /// Absent if the config does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Absent if the config does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<bool>,
    /// The contents of the unit file; absent if the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentState>,
    /// Drop-ins by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub dropins: BTreeMap<String, ContentState>,
}

impl ContentState {
    fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, digest: Some(Digest::of(bytes).to_string()) }
    }
}

/// The properties of an entry on one side.
trait State: Clone + PartialEq {
    /// The properties that differ.
    fn differences(&self, other: &Self) -> Vec<&'static str>;
}

impl State for PathState {
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        differing([
            ("type", self.kind != other.kind),
            ("content", self.content != other.content),
            ("append", self.append != other.append),
            ("mode", self.mode != other.mode),
            ("user", self.user != other.user),
            ("group", self.group != other.group),
            ("target", self.target != other.target),
            ("overwrite", self.overwrite != other.overwrite),
        ])
    }
}

impl State for UnitState {
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        differing([
            ("enabled", self.enabled != other.enabled),
            ("masked", self.masked != other.masked),
            ("content", self.content != other.content),
            ("dropins", self.dropins != other.dropins),
        ])
    }
}

impl Diff {
    /// Compares two sides.
    ///
    /// # Errors
    /// Contents can't be unpacked or don't match the config.
    pub fn between(from: &Side<'_>, to: &Side<'_>) -> Result<Self, Error> {
        let mut settings = Vec::new();
        let mut is_same_base = true;
        if let (Some(before), Some(after)) = (&from.base, &to.base)
            && !before.is_same(after)
        {
            let (before, after) = (before.name.clone(), after.name.clone());
            settings.push(SettingChange::new("base", Some(before), Some(after)));
            is_same_base = false;
        }
        let (before, after) = (from.settings(), to.settings());
        settings.extend(SettingChange::all(&before, &after));
        for (field, change) in changes(&from.rest(), &to.rest()) {
            settings.push(SettingChange { field: field.clone(), change, from: None, to: None });
        }
        let (before, after) = (from.paths()?, to.paths()?);
        let paths = changed(&before, &after, |path, changed| PathChange { path, changed });
        let units =
            changed(&from.units(), &to.units(), |name, changed| UnitChange { name, changed });
        let notes = var_notes(&paths);
        // Both have been read as Ignition configs.
        let unreconcilable =
            render::unreconcilable(from.config, to.config, Update::Image).unwrap_or_default();
        let cost = ChangeCost { unreconcilable, ..ChangeCost::default() };
        let mut diff = Self { settings, paths, units, notes, cost };
        // Equal content may have another encoding, such as base64 for percent signs. The image
        // contains the encoded text, so it changes.
        if diff.is_same() && from.config.current_config() != to.config.current_config() {
            diff.settings.push(SettingChange {
                field: OTHER_WORDS.to_owned(),
                change: Change::Changed,
                from: None,
                to: None,
            });
        }
        diff.cost.disruption = if !diff.cost.unreconcilable.is_empty() {
            Disruption::Reinstall
        } else if diff.is_same() {
            Disruption::None
        } else if is_same_base && is_same_but_login(from.config, to.config) {
            Disruption::Live
        } else if is_same_base && diff.keeps_kernel() {
            Disruption::SoftReboot
        } else {
            Disruption::Reboot
        };
        let reboots = matches!(diff.cost.disruption, Disruption::SoftReboot | Disruption::Reboot);
        if reboots && is_same_base {
            diff.cost.live = live_change(from.config, to.config);
        }
        Ok(diff)
    }

    /// The change if the OS in the image differs too: machines boot into it whatever the configs say.
    #[must_use]
    pub fn on_other_os(mut self) -> Self {
        if self.cost.disruption != Disruption::Reinstall {
            self.cost.disruption = Disruption::Reboot;
        }
        self.cost.live = None;
        self
    }

    /// Whether no change reaches the kernel, what it boots with, or what it keeps until it boots.
    /// Settings that are not known here may.
    fn keeps_kernel(&self) -> bool {
        self.settings.iter().all(|setting| SETTINGS_OF_CONFIG_LAYER.contains(&&*setting.field))
            && !self.paths.iter().any(|change| is_kept_by_kernel(&change.path))
    }

    pub fn is_same(&self) -> bool {
        self.settings.is_empty() && self.paths.is_empty() && self.units.is_empty()
    }
}

/// What becomes of changed paths that may lie below `/var`.
fn var_notes(paths: &[PathChange]) -> Vec<Finding> {
    let note = |PathChange { path, changed }: &PathChange| {
        let message = match changed.change {
            Change::Added | Change::Changed => {
                "reaches machines at the next boot if images are built on every config, and else only machines that are installed from the image"
            }
            Change::Removed => {
                "is removed from machines at the next boot if images are built on every config and it is as mosb wrote it, and else stays on them"
            }
        };
        Finding::new("var-file", format!("{path} {message}")).path(path.clone())
    };
    paths.iter().filter(|change| may_lie_below_var(&change.path)).map(note).collect()
}

impl SettingChange {
    fn new(field: &str, from: Option<String>, to: Option<String>) -> Self {
        Self {
            field: field.to_owned(),
            change: match (&from, &to) {
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
                (Some(_), Some(_)) => Change::Changed,
            },
            from,
            to,
        }
    }

    /// The settings that differ, by field.
    fn all<K: AsRef<str> + Ord>(from: &BTreeMap<K, String>, to: &BTreeMap<K, String>) -> Vec<Self> {
        let value = |side: &BTreeMap<K, String>, field| side.get(field).cloned();
        changes(from, to)
            .map(|(field, _)| Self::new(field.as_ref(), value(from, field), value(to, field)))
            .collect()
    }
}

/// The keys with different values, sorted.
fn changes<'a, K: Ord, V: PartialEq>(
    from: &'a BTreeMap<K, V>,
    to: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, Change)> {
    let keys: BTreeSet<&K> = from.keys().chain(to.keys()).collect();
    keys.into_iter().filter_map(|key| match (from.get(key), to.get(key)) {
        (None, _) => Some((key, Change::Added)),
        (_, None) => Some((key, Change::Removed)),
        (Some(before), Some(after)) => (before != after).then_some((key, Change::Changed)),
    })
}

/// The entries that differ, sorted by name.
fn changed<K: AsRef<str> + Ord, S: State, T>(
    from: &BTreeMap<K, S>,
    to: &BTreeMap<K, S>,
    to_change: impl Fn(String, Changed<S>) -> T,
) -> Vec<T> {
    let changed = changes(from, to).map(|(name, change)| {
        let (before, after) = (from.get(name), to.get(name));
        let both = before.zip(after);
        let changed = Changed {
            change,
            what: both.map(|(before, after)| before.differences(after)).unwrap_or_default(),
            from: before.cloned(),
            to: after.cloned(),
        };
        to_change(name.as_ref().to_owned(), changed)
    });
    changed.collect()
}

fn differing<const N: usize>(properties: [(&'static str, bool); N]) -> Vec<&'static str> {
    let differing = properties.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(name, _)| name).collect()
}
