//! The differences of two rendered configs: paths, units, settings, base; and what they cost a
//! machine.
//!
//! Contents are reported only by size and digest, and fields that mosb does not know only by name,
//! so that no secret is shown.

mod changed;
mod os;
mod side;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::kernel_state::is_kept_by_kernel;
use super::live::{LiveChange, live_change};
use super::machine_part::is_same_but_login;
use super::var_files::may_lie_below_var;
pub use changed::{Change, Changed, ContentState, PathState, UnitState};
use changed::{State, changed, changes, differing};
use mosb_merge::{Update, unreconcilable};
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
            unreconcilable(from.config, to.config, Update::Image).unwrap_or_default();
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
