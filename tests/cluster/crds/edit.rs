//! An object that is like another but for a few places.

use serde_json::{Value, json};

/// What is different at a place, by its JSON pointer.
#[derive(Debug, Clone)]
pub struct Edit {
    place: &'static str,
    value: Option<Value>,
}

impl Edit {
    /// Something else is there.
    pub fn set(place: &'static str, value: impl Into<Value>) -> Self {
        let value = Some(value.into());
        Self { place, value }
    }

    /// Nothing is there.
    pub fn no(place: &'static str) -> Self {
        Self { place, value: None }
    }

    /// `null` is there.
    pub fn null(place: &'static str) -> Self {
        Self::set(place, Value::Null)
    }
}

/// The object with the edits made, one after the other; what leads to a place is made.
pub fn edited(object: &Value, edits: &[Edit]) -> Value {
    let mut object = object.clone();
    for edit in edits {
        let (parent, last) = edit.place.rsplit_once('/').expect("a pointer");
        let mut at = &mut object;
        for step in parent.split('/').skip(1) {
            if at.is_null() {
                *at = json!({});
            }
            at = match at {
                Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
                other => &mut other[step],
            };
        }
        match (at, &edit.value) {
            (Value::Array(list), Some(value)) => {
                list[last.parse::<usize>().unwrap()] = value.clone()
            }
            (at, Some(value)) => at[last] = value.clone(),
            (Value::Object(map), None) => drop(map.remove(last)),
            (at, None) => panic!("{}: nothing to take away from {at}", edit.place),
        }
    }
    object
}
