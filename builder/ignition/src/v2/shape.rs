//! Fields of a translation: copies of the fields of spec 2, changed where spec 3 differs.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::normalize::prune_fields;
use super::super::object::Object;
use super::super::places::clean;

/// The fields of an object.
pub(super) type Fields = Map<String, Value>;

/// A copy of the fields, but for those in `except` and for empty objects and lists.
pub(super) fn copy(o: &Object<'_, '_>, except: &[&str]) -> Fields {
    let mut fields = o.to_fields(except);
    prune_fields(&mut fields);
    fields
}

/// Removes duplicates from a list of strings: spec 3 refuses them.
pub(super) fn remove_duplicates(fields: &mut Fields, key: &str) {
    if let Some(Value::Array(texts)) = fields.get_mut(key) {
        let mut seen = HashSet::new();
        texts.retain(|text| seen.insert(text.clone()));
    }
}

/// A path as spec 3 wants it. Spec 3 reports one that is not absolute.
pub(super) fn cleaned(path: &str) -> String {
    if path.starts_with('/') { clean(path) } else { path.to_owned() }
}

/// The same of the path in a field.
pub(super) fn clean_field(fields: &mut Fields, key: &str) {
    if let Some(Value::String(path)) = fields.get_mut(key) {
        *path = cleaned(path);
    }
}

/// Sets the fields of a later entry of the same name; the lists in `united` are united.
pub(super) fn override_fields(fields: &mut Fields, later: Fields, united: &[&str]) {
    for (key, value) in later {
        match (fields.get_mut(&key), value) {
            (Some(Value::Array(items)), Value::Array(more)) if united.contains(&key.as_str()) => {
                items.extend(more);
                remove_duplicates(fields, &key);
            }
            (_, value) => drop(fields.insert(key, value)),
        }
    }
}
