//! The controller of the server's Secrets. It has one key.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::decide::{ServerDecision, ServerLookup, ServerReason, decide};
use super::observe::{affected_keys, inputs, observe};
use super::secrets::authority_secret;
use super::server_keys::ServerKeys;
use super::snapshot::ServerSnapshot;
use crate::user_data::{Action, UserDataExecutor, UserDataWrite};
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::cluster_names::IGNITION_SERVER;
use mosb_cluster::resolver::Resolver;
use mosb_cluster::user_data_secret::{FoundSecret, read_secret};
use mosb_ignition_server::AuthorityError;
use mosb_reconcile::driver::{CheckedInputs, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::waits::SECRET_RECHECK;
use mosb_reconcile::write::{ApplyError, ReconcilePass};

#[derive(Debug)]
pub struct IgnitionServerReconciler {
    resolver: Resolver,
    executor: UserDataExecutor,
    checked: CheckedInputs,
}

impl IgnitionServerReconciler {
    pub fn new(resolver: Resolver, executor: UserDataExecutor) -> Self {
        Self { resolver, executor, checked: CheckedInputs::default() }
    }
}

/// Makes the keys, or the certificate, that a decision lacks.
pub(super) fn generate(
    lookup: &ServerLookup,
    snapshot: &mut ServerSnapshot,
    now: Timestamp,
) -> Result<(), AuthorityError> {
    let secret = authority_secret(&snapshot.namespace);
    let results = &mut snapshot.lookup_results;
    let Some(FoundSecret::Found(authority)) = results.secrets.get(&secret) else {
        return Ok(());
    };
    match lookup {
        ServerLookup::Keys => results.keys = Some(ServerKeys::renew(authority.expose(), now)?),
        ServerLookup::Certificate { host } => {
            let keys = results.keys.clone().or_else(|| ServerKeys::in_secret(authority.expose()));
            if let Some(keys) = keys {
                results.certificate = Some(keys.authority.issue(host, now)?);
            }
        }
        ServerLookup::Secret(_) => {}
    }
    Ok(())
}

impl Reconciler for IgnitionServerReconciler {
    type Snapshot = ServerSnapshot;
    type Lookup = ServerLookup;
    type Reason = ServerReason;
    type Effect = UserDataWrite;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "ignitionserver";
    const LOG_PREFIX: &'static str = "secrets of ";
    const WORKERS: usize = 1;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_keys(trigger)
    }

    fn observe(&self, key: &str) -> Option<ServerSnapshot> {
        let mut snapshot = observe(&self.resolver.cache)?;
        snapshot.is_current = self.checked.has(key, inputs(&snapshot), SECRET_RECHECK);
        Some(snapshot)
    }

    fn decide(&self, snapshot: &ServerSnapshot, now: Timestamp) -> ServerDecision {
        decide(snapshot, now)
    }

    async fn look_up(
        &self,
        lookups: &[ServerLookup],
        snapshot: &mut ServerSnapshot,
        _pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        for lookup in lookups {
            match lookup {
                ServerLookup::Secret(secret) => {
                    let found = read_secret(&self.resolver, secret).await?;
                    snapshot.lookup_results.secrets.insert(secret.clone(), found);
                }
                ServerLookup::Keys | ServerLookup::Certificate { .. } => {
                    let made = generate(lookup, snapshot, Timestamp::now());
                    made.map_err(|error| NoDecision::Failed(ApplyError::Problem(error.into())))?;
                }
            }
        }
        Ok(())
    }

    async fn apply(
        &self,
        actions: &[Action],
        snapshot: &ServerSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        if !snapshot.is_current {
            self.checked.remove(IGNITION_SERVER);
        }
        self.executor.apply_all(actions, pass).await?;
        if snapshot.is_current {
            return Ok(());
        }
        if let ServerReason::Current(_) | ServerReason::Off =
            decide(snapshot, Timestamp::now()).reason
        {
            self.checked.set(IGNITION_SERVER, inputs(snapshot));
        }
        Ok(())
    }

    fn seen_versions(_: &ServerSnapshot) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    fn inputs(snapshot: &ServerSnapshot) -> InputsHash {
        inputs(snapshot)
    }

    fn log_transition(&self, name: &str, reason: &ServerReason) {
        match reason {
            ServerReason::Unusable(message) => tracing::warn!("secrets of {name}: {message}"),
            ServerReason::LookingUp | ServerReason::Off => {
                tracing::debug!("secrets of {name}: {reason}");
            }
            ServerReason::Current(_) => tracing::info!("secrets of {name}: {reason}"),
        }
    }
}
