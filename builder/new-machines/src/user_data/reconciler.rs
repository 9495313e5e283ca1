//! The controller of user data. Its key is the name of a MachineOSConfig.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::decide::{UserDataDecision, UserDataLookup, decide, refuse};
use super::effect::{Action, UserDataExecutor};
use super::lookups::look_up;
use super::observe::{affected_configs, inputs, observe};
use super::reason::{Refusal, UserDataReason};
use super::snapshot::UserDataSnapshot;
use crate::user_data::UserDataWrite;
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::metrics::PoolReasons;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::driver::{CheckedInputs, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::error::Error;
use mosb_reconcile::waits::{SECRET_RECHECK, SECRET_REFUSED};
use mosb_reconcile::write::{ApplyError, ReconcilePass};
use mosb_types::Diagnostic as _;

#[derive(Debug)]
pub struct UserDataReconciler {
    resolver: Resolver,
    executor: UserDataExecutor,
    /// Why Secrets stay as they are, by MachineOSConfig.
    refusals: Arc<PoolReasons>,
    checked: CheckedInputs,
}

impl UserDataReconciler {
    pub fn new(resolver: Resolver, executor: UserDataExecutor, refusals: Arc<PoolReasons>) -> Self {
        Self { resolver, executor, refusals, checked: CheckedInputs::default() }
    }

    fn set_refused(&self, snapshot: &UserDataSnapshot, reason: Option<&'static str>) {
        let (config, pool) = (&snapshot.config, &snapshot.config.spec.machine_config_pool.name);
        self.refusals.set(&config.metadata.name, pool, reason);
    }
}

/// Why the API server refused a write, unless the object changed or the server is busy.
fn refused(error: &ApplyError) -> Option<&Error> {
    match error {
        ApplyError::Api(error) if matches!(error.status_code(), Some(403 | 413 | 422)) => {
            Some(error)
        }
        _ => None,
    }
}

impl Reconciler for UserDataReconciler {
    type Snapshot = UserDataSnapshot;
    type Lookup = UserDataLookup;
    type Reason = UserDataReason;
    type Effect = UserDataWrite;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "userdata";
    const LOG_PREFIX: &'static str = "user data of ";
    /// Most of the time they wait for the API.
    const WORKERS: usize = 2;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_configs(&self.resolver.cache, trigger)
    }

    fn observe(&self, key: &str) -> Option<UserDataSnapshot> {
        let mut snapshot = observe(&self.resolver.cache, key)?;
        snapshot.is_current = self.checked.has(key, inputs(&snapshot), SECRET_RECHECK);
        Some(snapshot)
    }

    fn decide(&self, snapshot: &UserDataSnapshot, now: Timestamp) -> UserDataDecision {
        let decision = decide(snapshot, now);
        match &decision.reason {
            // What was decided before holds until there are results, or the Secret is written.
            UserDataReason::LookingUp | UserDataReason::Current { .. } => {}
            UserDataReason::Refused(refusal) => self.set_refused(snapshot, Some(refusal.reason)),
            UserDataReason::Off => self.set_refused(snapshot, None),
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[UserDataLookup],
        snapshot: &mut UserDataSnapshot,
        _pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        look_up(&self.resolver, lookups, snapshot).await
    }

    async fn apply(
        &self,
        actions: &[Action],
        snapshot: &UserDataSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let name = &snapshot.config.metadata.name;
        match self.executor.apply_all(actions, pass).await {
            Ok(()) => {
                let is_read = snapshot.lookup_results.inputs.is_some();
                let reason = is_read.then(|| decide(snapshot, Timestamp::now()).reason);
                if let Some(UserDataReason::Current { .. }) = reason {
                    self.set_refused(snapshot, None);
                    self.checked.set(name, inputs(snapshot));
                } else if !snapshot.is_current {
                    self.checked.remove(name);
                }
                Ok(())
            }
            Err(error) => {
                let Some(refused) = refused(&error) else { return Err(error) };
                let refusal = Refusal::new("WriteRefused", refused.to_string());
                tracing::warn!(reason = refused.code(), "user data of {name}: {refused}");
                self.checked.remove(name);
                self.set_refused(snapshot, Some(refusal.reason));
                pass.requeue_after = Some(SECRET_REFUSED);
                let actions = refuse(snapshot, refusal, Timestamp::now()).actions;
                self.executor.apply_all(&actions, pass).await
            }
        }
    }

    fn seen_versions(snapshot: &UserDataSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.config.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &UserDataSnapshot) -> InputsHash {
        inputs(snapshot)
    }

    fn log_transition(&self, name: &str, reason: &UserDataReason) {
        match reason {
            UserDataReason::Refused(refusal) => {
                tracing::warn!(reason = refusal.reason, "user data of {name}: {reason}");
            }
            UserDataReason::Off | UserDataReason::LookingUp => {
                tracing::debug!("user data of {name}: {reason}");
            }
            UserDataReason::Current { .. } => tracing::info!("user data of {name}: {reason}"),
        }
    }

    fn forget(&self, name: &str) {
        self.refusals.forget(name);
        self.checked.remove(name);
    }
}
