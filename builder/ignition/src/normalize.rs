//! Reads a raw config by the table of its fields, as Go's decoder does for Ignition: `null` is no
//! value, and a key is found in whatever case it is written.
//!
//! Input: the raw JSON of a config. Output: its normalized form: only fields that its version
//! has, spelt as the spec spells them, each of its type; every entry of a list with its key. A
//! value that can't be read is null there, and nothing else is. The sink gets a problem for each of
//! those and for each duplicate, and a warning for each field that is unknown, newer than the
//! version, or misspelt.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::error::shown;
use super::schema::{Field, Items, Key, Kind, Merging, Object};
use super::sink::{Place, Sink};

type Fields = Map<String, Value>;

/// The normalized form of a config.
pub(super) fn normalize(config: &Value, of: &'static Object, sink: &Sink) -> Value {
    let empty = Fields::new();
    read_object(Place::root(sink), of, config.as_object().unwrap_or(&empty)).into()
}

/// Whether nothing in a normalized value could not be read.
pub(super) fn is_readable(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.values().all(is_readable),
        Value::Array(entries) => entries.iter().all(is_readable),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Removes empty objects and lists, except entries of lists.
pub(super) fn prune_fields(fields: &mut Fields) {
    fields.retain(|_, field| {
        prune(field);
        match field {
            Value::Object(fields) => !fields.is_empty(),
            Value::Array(entries) => !entries.is_empty(),
            _ => true,
        }
    });
}

/// The same in any value.
pub(super) fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => prune_fields(fields),
        Value::Array(entries) => entries.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Go's decoder takes a key for a field if they differ in case only, and these two letters fold
/// into ASCII.
pub(super) fn same_field(key: &str, field: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.eq_ignore_ascii_case(field)
        || (!key.is_ascii()
            && key.chars().map(fold).eq(field.chars().map(|c| c.to_ascii_lowercase())))
}

fn read_object(place: Place<'_>, of: &'static Object, members: &Fields) -> Fields {
    let sink = place.sink;
    let unreadable_before = sink.unreadable();
    let place = place.about(image_path(of, members));
    let mut fields = Fields::new();
    if let Key::Name(key) = of.key {
        fields.insert(key.to_owned(), "".into());
    }
    for field in of.fields.iter().filter(|field| field.since <= sink.spec) {
        let mut found = members.iter().filter(|(key, _)| same_field(key, field.name));
        let Some((key, value)) = found.next() else {
            continue;
        };
        let at = place.key(field.name);
        let value = if found.next().is_some() {
            let message =
                "is given in several spellings, and which one counts is not known; keep this one";
            at.unreadable("ambiguous-field", message);
            Value::Null
        } else {
            if key != field.name {
                let message = format!("is read as {:?}; write it so", field.name);
                place.key(key).warn("misspelt-field", message);
            }
            if value.is_null() {
                continue;
            }
            read_value(at, field.kind, value)
        };
        if field.zero_is_unset && is_zero(&value) {
            continue;
        }
        fields.insert(field.name.to_owned(), value);
    }
    warn_of_ignored_fields(&place, of, members);
    if sink.unreadable() == unreadable_before {
        refuse_duplicates(&place, of, &fields);
    }
    fields
}

/// The path in the image that an entry of `storage.files`, `directories` or `links` is about.
pub(super) fn image_path<'v>(of: &Object, members: &'v Fields) -> Option<&'v str> {
    if of.key != Key::Name("path") {
        return None;
    }
    let mut paths = members.iter().filter(|(key, _)| same_field(key, "path"));
    match (paths.next(), paths.next()) {
        (Some((_, path)), None) => path.as_str().filter(|path| !path.is_empty()),
        _ => None,
    }
}

fn read_value(place: Place<'_>, kind: Kind, value: &Value) -> Value {
    match (kind, value) {
        (Kind::String, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => value.clone(),
        (Kind::Integer, Value::Number(number)) if number.is_i64() => value.clone(),
        (Kind::Object(of), Value::Object(members)) => read_object(place, of, members).into(),
        (Kind::List(items, _), Value::Array(entries)) => {
            let entries = entries.iter().enumerate();
            entries.map(|(index, entry)| read_entry(place.index(index), items, entry)).collect()
        }
        (kind, found) => {
            let message = format!("must be {}, but is {}", type_name(kind), found_type(found));
            place.unreadable("wrong-type", message);
            Value::Null
        }
    }
}

/// In a list, Go reads null as an empty string or an empty object.
fn read_entry(place: Place<'_>, items: Items, entry: &Value) -> Value {
    match (items, entry) {
        (Items::Names | Items::Texts, Value::Null) => "".into(),
        (Items::Objects(of), Value::Null) => read_object(place, of, &Fields::new()).into(),
        (items, entry) => read_value(place, items.kind(), entry),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "a string",
        Kind::Integer => "a whole number",
        Kind::Bool => "true or false",
        Kind::Object(_) => "an object",
        Kind::List(..) => "a list",
    }
}

fn found_type(found: &Value) -> &'static str {
    match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(n) if n.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn warn_of_ignored_fields(place: &Place<'_>, of: &'static Object, members: &Fields) {
    let spec = place.sink.spec;
    for key in members.keys() {
        let newer = match of.fields.iter().find(|field| same_field(key, field.name)) {
            Some(Field { since, .. }) if *since <= spec => continue,
            newer => newer,
        };
        let place = place.key(key);
        match newer {
            Some(Field { since, .. }) => place.warn(
                "newer-field",
                format!("came with spec {since}, and this config says {spec}: it is ignored"),
            ),
            None => {
                place.warn("unknown-field", format!("no field of spec {spec}: it is ignored"));
            }
        }
    }
}

/// Partitions have two keys: [`super::disks`] checks them.
fn refuse_duplicates(place: &Place<'_>, of: &'static Object, fields: &Fields) {
    for field in of.fields {
        let (items, lists) = match &field.kind {
            Kind::List(Items::Objects(Object { key: Key::Partition, .. }), _) => continue,
            Kind::List(items, Merging::Keyed) => (items, std::slice::from_ref(&field.name)),
            // The lists are checked together, at the first of them.
            Kind::List(items, Merging::KeyedAcross(lists)) if lists[0] == field.name => {
                (items, *lists)
            }
            _ => continue,
        };
        let mut seen = HashSet::new();
        for list in lists {
            let entries = fields.get(*list).and_then(Value::as_array);
            for (index, entry) in entries.into_iter().flatten().enumerate() {
                let key = items.key(entry);
                if seen.contains(&key) {
                    // Whatever is neither a path nor the name of a unit may be a secret.
                    let is_name = matches!(*list, "units" | "dropins");
                    let what = if is_name || key.starts_with('/') {
                        shown(&key)
                    } else {
                        "the same entry".to_owned()
                    };
                    let message = format!("{what} is listed twice; remove one");
                    place.key(list).index(index).problem("duplicate", message);
                } else {
                    seen.insert(key);
                }
            }
        }
    }
}
