//! The OS that new machines of each pool get after their boot image. Pure.

use std::cmp::Ordering;

use super::machine_set::MachineSet;
use super::stub::stub_secret;
use mosb_api::{MachineOsBuild, MachineOsConfig, labels};
use mosb_boot_image::Release;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::target::of_new_machines;

/// A pool that mosb builds images for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOs {
    pub pool: String,
    /// The Secret that mosb writes the user data of its machines to.
    pub user_data: Option<SecretRef>,
    /// The release of the base of the image that new machines get; none if there is none, or if the
    /// base does not name one.
    pub release: Option<Release>,
}

impl PoolOs {
    /// `builds` are those of the MachineOSConfig.
    pub(super) fn new(config: &MachineOsConfig, builds: &[MachineOsBuild]) -> Self {
        let user_data = config.metadata.annotation(labels::USER_DATA);
        Self {
            pool: config.spec.machine_config_pool.name.clone(),
            user_data: user_data.and_then(|text| text.parse().ok()),
            release: release(config, builds),
        }
    }

    /// The release of the pool against a boot image of this one; none if they can't be compared.
    pub(super) fn compare(&self, image: &Release) -> Option<Ordering> {
        self.release.as_ref()?.compare(image)
    }
}

fn release(config: &MachineOsConfig, builds: &[MachineOsBuild]) -> Option<Release> {
    if config.metadata.is_being_deleted() {
        return None;
    }
    // Why there is no image is reported by the roll-out.
    let (found, _) = of_new_machines(config, builds).ok()??;
    let build = builds.iter().find(|build| build.metadata.name == found.name)?;
    let release: Release = build.metadata.annotation(labels::BASE_VERSION)?.parse().ok()?;
    release.is_of_os().then_some(release)
}

/// The pool whose user data the set has; all of them if it is not known.
pub(super) fn pools_of<'s>(set: MachineSet<'_>, pools: &'s [PoolOs]) -> Vec<&'s PoolOs> {
    let secret = stub_secret(set).ok().flatten();
    let its = |pool: &&PoolOs| secret.is_some() && pool.user_data == secret;
    match pools.iter().find(its) {
        Some(pool) => vec![pool],
        None => pools.iter().collect(),
    }
}
