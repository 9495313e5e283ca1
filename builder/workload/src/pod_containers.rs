//! The containers of a build pod.

use k8s_openapi::api::core::v1::{Container, ContainerState, Pod};

/// The sidecar ends last, so its log comes last.
const SIDECAR: &str = "wait-for-done";

/// The containers in the order in which they run, and last the sidecar, which runs beside them.
pub fn container_names(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let main = spec.map(|spec| &spec.containers);
    let all = init.into_iter().chain(main).flatten();
    let mut names: Vec<String> = all.map(|container: &Container| container.name.clone()).collect();
    names.sort_by_key(|name| name == SIDECAR);
    names
}

/// Whether a container has started; none if the pod does not report it.
pub fn has_started(pod: &Pod, container: &str) -> Option<bool> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let mut all = init.chain(status.container_statuses.iter().flatten());
    let found = all.find(|status| status.name == container)?;
    let ContainerState { running, terminated, .. } = found.state.as_ref()?;
    Some(running.is_some() || terminated.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_are_listed_in_the_order_in_which_they_run() {
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "initContainers": [{ "name": SIDECAR }, { "name": "image-build" }],
            "containers": [{ "name": "image-push" }] } }))
        .unwrap();
        assert_eq!(container_names(&pod), ["image-build", "image-push", SIDECAR]);
    }

    #[test]
    fn a_container_has_started_if_it_runs_or_has_ended() {
        for (what, state_of, want) in [
            ("waiting", json!({ "waiting": {} }), Some(false)),
            ("running", json!({ "running": {} }), Some(true)),
            ("ended", json!({ "terminated": { "exitCode": 0 } }), Some(true)),
            ("not reported", json!(null), None),
        ] {
            let pod: Pod = serde_json::from_value(json!({ "status": { "containerStatuses": [
                { "name": "image-push", "state": state_of, "image": "", "imageID": "", "ready": false, "restartCount": 0 }] } }))
            .unwrap();
            assert_eq!(has_started(&pod, "image-push"), want, "{what}");
        }
    }
}
