//! The changes that a decision makes.
//!
//! Most actions are a write to one object: create, patch, replace the status, delete. What is
//! written is complete here, so that a test sees it; the executor only sends it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::event::Event;
use crate::Kind;
use crate::Problem;

/// One change. Applying it twice has the result of applying it once. UID and resourceVersion of the
/// [`Target`] make the API server reject an action that was decided on an outdated view.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<E> {
    Create(NewObject),
    Patch(Target, Patch),
    ReplaceStatus(Target, NewStatus),
    /// Delete an object with everything that it owns.
    Delete(Target),
    /// Emit an event. An existing event of this name is not changed.
    Event(Event),
    /// What only one controller does.
    Effect(E),
}

/// The effect of a controller whose actions are all writes to one object.
pub type NoEffect = Infallible;

/// The new status, or the part of it that only we write.
#[derive(Debug, Clone, PartialEq)]
pub enum NewStatus {
    Whole(Value),
    /// These fields; others stay. The API replaces a list as one.
    Fields(Value),
}

/// For the log.
impl<E: fmt::Display> fmt::Display for Action<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(new) => write!(f, "creating {} {}", new.kind, new.name),
            Self::Patch(target, patch) if patch.spec.is_null() => {
                write!(f, "annotations of {target}")
            }
            Self::Patch(target, _) => write!(f, "updating {target}"),
            Self::ReplaceStatus(target, _) => write!(f, "status of {target}"),
            Self::Delete(target) => write!(f, "deleting {target}"),
            Self::Event(event) => write!(f, "event {}", event.name),
            Self::Effect(effect) => effect.fmt(f),
        }
    }
}

/// An object that exists, as the decision saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub name: String,
    /// Sent with deletes and whole statuses, which the API server rejects if another object has the
    /// name by now. The other writes rely on the version.
    pub uid: String,
    /// The resourceVersion, for a write that must not follow another one. If an earlier action of
    /// the same decision wrote the object, the executor uses the version that this write returned.
    pub version: Option<String>,
}

impl Target {
    /// The same object in whatever version.
    #[must_use]
    pub fn any_version(self) -> Self {
        Self { version: None, ..self }
    }
}

/// `machineosbuild x`, without the namespace.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A complete object that does not exist yet.
#[derive(Clone)]
pub struct NewObject {
    pub kind: Kind,
    pub name: String,
    /// UID of the owner that a view shows together with the object.
    pub owner_uid: Option<String>,
    /// The object, in JSON.
    pub body: Arc<Value>,
    pub if_exists: IfExists,
}

/// Without the body, which may be that of a Secret.
impl fmt::Debug for NewObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut new = f.debug_struct("NewObject");
        new.field("kind", &self.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for NewObject {
    fn eq(&self, other: &Self) -> bool {
        let Self { kind, name, owner_uid, body, if_exists } = self;
        // Two addresses of one function may differ.
        (kind, name, owner_uid, body) == (&other.kind, &other.name, &other.owner_uid, &other.body)
            && discriminant(if_exists) == discriminant(&other.if_exists)
    }
}

/// What becomes of the creation if an object has the name.
#[derive(Debug, Clone, Copy)]
pub enum IfExists {
    /// The watch will show it: decide again.
    DecideAgain,
    /// Compare the metadata: nothing else of the object is read.
    CompareMetadata(Compare),
    CompareWhole(Compare),
}

/// Compares the object that exists with the new one.
pub type Compare = fn(&NewObject, &DynamicObject) -> Existing;

/// What the object with the name of a new one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// The same object: it was created before.
    Same,
    /// It is being deleted, or the watch will show it: decide again.
    Outdated,
    NotOurs,
    Problem(Problem),
}

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
