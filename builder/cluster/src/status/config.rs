//! The status of a MachineOSConfig.

use jiff::Timestamp;

use super::condition_of;
use mosb_api::{MachineOsConfig, MachineOsConfigStatus, ObjectReference, condition};

/// Condition type: why nothing can be built.
pub const BLOCKED: &str = "Blocked";
/// Condition type: whether Containerfile instructions run in a user namespace.
pub const USER_NAMESPACES: &str = "UserNamespaces";

/// Condition type: nodes of the pool that its image is not for.
pub const MIXED_PLATFORMS: &str = "MixedPlatforms";

/// Condition type: warnings about the image.
pub const WARNINGS: &str = "Warnings";

/// Condition type: whether the image of the newest build is in service.
pub const IMAGE_IN_SERVICE: &str = "ImageInService";

/// Condition type: whether the image of the newest build is signed.
pub const IMAGE_SIGNED: &str = "ImageSigned";

/// Condition type: what the checks of the image of the newest build found.
pub const IMAGE_CHECKED: &str = "ImageChecked";

/// The desired content of one of our conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionUpdate<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// The image in service and the build that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentImage<'a> {
    /// `host/repository@sha256:…`, as the build's status has it.
    pub image: &'a str,
    pub build: &'a str,
}

/// The desired status of a MachineOSConfig; `None` if it is unchanged. The image of an earlier
/// build stays until there is another.
pub fn config_status(
    config: &MachineOsConfig,
    current: Option<CurrentImage<'_>>,
    updates: &[ConditionUpdate<'_>],
    now: Timestamp,
) -> Option<MachineOsConfigStatus> {
    let old = &config.status;
    let mut status = old.clone();
    if let Some(CurrentImage { image, build }) = current {
        status.current_image_pull_spec = image.to_owned();
        status.machine_os_build = Some(ObjectReference {
            group: mosb_api::GROUP.to_owned(),
            resource: "machineosbuilds".to_owned(),
            namespace: None,
            name: build.to_owned(),
        });
        status.observed_generation = old.observed_generation.max(config.metadata.generation);
    }
    for ConditionUpdate { kind, status: is, reason, message } in updates {
        let before = condition(&old.conditions, kind);
        if before.is_some_and(|before| before.matches(is, reason, message)) {
            continue;
        }
        let mut new = condition_of(before, kind, (is, reason, message), now);
        new.observed_generation = config.metadata.generation;
        match status.conditions.iter_mut().find(|one| one.kind == *kind) {
            Some(place) => *place = new,
            None => status.conditions.push(new),
        }
    }
    (status != *old).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_only_if_it_changes() {
        let now = Timestamp::from_second(100).unwrap();
        let mut config = MachineOsConfig::default();
        config.metadata.generation = Some(3);
        assert_eq!(config_status(&config, None, &[], now), None);
        let blocked =
            |status| ConditionUpdate { kind: BLOCKED, status, reason: "NoPool", message: "m" };
        let current = Some(CurrentImage { image: "quay.io/os@sha256:00", build: "worker-0" });
        config.status = config_status(&config, current, &[blocked("True")], now).unwrap();
        assert_eq!(config.status.observed_generation, Some(3));
        assert_eq!(config_status(&config, current, &[blocked("True")], now), None);
        // Other updates keep the current image, and the generation never decreases.
        config.metadata.generation = Some(2);
        let later = Timestamp::from_second(200).unwrap();
        let next = config_status(&config, None, &[blocked("False")], later).unwrap();
        assert_eq!(next.current_image_pull_spec, "quay.io/os@sha256:00");
        assert_eq!(next.observed_generation, Some(3));
        assert_eq!(next.conditions.len(), 1);
        assert_eq!(next.conditions[0].last_transition_time, Some(later.into()), "it flipped");
        assert!(config_status(&config, current, &[], later).is_none());
    }
}
