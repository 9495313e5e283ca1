//! Resource kinds: where requests about their objects go.

use std::fmt;

use kube::core::ApiResource;

/// A resource kind of the API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// As the API spells it.
    pub name: &'static str,
    pub plural: &'static str,
    pub scope: Scope,
    /// Whether it is Kubernetes' own, for which the API server has strategic merge patches.
    pub is_built_in: bool,
    /// Whether clusters without it are supported.
    pub is_optional: bool,
    /// Whether a deleted object stays until everything that it owns is deleted.
    pub is_deleted_last: bool,
}

/// Where the objects of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    /// The namespace of the controller.
    OwnNamespace,
    Namespace(&'static str),
}

impl Kind {
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: if self.group.is_empty() {
                self.version.to_owned()
            } else {
                format!("{}/{}", self.group, self.version)
            },
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    /// The namespace of its objects, if they have one. `own`: that of the controller.
    pub fn namespace(self, own: &str) -> Option<&str> {
        match self.scope {
            Scope::Cluster => None,
            Scope::OwnNamespace => Some(own),
            Scope::Namespace(namespace) => Some(namespace),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// As messages name it: `machineosbuild`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.to_lowercase())
    }
}
