//! What changes from one rendered config to another: paths, units, settings, base.
//!
//! Secrets stay where they are: of contents only size and digest are told, of what mosb does not know only that it changed.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{ApplyError, Error};
use crate::api::RenderedConfig;
use crate::ignition::{self, ContentError, Owner, Resource};
use crate::image::Digest;

/// One side: a config, and the base that an image of it has or would have.
#[derive(Debug)]
pub struct Side<'a> {
    config: &'a RenderedConfig,
    base: Option<BaseText>,
    ignition: Option<ignition::Config>,
}

/// A base as a label or `spec.osImageURL` has it, and its digest where one is known.
#[derive(Debug, PartialEq, Eq)]
struct BaseText {
    name: String,
    digest: Option<Digest>,
}

/// What happened to a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Only the second side has it.
    Added,
    /// Only the first side has it.
    Removed,
    /// Both have it, not the same.
    Changed,
}

/// All that changes; nothing in it if the same image comes of both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Name, base, and the fields of the spec beside the Ignition config.
    pub settings: Vec<SettingChange>,
    /// Files, directories and links, by path.
    pub paths: Vec<PathChange>,
    /// systemd units, by name.
    pub units: Vec<UnitChange>,
}

/// A setting that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingChange {
    /// The field, such as `spec.kernelType`; `base` for the base image.
    pub field: String,
    /// What happened to it.
    pub change: Change,
    /// Its value before, where it may be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its value after, where it may be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A path that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathChange {
    /// The path as the config has it.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// Which of its properties differ: `type`, `content`, `append`, `mode`, `user`, `group`, `target`, `overwrite`.
    pub what: Vec<&'static str>,
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PathState>,
    /// After.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PathState>,
}

/// What a config says of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathState {
    /// `file`, `directory`, `symlink` or `hardlink`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Octal, four digits; absent if the config doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Name or number; absent if the config doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Name or number; absent if the config doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Of a file; absent if the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentState>,
    /// What is appended to a file, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub append: Vec<ContentState>,
    /// Of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// As the config says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// Contents, without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentState {
    /// Bytes, unpacked.
    pub size: u64,
    /// `sha256:…` of the unpacked bytes.
    pub digest: String,
}

/// A unit that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitChange {
    /// Its name.
    pub name: String,
    /// What happened to it.
    pub change: Change,
    /// Which of its properties differ: `enabled`, `masked`, `content`, `dropins`.
    pub what: Vec<&'static str>,
    /// Before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<UnitState>,
    /// After.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<UnitState>,
}

/// What a config says of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitState {
    /// Absent if the config doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Absent if the config doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<bool>,
    /// Of the unit file; absent if the config gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentState>,
    /// Drop-ins by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub dropins: BTreeMap<String, ContentState>,
}

impl<'a> Side<'a> {
    /// A config by itself: its base is `spec.osImageURL`.
    ///
    /// # Errors
    /// A broken Ignition config.
    pub fn of_config(config: &'a RenderedConfig) -> Result<Self, Error> {
        let base = config
            .os_image_url
            .as_ref()
            .map(|name| BaseText::new(name, None));
        Self::new(config, base)
    }

    /// The config of an image, and the base that its labels name.
    ///
    /// # Errors
    /// A broken Ignition config.
    pub fn of_image(
        config: &'a RenderedConfig,
        base_name: Option<&str>,
        base: Option<Digest>,
    ) -> Result<Self, Error> {
        Self::new(config, base_name.map(|name| BaseText::new(name, base)))
    }

    fn new(config: &'a RenderedConfig, base: Option<BaseText>) -> Result<Self, Error> {
        let parsed = config.ignition().map(ignition::parse).transpose();
        let parsed = parsed.map_err(|source| Error::Ignition {
            config: config.name().to_string(),
            source,
        })?;
        Ok(Self {
            config,
            base,
            ignition: parsed.map(|parsed| parsed.config),
        })
    }

    fn paths(&self) -> Result<BTreeMap<&str, PathState>, Error> {
        let Some(config) = &self.ignition else {
            return Ok(BTreeMap::new());
        };
        let mut paths = BTreeMap::new();
        for file in &config.storage.files {
            let known = |resource: &Resource| {
                content(resource).map_err(|source| Error::Apply {
                    config: self.config.name().to_string(),
                    source: ApplyError::Content {
                        path: file.path.clone(),
                        source,
                    },
                })
            };
            let state = PathState {
                kind: "file",
                mode: file.mode.map(octal),
                user: owner(&file.user),
                group: owner(&file.group),
                content: file.contents.as_ref().map(known).transpose()?,
                append: file.append.iter().map(known).collect::<Result<_, _>>()?,
                target: None,
                overwrite: file.overwrite,
            };
            paths.insert(file.path.as_str(), state);
        }
        for directory in &config.storage.directories {
            let state = PathState {
                kind: "directory",
                mode: directory.mode.map(octal),
                user: owner(&directory.user),
                group: owner(&directory.group),
                overwrite: directory.overwrite,
                ..PathState::default()
            };
            paths.insert(directory.path.as_str(), state);
        }
        for link in &config.storage.links {
            let state = PathState {
                kind: if link.hard { "hardlink" } else { "symlink" },
                user: owner(&link.user),
                group: owner(&link.group),
                target: Some(link.target.clone()),
                overwrite: link.overwrite,
                ..PathState::default()
            };
            paths.insert(link.path.as_str(), state);
        }
        Ok(paths)
    }

    fn units(&self) -> BTreeMap<&str, UnitState> {
        let units = self
            .ignition
            .iter()
            .flat_map(|config| &config.systemd.units);
        units
            .map(|unit| {
                let text = |text: &Option<String>| {
                    ContentState::of(text.as_deref().unwrap_or_default().as_bytes())
                };
                let state = UnitState {
                    enabled: unit.enabled,
                    masked: unit.mask,
                    content: unit
                        .contents
                        .as_ref()
                        .filter(|text| !text.is_empty())
                        .map(|text| ContentState::of(text.as_bytes())),
                    dropins: unit
                        .dropins
                        .iter()
                        .map(|dropin| (dropin.name.clone(), text(&dropin.contents)))
                        .collect(),
                };
                (unit.name.as_str(), state)
            })
            .collect()
    }

    /// The settings whose values may be told, by field.
    fn settings(&self) -> BTreeMap<&'static str, String> {
        let config = self.config;
        let list = |items: &[String], between| (!items.is_empty()).then(|| items.join(between));
        [
            ("metadata.name", Some(config.name().to_string())),
            ("pool", Some(config.pool().to_string())),
            ("release", config.release_version().map(str::to_owned)),
            ("spec.osImageURL", config.os_image_url.clone()),
            (
                "spec.baseOSExtensionsContainerImage",
                config.extensions_image.clone(),
            ),
            ("spec.kernelArguments", list(&config.kernel_arguments, " ")),
            ("spec.extensions", list(&config.extensions, ", ")),
            (
                "spec.kernelType",
                Some(config.kernel_type.as_str().to_owned()),
            ),
            ("spec.fips", Some(config.fips.to_string())),
        ]
        .into_iter()
        .filter_map(|(field, value)| Some((field, value?)))
        .collect()
    }

    /// What else the config holds, by field: users, disks, what mosb doesn't know. Their values are not told.
    fn rest(&self) -> BTreeMap<String, &Value> {
        let mut rest = BTreeMap::new();
        let object = self.config.as_value();
        let fields = |pointer: &str| object.pointer(pointer).and_then(Value::as_object);
        let mut add = |prefix: &str, fields: Option<&'a Map<String, Value>>, told: &[&str]| {
            let fields = fields.into_iter().flatten();
            let others =
                fields.filter(|(field, value)| !told.contains(&field.as_str()) && !is_empty(value));
            rest.extend(others.map(|(field, value)| (format!("{prefix}.{field}"), value)));
        };
        add("metadata", fields("/metadata"), &["name", "annotations"]);
        add("spec", fields("/spec"), &TOLD);
        add(
            "spec.config",
            fields("/spec/config"),
            &["storage", "systemd"],
        );
        let storage = fields("/spec/config/storage");
        add(
            "spec.config.storage",
            storage,
            &["files", "directories", "links"],
        );
        add(
            "spec.config.systemd",
            fields("/spec/config/systemd"),
            &["units"],
        );
        rest
    }
}

/// The fields of the spec that [`Side::settings`] and the Ignition config cover.
const TOLD: [&str; 7] = [
    "osImageURL",
    "baseOSExtensionsContainerImage",
    "kernelArguments",
    "extensions",
    "kernelType",
    "fips",
    "config",
];
/// The bytes that one file may have once unpacked, as for a build.
const CONTENT_LIMIT: u64 = 64 * 1024 * 1024;

impl BaseText {
    fn new(name: &str, digest: Option<Digest>) -> Self {
        let written = name.rsplit('@').next().and_then(|text| text.parse().ok());
        Self {
            name: name.to_owned(),
            digest: digest.or(written),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self.digest, other.digest) {
            (Some(one), Some(another)) => one == another,
            _ => self.name == other.name,
        }
    }
}

impl ContentState {
    fn of(bytes: &[u8]) -> Self {
        Self {
            size: bytes.len() as u64,
            digest: Digest::of(bytes).to_string(),
        }
    }
}

impl PathState {
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

impl UnitState {
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
    /// Contents that can't be unpacked or are not what the config says.
    pub fn between(from: &Side<'_>, to: &Side<'_>) -> Result<Self, Error> {
        let mut settings = Vec::new();
        if let (Some(before), Some(after)) = (&from.base, &to.base)
            && !before.is_same(after)
        {
            let (before, after) = (before.name.clone(), after.name.clone());
            settings.push(SettingChange::new("base", Some(before), Some(after)));
        }
        let (before, after) = (from.settings(), to.settings());
        for field in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (before.get(field), after.get(field));
            if before != after {
                settings.push(SettingChange::new(field, before.cloned(), after.cloned()));
            }
        }
        for (field, change) in changes(&from.rest(), &to.rest()) {
            settings.push(SettingChange {
                field: field.clone(),
                change,
                from: None,
                to: None,
            });
        }
        let (before, after) = (from.paths()?, to.paths()?);
        let paths = changes(&before, &after).map(|(path, change)| {
            let (from, to) = (before.get(path).cloned(), after.get(path).cloned());
            PathChange {
                path: (*path).to_owned(),
                change,
                what: both(&from, &to)
                    .map(|(from, to)| from.differences(to))
                    .unwrap_or_default(),
                from,
                to,
            }
        });
        let (old, new) = (from.units(), to.units());
        let units = changes(&old, &new).map(|(name, change)| {
            let (from, to) = (old.get(name).cloned(), new.get(name).cloned());
            UnitChange {
                name: (*name).to_owned(),
                change,
                what: both(&from, &to)
                    .map(|(from, to)| from.differences(to))
                    .unwrap_or_default(),
                from,
                to,
            }
        });
        let mut diff = Self {
            settings,
            paths: paths.collect(),
            units: units.collect(),
        };
        // The same meaning in other words, such as base64 for percent signs: the image keeps the words.
        if diff.is_same() && from.config.current_config() != to.config.current_config() {
            diff.settings.push(SettingChange {
                field: "spec (other words, same meaning)".to_owned(),
                change: Change::Changed,
                from: None,
                to: None,
            });
        }
        Ok(diff)
    }

    /// Whether nothing changes.
    pub fn is_same(&self) -> bool {
        self.settings.is_empty() && self.paths.is_empty() && self.units.is_empty()
    }
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
}

/// The keys whose values are not the same, in their order.
fn changes<'a, K: Ord, V: PartialEq>(
    from: &'a BTreeMap<K, V>,
    to: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, Change)> {
    let keys: BTreeSet<&K> = from.keys().chain(to.keys()).collect();
    keys.into_iter()
        .filter_map(|key| match (from.get(key), to.get(key)) {
            (None, _) => Some((key, Change::Added)),
            (_, None) => Some((key, Change::Removed)),
            (Some(before), Some(after)) => (before != after).then_some((key, Change::Changed)),
        })
}

fn both<'a, T>(from: &'a Option<T>, to: &'a Option<T>) -> Option<(&'a T, &'a T)> {
    from.as_ref().zip(to.as_ref())
}

fn differing<const N: usize>(properties: [(&'static str, bool); N]) -> Vec<&'static str> {
    let differing = properties.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(name, _)| name).collect()
}

fn content(resource: &Resource) -> Result<ContentState, ContentError> {
    resource
        .bytes(CONTENT_LIMIT)
        .map(|bytes| ContentState::of(&bytes))
}

fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

fn owner(owner: &Owner) -> Option<String> {
    match owner {
        Owner::Unsaid => None,
        Owner::Id(id) => Some(id.to_string()),
        Owner::Name(name) => Some(name.clone()),
    }
}

/// Absent, null and empty mean the same.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(change: impl Fn(&mut Value)) -> RenderedConfig {
        let mut object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
            "spec": {
                "osImageURL": "quay.io/os/base:1", "kernelArguments": ["a=1"], "kernelType": "default",
                "config": {
                    "ignition": { "version": "3.5.0" },
                    "passwd": { "users": [{ "name": "core", "passwordHash": "$6$secret" }] },
                    "storage": { "files": [{ "path": "/etc/a", "mode": 420, "contents": { "source": "data:,secret" } }],
                                 "links": [{ "path": "/etc/l", "target": "a" }] },
                    "systemd": { "units": [{ "name": "x.service", "enabled": true,
                                             "contents": "[Service]\nExecStart=/x\n[Install]\nWantedBy=y.target\n" }] },
                },
            },
        });
        change(&mut object);
        RenderedConfig::from_value(object).unwrap()
    }

    /// One line for each change.
    fn told(diff: &Diff) -> Vec<String> {
        let settings = diff
            .settings
            .iter()
            .map(|s| format!("{:?} {} {:?} {:?}", s.change, s.field, s.from, s.to));
        let paths = diff
            .paths
            .iter()
            .map(|p| format!("{:?} {} {:?}", p.change, p.path, p.what));
        let units = diff
            .units
            .iter()
            .map(|u| format!("{:?} {} {:?}", u.change, u.name, u.what));
        settings.chain(paths).chain(units).collect()
    }

    fn diff(from: &RenderedConfig, to: &RenderedConfig) -> Diff {
        let sides = [from, to].map(|config| Side::of_config(config).unwrap());
        Diff::between(&sides[0], &sides[1]).unwrap()
    }

    #[test]
    fn each_change_is_told_and_no_secret() {
        type Edit = fn(&mut Value);
        let before = config(|_| ());
        for (what, edit, want) in [
            ("nothing", (|_| ()) as Edit, &[][..]),
            (
                "an empty list",
                |o| o["spec"]["extensions"] = json!([]),
                &["Changed spec (other words, same meaning) None None"],
            ),
            (
                "name",
                |o| {
                    o["metadata"]["name"] =
                        json!("rendered-worker-ffffffffffffffffffffffffffffffff")
                },
                &[
                    "Changed metadata.name Some(\"rendered-worker-0123456789abcdef0123456789abcdef\") Some(\"rendered-worker-ffffffffffffffffffffffffffffffff\")",
                ],
            ),
            (
                "base",
                |o| o["spec"]["osImageURL"] = json!("quay.io/os/base:2"),
                &[
                    "Changed base Some(\"quay.io/os/base:1\") Some(\"quay.io/os/base:2\")",
                    "Changed spec.osImageURL Some(\"quay.io/os/base:1\") Some(\"quay.io/os/base:2\")",
                ],
            ),
            (
                "arguments gone",
                |o| o["spec"]["kernelArguments"] = Value::Null,
                &["Removed spec.kernelArguments Some(\"a=1\") None"],
            ),
            (
                "kernel",
                |o| o["spec"]["kernelType"] = json!("realtime"),
                &["Changed spec.kernelType Some(\"default\") Some(\"realtime\")"],
            ),
            (
                "a password",
                |o| {
                    o["spec"]["config"]["passwd"]["users"][0]["passwordHash"] =
                        json!("$6$other-secret")
                },
                &["Changed spec.config.passwd None None"],
            ),
            (
                "content and mode",
                |o| o["spec"]["config"]["storage"]["files"][0] = json!({ "path": "/etc/a", "mode": 384, "contents": { "source": "data:,secret2" } }),
                &["Changed /etc/a [\"content\", \"mode\"]"],
            ),
            (
                "a link becomes a file, a directory comes",
                |o| {
                    o["spec"]["config"]["storage"]["links"] = json!([]);
                    let files = o["spec"]["config"]["storage"]["files"].as_array_mut();
                    files.unwrap().push(json!({ "path": "/etc/l" }));
                    o["spec"]["config"]["storage"]["directories"] = json!([{ "path": "/etc/d" }]);
                },
                &["Added /etc/d []", "Changed /etc/l [\"type\", \"target\"]"],
            ),
            (
                "the same bytes in other words",
                |o| {
                    o["spec"]["config"]["storage"]["files"][0]["contents"]["source"] =
                        json!("data:;base64,c2VjcmV0")
                },
                &["Changed spec (other words, same meaning) None None"],
            ),
            (
                "unit",
                |o| o["spec"]["config"]["systemd"]["units"][0] = json!({ "name": "x.service", "mask": true, "dropins": [{ "name": "d.conf", "contents": "[Unit]\n" }] }),
                &["Changed x.service [\"enabled\", \"masked\", \"content\", \"dropins\"]"],
            ),
            (
                "unit gone",
                |o| o["spec"]["config"]["systemd"] = json!({}),
                &["Removed x.service []"],
            ),
        ] {
            let diff = diff(&before, &config(edit));
            assert_eq!(told(&diff), want, "{what}");
            assert_eq!(diff.is_same(), want.is_empty(), "{what}");
            let text = serde_json::to_string(&diff).unwrap();
            assert!(!text.contains("secret"), "{what}: {text}");
        }
    }

    #[test]
    fn a_base_is_the_same_by_digest_whatever_it_is_called() {
        let digest = Digest::of(b"base");
        let config =
            config(|o| o["spec"]["osImageURL"] = json!(format!("quay.io/os/base@{digest}")));
        let from_config = Side::of_config(&config).unwrap();
        for (what, name, base, same) in [
            ("same name", format!("quay.io/os/base@{digest}"), None, true),
            ("a layout's", digest.to_string(), None, true),
            (
                "by tag, label has the digest",
                "quay.io/os/base:1".to_owned(),
                Some(digest),
                true,
            ),
            (
                "other",
                "quay.io/os/base:1".to_owned(),
                Some(Digest::of(b"other")),
                false,
            ),
            ("not known", "quay.io/os/base:1".to_owned(), None, false),
        ] {
            let image = Side::of_image(&config, Some(&name), base).unwrap();
            assert_eq!(
                Diff::between(&image, &from_config).unwrap().is_same(),
                same,
                "{what}"
            );
        }
    }
}
