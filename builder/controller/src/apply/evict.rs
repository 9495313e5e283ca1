//! Evicts pods from a node that is being drained.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};

use super::write::post_params;
use super::{ApplyError, Executor, ReconcilePass};
use crate::error::{self, Error};
use crate::rollout::Refusal;

/// The most characters of the API server's message that are recorded.
const MESSAGE: usize = 500;

/// A pod of a node that is being drained.
pub(super) struct PodToEvict<'p> {
    pub namespace: &'p str,
    pub name: &'p str,
    pub uid: &'p str,
    pub node: &'p str,
}

impl Executor {
    /// Evicts a pod. The pass records a refusal, which is no error: the next pass tries again.
    pub(super) async fn evict(
        &self,
        pod: &PodToEvict<'_>,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let api: Api<Pod> = Api::namespaced(self.evictions.clone(), pod.namespace);
        let params = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(pod.uid.to_owned()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            }),
            post_options: post_params(),
        };
        let refused = match api.evict(pod.name, &params).await {
            Ok(_) => None,
            // It was deleted, or another pod has its name.
            Err(error) if error::is_not_found(&error) || error::is_conflict(&error) => None,
            Err(error) if is_refusal(&error) => {
                let message = message(&error).chars().take(MESSAGE).collect();
                Some(Refusal {
                    namespace: pod.namespace.to_owned(),
                    pod: pod.name.to_owned(),
                    message,
                })
            }
            Err(error) => {
                let object = format!("pod {}/{}", pod.namespace, pod.name);
                return Err(Error::api(object, "evict")(error).into());
            }
        };
        let evictions = pass.evictions.entry(pod.node.to_owned()).or_default();
        evictions.accepted += usize::from(refused.is_none());
        evictions.refused.extend(refused);
        Ok(())
    }
}

/// The API server's message, and its causes: they name the PodDisruptionBudget.
fn message(error: &kube::Error) -> String {
    let causes = match error {
        kube::Error::Api(status) => status.details.as_ref().map(|details| &details.causes),
        _ => None,
    };
    let causes = causes.into_iter().flatten().map(|cause| cause.message.clone());
    let causes = causes.filter(|cause| !cause.is_empty());
    [error::describe(error)].into_iter().chain(causes).collect::<Vec<_>>().join(" ")
}

/// Whether the pod must not be evicted now: a PodDisruptionBudget does not allow it (429), several
/// cover the pod (500), its namespace is being deleted, and the pod with it (403), or a webhook or
/// policy refuses it (any other code).
fn is_refusal(error: &kube::Error) -> bool {
    error::code(error).is_some_and(|code| code != 401)
}
