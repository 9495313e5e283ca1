//! Fields of a translation: copies of the fields of spec 2, changed where spec 3 differs.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::normalize::prune_fields;
use crate::object::Object;
use crate::places::clean;
use crate::resource::shown_hash;
use crate::url;
use crate::version::SpecV2;

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

/// Contents, or a reference to a config or a certificate. Without a source the contents are empty.
pub(super) fn resource(o: &Object<'_, '_>) -> Fields {
    let source = o.text("source").unwrap_or_default();
    check_source(o, source);
    let verification = o.object("verification");
    if let Some(hash) = verification.text("hash")
        && let Some((function, _)) = hash.split_once('-')
        && function != "sha512"
    {
        let message =
            format!("{} must begin with `sha512-`: spec 2 knows no other hash", shown_hash(hash));
        verification.problem("hash", "bad-verification", message);
    }
    let mut fields = copy(o, &[]);
    fields.insert("source".to_owned(), source.into());
    fields
}

/// Refuses the schemes that spec 3 doesn't have, and those that only spec 3 has.
fn check_source(o: &Object<'_, '_>, source: &str) {
    let scheme = url::scheme(source).unwrap_or_default();
    let before_2_1 = o.spec() == SpecV2::V2_0.into();
    match scheme.as_str() {
        "oem" => {
            let message = "`oem:` is a directory of Container Linux that spec 3 doesn't know; give the contents as a data URL";
            o.problem("source", "no-spec3-equal", message);
        }
        "gs" | "arn" => o.problem(
            "source",
            "bad-source",
            format!("has the scheme {scheme:?}, which spec 2 doesn't know; give the contents as a data URL"),
        ),
        "tftp" | "s3" if before_2_1 => o.problem(
            "source",
            "bad-source",
            format!("has the scheme {scheme:?}, which came with spec 2.1.0; give the contents as a data URL"),
        ),
        _ => {}
    }
}
