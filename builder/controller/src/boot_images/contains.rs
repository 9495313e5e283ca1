//! Whether an object of the API server has what was sent: it may add defaults. Pure.

use serde_json::Value;

pub(super) fn contains(there: &Value, sent: &Value) -> bool {
    match (there, sent) {
        (Value::Object(there), Value::Object(sent)) => sent.iter().all(|(key, sent)| {
            there.get(key).map_or(sent.is_null(), |there| contains(there, sent))
        }),
        (Value::Array(there), Value::Array(sent)) => {
            there.len() == sent.len() && there.iter().zip(sent).all(|(a, b)| contains(a, b))
        }
        (Value::Null, Value::Object(sent)) => sent.is_empty(),
        _ => there == sent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_the_same_if_it_has_what_was_sent() {
        for (what, there, sent, want) in [
            ("equal", json!({"a": 1}), json!({"a": 1}), true),
            ("a default", json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            ("another value", json!({"a": 2}), json!({"a": 1}), false),
            ("a field less", json!({}), json!({"a": 1}), false),
            ("a longer list", json!({"a": [1, 2]}), json!({"a": [1]}), false),
            (
                "a default in a list",
                json!({"a": [{"b": 1, "c": 1}]}),
                json!({"a": [{"b": 1}]}),
                true,
            ),
            ("null is absent", json!({}), json!({"a": null}), true),
            ("an empty spec", Value::Null, json!({}), true),
        ] {
            assert_eq!(contains(&there, &sent), want, "{what}");
        }
    }
}
