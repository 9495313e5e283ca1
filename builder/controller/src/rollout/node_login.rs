//! Creates the Secret of a Job on a machine.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::effect::{RolloutExecutor, RolloutState};
use super::job_request::{NodeLogin, NodeVerb};
use super::node_job::{OwnerJob, node_secret};
use crate::cluster_cache::non_empty_annotation;
use mosb_plan::api::labels;
use mosb_reconcile::error::{self, Error};
use mosb_reconcile::kinds::ROLLOUT_NAMESPACE;
use mosb_reconcile::write::{ApplyError, post_params};

impl RolloutExecutor {
    /// Creates the Secret with the content of the state. An existing one of this Job is not changed.
    pub(super) async fn create_node_login(
        &self,
        login: &NodeLogin,
        state: &mut RolloutState,
    ) -> Result<(), ApplyError> {
        let object = format!("secret {ROLLOUT_NAMESPACE}/{}", login.job);
        let job = self.cache.node_jobs.get(&login.job);
        let (Some(job), Some(content)) = (job, state.job_secret.take()) else {
            return Err(ApplyError::Conflict(object));
        };
        let label = job.metadata.labels.as_ref().and_then(|all| all.get(labels::NODE_JOB));
        let verb = label.and_then(|label| NodeVerb::from_label(label));
        let pool = non_empty_annotation(&job.metadata, labels::POOL);
        let (Some(verb), Some(pool)) = (verb, pool) else {
            return Err(Error::NotOurs {
                object: format!("job {ROLLOUT_NAMESPACE}/{}", login.job),
            }
            .into());
        };
        let owner = OwnerJob { name: &login.job, uid: &login.job_uid, pool: &pool, verb };
        let secret = node_secret(&owner, &content);
        let api: Api<Secret> = Api::namespaced(self.writes.client.clone(), ROLLOUT_NAMESPACE);
        match api.create(&post_params(), &secret).await {
            Ok(_) => Ok(()),
            Err(failure) if error::is_conflict(&failure) => {
                let there = api.get_metadata_opt(&login.job).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                let owners = there.iter().flat_map(|there| &there.metadata.owner_references);
                if owners.flatten().any(|owner| owner.uid == login.job_uid) {
                    Ok(())
                } else {
                    // It belongs to an earlier Job of this name and is being deleted, or it is not
                    // ours: then the next passes end here too, and the log names it.
                    Err(ApplyError::Conflict(object))
                }
            }
            Err(failure) => Err(Error::api(object, "create")(failure).into()),
        }
    }
}
