//! Applies the actions about a pool to the version of the pool that they were decided from.

use kube::Api;
use kube::api::{Patch, PropagationPolicy};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::contents::find;
use super::decide::RenderAction;
use crate::apply::{
    ApplyError, apply_error, delete_params, ignore_not_found, patch_params, post_params,
};
use crate::kinds::Kind;
use crate::lease::Lease;
use crate::lookup::Problem;
use crate::lookups::Resolver;
use crate::{Error, error, events};
use mosb_plan::api::{API_VERSION, Metadata, labels};
use mosb_types::ErrorClass;

/// Applies the actions about one pool.
#[derive(Debug)]
pub(super) struct RenderExecutor<'a> {
    pub resolver: &'a Resolver,
    /// Nothing is written without it.
    pub lease: &'a Lease,
    /// Reporting instance of events.
    pub instance: &'a str,
    /// Metadata of the pool.
    pub metadata: &'a Metadata,
    /// The rendered config to create.
    pub object: Option<Value>,
}

impl RenderExecutor<'_> {
    /// Applies the actions in order; the first failure ends it.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub async fn apply_all(&self, actions: &[RenderAction]) -> Result<(), ApplyError> {
        let mut version = self.metadata.resource_version().to_owned();
        for action in actions {
            if !self.lease.is_held() {
                return Err(self.lease.lost().into());
            }
            match action {
                RenderAction::Event(event) => {
                    let told = events::emit(&self.resolver.client, self.instance, event).await;
                    if let Err(error) = told {
                        tracing::warn!("{error}");
                    }
                }
                RenderAction::Create { name } => self.create(name).await?,
                RenderAction::SetConfiguration { name, sources, stamp, pins } => {
                    let pins = (!pins.is_empty()).then(|| json!(pins).to_string());
                    let annotations = json!({ labels::RENDERED_FROM: stamp, labels::PINS: pins });
                    let pool = self.set_configuration(&version, name, sources, annotations).await?;
                    version = self.record_write(&version, pool);
                }
                RenderAction::ReplaceConditions { conditions } => {
                    let change = json!({ "metadata": { "resourceVersion": version },
                        "status": { "conditions": conditions } });
                    let api = self.api(Kind::MachineConfigPool);
                    let pool = &self.metadata.name;
                    let (params, change) = (patch_params(), Patch::Merge(&change));
                    let written = api.patch_status(pool, &params, &change).await;
                    let written = written.map_err(apply_error(self.pool(), "patch status"))?;
                    version = self.record_write(&version, written);
                }
                RenderAction::Delete { name, uid } => {
                    let params = delete_params(uid, PropagationPolicy::Background);
                    let answer = self.api(Kind::MachineConfig).delete(name, &params).await;
                    ignore_not_found(format!("machineconfig {name}"), answer)?;
                    tracing::info!("deleted {name}, which is not used any more");
                }
            }
        }
        Ok(())
    }

    /// Returns the version that the write left.
    fn record_write(&self, replaced: &str, written: DynamicObject) -> String {
        let written = written.metadata.resource_version.unwrap_or_default();
        let own_writes = &self.resolver.cache.own_writes;
        own_writes.record_write(self.metadata.uid(), replaced, &written);
        written
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.resolver.client.clone(), &kind.resource())
    }

    fn pool(&self) -> String {
        format!("machineconfigpool {}", self.metadata.name)
    }

    async fn create(&self, name: &str) -> Result<(), ApplyError> {
        let wanted = self.object.as_ref().expect("it was rendered in this round");
        let object = format!("machineconfig {name}");
        let new: DynamicObject =
            serde_json::from_value(wanted.clone()).expect("an object of the API");
        let created = self.api(Kind::MachineConfig).create(&post_params(), &new).await;
        match created {
            Ok(_) => Ok(()),
            Err(error) if error::is_conflict(&error) => {
                let there = find(&self.resolver.client, name).await?;
                match there.map(|there| compare_existing(&there, wanted)) {
                    Some(Existing::Same) => Ok(()),
                    Some(Existing::Different(problem)) => Err(ApplyError::Problem(problem)),
                    Some(Existing::Deleting) | None => Err(ApplyError::Conflict(object)),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    async fn set_configuration(
        &self,
        version: &str,
        name: &str,
        sources: &[String],
        annotations: Value,
    ) -> Result<DynamicObject, ApplyError> {
        let reference = |name: &str| json!({ "apiVersion": API_VERSION, "kind": "MachineConfig", "name": name });
        let source: Vec<Value> = sources.iter().map(|name| reference(name)).collect();
        let mut configuration = reference(name);
        configuration["source"] = json!(source);
        // The old reference may have more fields, which would be kept.
        for field in ["fieldPath", "namespace", "resourceVersion", "uid"] {
            configuration[field] = Value::Null;
        }
        let change = json!({
            "metadata": { "resourceVersion": version, "annotations": annotations },
            "spec": { "configuration": configuration },
        });
        let api = self.api(Kind::MachineConfigPool);
        let pool = &self.metadata.name;
        let written = api.patch(pool, &patch_params(), &Patch::Merge(&change)).await;
        written.map_err(apply_error(self.pool(), "patch"))
    }
}

/// What exists under the name of the config to create.
#[derive(Debug, PartialEq)]
pub(super) enum Existing {
    /// The same content, whoever created it.
    Same,
    /// It is being deleted, or its owner is.
    Deleting,
    /// Another content.
    Different(Problem),
}

/// Compares an existing object with the one that would be created.
pub(super) fn compare_existing(there: &DynamicObject, wanted: &Value) -> Existing {
    let name = there.metadata.name.as_deref().unwrap_or_default();
    if there.metadata.deletion_timestamp.is_some() {
        return Existing::Deleting;
    }
    if there.data.get("spec") != wanted.get("spec") {
        return Existing::Different(Problem {
            class: ErrorClass::InvalidInput,
            reason: "not-ours".to_owned(),
            message: format!(
                "machineconfig {name}: exists with other content than the pool's MachineConfigs give; delete it, and mosb creates it again"
            ),
        });
    }
    let owner = wanted.pointer("/metadata/ownerReferences/0");
    let owners = there.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    match controllers.next() {
        // It belongs to an earlier pool of this name, and is deleted with it.
        Some(other) if owner.is_some_and(|owner| owner["uid"] != other.uid.as_str()) => {
            Existing::Deleting
        }
        _ => Existing::Same,
    }
}
