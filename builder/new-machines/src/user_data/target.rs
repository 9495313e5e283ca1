//! Which image a new machine boots. Pure.

use mosb_api::rollout::{History, PinnedBuild};
use mosb_api::{MachineOsBuild, MachineOsConfig, labels};
use mosb_cluster::target::{Found, Pin, TargetError, by_pin, in_service, target_of};

/// The build to which the pool is pinned, else the one in service; `None` before the first one.
///
/// # Errors
/// What is in service is not of this MachineOSConfig, or the pool is pinned to something else.
pub(super) fn current(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
) -> Result<Option<Found>, TargetError> {
    let annotation = labels::ROLLOUT_BUILD;
    match PinnedBuild::in_annotation(&config.metadata, annotation)? {
        None => in_service(config, builds),
        Some(build) if build.is_stock() => Err(TargetError::new(
            "PinnedToStock",
            "the pool is pinned to the stock image, for which there is no config; `mosb rollout start` ends that",
        )),
        Some(build) => by_pin(config, builds, Pin { build: &build, annotation }).map(Some),
    }
}

/// The build of this name, as `mosb builds` lists it; of several images, the newest.
///
/// # Errors
/// Its image is none that machines may run.
pub(super) fn named(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    name: &str,
) -> Result<Option<Found>, TargetError> {
    if let Some(build) = builds.iter().find(|build| build.metadata.name == name) {
        let target = target_of(config, build)?;
        let build = PinnedBuild { name: name.to_owned(), digest: target.image.digest() };
        return Ok(Some((build, target)));
    }
    let history = History::of(&config.metadata);
    let Some(entry) = history.entries().iter().find(|entry| entry.build == name) else {
        return Ok(None);
    };
    let pin = entry.pin();
    let annotation = "--build";
    by_pin(config, builds, Pin { build: &pin, annotation }).map(Some)
}
