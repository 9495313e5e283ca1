//! The status of a MachineOSBuild that represents a pre-built image.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{condition_of, whole};
use mosb_api::{BuildCondition, MachineOsBuildStatus, condition};
use mosb_image::PinnedRef;
use mosb_registry::Confirmed;

/// Condition type of a MachineOSConfig that started with a pre-built image.
pub const SEEDED: &str = "Seeded";
/// Reason of conditions about a pre-built image.
pub const PRE_BUILT_IMAGE_SEEDED: &str = "PreBuiltImageSeeded";

/// The status of a build that succeeded at once; the old one if it is terminal.
pub fn seeded_status(
    old: &MachineOsBuildStatus,
    image: &Confirmed<PinnedRef>,
    now: Timestamp,
) -> MachineOsBuildStatus {
    if old.is_terminal() {
        return old.clone();
    }
    let one = |kind: BuildCondition| {
        let status = match kind {
            BuildCondition::Succeeded => "True",
            BuildCondition::Prepared
            | BuildCondition::Building
            | BuildCondition::Failed
            | BuildCondition::Interrupted => "False",
        };
        let before = condition(&old.conditions, kind.as_str());
        let says = (status, PRE_BUILT_IMAGE_SEEDED, kind.message());
        condition_of(before, kind.as_str(), says, now)
    };
    let start = old.build_start.clone().unwrap_or(Time(whole(now)));
    // The API requires end > start.
    let end = Time(start.0 + SignedDuration::from_secs(1));
    MachineOsBuildStatus {
        conditions: BuildCondition::ALL.map(one).into(),
        builder: old.builder.clone(),
        build_end: old.build_end.clone().or(Some(end)),
        build_start: Some(start),
        digested_image_push_spec: image.value().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_build_is_over_before_it_began() {
        let image: PinnedRef =
            format!("quay.io/acme/os@sha256:{}", "0a".repeat(32)).parse().unwrap();
        let confirmed = Confirmed::in_a_test(image.clone());
        let now: Timestamp = "2026-01-01T00:00:00.75Z".parse().unwrap();
        let status = seeded_status(&MachineOsBuildStatus::default(), &confirmed, now);
        assert_eq!(status.image(), Some(&*image.to_string()));
        assert_eq!(status.conditions.len(), 5);
        for one in &status.conditions {
            assert_eq!(one.is_true(), one.kind == "Succeeded", "{}", one.kind);
            assert_eq!(one.reason, "PreBuiltImageSeeded", "{}", one.kind);
        }
        let time = |time: &Option<Time>| time.as_ref().unwrap().0.to_string();
        assert_eq!(time(&status.build_start), "2026-01-01T00:00:00Z");
        assert_eq!(time(&status.build_end), "2026-01-01T00:00:01Z");
        assert_eq!(status.builder, None);
        let later = now + SignedDuration::from_secs(60);
        assert_eq!(seeded_status(&status, &confirmed, later), status, "frozen");
    }
}
