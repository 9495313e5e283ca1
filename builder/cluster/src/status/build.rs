//! The status of a MachineOSBuild.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{condition_of, whole};
use mosb_api::{
    BuildCondition, Builder, Condition, ImageBuilderType, MachineOsBuildStatus, ObjectReference,
    condition,
};
use mosb_image::PinnedRef;
use mosb_registry::Confirmed;

/// Message of the condition `Succeeded` of a build whose image was in the registry before.
const FOUND_MESSAGE: &str =
    "Build Ready: the registry had this very image already, so nothing was built";

/// The workload, as the status of a build names it.
///
/// `relatedObjects` and `builder.job` can't name objects of the core group, so for a Pod only the
/// builder type is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadRef {
    pub builder: ImageBuilderType,
    pub namespace: String,
    pub name: String,
    /// The build's start, if it is the first workload.
    pub created: Timestamp,
}

/// The phase of a build, and what its status needs for it.
#[derive(Debug, Clone, Copy)]
pub enum BuildPhase<'a> {
    Prepared(&'a WorkloadRef),
    Building(&'a WorkloadRef),
    /// A registry confirmed the image. Without a workload, the build adopted it.
    Succeeded {
        workload: Option<&'a WorkloadRef>,
        image: &'a Confirmed<PinnedRef>,
    },
    /// A registry had the image that the build would have made, and confirmed it.
    Found(&'a Confirmed<PinnedRef>),
    Failed {
        workload: Option<&'a WorkloadRef>,
        message: &'a str,
    },
    /// Superseded.
    Interrupted,
}

impl BuildPhase<'_> {
    fn state(&self) -> BuildCondition {
        match self {
            Self::Prepared(_) => BuildCondition::Prepared,
            Self::Building(_) => BuildCondition::Building,
            Self::Succeeded { .. } | Self::Found(_) => BuildCondition::Succeeded,
            Self::Failed { .. } => BuildCondition::Failed,
            Self::Interrupted => BuildCondition::Interrupted,
        }
    }

    fn workload(&self) -> Option<&WorkloadRef> {
        match self {
            Self::Prepared(workload) | Self::Building(workload) => Some(workload),
            Self::Succeeded { workload, .. } | Self::Failed { workload, .. } => *workload,
            Self::Found(_) | Self::Interrupted => None,
        }
    }
}

/// The status in this phase. A terminal status never changes, and a running build does not return
/// to `Prepared`.
pub fn build_status(
    old: &MachineOsBuildStatus,
    phase: BuildPhase<'_>,
    now: Timestamp,
) -> MachineOsBuildStatus {
    let state = phase.state();
    let backwards =
        old.state() == Some(BuildCondition::Building) && state == BuildCondition::Prepared;
    if old.is_terminal() || backwards {
        return old.clone();
    }
    let mut status = old.clone();
    let message = match phase {
        BuildPhase::Failed { message, .. } => message,
        BuildPhase::Found(_) => FOUND_MESSAGE,
        _ => state.message(),
    };
    status.conditions = conditions(&old.conditions, state, message, now);
    if let Some(workload) = phase.workload() {
        status.builder = Some(Builder {
            image_builder_type: workload.builder.to_string(),
            job: (workload.builder == ImageBuilderType::Job).then(|| ObjectReference {
                group: "batch".to_owned(),
                resource: "jobs".to_owned(),
                namespace: Some(workload.namespace.clone()),
                name: workload.name.clone(),
            }),
        });
        let start = || Time(whole(workload.created));
        status.build_start.get_or_insert_with(start);
    }
    if let (true, Some(start)) = (state.is_terminal(), &status.build_start) {
        // The API requires end > start, and a direct build may take less than a second.
        let earliest = start.0 + SignedDuration::from_secs(1);
        let end = || Time(whole(now).max(earliest));
        status.build_end.get_or_insert_with(end);
    }
    if let BuildPhase::Succeeded { image, .. } | BuildPhase::Found(image) = phase {
        status.digested_image_push_spec = image.value().to_string();
    }
    status
}

/// All five conditions, one of them true.
fn conditions(
    old: &[Condition],
    state: BuildCondition,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let one = |kind: BuildCondition| {
        let (status, message) =
            if kind == state { ("True", message) } else { ("False", kind.message()) };
        let before = condition(old, kind.as_str());
        condition_of(before, kind.as_str(), (status, kind.reason(), message), now)
    };
    BuildCondition::ALL.map(one).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn job(created: i64) -> WorkloadRef {
        WorkloadRef {
            builder: ImageBuilderType::Job,
            namespace: "ns".to_owned(),
            name: "build-x".to_owned(),
            created: at(created),
        }
    }

    fn image() -> Confirmed<PinnedRef> {
        let repo: mosb_image::RepoRef = "quay.io/acme/os".parse().unwrap();
        Confirmed::in_a_test(repo.pinned(Digest::of(b"image")))
    }

    fn is_true(status: &MachineOsBuildStatus) -> Vec<&str> {
        let all = status.conditions.iter().filter(|one| one.is_true());
        all.map(|one| &*one.kind).collect()
    }

    #[test]
    fn a_build_goes_through_its_life() {
        let none = MachineOsBuildStatus::default();
        assert_eq!(none.state(), None);
        let prepared = build_status(&none, BuildPhase::Prepared(&job(10)), at(12));
        assert_eq!(is_true(&prepared), ["Prepared"]);
        assert_eq!(prepared.build_start, Some(Time(at(10))));
        assert_eq!(prepared.build_end, None);
        let reference = prepared.builder.as_ref().unwrap().job.as_ref().unwrap();
        assert_eq!(
            (&*reference.group, &*reference.resource, &*reference.name),
            ("batch", "jobs", "build-x")
        );

        // The start stays with a later Job, and Building does not go back to Prepared (row 28 of
        // docs/reference/behaviours.md).
        let building = build_status(&prepared, BuildPhase::Building(&job(20)), at(21));
        assert_eq!(is_true(&building), ["Building"]);
        assert_eq!(building.build_start, Some(Time(at(10))));
        assert_eq!(build_status(&building, BuildPhase::Prepared(&job(30)), at(31)), building);

        let image = image();
        let end = BuildPhase::Succeeded { workload: Some(&job(20)), image: &image };
        let done = build_status(&building, end, at(40));
        assert_eq!(is_true(&done), ["Succeeded"]);
        assert_eq!(done.build_end, Some(Time(at(40))));
        assert_eq!(done.image(), Some(&*image.value().to_string()));
        let time = |status: &MachineOsBuildStatus, kind: &str| {
            let found = condition(&status.conditions, kind).unwrap();
            found.last_transition_time.as_ref().unwrap().0
        };
        // Only changed conditions have a new transition time.
        for (kind, want) in [
            ("Prepared", 21),
            ("Building", 40),
            ("Succeeded", 40),
            ("Failed", 12),
            ("Interrupted", 12),
        ] {
            assert_eq!(time(&done, kind), at(want), "{kind}");
        }
        // A terminal status never changes (row 28).
        for phase in [
            BuildPhase::Interrupted,
            BuildPhase::Building(&job(1)),
            BuildPhase::Failed { workload: None, message: "x" },
        ] {
            assert_eq!(build_status(&done, phase, at(50)), done);
        }
    }

    #[test]
    fn the_end_is_later_than_the_start_in_whole_seconds() {
        let half = at(10) + SignedDuration::from_millis(700);
        let job = WorkloadRef { created: half, ..job(0) };
        let image = image();
        let end = BuildPhase::Succeeded { workload: Some(&job), image: &image };
        let status = build_status(&MachineOsBuildStatus::default(), end, half);
        assert_eq!(status.build_start, Some(Time(at(10))));
        assert_eq!(status.build_end, Some(Time(at(11))));
        for condition in &status.conditions {
            assert_eq!(condition.last_transition_time, Some(Time(at(10))));
        }
        let adopted = build_status(
            &MachineOsBuildStatus::default(),
            BuildPhase::Succeeded { workload: None, image: &image },
            half,
        );
        let found = BuildPhase::Found(&image);
        let found = build_status(&MachineOsBuildStatus::default(), found, half);
        let message = |status: &MachineOsBuildStatus| {
            condition(&status.conditions, "Succeeded").unwrap().message.clone()
        };
        assert_eq!((&*message(&adopted), &*message(&found)), ("Build Ready", FOUND_MESSAGE));
        assert_eq!(
            MachineOsBuildStatus { conditions: adopted.conditions.clone(), ..found },
            adopted
        );
        assert_eq!(adopted.builder, None);
        assert_eq!((&adopted.build_start, &adopted.build_end), (&None, &None));
        assert_eq!(is_true(&adopted), ["Succeeded"]);
    }
}
