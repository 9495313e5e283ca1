//! Writes the Secret with the user data of a pool's new machines.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::error::apply_error;
use super::write::post_params;
use super::{ApplyError, Executor};
use crate::user_data::UserDataWrite;

impl Executor {
    /// Replaces the Secret in the version that was read. If it was changed meanwhile, or is another
    /// one now, it is read again.
    pub(super) async fn write_user_data(&self, write: &UserDataWrite) -> Result<(), ApplyError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), write.secret.namespace());
        let object = &write.object.expose().0;
        let written = api.replace(write.secret.name(), &post_params(), object).await;
        written.map(drop).map_err(apply_error(format!("secret {}", write.secret), "update"))
    }
}
