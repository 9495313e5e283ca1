//! A patch of an object, and the body of its request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Changes of an object; other fields stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patch {
    /// Annotations to set, or with `None` to remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Fields of `spec`: a strategic merge patch for Kubernetes' own kinds, a merge patch for
    /// others.
    pub spec: Value,
    /// All finalizers that the object has afterwards; `None` leaves them.
    pub finalizers: Option<Vec<String>>,
}

impl Patch {
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.annotations.insert(key.to_owned(), Some(value.into()));
    }

    pub fn remove(&mut self, key: &str) {
        self.annotations.insert(key.to_owned(), None);
    }

    /// The body, for the object in this version.
    pub fn body(&self, version: Option<&str>) -> Value {
        let mut body = json!({ "metadata": {} });
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        if !self.annotations.is_empty() {
            body["metadata"]["annotations"] = json!(self.annotations);
        }
        if let Some(finalizers) = &self.finalizers {
            body["metadata"]["finalizers"] = json!(finalizers);
        }
        if !self.spec.is_null() {
            body["spec"] = self.spec.clone();
        }
        body
    }
}
