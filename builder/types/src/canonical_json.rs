//! JSON with one text for one value (RFC 8785), so that one value has one digest.

use canon_json::CanonicalFormatter;
use serde::Serialize;
use serde_json::{Map, Value};

/// The canonical text of anything that is JSON: sorted keys, no blanks.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    canonical_value(&serde_json::to_value(value).expect("it can be written as JSON"))
}

/// The same of a JSON value, which is not copied.
///
/// canon-json alone would write each value once more for each object around it, and a config is
/// large.
pub fn canonical_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(text_length(value));
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            for (at, (key, value)) in sorted(fields).into_iter().enumerate() {
                out.push(if at == 0 { b'{' } else { b',' });
                write_scalar(key, out);
                out.push(b':');
                write(value, out);
            }
            out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                out.push(if at == 0 { b'[' } else { b',' });
                write(item, out);
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            write_scalar(value, out);
        }
    }
}

/// The fields in the order of their keys' UTF-16 units (RFC 8785, 3.2.3).
fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    fields
}

fn write_scalar(scalar: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    let mut writer = serde_json::Serializer::with_formatter(out, CanonicalFormatter::new());
    scalar.serialize(&mut writer).expect("a JSON value can be written to memory");
}

/// About the length of the text: most bytes are in strings that need no escapes.
fn text_length(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + 4 + text_length(value)).sum::<usize>() + 2
        }
        Value::Array(items) => items.iter().map(|item| text_length(item) + 1).sum::<usize>() + 2,
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 6,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As canon-json writes it by itself.
    fn reference(value: &Value) -> String {
        let mut out = Vec::new();
        write_scalar(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn text(value: &Value) -> String {
        String::from_utf8(canonical_json(value)).unwrap()
    }

    #[test]
    fn one_value_has_one_text() {
        for (value, want) in [
            (json!({}), "{}"),
            (json!([[], {}]), "[[],{}]"),
            (json!({ "b": [1, true, null], "a": -2 }), r#"{"a":-2,"b":[1,true,null]}"#),
            (json!({ "a\"\n": "\u{1f}\u{7f}/\u{e9}" }), "{\"a\\\"\\n\":\"\\u001f\u{7f}/\u{e9}\"}"),
            (json!([1.0, 1e21, 0.000_000_1, u64::MAX]), "[1,1e+21,1e-7,18446744073709551615]"),
            // Bytes would sort these two the other way round.
            (json!({ "\u{fb01}": 1, "\u{1f600}": 2 }), "{\"\u{1f600}\":2,\"\u{fb01}\":1}"),
        ] {
            assert_eq!(text(&value), want);
            assert_eq!(reference(&value), want);
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_canon_json_writes(value in any_value()) {
            prop_assert_eq!(text(&value), reference(&value));
        }
    }
}
