//! Writes to the MachineConfigs that bring pools their pre-built images.

use kube::api::PropagationPolicy;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::write::{delete_params, ignore_not_found, post_params, to_json};
use super::{ApplyError, Executor, ReconcilePass, apply_error};
use crate::kinds::Kind;
use mosb_image::PinnedRef;
use mosb_plan::api::{PoolName, component, labels};

const KIND: Kind = Kind::MachineConfig;

impl Executor {
    pub(super) async fn create_component(
        &self,
        pool: &PoolName,
        image: &PinnedRef,
        config: &str,
    ) -> Result<(), ApplyError> {
        let mut component = component(pool, &image.to_string());
        let claim = (labels::SERVES.to_owned(), config.to_owned());
        component.metadata.annotations.extend([claim]);
        let object = format!("machineconfig {}", component.metadata.name);
        let new: DynamicObject =
            serde_json::from_value(to_json(&component)).expect("an object of the API");
        // If it exists already, the watch will show it.
        let created = self.api(KIND).create(&post_params(), &new).await;
        created.map(drop).map_err(apply_error(object, "create"))
    }

    pub(super) async fn update_component(
        &self,
        name: &str,
        version: &str,
        image: Option<&PinnedRef>,
        config: &str,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let mut change = json!({
            "metadata": { "annotations": { labels::SERVES: config } },
        });
        if let Some(image) = image {
            let image = Value::String(image.to_string());
            change["metadata"]["annotations"][labels::PRE_BUILT_IMAGE] = image.clone();
            change["spec"] = json!({ "osImageURL": image });
        }
        self.merge(KIND, name, version, change, pass).await
    }

    pub(super) async fn delete_component(&self, name: &str, uid: &str) -> Result<(), ApplyError> {
        let params = delete_params(uid, PropagationPolicy::Background);
        let answer = self.api(KIND).delete(name, &params).await;
        ignore_not_found(format!("machineconfig {name}"), answer)
    }
}
