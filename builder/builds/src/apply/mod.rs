//! What the controller of images does beside writes to one object: workloads and their inputs from a
//! plan, archived logs, records of base trees and prepared bases.

mod base_trees;
mod build;
mod logs;
mod prepared_bases;

use std::sync::Arc;

use super::action::BuildEffect;
use crate::lookups::CachedPlan;
use crate::observe::Facts;
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_reconcile::write::{ApplyError, Effects, Executor, ReconcilePass};

pub type BuildPass = ReconcilePass<BuildState>;

/// What the effects of one decision share.
#[derive(Debug, Default)]
pub struct BuildState {
    /// The name of the MachineOSConfig; empty for other keys.
    pub config: String,
    /// The plan of this decision, if there is one.
    pub plan: Option<Arc<CachedPlan>>,
    pub facts: Facts,
}

/// Applies the actions of the controller of images.
#[derive(Debug, Clone)]
pub struct BuildExecutor {
    pub writes: Executor,
    pub cache: Arc<ClusterCache>,
    /// The image of build pods if the settings name none.
    pub builder_image: Option<String>,
    /// Whether ServiceAccounts of builds need permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
}

impl Effects for BuildExecutor {
    type Effect = BuildEffect;
    type State = BuildState;

    fn executor(&self) -> &Executor {
        &self.writes
    }

    async fn apply_effect(
        &self,
        effect: &BuildEffect,
        pass: &mut BuildPass,
    ) -> Result<(), ApplyError> {
        match effect {
            BuildEffect::CreateWorkload(attempt) => {
                self.create_workload(attempt, &pass.state).await
            }
            BuildEffect::CreateInputs(attempt, workload) => {
                self.create_inputs(attempt, workload, &pass.state).await
            }
            BuildEffect::ArchiveLogs(archive) => {
                self.archive_logs(archive).await;
                Ok(())
            }
            BuildEffect::RecordBaseTree { key, image } => {
                self.record_base_tree(key, image).await;
                Ok(())
            }
            BuildEffect::RecordPreparedBase { key, base } => {
                self.record_prepared_base(key, *base).await;
                Ok(())
            }
        }
    }
}
