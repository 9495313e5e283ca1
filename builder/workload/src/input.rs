//! An object that a build's pod needs.

use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use mosb_cluster::kinds;
use mosb_reconcile::Kind;

/// An object that a build's pod needs. `Debug` shows only kind and name, because Secrets are among
/// them.
#[derive(Clone, PartialEq)]
pub enum Input {
    /// Configuration, or the empty result.
    ConfigMap(ConfigMap),
    Secret(Secret),
    /// The identity of the sidecar.
    ServiceAccount(ServiceAccount),
    Role(Role),
    RoleBinding(RoleBinding),
}

/// The kind of an [`Input`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputKind {
    ConfigMap,
    Secret,
    ServiceAccount,
    Role,
    RoleBinding,
}

impl InputKind {
    pub const ALL: [Self; 5] =
        [Self::ConfigMap, Self::Secret, Self::ServiceAccount, Self::Role, Self::RoleBinding];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        Kind::from(self).name
    }
}

impl From<InputKind> for Kind {
    fn from(kind: InputKind) -> Self {
        match kind {
            InputKind::ConfigMap => kinds::CONFIG_MAP,
            InputKind::Secret => kinds::SECRET,
            InputKind::ServiceAccount => kinds::SERVICE_ACCOUNT,
            InputKind::Role => kinds::ROLE,
            InputKind::RoleBinding => kinds::ROLE_BINDING,
        }
    }
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Input {
    pub fn kind(&self) -> InputKind {
        match self {
            Self::ConfigMap(_) => InputKind::ConfigMap,
            Self::Secret(_) => InputKind::Secret,
            Self::ServiceAccount(_) => InputKind::ServiceAccount,
            Self::Role(_) => InputKind::Role,
            Self::RoleBinding(_) => InputKind::RoleBinding,
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::ConfigMap(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
            Self::ServiceAccount(object) => &object.metadata,
            Self::Role(object) => &object.metadata,
            Self::RoleBinding(object) => &object.metadata,
        }
    }

    pub(super) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::ConfigMap(object) => &mut object.metadata,
            Self::Secret(object) => &mut object.metadata,
            Self::ServiceAccount(object) => &mut object.metadata,
            Self::Role(object) => &mut object.metadata,
            Self::RoleBinding(object) => &mut object.metadata,
        }
    }

    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.name())
    }
}
