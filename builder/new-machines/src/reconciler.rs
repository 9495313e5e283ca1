//! The controller of what new machines boot with. Its key is the name of a MachineOSConfig, or that
//! of the server's Secret with its namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::decide::{Decision, decide, refuse};
use crate::effect::{Action, SecretExecutor, SecretWrite};
use crate::evaluation::{Reason, Refusal};
use crate::lookups::look_up;
use crate::observe::{affected_keys, observe, server_key};
use crate::snapshot::{Lookup, Snapshot};
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::cluster_names::IGNITION_SERVER;
use mosb_cluster::metrics::PoolReasons;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::driver::{InputsHash, NoDecision, Reconciler};
use mosb_reconcile::error::Error;
use mosb_reconcile::write::{ApplyError, Effects as _, ReconcilePass};
use mosb_types::Diagnostic as _;

#[derive(Debug)]
pub struct NewMachinesReconciler {
    resolver: Resolver,
    executor: SecretExecutor,
    /// Why Secrets stay as they are, by MachineOSConfig.
    refusals: Arc<PoolReasons>,
}

impl NewMachinesReconciler {
    pub fn new(resolver: Resolver, executor: SecretExecutor, refusals: Arc<PoolReasons>) -> Self {
        Self { resolver, executor, refusals }
    }

    fn set_refused(&self, snapshot: &Snapshot, reason: Option<&'static str>) {
        if let Some(config) = snapshot.config() {
            let pool = &config.spec.machine_config_pool.name;
            self.refusals.set(&config.metadata.name, pool, reason);
        }
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

impl Reconciler for NewMachinesReconciler {
    type Snapshot = Snapshot;
    type Lookup = Lookup;
    type Reason = Reason;
    type Effect = SecretWrite;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "userdata";
    /// Most of the time they wait for the API.
    const WORKERS: usize = 3;

    fn log_name(key: &str) -> String {
        if key == server_key() {
            format!("secrets of {IGNITION_SERVER}")
        } else {
            format!("user data of {key}")
        }
    }

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_keys(&self.resolver.cache, trigger)
    }

    fn observe(&self, key: &str) -> Option<Snapshot> {
        observe(&self.resolver.cache, key)
    }

    fn decide(&self, snapshot: &Snapshot, now: Timestamp) -> Decision {
        let decision = decide(snapshot, now);
        match &decision.reason {
            Reason::Refused(refusal) => self.set_refused(snapshot, Some(refusal.reason)),
            // What was decided before holds until there are results, and the Secret is written.
            Reason::LookingUp => {}
            Reason::Current { .. } if !decision.actions.is_empty() => {}
            Reason::Off | Reason::Current { .. } | Reason::NothingServed | Reason::Served(_) => {
                self.set_refused(snapshot, None);
            }
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[Lookup],
        snapshot: &mut Snapshot,
        _pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        look_up(&self.resolver, lookups, snapshot).await
    }

    async fn apply(
        &self,
        actions: &[Action],
        snapshot: &Snapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let Err(error) = self.executor.apply_all(actions, pass).await else { return Ok(()) };
        let (Some(refused), Some(config)) = (refused(&error), snapshot.config()) else {
            return Err(error);
        };
        tracing::warn!(reason = refused.code(), "user data of {}: {refused}", config.metadata.name);
        let decision =
            refuse(snapshot, Refusal::new("WriteRefused", refused.to_string()), Timestamp::now());
        self.set_refused(snapshot, Some("WriteRefused"));
        pass.requeue_after = decision.requeue_after;
        self.executor.apply_all(&decision.actions, pass).await
    }

    fn seen_versions(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = snapshot.config().map(|config| &config.metadata);
        metadata.into_iter().map(|metadata| (metadata.uid(), metadata.resource_version()))
    }

    fn inputs(snapshot: &Snapshot) -> InputsHash {
        snapshot.inputs()
    }

    fn set_checked(snapshot: &mut Snapshot) {
        snapshot.is_checked = true;
    }

    fn log_transition(&self, key: &str, reason: &Reason) {
        let name = Self::log_name(key);
        match reason {
            Reason::Refused(refusal) => {
                tracing::warn!(reason = refusal.reason, "{name}: {reason}");
            }
            Reason::LookingUp | Reason::Off | Reason::NothingServed => {
                tracing::debug!("{name}: {reason}");
            }
            Reason::Current { .. } | Reason::Served(_) => tracing::info!("{name}: {reason}"),
        }
    }

    fn forget(&self, key: &str) {
        self.refusals.forget(key);
    }
}
