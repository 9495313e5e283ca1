//! The writes to one object: create, patch, replace the status, delete. Each carries the UID or the
//! resourceVersion that it was decided on.

use hyper::header::{ACCEPT, HeaderValue};
use kube::Api;
use kube::api::{
    DeleteParams, Patch as PatchBody, PatchParams, PostParams, Preconditions, PropagationPolicy,
    TypeMeta,
};
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta, Request};
use serde_json::{Value, json};

use super::error::{ApplyError, apply_error};
use super::existing::compare;
use super::{Executor, ReconcilePass};
use crate::FIELD_MANAGER;
use crate::action::{NewObject, NewStatus, Patch};
use crate::cluster_names::ROLLOUT_NAMESPACE;
use crate::target::Target;
use mosb_reconcile::kinds::Kind;
use mosb_reconcile::{Error, error};

/// Media type of an object's metadata without its contents.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub(super) fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(super) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

impl Executor {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), kind.resource());
        match self.namespace_of(kind) {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    fn namespace_of(&self, kind: Kind) -> Option<&str> {
        if kind.is_of_rollout() {
            Some(ROLLOUT_NAMESPACE)
        } else {
            kind.is_namespaced().then_some(&*self.cache.namespace)
        }
    }

    /// Kind, namespace and name, for messages.
    pub(super) fn describe(&self, kind: Kind, name: &str) -> String {
        let word = kind.as_str().to_lowercase();
        match self.namespace_of(kind) {
            Some(namespace) => format!("{word} {namespace}/{name}"),
            None => format!("{word} {name}"),
        }
    }

    /// It may exist already.
    pub(super) async fn create(&self, new: &NewObject) -> Result<(), ApplyError> {
        let object = self.describe(new.kind(), new.name());
        match self.post(new).await {
            Ok(created) => {
                if let (Some(uid), Some(owner)) = (&created.metadata.uid, new.owner_uid()) {
                    self.cache.own_writes.record_create(uid, owner);
                }
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let there = self.existing(new).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                compare(new, there.as_ref(), object)
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    /// Requests only the metadata in the response, because the object may be large.
    pub(super) async fn post(&self, new: &NewObject) -> Result<PartialObjectMeta, kube::Error> {
        let request = Request::new(self.api(new.kind()).resource_url());
        let request = request.create(&post_params(), new.body());
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let accept = HeaderValue::from_static(ONLY_METADATA);
        request.headers_mut().insert(ACCEPT, accept);
        self.client.request(request).await
    }

    /// The object with the name of a new one, as far as [`compare`] reads it.
    pub(super) async fn existing(
        &self,
        new: &NewObject,
    ) -> Result<Option<DynamicObject>, kube::Error> {
        let api = self.api(new.kind());
        match new {
            NewObject::MachineOsConfig(_) | NewObject::Component(_) => Ok(None),
            NewObject::Rendered(_) => api.get_opt(new.name()).await,
            NewObject::MachineOsBuild(_)
            | NewObject::Workload(_)
            | NewObject::Input(_)
            | NewObject::NodeJob(_) => {
                let there = api.get_metadata_opt(new.name()).await?;
                Ok(there.map(|there| DynamicObject {
                    types: None,
                    metadata: there.metadata,
                    data: Value::Null,
                }))
            }
        }
    }

    pub(super) async fn patch(
        &self,
        target: &Target,
        patch: &Patch,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let body = patch.body(pass.version(target).as_deref());
        let body = if target.kind.is_built_in() {
            PatchBody::Strategic(body)
        } else {
            PatchBody::Merge(body)
        };
        let written = self.api(target.kind).patch(&target.name, &patch_params(), &body).await;
        self.record(target, "patch", written, pass)
    }

    /// The API server ignores everything of the object but its status.
    pub(super) async fn replace_status(
        &self,
        target: &Target,
        status: &NewStatus,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let (api, name, version) = (self.api(target.kind), &target.name, pass.version(target));
        let status = match status {
            NewStatus::MachineOsConfig(status) => json!(status),
            NewStatus::MachineOsBuild(status) => json!(status),
            NewStatus::Conditions(conditions) => {
                let fields = json!({ "conditions": conditions });
                return self.patch_status(target, &fields, pass).await;
            }
            NewStatus::Pool(update) => {
                return self.patch_status(target, &json!(update), pass).await;
            }
        };
        let resource = target.kind.resource();
        let object = DynamicObject {
            types: Some(TypeMeta { api_version: resource.api_version, kind: resource.kind }),
            metadata: ObjectMeta {
                name: Some(name.clone()),
                uid: Some(target.uid.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: json!({ "status": status }),
        };
        let written = api.replace_status(name, &post_params(), &object).await;
        self.record(target, "update status", written, pass)
    }

    /// Changes fields of a status that others write too.
    async fn patch_status(
        &self,
        target: &Target,
        fields: &Value,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let version = pass.version(target);
        let body = json!({ "metadata": { "resourceVersion": version }, "status": fields });
        let body = PatchBody::Merge(&body);
        let api = self.api(target.kind);
        let written = api.patch_status(&target.name, &patch_params(), &body).await;
        self.record(target, "patch status", written, pass)
    }

    fn record(
        &self,
        target: &Target,
        verb: &'static str,
        written: Result<DynamicObject, kube::Error>,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let object = self.describe(target.kind, &target.name);
        let metadata = written.map_err(apply_error(object, verb))?.metadata;
        if let (Some(uid), Some(version)) = (metadata.uid, metadata.resource_version) {
            if let Some(replaced) = pass.version(target) {
                self.cache.own_writes.record_write(&uid, &replaced, &version);
            }
            pass.record_write(uid, version);
        }
        Ok(())
    }

    /// A missing object counts as deleted. A conflict may be another object of the same name or
    /// another client's change, so the reconciler decides again.
    pub(super) async fn delete(
        &self,
        target: &Target,
        version: Option<String>,
    ) -> Result<(), ApplyError> {
        let params = DeleteParams {
            propagation_policy: Some(propagation_policy(target.kind)),
            preconditions: Some(Preconditions {
                uid: Some(target.uid.clone()),
                resource_version: version,
            }),
            ..DeleteParams::default()
        };
        match self.api(target.kind).delete(&target.name, &params).await {
            Err(error) if !error::is_not_found(&error) => {
                Err(apply_error(self.describe(target.kind, &target.name), "delete")(error))
            }
            _ => Ok(()),
        }
    }
}

/// MachineOSConfigs and MachineOSBuilds stay until everything that they own is deleted.
fn propagation_policy(kind: Kind) -> PropagationPolicy {
    if matches!(kind, Kind::MachineOsConfig | Kind::MachineOsBuild) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    }
}
