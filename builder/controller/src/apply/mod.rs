//! Applies the actions of a decision. Each action has the UID and resourceVersion that it was
//! decided on, so the API server rejects it if the object changed, and the reconciler decides
//! again.

mod base_trees;
mod build;
mod component;
mod logs;
mod write;

pub(super) use write::{delete_params, ignore_not_found, patch_params, post_params};

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use kube::Client;
use kube::api::ObjectMeta;

use super::Error;
use super::action::Action;
use super::cluster_cache::ClusterCache;
use super::events;
use super::lease::Lease;
use super::lookup::Problem;
use super::lookups::CachedPlan;
use super::observe::Facts;
use crate::workload::kind;
use mosb_plan::api::component_name;
use mosb_types::{Diagnostic as _, ErrorClass};

/// Applies actions.
#[derive(Clone)]
pub struct Executor {
    pub client: Client,
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

/// State that the actions of one decision share.
#[derive(Debug, Default)]
pub struct ReconcilePass {
    /// The name of the MachineOSConfig.
    pub config: String,
    /// The plan of this decision, if there is one.
    pub plan: Option<Arc<CachedPlan>>,
    pub facts: Facts,
    /// resourceVersions after our writes, by UID.
    versions: BTreeMap<String, String>,
}

impl ReconcilePass {
    /// The version of an object: as seen, or after our last write.
    fn version<'s>(&'s self, uid: &str, seen: &'s str) -> &'s str {
        self.versions.get(uid).map_or(seen, String::as_str)
    }

    /// The version after our last write, if there was one.
    pub fn written_version(&self, uid: &str) -> Option<&str> {
        self.versions.get(uid).map(String::as_str)
    }
}

/// Why an action was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Another client changed the object, or our view was outdated.
    #[error("{0}: conflict: the object changed; retrying")]
    Conflict(String),
    /// The API.
    #[error(transparent)]
    Api(#[from] Error),
    /// The workload can't be created from this configuration.
    #[error("{}", .0.message)]
    Problem(Problem),
}

impl ApplyError {
    /// `None` for a conflict: read and decide again.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Conflict(_) => None,
            Self::Api(error) => Some(error.class()),
            Self::Problem(problem) => Some(problem.class),
        }
    }

    /// Code for logs and metrics.
    pub fn reason(&self) -> &str {
        match self {
            Self::Conflict(_) => "stale",
            Self::Api(error) => error.code(),
            Self::Problem(problem) => &problem.reason,
        }
    }
}

impl From<ApplyError> for Problem {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Problem(problem) => problem,
            ApplyError::Api(error) => error.into(),
            ApplyError::Conflict(_) => Self {
                class: ErrorClass::Transient,
                reason: error.reason().to_owned(),
                message: error.to_string(),
            },
        }
    }
}

/// Converts the error of a write. A conflict or a missing object means that our view was outdated.
pub(super) fn apply_error(
    object: String,
    verb: &'static str,
) -> impl FnOnce(kube::Error) -> ApplyError {
    move |error| match super::error::code(&error) {
        Some(404 | 409) => {
            tracing::debug!("{object}: {verb}: {}", super::error::describe(&error));
            ApplyError::Conflict(object)
        }
        _ => ApplyError::Api(Error::api(object, verb)(error)),
    }
}

impl Executor {
    /// Records a write on the version `replaced`, and the version that it returned.
    fn record_write(&self, pass: &mut ReconcilePass, replaced: &str, meta: &ObjectMeta) {
        if let (Some(uid), Some(version)) = (&meta.uid, &meta.resource_version) {
            self.cache.own_writes.record_write(uid, replaced, version);
            pass.versions.insert(uid.clone(), version.clone());
        }
    }

    /// Records an object that was created for the owner with this UID.
    fn record_create(&self, created: &ObjectMeta, owner_uid: &str) {
        if let Some(uid) = &created.uid {
            self.cache.own_writes.record_create(uid, owner_uid);
        }
    }

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
            tracing::debug!("{}", describe(action));
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
            Action::CreateConfig { name, pool_uid, spec } => {
                self.create_config(name, pool_uid, spec).await
            }
            Action::UpdateConfig { name, uid, resource_version, spec } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.update_config(name, &version, spec, pass).await
            }
            Action::DeleteConfig { name, uid } => self.delete_config(name, uid).await,
            Action::CreateComponent { pool, image, config } => {
                self.create_component(pool, image, config).await
            }
            Action::UpdateComponent { name, uid, resource_version, image, config } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.update_component(name, &version, image.as_ref(), config, pass).await
            }
            Action::DeleteComponent { name, uid } => self.delete_component(name, uid).await,
            Action::CreateBuild { build } => self.create_build(build).await,
            Action::WriteBuildStatus { name, uid, resource_version, status } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.write_build_status(name, uid, &version, status, pass).await
            }
            Action::AnnotateBuild(change) => self.annotate(write::BUILD, change, pass).await,
            Action::DeleteBuild { name, uid } => self.delete_build(name, uid).await,
            Action::CreateWorkload { build_uid, attempt, builder, method, .. } => {
                let how = (*builder, *method);
                self.create_workload(build_uid, *attempt, how, pass).await
            }
            Action::CreateInputs { build_uid, builder, workload_uid, attempt, method, .. } => {
                let how = (*builder, *method);
                self.create_inputs(build_uid, workload_uid, *attempt, how, pass).await
            }
            Action::Unsuspend { builder, name, uid, resource_version } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.unsuspend(*builder, name, &version, pass).await
            }
            Action::DeleteWorkload { builder, name, uid } => {
                self.delete_workload(*builder, name, uid).await
            }
            Action::ArchiveLogs(archive) => {
                self.archive_logs(archive).await;
                Ok(())
            }
            Action::DeleteInput { kind, name, uid } => self.delete_input(*kind, name, uid).await,
            Action::AnnotateConfig(change) => self.annotate(write::CONFIG, change, pass).await,
            Action::WriteConfigStatus { name, uid, resource_version, status } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.write_config_status(name, uid, &version, status, pass).await
            }
            Action::WritePoolCondition { name, uid, resource_version, conditions } => {
                let version = pass.version(uid, resource_version).to_owned();
                self.write_pool_conditions(name, &version, conditions, pass).await
            }
            Action::AnnotatePool(change) => self.annotate(write::POOL, change, pass).await,
            Action::RecordBaseTree { base, image } => {
                self.record_base_tree(base, image).await;
                Ok(())
            }
            Action::Event(_) => Ok(()),
        }
    }
}

/// Describes an action for the log.
fn describe(action: &Action) -> String {
    match action {
        Action::CreateConfig { name, .. } => format!("creating machineosconfig {name}"),
        Action::UpdateConfig { name, .. } => format!("updating machineosconfig {name}"),
        Action::DeleteConfig { name, .. } => format!("deleting machineosconfig {name}"),
        Action::CreateComponent { pool, .. } => {
            format!("creating machineconfig {}", component_name(pool))
        }
        Action::UpdateComponent { name, .. } => format!("updating machineconfig {name}"),
        Action::DeleteComponent { name, .. } => format!("deleting machineconfig {name}"),
        Action::CreateBuild { build } => format!("creating machineosbuild {}", build.metadata.name),
        Action::WriteBuildStatus { name, .. } => format!("status of machineosbuild {name}"),
        Action::AnnotateBuild(change) => format!("annotations of machineosbuild {}", change.name),
        Action::DeleteBuild { name, .. } => format!("deleting machineosbuild {name}"),
        Action::CreateWorkload { build, attempt, builder, .. } => format!(
            "creating {} {attempt} of machineosbuild {build}",
            kind(*builder).to_lowercase()
        ),
        Action::CreateInputs { workload, .. } => format!("creating the inputs of {workload}"),
        Action::Unsuspend { builder, name, .. } => {
            format!("starting {} {name}", kind(*builder).to_lowercase())
        }
        Action::DeleteWorkload { builder, name, .. } => {
            format!("deleting {} {name}", kind(*builder).to_lowercase())
        }
        Action::ArchiveLogs(archive) => {
            format!("archiving the logs of machineosbuild {}", archive.build)
        }
        Action::DeleteInput { kind, name, .. } => format!("deleting {} {name}", kind.as_str()),
        Action::AnnotateConfig(change) => format!("annotations of machineosconfig {}", change.name),
        Action::WriteConfigStatus { name, .. } => format!("status of machineosconfig {name}"),
        Action::WritePoolCondition { name, .. } => format!("condition of machineconfigpool {name}"),
        Action::AnnotatePool(change) => format!("annotations of machineconfigpool {}", change.name),
        Action::RecordBaseTree { base, .. } => format!("recording the tree of {base}"),
        Action::Event(event) => format!("event {}", event.name),
    }
}
