//! What a roll-out does beside writes to one object: Jobs on machines, their Secrets, evictions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::drain::NodeEvictions;
use super::job_request::{NodeJobRequest, NodeLogin, NodeVerb};
use super::node_job::{JobSecretContent, OwnerJob, node_job, node_secret};
use mosb_api::labels;
use mosb_cluster::cluster_cache::{ClusterCache, non_empty_annotation};
use mosb_cluster::cluster_names::ROLLOUT_NAMESPACE;
use mosb_cluster::kinds;
use mosb_reconcile::error::{self, Error};
use mosb_reconcile::write::{
    ApplyError, Effects, Executor, Existing, IfExists, NewObject, ReconcilePass, post_params,
};

pub type Action = mosb_reconcile::write::Action<RolloutEffect>;
pub type RolloutPass = ReconcilePass<RolloutState>;

/// Applying one twice has the result of applying it once.
#[derive(Debug, Clone, PartialEq)]
pub enum RolloutEffect {
    /// Create a Job on a machine, owned by its Node.
    CreateJob(Box<NodeJobRequest>),
    /// Create the Secret of a Job on a machine. An existing one with this owner is not changed.
    CreateLogin(Box<NodeLogin>),
    Evict(Eviction),
}

/// Evict this pod, obeying PodDisruptionBudgets. A missing pod counts as evicted. A refusal is no
/// error: the next snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub node: String,
}

/// What the effects of one decision share.
#[derive(Debug, Default)]
pub struct RolloutState {
    /// What the Secret of a Job on a machine has, which the next action creates.
    pub(super) job_secret: Option<JobSecretContent>,
    /// Evictions by node.
    pub(super) evictions: BTreeMap<String, NodeEvictions>,
}

/// Applies the actions of a roll-out.
#[derive(Clone)]
pub struct RolloutExecutor {
    pub writes: Executor,
    /// It does not retry.
    pub evictions: Client,
    pub cache: Arc<ClusterCache>,
}

impl fmt::Debug for RolloutExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolloutExecutor").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl RolloutExecutor {
    /// Creates the Secret with the content of the state. An existing one of this Job is not changed.
    async fn create_node_login(
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

impl Effects for RolloutExecutor {
    type Effect = RolloutEffect;
    type State = RolloutState;

    fn executor(&self) -> &Executor {
        &self.writes
    }

    async fn apply_effect(
        &self,
        effect: &RolloutEffect,
        pass: &mut RolloutPass,
    ) -> Result<(), ApplyError> {
        match effect {
            RolloutEffect::CreateJob(request) => self.writes.create(&new_job(request)).await,
            RolloutEffect::CreateLogin(login) => {
                self.create_node_login(login, &mut pass.state).await
            }
            RolloutEffect::Evict(eviction) => {
                let mut failed = self.evict_all(&[eviction], &mut pass.state).await;
                failed.pop().map_or(Ok(()), |(_, error)| Err(error))
            }
        }
    }
}

fn new_job(request: &NodeJobRequest) -> NewObject {
    NewObject {
        kind: kinds::NODE_JOB,
        name: request.name.clone(),
        owner_uid: Some(request.node_uid.clone()),
        body: Arc::new(json!(node_job(request))),
        if_exists: IfExists::CompareMetadata(compare_job),
    }
}

/// Its name has verb, node, target and number, so no other node has one of this name.
fn compare_job(new: &NewObject, there: &DynamicObject) -> Existing {
    let owner = new.owner_uid.as_deref();
    if there.owner_references().iter().any(|one| Some(&*one.uid) == owner) {
        Existing::Same
    } else if there.metadata.deletion_timestamp.is_some() {
        Existing::Outdated
    } else {
        Existing::NotOurs
    }
}

impl From<NodeJobRequest> for Action {
    fn from(request: NodeJobRequest) -> Self {
        Self::Effect(RolloutEffect::CreateJob(Box::new(request)))
    }
}

impl From<Eviction> for Action {
    fn from(eviction: Eviction) -> Self {
        Self::Effect(RolloutEffect::Evict(eviction))
    }
}

/// For the log.
impl fmt::Display for RolloutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateJob(job) => write!(f, "creating job {}", job.name),
            Self::CreateLogin(login) => write!(f, "creating the login of {}", login.job),
            Self::Evict(Eviction { namespace, pod, node, .. }) => {
                write!(f, "evicting pod {namespace}/{pod} from node {node}")
            }
        }
    }
}
