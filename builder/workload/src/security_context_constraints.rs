//! The OpenShift SecurityContextConstraints of build pods: those in `deploy/openshift`, and
//! OpenShift's own.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::JobRequest;
use mosb_build::JobMethod;

/// The annotation with which a pod selects one.
pub(super) const REQUIRED: &str = "openshift.io/required-scc";

const DIRECT: &str = "nonroot-v2";
const IN_USER_NAMESPACE: &str = "mosb-image-build";
const WITHOUT_USER_NAMESPACE: &str = "mosb-image-build-without-user-namespace";

/// The one that the build needs; `None` if the cluster has none.
pub(super) fn needed(request: &JobRequest) -> Option<&'static str> {
    request.security_context_constraints.then_some(
        match (request.method, request.user_namespaces) {
            (JobMethod::Direct, _) => DIRECT,
            (JobMethod::Containerfile, true) => IN_USER_NAMESPACE,
            (JobMethod::Containerfile, false) => WITHOUT_USER_NAMESPACE,
        },
    )
}

/// The permission to use it.
pub(super) fn rule(request: &JobRequest) -> Option<PolicyRule> {
    let name = needed(request)?;
    Some(PolicyRule {
        api_groups: Some(vec!["security.openshift.io".to_owned()]),
        resources: Some(vec!["securitycontextconstraints".to_owned()]),
        resource_names: Some(vec![name.to_owned()]),
        verbs: vec!["use".to_owned()],
        ..PolicyRule::default()
    })
}
