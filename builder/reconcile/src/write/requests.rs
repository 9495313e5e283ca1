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

use super::{
    ApplyError, Executor, Existing, IfExists, NewObject, NewStatus, Patch, ReconcilePass, Target,
    apply_error,
};
use crate::Kind;
use crate::{Error, error};

/// The field manager of writes to objects that others write too.
pub const FIELD_MANAGER: &str = "mosb-controller";
/// Media type of an object's metadata without its contents.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

pub fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

impl Executor {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), kind.resource());
        match kind.namespace(&self.namespace) {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Kind, namespace and name, for messages.
    pub fn describe(&self, kind: Kind, name: &str) -> String {
        match kind.namespace(&self.namespace) {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }

    /// Creates an object, or finds the same one.
    ///
    /// # Errors
    /// [`ApplyError`], also if the object that exists is another one.
    pub async fn create(&self, new: &NewObject) -> Result<(), ApplyError> {
        let object = self.describe(new.kind, &new.name);
        match self.post(new).await {
            Ok(created) => {
                if let (Some(uid), Some(owner)) = (&created.metadata.uid, &new.owner_uid) {
                    self.own_writes.record_create(uid, owner);
                }
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let existing = self.existing(new).await;
                match existing.map_err(Error::api(object.clone(), "get"))?.0 {
                    Existing::Same => Ok(()),
                    Existing::Outdated => Err(ApplyError::Conflict(object)),
                    Existing::NotOurs => Err(Error::NotOurs { object }.into()),
                    Existing::Problem(problem) => Err(ApplyError::Problem(problem)),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    /// Requests only the metadata in the response, because the object may be large.
    ///
    /// # Errors
    /// The API server rejects it, or does not answer.
    pub async fn post(&self, new: &NewObject) -> Result<PartialObjectMeta, kube::Error> {
        let body = serde_json::to_vec(&*new.body).expect("a JSON value");
        let request = Request::new(self.api(new.kind).resource_url()).create(&post_params(), body);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let accept = HeaderValue::from_static(ONLY_METADATA);
        request.headers_mut().insert(ACCEPT, accept);
        self.client.request(request).await
    }

    /// Compares a new object with the one that has its name, and returns the UID of that one, if it
    /// still exists.
    ///
    /// # Errors
    /// The API server rejects it, or does not answer.
    pub async fn existing(
        &self,
        new: &NewObject,
    ) -> Result<(Existing, Option<String>), kube::Error> {
        let api = self.api(new.kind);
        let (compare, found) = match new.if_exists {
            IfExists::DecideAgain => return Ok((Existing::Outdated, None)),
            IfExists::CompareWhole(compare) => (compare, api.get_opt(&new.name).await?),
            IfExists::CompareMetadata(compare) => {
                let found = api.get_metadata_opt(&new.name).await?;
                let found = found.map(|found| DynamicObject {
                    types: None,
                    metadata: found.metadata,
                    data: Value::Null,
                });
                (compare, found)
            }
        };
        Ok(match found {
            Some(found) => (compare(new, &found), found.metadata.uid),
            None => (Existing::Outdated, None),
        })
    }

    pub(super) async fn patch<S>(
        &self,
        target: &Target,
        patch: &Patch,
        pass: &mut ReconcilePass<S>,
    ) -> Result<(), ApplyError> {
        let body = patch.body(pass.version(target).as_deref());
        let body = if target.kind.is_built_in {
            PatchBody::Strategic(body)
        } else {
            PatchBody::Merge(body)
        };
        let written = self.api(target.kind).patch(&target.name, &patch_params(), &body).await;
        self.record(target, "patch", written, pass)
    }

    /// The API server ignores everything of the object but its status.
    pub(super) async fn replace_status<S>(
        &self,
        target: &Target,
        status: &NewStatus,
        pass: &mut ReconcilePass<S>,
    ) -> Result<(), ApplyError> {
        let (api, name, version) = (self.api(target.kind), &target.name, pass.version(target));
        let status = match status {
            NewStatus::Whole(status) => status,
            NewStatus::Fields(fields) => return self.patch_status(target, fields, pass).await,
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
    async fn patch_status<S>(
        &self,
        target: &Target,
        fields: &Value,
        pass: &mut ReconcilePass<S>,
    ) -> Result<(), ApplyError> {
        let version = pass.version(target);
        let body = json!({ "metadata": { "resourceVersion": version }, "status": fields });
        let body = PatchBody::Merge(&body);
        let api = self.api(target.kind);
        let written = api.patch_status(&target.name, &patch_params(), &body).await;
        self.record(target, "patch status", written, pass)
    }

    fn record<S>(
        &self,
        target: &Target,
        verb: &'static str,
        written: Result<DynamicObject, kube::Error>,
        pass: &mut ReconcilePass<S>,
    ) -> Result<(), ApplyError> {
        let object = self.describe(target.kind, &target.name);
        let metadata = written.map_err(apply_error(object, verb))?.metadata;
        if let (Some(uid), Some(version)) = (metadata.uid, metadata.resource_version) {
            if let Some(replaced) = pass.version(target) {
                self.own_writes.record_write(&uid, &replaced, &version);
            }
            pass.record_write(uid, version);
        }
        Ok(())
    }

    /// A missing object counts as deleted. A conflict may be another object of the same name or
    /// another client's change, so the reconciler decides again.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub async fn delete(&self, target: &Target, version: Option<String>) -> Result<(), ApplyError> {
        let params = DeleteParams {
            propagation_policy: Some(if target.kind.is_deleted_last {
                PropagationPolicy::Foreground
            } else {
                PropagationPolicy::Background
            }),
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
