//! An edit of a value at single paths, so that unknown fields and concurrent edits of others stay.

use mosb_types::Diagnostic;
use serde_json::{Value, json};

use crate::BootImage;

/// How a value gets another boot image.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub edits: Vec<Edit>,
    pub from: BootImage,
    pub to: BootImage,
    /// An object that must exist in the set's namespace before the edits: the `Image` of the
    /// OpenStack resource controller. It has a name and no namespace.
    pub object: Option<Value>,
}

/// One path of the value: a JSON pointer, what is there (`None`: absent) and what should be there
/// (`None`: remove it).
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    pub path: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

/// Why an edit does not apply. The value is then unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
pub enum EditError {
    #[error("field {path} has changed meanwhile; read it and decide again")]
    #[diagnostic(code = "boot-image-changed", class = Transient)]
    Changed { path: String },
    #[error("field {path} has no parent object; this is a bug in mosb, report it")]
    #[diagnostic(code = "boot-image-path", class = Internal)]
    Path { path: String },
}

impl Edit {
    /// The parent of the path and its last key.
    fn split(&self) -> Result<(&str, String), EditError> {
        let split = self.path.rsplit_once('/');
        let (parent, key) = split.ok_or_else(|| EditError::Path { path: self.path.clone() })?;
        Ok((parent, key.replace("~1", "/").replace("~0", "~")))
    }

    fn check(&self, value: &Value) -> Result<(), EditError> {
        let (parent, _) = self.split()?;
        if value.pointer(&self.path) != self.old.as_ref() {
            return Err(EditError::Changed { path: self.path.clone() });
        }
        match value.pointer(parent) {
            Some(Value::Object(_)) => Ok(()),
            _ => Err(EditError::Path { path: self.path.clone() }),
        }
    }

    /// Operations of RFC 6902 for the value at `prefix` of an object. The absence of a field can't
    /// be tested: send the object's resourceVersion, too.
    fn json_patch(&self, prefix: &str) -> Vec<Value> {
        let path = format!("{prefix}{}", self.path);
        let test = self.old.as_ref().map(|old| json!({"op": "test", "path": path, "value": old}));
        let write = match (&self.old, &self.new) {
            (_, Some(new)) => Some(json!({"op": "add", "path": path, "value": new})),
            (Some(_), None) => Some(json!({"op": "remove", "path": path})),
            (None, None) => None,
        };
        test.into_iter().chain(write).collect()
    }
}

impl Change {
    /// Makes all edits, or none.
    ///
    /// # Errors
    /// A path no longer has its old value.
    pub fn apply(&self, value: &mut Value) -> Result<(), EditError> {
        for edit in &self.edits {
            edit.check(value)?;
        }
        for edit in &self.edits {
            let (parent, key) = edit.split()?;
            let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
            let parent = parent.ok_or_else(|| EditError::Path { path: edit.path.clone() })?;
            match &edit.new {
                Some(new) => parent.insert(key, new.clone()),
                None => parent.remove(&key),
            };
        }
        Ok(())
    }

    /// The same as operations of a JSON patch, with a test of each old value. `prefix` is the JSON
    /// pointer of the value in its object.
    pub fn json_patch(&self, prefix: &str) -> Vec<Value> {
        self.edits.iter().flat_map(|edit| edit.json_patch(prefix)).collect()
    }
}

#[cfg(test)]
mod tests;
