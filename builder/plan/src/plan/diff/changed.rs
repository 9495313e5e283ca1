//! Entries with properties, as paths and units are, and what of them differs.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use mosb_image::Digest;

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
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, digest: Some(Digest::of(bytes).to_string()) }
    }
}

/// The properties of an entry on one side.
pub(super) trait State: Clone + PartialEq {
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

/// The keys with different values, sorted.
pub(super) fn changes<'a, K: Ord, V: PartialEq>(
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
pub(super) fn changed<K: AsRef<str> + Ord, S: State, T>(
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

pub(super) fn differing<const N: usize>(
    properties: [(&'static str, bool); N],
) -> Vec<&'static str> {
    let differing = properties.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(name, _)| name).collect()
}
