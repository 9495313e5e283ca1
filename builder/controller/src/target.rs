//! The object that an action changes, as the decision saw it.

use std::fmt;

use crate::snapshot::{SeenComponent, SeenInput};
use crate::workload::Workload;
use mosb_plan::api::Metadata;
use mosb_reconcile::kinds::Kind;

/// An object that exists.
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
    pub fn of(kind: Kind, metadata: &Metadata) -> Self {
        Self {
            kind,
            name: metadata.name.clone(),
            uid: metadata.uid().to_owned(),
            version: metadata.resource_version.clone(),
        }
    }

    /// The same object in whatever version.
    #[must_use]
    pub fn any_version(self) -> Self {
        Self { version: None, ..self }
    }
}

/// An input is deleted in whatever version.
impl From<&SeenInput> for Target {
    fn from(input: &SeenInput) -> Self {
        Self {
            kind: input.kind.into(),
            name: input.name.clone(),
            uid: input.uid.clone(),
            version: None,
        }
    }
}

impl From<&SeenComponent> for Target {
    fn from(component: &SeenComponent) -> Self {
        Self {
            kind: Kind::MachineConfig,
            name: component.name.clone(),
            uid: component.uid.clone(),
            version: Some(component.resource_version.clone()),
        }
    }
}

impl From<&Workload> for Target {
    fn from(workload: &Workload) -> Self {
        Self {
            kind: workload.builder().into(),
            name: workload.name().to_owned(),
            uid: workload.uid().to_owned(),
            version: workload.metadata().resource_version.clone(),
        }
    }
}

/// `machineosbuild x`, without the namespace.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
