//! Evicts pods from a node that is being drained.

use std::time::Duration;

use futures_util::stream::{StreamExt as _, iter};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use tokio::time::{Instant, timeout_at};

use super::drain::Refusal;
use super::effect::{Eviction, RolloutExecutor, RolloutState};
use mosb_reconcile::error::{self, Error};
use mosb_reconcile::write::{ApplyError, post_params};

/// The most characters of the API server's message that are recorded.
const MESSAGE: usize = 500;
/// How many pods are evicted at once.
const AT_ONCE: usize = 16;
/// How long the evictions of a pass may take: an admission webhook may let each one time out.
const TIME: Duration = Duration::from_secs(15);

impl RolloutExecutor {
    /// Evicts these pods at once. The state records a refusal, which is not an error: the next pass
    /// tries again. So it does without an answer in time. Returns the evictions with an error.
    pub(super) async fn evict_all<'a>(
        &self,
        evictions: &[&'a Eviction],
        state: &mut RolloutState,
    ) -> Vec<(&'a Eviction, ApplyError)> {
        let until = Instant::now() + TIME;
        let evicting: Vec<_> = evictions
            .iter()
            .map(|eviction| async move {
                let late = format!(
                    "not answered within {} s; check the admission webhooks for evictions",
                    TIME.as_secs()
                );
                let done = timeout_at(until, self.evict(eviction)).await;
                (*eviction, done.unwrap_or_else(|_| Ok(Some(eviction.refusal(late)))))
            })
            .collect();
        let done: Vec<_> = iter(evicting).buffer_unordered(AT_ONCE).collect().await;
        let mut failed = Vec::new();
        for (eviction, result) in done {
            match result {
                Ok(refused) => eviction.record(refused, state),
                Err(error) => failed.push((eviction, error)),
            }
        }
        failed
    }

    /// Evicts a pod. Returns the refusal, if there is one.
    async fn evict(&self, pod: &Eviction) -> Result<Option<Refusal>, ApplyError> {
        let api: Api<Pod> = Api::namespaced(self.evictions.clone(), &pod.namespace);
        let params = EvictParams {
            delete_options: Some(DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(pod.uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            }),
            post_options: post_params(),
        };
        match api.evict(&pod.pod, &params).await {
            Ok(_) => Ok(None),
            // It was deleted, or another pod has its name.
            Err(error) if error::is_not_found(&error) || error::is_conflict(&error) => Ok(None),
            Err(error) if is_refusal(&error) => Ok(Some(pod.refusal(message(&error)))),
            Err(error) => {
                let object = format!("pod {}/{}", pod.namespace, pod.pod);
                Err(Error::api(object, "evict")(error).into())
            }
        }
    }
}

impl Eviction {
    fn refusal(&self, message: String) -> Refusal {
        Refusal {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            message: message.chars().take(MESSAGE).collect(),
        }
    }

    fn record(&self, refused: Option<Refusal>, state: &mut RolloutState) {
        let evictions = state.evictions.entry(self.node.clone()).or_default();
        if refused.is_none() {
            evictions.accepted.push(self.uid.clone());
        }
        evictions.refused.extend(refused);
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
