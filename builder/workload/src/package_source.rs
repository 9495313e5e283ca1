//! Package sources that an administrator provides for all builds.

use super::names::volumes;
use mosb_api::{BuildName, object_name};

/// An administrator's object that a build's pod mounts: the object itself, or a copy if it is in
/// another namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageSource {
    Entitlement,
    Repositories,
    Keys,
}

impl PackageSource {
    pub(super) const ALL: [Self; 3] = [Self::Entitlement, Self::Repositories, Self::Keys];

    /// The volume in `job-templates/`.
    pub(super) fn volume(self) -> &'static str {
        match self {
            Self::Entitlement => volumes::ENTITLEMENT,
            Self::Repositories => volumes::REPOSITORIES,
            Self::Keys => volumes::PACKAGE_KEYS,
        }
    }

    /// The name of a build's copy.
    pub fn copy_name(self, build: &BuildName) -> String {
        object_name(self.volume(), build)
    }
}
