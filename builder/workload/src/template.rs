//! Reads `job-templates/` into API types.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use mosb_build::JobMethod;
use mosb_cluster::object::template;

const DIRECT: &str = include_str!("../../../job-templates/direct.yaml");
const CONTAINERFILE: &str = include_str!("../../../job-templates/containerfile.yaml");
const CHECK: &str = include_str!("../../../job-templates/check.yaml");
const SERVICE_ACCOUNT: &str = include_str!("../../../job-templates/service-account.yaml");
const ROLE: &str = include_str!("../../../job-templates/role.yaml");
const ROLE_BINDING: &str = include_str!("../../../job-templates/role-binding.yaml");
const RESULT: &str = include_str!("../../../job-templates/result.yaml");

pub(super) fn job(method: JobMethod) -> Job {
    template(match method {
        JobMethod::Direct => DIRECT,
        JobMethod::Containerfile => CONTAINERFILE,
    })
}

pub(super) fn check() -> Job {
    template(CHECK)
}

/// The default deadline of a Containerfile Job, in seconds.
pub(super) fn containerfile_deadline() -> i64 {
    let spec = job(JobMethod::Containerfile).spec;
    let seconds = spec.and_then(|spec| spec.active_deadline_seconds);
    seconds.expect("a test reads every template")
}

pub(super) fn service_account() -> ServiceAccount {
    template(SERVICE_ACCOUNT)
}

pub(super) fn role() -> Role {
    template(ROLE)
}

pub(super) fn role_binding() -> RoleBinding {
    template(ROLE_BINDING)
}

pub(super) fn result() -> ConfigMap {
    template(RESULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use mosb_api::yaml;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    const BY_HAND: &str = include_str!("../../../job-templates/by-hand.yaml");
    const NETWORK_POLICY: &str = include_str!("../../../deploy/base/network-policy.yaml");
    const CONTROLLER_NETWORK_POLICY: &str =
        include_str!("../../../deploy/base/network-policy-controller.yaml");
    const DEPLOYMENT: &str = include_str!("../../../deploy/base/deployment.yaml");

    /// The API types drop unknown fields.
    #[test]
    fn nothing_of_a_template_is_misspelt() {
        fn same<T: DeserializeOwned + Serialize>(text: &str) {
            let want = yaml::parse_one(text.as_bytes()).unwrap();
            let read: T = serde_json::from_value(want.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), want);
        }
        for text in [DIRECT, CONTAINERFILE, BY_HAND, CHECK] {
            same::<Job>(text);
        }
        same::<ServiceAccount>(SERVICE_ACCOUNT);
        same::<Role>(ROLE);
        same::<RoleBinding>(ROLE_BINDING);
        same::<ConfigMap>(RESULT);
        same::<NetworkPolicy>(NETWORK_POLICY);
        same::<NetworkPolicy>(CONTROLLER_NETWORK_POLICY);
    }

    /// Like `RUN` lines, the controller connects to servers that users name.
    #[test]
    fn the_controller_cannot_reach_the_addresses_denied_to_build_pods() {
        let [of_builds, of_controller] = [NETWORK_POLICY, CONTROLLER_NETWORK_POLICY].map(|text| {
            let policy: NetworkPolicy = template(text);
            policy.spec.unwrap()
        });
        assert!(of_builds.egress.is_some());
        assert_eq!(of_controller.egress, of_builds.egress);
        let deployment = yaml::parse_one(DEPLOYMENT.as_bytes()).unwrap();
        let pod = &deployment["spec"]["template"];
        let selected = of_controller.pod_selector.unwrap().match_labels;
        assert_eq!(serde_json::to_value(selected).unwrap(), pod["metadata"]["labels"]);
        // A port name that no container has would match nothing.
        let port = of_controller.ingress.unwrap().remove(0).ports.unwrap().remove(0);
        let named = serde_json::to_value(port.port).unwrap();
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["name"], named);
    }

    #[test]
    fn build_pods_are_under_the_network_policy() {
        let policy: NetworkPolicy = template(NETWORK_POLICY);
        let wanted = policy.spec.unwrap().pod_selector.unwrap().match_labels.unwrap();
        for job in [job(JobMethod::Direct), job(JobMethod::Containerfile), check()] {
            let pod = job.spec.unwrap().template.metadata.unwrap();
            let labels = pod.labels.unwrap();
            let is_selected = wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
            assert!(is_selected, "{:?}", job.metadata.name);
        }
    }
}
