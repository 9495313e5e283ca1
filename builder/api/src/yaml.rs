//! Objects as people and the API write them: JSON, or YAML read as Kubernetes reads it.
//!
//! The one place that knows the YAML crate. Kubernetes reads YAML 1.1: `0644` is octal, `yes` is
//! true.

use serde::Serialize;
use serde_json::Value;

/// The most that is read as one object: twice what a rendered config may have, for YAML's blanks
/// and for `managedFields`.
pub const INPUT_LIMIT: usize = 8 * 1024 * 1024;
/// The most that is read as a list of objects: all MachineConfigs of a cluster that keeps a hundred
/// rendered ones.
pub const LIST_LIMIT: usize = 256 * 1024 * 1024;

/// How much a text may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    bytes: usize,
    /// Scalars, lists and objects, each of which takes a multiple of its text in memory.
    nodes: usize,
    documents: usize,
}

impl Limits {
    /// Limits of a text with one object.
    pub const OBJECT: Self = Self { bytes: INPUT_LIMIT, nodes: 250_000, documents: 1024 };
    /// Limits of a text with a list of objects.
    pub const LIST: Self = Self { bytes: LIST_LIMIT, nodes: 4_000_000, documents: 50_000 };
}

/// Why a text can't be read as objects. The caller adds the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    #[error("it is not text in UTF-8 (byte {0}); give YAML or JSON")]
    Utf8(usize),
    /// Larger than its [`Limits`].
    #[error("it has more than {0} bytes; no MachineConfigs are that large")]
    TooLarge(usize),
    /// More values than its [`Limits`].
    #[error("it holds more than {0} values; no MachineConfigs hold that many")]
    TooMany(usize),
    #[error("not readable as JSON: {0}")]
    Json(String),
    /// Broken YAML, or a bomb of aliases.
    #[error("not readable as YAML: {0}")]
    Yaml(String),
    /// Nothing in it.
    #[error("it is empty; give a rendered MachineConfig")]
    Empty,
    /// More than one document.
    #[error("it holds {0} documents; give exactly one")]
    Several(usize),
}

/// Reads all documents of a text. Empty documents are left out.
///
/// # Errors
/// Broken text. The error contains only the text near the fault.
pub fn parse_all(bytes: &[u8], limits: Limits) -> Result<Vec<Value>, YamlError> {
    if bytes.len() > limits.bytes {
        return Err(YamlError::TooLarge(limits.bytes));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| YamlError::Utf8(e.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        if values_at_most(text) > limits.nodes {
            return Err(YamlError::TooMany(limits.nodes));
        }
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return documents.collect::<Result<_, _>>().map_err(|e| YamlError::Json(e.to_string()));
    }
    let budget = serde_saphyr::budget! {
        max_nodes: limits.nodes, max_events: limits.nodes * 2, max_documents: limits.documents,
        max_total_scalar_bytes: limits.bytes,
    };
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true, with_snippet: false, budget: budget,
    };
    let parse = |text: &str| {
        serde_saphyr::from_multiple_with_options::<Value>(text, options.clone())
            .map_err(|e| YamlError::Yaml(shorten_message(&e.to_string())))
    };
    let mut documents = parse(text)?;
    if !text.ends_with(['\n', '\r'])
        && let Ok(marked) = parse(&format!("{text}{MARK}"))
    {
        for (document, marked) in documents.iter_mut().zip(&marked) {
            remove_added_line_break(document, marked);
        }
    }
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// A letter after the end of a text shows which value the text ends in.
const MARK: char = 'x';

/// The YAML crate ends a block with a line break also where the text ends without one; YAML 1.2
/// (8.1.1.2) and Kubernetes don't. `marked` is the same document with [`MARK`] after its text.
fn remove_added_line_break(document: &mut Value, marked: &Value) {
    match (document, marked) {
        (Value::String(text), Value::String(marked)) => {
            let without = text.strip_suffix('\n');
            let is_last = without.is_some_and(|without| *marked == format!("{without}{MARK}\n"));
            if is_last {
                text.pop();
            }
        }
        (Value::Array(items), Value::Array(marked)) => {
            for (item, marked) in items.iter_mut().zip(marked) {
                remove_added_line_break(item, marked);
            }
        }
        (Value::Object(fields), Value::Object(marked)) => {
            for (key, field) in fields {
                if let Some(marked) = marked.get(key) {
                    remove_added_line_break(field, marked);
                }
            }
        }
        _ => {}
    }
}

/// As many values as a JSON text can hold: each but the first follows a comma, a colon or a
/// bracket.
fn values_at_most(json: &str) -> usize {
    let (mut values, mut quoted, mut escaped) = (1, false, false);
    for byte in json.bytes() {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b',' | b':' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    values
}

/// Reads a text that must hold exactly one document.
///
/// # Errors
/// As [`parse_all`], and none or several documents.
pub fn parse_one(bytes: &[u8]) -> Result<Value, YamlError> {
    let mut documents = parse_all(bytes, Limits::OBJECT)?;
    match documents.len() {
        1 => Ok(documents.remove(0)),
        0 => Err(YamlError::Empty),
        several => Err(YamlError::Several(several)),
    }
}

/// A value as a YAML document that Kubernetes reads back as the same value.
pub fn to_text<T: Serialize>(value: &T) -> String {
    // One line a value, or a long pullspec is on the line after its key, where grep doesn't
    // find it.
    let options = serde_saphyr::ser_options! { yaml_12: false, folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
        .expect("a JSON value can be written as YAML")
}

/// The message of the parser, on one line and without its advice to programmers.
fn shorten_message(text: &str) -> String {
    if let Some((_, limit)) = text.split_once("budget breached: ") {
        let place = limit.find(" at line ").map_or("", |at| &limit[at..]);
        let place = place.split(" (").next().unwrap_or_default();
        return format!(
            "with what its aliases stand for, it holds more than any MachineConfigs do{place}"
        );
    }
    let text = text.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_is_read_as_kubernetes_reads_it() {
        for (what, text, want) in [
            ("octal", "mode: 0644", json!({ "mode": 420 })),
            ("boolean", "a: yes\nb: off\nc: true", json!({ "a": true, "b": false, "c": true })),
            ("quoted", "a: \"0644\"\nb: 'yes'", json!({ "a": "0644", "b": "yes" })),
            ("block scalar", "a: |\r\n  x\r\n  y\r\n", json!({ "a": "x\ny\n" })),
            ("null", "a: null\nb: ~\nc:", json!({ "a": null, "b": null, "c": null })),
            ("separators", "---\na: 1\n---\n", json!({ "a": 1 })),
            ("json", "{\"a\": 0.5, \"b\": \"\u{e4}\"}", json!({ "a": 0.5, "b": "\u{e4}" })),
            ("mark", "\u{feff}a: 1", json!({ "a": 1 })),
            ("block at the end", "a: |\n  x", json!({ "a": "x" })),
            ("kept block at the end", "a: |+\n  x\n\n  y", json!({ "a": "x\n\ny" })),
            ("folded block at the end", "a: >\n  x\n  y", json!({ "a": "x y" })),
            (
                "item at the end",
                "a: [{b: c}]\nd:\n- |\n  x",
                json!({ "a": [{ "b": "c" }], "d": ["x"] }),
            ),
            ("blanks at the end", "a: |\n  x\n  ", json!({ "a": "x\n" })),
            ("other end", "a: |\n  x\nb: \"y\\n\"", json!({ "a": "x\n", "b": "y\n" })),
            ("comment at the end", "a: |\n  x\n# y", json!({ "a": "x\n" })),
        ] {
            assert_eq!(parse_one(text.as_bytes()), Ok(want), "{what}");
        }
    }

    #[test]
    fn anything_but_one_object_is_rejected() {
        let bomb = (1..40).fold("a0: &a0 [x,x]\n".to_owned(), |text, n| {
            text + &format!(
                "a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0},*a{0},*a{0},*a{0},*a{0}]\n",
                n - 1
            )
        });
        assert!(
            matches!(parse_one(bomb.as_bytes()), Err(YamlError::Yaml(text)) if text.contains("what its aliases stand for")),
            "bomb"
        );
        assert!(matches!(parse_one(b"a: [1"), Err(YamlError::Yaml(_))), "broken");
        assert!(
            matches!(parse_one(b"a: 1\na: 2"), Err(YamlError::Yaml(text)) if !text.contains("Options")),
            "same key twice"
        );
        assert!(matches!(parse_one(b"{\"a\": 1"), Err(YamlError::Json(_))), "broken JSON");
        assert_eq!(parse_one(b"a: \xff"), Err(YamlError::Utf8(3)));
        assert_eq!(parse_one(b" \n"), Err(YamlError::Empty));
        assert_eq!(parse_one(b"a: 1\n---\nb: 1\n"), Err(YamlError::Several(2)));
        assert_eq!(parse_one(&vec![b' '; INPUT_LIMIT + 1]), Err(YamlError::TooLarge(INPUT_LIMIT)));
        let few = Limits { nodes: 1000, ..Limits::OBJECT };
        let many = |open: &str, close: &str| {
            parse_all(format!("{open}{}0{close}", "0,".repeat(1000)).as_bytes(), few)
        };
        assert_eq!(many("{\"a\":[", "]}"), Err(YamlError::TooMany(1000)));
        assert!(matches!(many("a: [", "]"), Err(YamlError::Yaml(_))), "many values");
        let deep = format!("{}{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        assert!(matches!(parse_one(deep.as_bytes()), Err(YamlError::Json(_))), "deep JSON");
        assert!(
            matches!(parse_one(format!("a: {deep}").as_bytes()), Err(YamlError::Yaml(_))),
            "deep YAML"
        );
    }

    #[test]
    fn text_in_quotes_counts_once() {
        for (json, want) in [(r#"{}"#, 2), (r#"{"a":"[,,\"{{:\\","b":[1,2]}"#, 7)] {
            assert_eq!(values_at_most(json), want, "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn written_yaml_is_read_back(text in "\\PC{0,20}|[yYnN0-9~:# \\n\\t'\"-]{0,8}|(yes|0644|null|on|1e3|<<|=)") {
            let value = json!({ "a": text, "b": [text, 1, true, null, { text.clone(): {} }] });
            proptest::prop_assert_eq!(parse_one(to_text(&value).as_bytes()), Ok(value));
        }
    }
}
