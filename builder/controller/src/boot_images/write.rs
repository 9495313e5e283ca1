//! The writes of boot images. Each names the version of the object that it was decided on.

use std::fmt;

use serde_json::Value;

use super::snapshot::FailedWrite;
use crate::cluster_cache::{BootImageKind, SeenObject};
use crate::user_data::SecretRef;
use mosb_build::SecretObject;
use mosb_image::Digest;
use mosb_types::Secret;

/// An object that exists, in the version that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectRef {
    pub kind: BootImageKind,
    /// The version of its group in which it was read.
    pub version: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

/// One write. Applying it twice has the result of applying it once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BootImageWrite {
    /// Create the record of a set, without a status.
    CreateHistory { namespace: String, name: String, body: Value },
    /// Replace fields of the status of a record.
    HistoryStatus { target: ObjectRef, status: Value, recorded: Recorded },
    /// Replace a Secret with a stub, in the version that was read.
    Stub(Box<StubWrite>),
    /// Create a template, or find the same one.
    CreateTemplate {
        kind: BootImageKind,
        namespace: String,
        name: String,
        body: Value,
        /// An object that must exist before the template is used.
        also: Option<Value>,
    },
    /// Change fields of a set, as JSON patch.
    Patch { target: ObjectRef, operations: Vec<Value> },
}

/// What the status of a record gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// What is seen of the set.
    Seen,
    /// An earlier image that was put back.
    Restored,
    /// The attempt to write an image, which follows.
    Attempt,
}

/// The new content of a stub.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StubWrite {
    pub secret: SecretRef,
    /// What changes, for the log.
    pub what: String,
    /// Of the new config.
    pub digest: Digest,
    pub object: Secret<SecretObject>,
}

impl ObjectRef {
    pub fn of(object: &SeenObject) -> Self {
        Self {
            kind: object.kind,
            version: object.version().to_owned(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        }
    }
}

impl BootImageWrite {
    /// Why the same write is not made again soon after it succeeded: another writer undid it. The
    /// history of a set bounds what is written to the set itself.
    pub fn if_undone(&self) -> Option<FailedWrite> {
        let Self::Stub(write) = self else { return None };
        let StubWrite { secret, what, .. } = &**write;
        Some(FailedWrite {
            code: "stub-not-kept".to_owned(),
            message: format!(
                "Secret {secret} with its user data: mosb changed it ({what}), and another writer or a webhook put its content back; change it there, or let that leave this Secret alone; mosb tries again within an hour"
            ),
            is_forbidden: false,
        })
    }

    /// What the write does, regardless of the version of the object: a write that was refused is
    /// refused again as long as this is the same.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::CreateHistory { namespace, name, .. } => format!("record {namespace}/{name}"),
            // The time in it does not count as a difference.
            Self::HistoryStatus { target, .. } => format!("record {target}"),
            Self::Stub(write) => format!("stub {} {}", write.secret, write.digest),
            Self::CreateTemplate { namespace, name, .. } => format!("template {namespace}/{name}"),
            Self::Patch { target, operations } => {
                format!("patch {} {operations:?}", target.uid)
            }
        }
    }
}

/// For the log.
impl fmt::Display for BootImageWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateHistory { namespace, name, .. } => {
                write!(f, "creating bootimagehistory {namespace}/{name}")
            }
            Self::HistoryStatus { target, .. } => {
                write!(f, "status of bootimagehistory {}/{}", target.namespace, target.name)
            }
            Self::Stub(write) => write!(f, "secret {}: {}", write.secret, write.what),
            Self::CreateTemplate { kind, namespace, name, .. } => {
                write!(f, "creating {} {namespace}/{name}", kind.as_str())
            }
            Self::Patch { target, .. } => {
                let ObjectRef { kind, namespace, name, .. } = target;
                write!(f, "boot image of {} {namespace}/{name}", kind.as_str())
            }
        }
    }
}

/// `MachineSet a/b`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = crate::cluster_cache::object_key(&self.namespace, &self.name);
        write!(f, "{} {key}", self.kind.as_str())
    }
}
