//! Writes a Secret of new machines.

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use mosb_build::SecretObject;
use mosb_cluster::secret_ref::SecretRef;
use mosb_reconcile::write::{
    ApplyError, Effects, Executor, ReconcilePass, apply_error, post_params,
};
use mosb_types::Secret as Hidden;

pub type Action = mosb_reconcile::write::Action<SecretWrite>;

/// A write of the Secret. It has the UID and the resourceVersion that it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretWrite {
    pub secret: SecretRef,
    pub object: Hidden<SecretObject>,
}

/// Applies the actions of the controller.
#[derive(Debug, Clone)]
pub struct SecretExecutor(pub Executor);

impl Effects for SecretExecutor {
    type Effect = SecretWrite;
    type State = ();

    fn executor(&self) -> &Executor {
        &self.0
    }

    /// Replaces the Secret in the version that was read. If it was changed meanwhile, or is another
    /// one now, it is read again.
    async fn apply_effect(
        &self,
        write: &SecretWrite,
        _: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), write.secret.namespace());
        let object = &write.object.expose().0;
        let written = api.replace(write.secret.name(), &post_params(), object).await;
        written.map(drop).map_err(apply_error(format!("secret {}", write.secret), "update"))
    }
}

/// For the log.
impl fmt::Display for SecretWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writing secret {}", self.secret)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};

    #[tokio::test]
    async fn the_secret_is_replaced_as_it_was_read() {
        let conflict = "secret machines/x: conflict: the object changed; retrying";
        let refused = "secret machines/x: update: the API server answers 422: said";
        for (code, want) in [
            (200, None),
            // It was changed, or is another one.
            (409, Some(conflict)),
            (404, Some(conflict)),
            (422, Some(refused)),
        ] {
            let object = json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "x", "uid": "u", "resourceVersion": "7" } });
            let action = Action::Effect(SecretWrite {
                secret: "machines/x".parse().unwrap(),
                object: Hidden::new(SecretObject(serde_json::from_value(object.clone()).unwrap())),
            });
            let api = FakeApi::new(move |request| match code {
                200 => request.body.clone().into(),
                code => FakeAnswer::failure(code),
            });
            let executor = SecretExecutor(Executor::from(&api));
            let done = executor.apply_all(&[action], &mut ReconcilePass::default()).await;
            assert_eq!(done.err().map(|error| error.to_string()).as_deref(), want, "{code}");
            let sent = api.requests();
            let [sent] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!(sent.line(), "PUT /api/v1/namespaces/machines/secrets/x");
            assert_eq!((&*sent.query, &sent.body), ("&fieldManager=mosb-controller", &object));
        }
    }
}
