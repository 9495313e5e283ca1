//! Building the JSON of spec 3.5.0: what nobody said leaves no field.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The fields of an object.
pub(super) type Fields = Map<String, Value>;

/// The fields that have a value.
pub(super) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Fields {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// An object, if it has any field.
pub(super) fn part(fields: Fields) -> Option<Value> {
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// A list, if it has any item.
pub(super) fn list(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

/// A text, even if it is empty.
pub(super) fn text(text: Option<&str>) -> Option<Value> {
    text.map(Value::from)
}

/// A text where an empty one means nothing in spec 2.
pub(super) fn filled(text: Option<&str>) -> Option<Value> {
    text.filter(|text| !text.is_empty()).map(Value::from)
}

/// True; false means nothing in spec 2.
pub(super) fn truth(truth: Option<bool>) -> Option<Value> {
    truth.filter(|truth| *truth).map(Value::from)
}

/// A number, even if it is 0.
pub(super) fn number(number: Option<i64>) -> Option<Value> {
    number.map(Value::from)
}

/// Texts in their order.
pub(super) fn texts(texts: Vec<&str>) -> Option<Value> {
    list(texts.into_iter().map(Value::from).collect())
}

/// Texts in their order, each once: spec 3 refuses one that stands there twice.
pub(super) fn each_once(mut texts: Vec<&str>) -> Option<Value> {
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(*text));
    self::texts(texts)
}

/// Says again what a later entry of the same name says; the lists that are named are united.
pub(super) fn say_again(fields: &mut Fields, later: Fields, united: &[&str]) {
    for (key, value) in later {
        match (fields.get_mut(&key), value) {
            (Some(Value::Array(items)), Value::Array(more)) if united.contains(&key.as_str()) => {
                let mut seen: HashSet<Value> = items.iter().cloned().collect();
                items.extend(more.into_iter().filter(|item| seen.insert(item.clone())));
            }
            (_, value) => drop(fields.insert(key, value)),
        }
    }
}
