//! The writes of boot images. Each names the version of the object that it was decided on.

use std::fmt;

use serde_json::Value;

use super::obstacle::Failure;
use mosb_build::SecretObject;
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject, object_key};
use mosb_cluster::secret_ref::SecretRef;
use mosb_image::Digest;
use mosb_types::Secret;

pub(super) type Action = mosb_reconcile::write::Action<BootImageEffect>;

/// A write to an object of a kind that the cluster may not have.
#[derive(Debug, Clone, PartialEq)]
pub struct BootImageEffect {
    /// The set that it is for. If it is refused, the writes of other sets are made all the same.
    /// None for what is reported of all sets.
    pub set: Option<String>,
    pub write: BootImageWrite,
}

/// An object that exists, in the version that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
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
pub enum BootImageWrite {
    /// Create an object that is watched, or find the same one.
    Create {
        kind: BootImageKind,
        /// Empty for cluster-scoped kinds.
        namespace: String,
        name: String,
        body: Value,
        /// An object that must exist before.
        also: Option<Value>,
    },
    /// Replace fields of a status.
    Status { target: ObjectRef, fields: Value, recorded: Recorded },
    /// Replace a Secret with a stub, in the version that was read.
    Stub(Box<StubWrite>),
    /// Change fields of a set, as JSON patch.
    Patch { target: ObjectRef, operations: Vec<Value> },
}

/// What a status gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// What is seen.
    Seen,
    /// An earlier image that was put back.
    Restored,
    /// The attempt to write an image to the set with this UID, which follows.
    Attempt(String),
}

/// The new content of a stub.
#[derive(Debug, Clone, PartialEq)]
pub struct StubWrite {
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
    pub fn if_undone(&self) -> Option<Failure> {
        let Self::Stub(write) = self else { return None };
        let StubWrite { secret, what, .. } = &**write;
        Some(Failure::new(
            "stub-not-kept",
            format!(
                "Secret {secret} with its user data: mosb changed it ({what}), and another writer or a webhook put its content back; change it there, or let that leave this Secret alone; mosb tries again within an hour"
            ),
        ))
    }

    /// What the write does, regardless of the version of the object: a write that was refused is
    /// refused again as long as this is the same.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Create { .. } => self.to_string(),
            // The time in it does not count as a difference.
            Self::Status { target, .. } => format!("status {target}"),
            Self::Stub(write) => format!("stub {} {}", write.secret, write.digest),
            Self::Patch { target, operations } => {
                format!("patch {} {operations:?}", target.uid)
            }
        }
    }
}

/// For the log.
impl fmt::Display for BootImageEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write.fmt(f)
    }
}

/// For the log.
impl fmt::Display for BootImageWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { kind, namespace, name, .. } => {
                let kind = match kind {
                    BootImageKind::BootImageHistory => "bootimagehistory",
                    BootImageKind::BootImageStatus => "bootimagestatus",
                    kind => kind.as_str(),
                };
                write!(f, "creating {kind} {}", object_key(namespace, name))
            }
            Self::Status { target, .. } if target.kind == BootImageKind::BootImageHistory => {
                write!(f, "status of bootimagehistory {}/{}", target.namespace, target.name)
            }
            Self::Status { target, .. } => target.fmt(f),
            Self::Stub(write) => write!(f, "secret {}: {}", write.secret, write.what),
            Self::Patch { target, .. } => write!(f, "boot image of {target}"),
        }
    }
}

/// `MachineSet a/b`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), object_key(&self.namespace, &self.name))
    }
}
