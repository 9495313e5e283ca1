//! Why the pod of a Job on a machine does not run, from the pod's status. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use mosb_reconcile::kinds::ROLLOUT_NAMESPACE;

/// The most characters of the kubelet's message.
const MESSAGE: usize = 300;
/// Reasons of a container that is about to start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Why the newest pod does not start, for people; none if it starts, runs or has ended.
pub(super) fn pod_waiting(pods: &[Arc<Pod>]) -> Option<String> {
    let pods = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let pod = pods.max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let (reason, message) = not_scheduled(status).or_else(|| not_started(status))?;
    let message: String = message.chars().take(MESSAGE).collect();
    let remedy = if reason.contains("Image") {
        "check that the machine can pull mosb's image, and the pull secrets of the ServiceAccount"
    } else {
        "correct that; kubectl describe pod has its events"
    };
    Some(format!("pod {ROLLOUT_NAMESPACE}/{name} does not start: {reason}: {message}; {remedy}"))
}

fn not_scheduled(status: &PodStatus) -> Option<(&str, &str)> {
    let mut conditions = status.conditions.iter().flatten();
    let one = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    Some((
        one.reason.as_deref().unwrap_or("Unschedulable"),
        one.message.as_deref().unwrap_or_default(),
    ))
}

fn not_started(status: &PodStatus) -> Option<(&str, &str)> {
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|one| one.state.as_ref()?.waiting.as_ref());
    let mut waiting = waiting.filter_map(|one| {
        Some((one.reason.as_deref()?, one.message.as_deref().unwrap_or_default()))
    });
    waiting.find(|(reason, _)| !STARTING.contains(reason))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(second: u32, status: Value) -> Arc<Pod> {
        let pod = json!({
            "metadata": {
                "name": format!("p{second}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            },
            "status": status,
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn container(state: Value) -> Value {
        json!({ "containerStatuses": [{
            "name": "stage", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }] })
    }

    #[test]
    fn only_a_pod_that_does_not_start_has_a_reason() {
        let waiting =
            |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "why" } }));
        let unschedulable = json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "why" },
        ] });
        let running = || container(json!({ "running": {} }));
        for (what, pods, want) in [
            ("no pod", vec![], None),
            ("it starts", vec![pod(1, waiting("ContainerCreating"))], None),
            ("it runs", vec![pod(1, running())], None),
            ("an older one", vec![pod(1, waiting("ImagePullBackOff")), pod(2, running())], None),
            (
                "no image",
                vec![pod(1, waiting("ImagePullBackOff"))],
                Some("p1 does not start: ImagePullBackOff: why; check that the machine can pull"),
            ),
            (
                "no place",
                vec![pod(1, unschedulable)],
                Some("p1 does not start: Unschedulable: why; correct that"),
            ),
            (
                "its config",
                vec![pod(1, running()), pod(2, waiting("CreateContainerConfigError"))],
                Some("p2 does not start: CreateContainerConfigError: why"),
            ),
        ] {
            let found = pod_waiting(&pods);
            assert_eq!(found.is_some(), want.is_some(), "{what}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(want.unwrap_or_default()), "{what}: {found}");
        }
    }
}
