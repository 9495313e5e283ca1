//! One side of a comparison: the entries of a config, by name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ContentState, PathState, UnitState};
use crate::plan::{ApplyError, Error};
use mosb_api::RenderedConfig;
use mosb_ignition::{self as ignition, ContentError, Owner, Resource};
use mosb_image::Digest;

/// One side: a config, and the actual or planned base of its image.
#[derive(Debug)]
pub struct Side<'a> {
    pub(super) config: &'a RenderedConfig,
    pub(super) base: Option<BaseText>,
    ignition: Option<ignition::Config>,
}

/// A base as in a label or `spec.osImageURL`, and its digest if it is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BaseText {
    pub(super) name: String,
    digest: Option<Digest>,
}

impl<'a> Side<'a> {
    /// A config without an image: its base is `spec.osImageURL`.
    ///
    /// # Errors
    /// A broken Ignition config.
    pub fn of_config(config: &'a RenderedConfig) -> Result<Self, Error> {
        let base = config.os_image_url.as_ref().map(|name| BaseText::new(name, None));
        Self::new(config, base)
    }

    /// A config with the base of its image, or with the base of a build.
    ///
    /// # Errors
    /// A broken Ignition config.
    pub fn on_base(
        config: &'a RenderedConfig,
        base_name: Option<&str>,
        base: Option<Digest>,
    ) -> Result<Self, Error> {
        Self::new(config, base_name.map(|name| BaseText::new(name, base)))
    }

    fn new(config: &'a RenderedConfig, base: Option<BaseText>) -> Result<Self, Error> {
        let parsed = config.ignition().map(ignition::parse).transpose();
        let parsed = parsed
            .map_err(|source| Error::Ignition { config: config.name().to_string(), source })?;
        Ok(Self { config, base, ignition: parsed.map(|parsed| parsed.config) })
    }

    pub(super) fn paths(&self) -> Result<BTreeMap<&str, PathState>, Error> {
        let Some(config) = &self.ignition else {
            return Ok(BTreeMap::new());
        };
        let mut paths = BTreeMap::new();
        for file in &config.storage.files {
            let known = |resource: &Resource| {
                content(resource).map_err(|source| Error::Apply {
                    config: self.config.name().to_string(),
                    source: ApplyError::Content { path: file.path.clone(), source },
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

    pub(super) fn units(&self) -> BTreeMap<&str, UnitState> {
        let units = self.ignition.iter().flat_map(|config| &config.systemd.units);
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

    /// The settings whose values may be shown, by field.
    pub(super) fn settings(&self) -> BTreeMap<&'static str, String> {
        let config = self.config;
        let list = |items: &[String], between| (!items.is_empty()).then(|| items.join(between));
        [
            ("metadata.name", Some(config.name().to_string())),
            ("pool", Some(config.pool().to_string())),
            ("release", config.release_version().map(str::to_owned)),
            ("spec.osImageURL", config.os_image_url.clone()),
            ("spec.baseOSExtensionsContainerImage", config.extensions_image.clone()),
            ("spec.kernelArguments", list(&config.kernel_arguments, " ")),
            ("spec.extensions", list(&config.extensions, ", ")),
            ("spec.kernelType", Some(config.kernel_type.as_str().to_owned())),
            ("spec.fips", Some(config.fips.to_string())),
        ]
        .into_iter()
        .filter_map(|(field, value)| Some((field, value?)))
        .collect()
    }

    /// The other parts of the config, by field: users, disks, unknown fields. Their values are not
    /// shown.
    pub(super) fn rest(&self) -> BTreeMap<String, &Value> {
        let mut rest = BTreeMap::new();
        let object = self.config.as_value();
        let fields = |pointer: &str| object.pointer(pointer).and_then(Value::as_object);
        let mut add = |prefix: &str, fields: Option<&'a Map<String, Value>>, known: &[&str]| {
            let fields = fields.into_iter().flatten();
            let others = fields
                .filter(|(field, value)| !known.contains(&field.as_str()) && !is_empty(value));
            rest.extend(others.map(|(field, value)| (format!("{prefix}.{field}"), value)));
        };
        add("metadata", fields("/metadata"), &["name", "annotations"]);
        add("spec", fields("/spec"), &SHOWN_FIELDS);
        add("spec.config", fields("/spec/config"), &["storage", "systemd"]);
        let storage = fields("/spec/config/storage");
        add("spec.config.storage", storage, &["files", "directories", "links"]);
        add("spec.config.systemd", fields("/spec/config/systemd"), &["units"]);
        rest
    }
}

/// The fields of the spec that [`Side::settings`] and the Ignition config cover.
const SHOWN_FIELDS: [&str; 7] = [
    "osImageURL",
    "baseOSExtensionsContainerImage",
    "kernelArguments",
    "extensions",
    "kernelType",
    "fips",
    "config",
];
/// The maximum size of an unpacked file, as for a build.
const CONTENT_LIMIT: u64 = 64 * 1024 * 1024;

impl BaseText {
    fn new(name: &str, digest: Option<Digest>) -> Self {
        let written = name.rsplit('@').next().and_then(|text| text.parse().ok());
        Self { name: name.to_owned(), digest: digest.or(written) }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self.digest, other.digest) {
            (Some(one), Some(another)) => one == another,
            _ => self.name == other.name,
        }
    }
}

fn content(resource: &Resource) -> Result<ContentState, ContentError> {
    resource.bytes(CONTENT_LIMIT).map(|bytes| ContentState::of(&bytes))
}

pub(super) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

fn owner(owner: &Owner) -> Option<String> {
    match owner {
        Owner::Unset => None,
        Owner::Id(id) => Some(id.to_string()),
        Owner::Name(name) => Some(name.clone()),
    }
}

/// Absent, null and empty are equal.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
