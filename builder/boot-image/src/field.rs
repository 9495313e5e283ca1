//! Fields of values that others wrote, read by JSON pointer with the path in each error.

use serde_json::Value;

use crate::{BootImage, ImageError};

/// More entries than any machine has disks or volumes.
const MAX_ENTRIES: usize = 256;

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn wrong_type(path: &str, want: &'static str, found: &Value) -> ImageError {
    ImageError::Type { path: path.to_owned(), want, found: type_name(found) }
}

/// What is at a path. Null and absent are the same, as for the API server. A parent that is not an
/// object or a list is an error, not an absent field.
pub fn at<'a>(value: &'a Value, path: &str) -> Result<Option<&'a Value>, ImageError> {
    let mut current = value;
    for (position, _) in path.match_indices('/') {
        let end = path[position + 1..].find('/').map_or(path.len(), |next| position + 1 + next);
        let key = path[position + 1..end].replace("~1", "/").replace("~0", "~");
        let child = match current {
            Value::Object(object) => object.get(&key),
            Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get(index)),
            other => return Err(wrong_type(&path[..position], "an object", other)),
        };
        match child {
            None | Some(Value::Null) => return Ok(None),
            Some(child) => current = child,
        }
    }
    Ok(Some(current))
}

/// A text; empty is absent, as in Go's types with `omitempty`.
pub fn text<'a>(value: &'a Value, path: &str) -> Result<Option<&'a str>, ImageError> {
    match at(value, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(other) => Err(wrong_type(path, "text", other)),
    }
}

/// A text that must be there.
pub fn required_text<'a>(value: &'a Value, path: &str) -> Result<&'a str, ImageError> {
    text(value, path)?.ok_or_else(|| ImageError::Missing { path: path.to_owned() })
}

/// A boolean; absent is false.
pub fn flag(value: &Value, path: &str) -> Result<bool, ImageError> {
    match at(value, path)? {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong_type(path, "a boolean", other)),
    }
}

/// A list with a limit; absent is empty.
pub fn list<'a>(value: &'a Value, path: &str) -> Result<&'a [Value], ImageError> {
    match at(value, path)? {
        None => Ok(&[]),
        Some(Value::Array(list)) if list.len() > MAX_ENTRIES => {
            let (count, path) = (list.len(), path.to_owned());
            Err(ImageError::TooMany { path, count, limit: MAX_ENTRIES })
        }
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(wrong_type(path, "a list", other)),
    }
}

/// An object; absent is none.
pub fn object<'a>(value: &'a Value, path: &str) -> Result<Option<&'a Value>, ImageError> {
    match at(value, path)? {
        Some(other) if !other.is_object() => Err(wrong_type(path, "an object", other)),
        found => Ok(found),
    }
}

/// The boot image at a path; absent is none.
pub fn image_at(value: &Value, path: &str) -> Result<Option<BootImage>, ImageError> {
    text(value, path)?.map(|text| image(path, text)).transpose()
}

/// The boot image that a field names.
pub fn image(path: &str, text: &str) -> Result<BootImage, ImageError> {
    text.parse().map_err(|source| ImageError::Image { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn type_error<T>(path: &str, want: &'static str, found: &'static str) -> Result<T, ImageError> {
        Err(ImageError::Type { path: path.to_owned(), want, found })
    }

    #[test]
    fn fields() {
        let value = json!({"a": {"b/c": "x", "empty": "", "null": null, "list": [{"on": true}]}});
        assert_eq!(text(&value, "/a/b~1c"), Ok(Some("x")));
        assert_eq!(text(&value, "/a/empty"), Ok(None));
        assert_eq!(text(&value, "/a/null"), Ok(None));
        assert_eq!(text(&value, "/a/null/deeper"), Ok(None));
        assert_eq!(text(&value, "/a"), type_error("/a", "text", "an object"));
        assert_eq!(text(&value, "/a/b~1c/d"), type_error("/a/b~1c", "an object", "text"));
        assert_eq!(flag(&value, "/a/list/0/on"), Ok(true));
        assert_eq!(flag(&value, "/a/list/1/on"), Ok(false));
        assert_eq!(flag(&value, "/a/list"), type_error("/a/list", "a boolean", "a list"));
        assert_eq!(list(&value, "/a/list").map(<[_]>::len), Ok(1));
        assert_eq!(list(&value, "/none").map(<[_]>::len), Ok(0));
        assert_eq!(object(&value, "/a/list"), type_error("/a/list", "an object", "a list"));
        assert_eq!(at(&json!(7), "/a"), type_error("", "an object", "a number"));
    }

    #[test]
    fn a_list_has_a_limit() {
        let value = json!({"disks": vec![Value::Null; MAX_ENTRIES + 1]});
        let want = ImageError::TooMany { path: "/disks".to_owned(), count: 257, limit: 256 };
        assert_eq!(list(&value, "/disks"), Err(want));
    }
}
