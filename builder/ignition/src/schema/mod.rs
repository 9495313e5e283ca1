//! The fields of configs as tables: their names, types, first versions, and how lists are merged.
//!
//! [`super::normalize`] reads a raw config by them, [`super::Merger`] merges by them. What only
//! concerns the meaning of a field, as the form of a path, is in the module that reads the field
//! from the normalized config. So a new version of the spec is new rows in [`SPEC3`], beside the
//! rules for what the new fields mean.

mod spec2;
mod spec3;

use std::borrow::Cow;

use serde_json::Value;

use super::version::{Spec, SpecV2};
pub(super) use spec2::CONFIG as SPEC2;
pub(super) use spec3::CONFIG as SPEC3;

/// The fields of an object, and its key in a list.
#[derive(Debug)]
pub(super) struct Object {
    pub fields: &'static [Field],
    pub key: Key,
    /// A later object with this field replaces the earlier one; without it, the two are merged.
    pub replaced_with: Option<&'static str>,
    /// A later entry of a list without this field removes the earlier one.
    pub removed_without: Option<&'static str>,
}

/// The key of an object in a list: entries with the same key are merged, and duplicates in one
/// config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// It is not in a keyed list.
    None,
    /// A field that every entry has.
    Name(&'static str),
    /// A field whose text may be long or secret.
    Private(&'static str),
    /// Its number, or, if that is 0, its label.
    Partition,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    /// As the spec spells it.
    pub name: &'static str,
    /// The first version that has it in this object.
    pub since: Spec,
    pub kind: Kind,
    /// An empty string, false or 0 has the same meaning as no value.
    pub zero_is_unset: bool,
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    String,
    Integer,
    Bool,
    Object(&'static Object),
    List(Items, Merging),
}

/// The type of the entries of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items {
    /// Strings that are shown in a place, as `groups[wheel]`.
    Names,
    /// Strings that may be long or secret.
    Texts,
    Objects(&'static Object),
}

/// How a later list is merged with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// Appended; duplicates are allowed.
    Concatenated,
    /// An entry is merged with the one that has its key; the others are appended.
    Keyed,
    /// The same, and an entry removes the one that has its key in another of these lists.
    KeyedAcross(&'static [&'static str]),
}

impl Object {
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Items {
    pub fn kind(self) -> Kind {
        match self {
            Self::Names | Self::Texts => Kind::String,
            Self::Objects(of) => Kind::Object(of),
        }
    }

    /// Whether a later `entry` removes the one that has its key.
    pub fn removes_entry(self, entry: &Value) -> bool {
        match self {
            Self::Names | Self::Texts => false,
            Self::Objects(of) => of.removed_without.is_some_and(|field| entry.get(field).is_none()),
        }
    }

    /// The key of an entry.
    pub fn key(self, entry: &Value) -> Cow<'_, str> {
        fn text(value: Option<&Value>) -> &str {
            value.and_then(Value::as_str).unwrap_or_default()
        }
        match self {
            Self::Names | Self::Texts => text(Some(entry)).into(),
            Self::Objects(of) => match of.key {
                Key::None => "".into(),
                Key::Name(field) | Key::Private(field) => text(entry.get(field)).into(),
                Key::Partition => match (entry.get("number"), entry.get("label")) {
                    (Some(number), _) => format!("number {number}").into(),
                    (None, Some(label)) => format!("label {}", text(Some(label))).into(),
                    (None, None) => "".into(),
                },
            },
        }
    }
}

impl Field {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, since: Spec::V2(SpecV2::V2_0), kind, zero_is_unset: false }
    }

    const fn since(self, since: Spec) -> Self {
        Self { since, ..self }
    }

    const fn zero_is_unset(self) -> Self {
        Self { zero_is_unset: true, ..self }
    }
}

const fn string(name: &'static str) -> Field {
    Field::new(name, Kind::String)
}

const fn integer(name: &'static str) -> Field {
    Field::new(name, Kind::Integer)
}

const fn boolean(name: &'static str) -> Field {
    Field::new(name, Kind::Bool)
}

const fn object(name: &'static str, object: &'static Object) -> Field {
    Field::new(name, Kind::Object(object))
}

const fn list(name: &'static str, items: Items, merging: Merging) -> Field {
    Field::new(name, Kind::List(items, merging))
}

const fn keyed(name: &'static str, object: &'static Object) -> Field {
    list(name, Items::Objects(object), Merging::Keyed)
}

const fn plain(fields: &'static [Field]) -> Object {
    entry(Key::None, fields)
}

const fn entry(key: Key, fields: &'static [Field]) -> Object {
    Object { fields, key, replaced_with: None, removed_without: None }
}
