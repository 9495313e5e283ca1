//! Applies the actions of a decision. Each action has the UID and resourceVersion that it was
//! decided on, so the API server rejects it if the object changed, and the reconciler decides
//! again.

mod base_trees;
mod build;
mod error;
mod evict;
mod existing;
mod logs;
mod node_login;
mod pass;
mod prepared_bases;
mod user_data;
mod write;

use std::sync::Arc;

use futures_util::future::join_all;
use kube::Client;

use super::action::Action;
use super::cluster_cache::ClusterCache;
use super::events;
use super::lease::Lease;

pub use error::ApplyError;
pub(super) use existing::compare_rendered;
pub use pass::ReconcilePass;

/// Applies actions.
#[derive(Clone)]
pub struct Executor {
    pub client: Client,
    /// For evictions: it does not retry.
    pub evictions: Client,
    pub cache: Arc<ClusterCache>,
    /// Nothing is written unless the lease is held.
    pub lease: Lease,
    /// The reporting instance of events.
    pub instance: String,
    /// The image of build pods if the settings name none.
    pub builder_image: Option<String>,
    /// Whether ServiceAccounts of builds need permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("instance", &self.instance)
            .field("builder_image", &self.builder_image)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// Applies the actions in order and stops at the first error. Events of the actions before are
    /// emitted all the same, unless the Lease was lost: then the next holder emits them.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub async fn apply_all(
        &self,
        actions: &[Action],
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let mut pending_events = Vec::new();
        let mut done = Ok(());
        for action in actions {
            if let Action::Event(event) = action {
                pending_events.push(event);
                continue;
            }
            if !self.lease.is_held() {
                return Err(self.lease.lost().into());
            }
            tracing::debug!("{action}");
            done = self.apply(action, pass).await;
            if done.is_err() {
                break;
            }
        }
        let emitting = pending_events
            .into_iter()
            .map(|event| events::emit(&self.client, &self.instance, event));
        for emitted in join_all(emitting).await {
            if let Err(error) = emitted {
                tracing::warn!("{error}");
            }
        }
        done
    }

    async fn apply(&self, action: &Action, pass: &mut ReconcilePass) -> Result<(), ApplyError> {
        match action {
            Action::Create(new) => self.create(new).await,
            Action::Patch(target, patch) => self.patch(target, patch, pass).await,
            Action::ReplaceStatus(target, status) => {
                self.replace_status(target, status, pass).await
            }
            Action::Delete(target) => self.delete(target, pass.version(target)).await,
            Action::CreateWorkload(attempt) => self.create_workload(attempt, pass).await,
            Action::CreateInputs(attempt, workload) => {
                self.create_inputs(attempt, workload, pass).await
            }
            Action::ArchiveLogs(archive) => {
                self.archive_logs(archive).await;
                Ok(())
            }
            Action::RecordBaseTree { key, image } => {
                self.record_base_tree(key, image).await;
                Ok(())
            }
            Action::RecordPreparedBase { key, base } => {
                self.record_prepared_base(key, *base).await;
                Ok(())
            }
            Action::CreateNodeLogin(login) => self.create_node_login(login, pass).await,
            Action::WriteUserData(write) => self.write_user_data(write).await,
            Action::Evict { .. } => {
                let mut failed = self.evict_all(&[action], pass).await;
                failed.pop().map_or(Ok(()), |(_, error)| Err(error))
            }
            Action::Event(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
