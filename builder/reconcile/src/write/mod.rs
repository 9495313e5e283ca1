//! Applies the actions of a decision. Each action has the UID and resourceVersion that it was
//! decided on, so the API server rejects it if the object changed, and the reconciler decides
//! again.

mod action;
mod error;
mod event;
mod pass;
mod requests;

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::join_all;
use kube::Client;

use crate::lease::Lease;
use crate::watch::OwnWrites;

pub use action::{
    Action, Compare, Existing, IfExists, NewObject, NewStatus, NoEffect, Patch, Target,
};
pub use error::{ApplyError, apply_error};
pub use event::{Event, EventKind, Regarding};
pub use pass::ReconcilePass;
pub use requests::{FIELD_MANAGER, patch_params, post_params};

/// Applies actions.
#[derive(Clone)]
pub struct Executor {
    pub client: Client,
    /// Nothing is written unless the lease is held.
    pub lease: Lease,
    pub own_writes: Arc<OwnWrites>,
    /// The reporting instance of events, at most 128 characters.
    pub instance: String,
    /// Where the objects of namespaced kinds are.
    pub namespace: String,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// What one controller does beside writes to one object.
pub trait Effects: Sync {
    type Effect: Display + Sync;
    /// State that the actions of one decision share.
    type State: Send;

    /// Sends the writes to one object.
    fn executor(&self) -> &Executor;

    /// Applies an effect. Applying it twice has the result of applying it once.
    fn apply_effect(
        &self,
        effect: &Self::Effect,
        pass: &mut ReconcilePass<Self::State>,
    ) -> impl Future<Output = Result<(), ApplyError>> + Send;

    /// Applies the actions in order and stops at the first error. Events of the actions before are
    /// emitted all the same, unless the Lease was lost: then the next holder emits them.
    ///
    /// # Errors
    /// [`ApplyError`].
    fn apply_all(
        &self,
        actions: &[Action<Self::Effect>],
        pass: &mut ReconcilePass<Self::State>,
    ) -> impl Future<Output = Result<(), ApplyError>> + Send {
        async move {
            let executor = self.executor();
            let mut pending_events = Vec::new();
            let mut done = Ok(());
            for action in actions {
                if let Action::Event(event) = action {
                    pending_events.push(event);
                    continue;
                }
                if !executor.lease.is_held() {
                    return Err(executor.lease.lost().into());
                }
                tracing::debug!("{action}");
                done = match action {
                    Action::Create(new) => executor.create(new).await,
                    Action::Patch(target, patch) => executor.patch(target, patch, pass).await,
                    Action::ReplaceStatus(target, status) => {
                        executor.replace_status(target, status, pass).await
                    }
                    Action::Delete(target) => executor.delete(target, pass.version(target)).await,
                    Action::Effect(effect) => self.apply_effect(effect, pass).await,
                    Action::Event(_) => Ok(()),
                };
                if done.is_err() {
                    break;
                }
            }
            let emitting = pending_events
                .into_iter()
                .map(|event| event::emit(&executor.client, &executor.instance, event));
            for emitted in join_all(emitting).await {
                if let Err(error) = emitted {
                    tracing::warn!("{error}");
                }
            }
            done
        }
    }
}

impl Effects for Executor {
    type Effect = NoEffect;
    type State = ();

    fn executor(&self) -> &Executor {
        self
    }

    async fn apply_effect(
        &self,
        effect: &NoEffect,
        _: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        match *effect {}
    }
}

#[cfg(test)]
mod tests;
