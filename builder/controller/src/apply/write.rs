//! Writes to MachineOSConfigs, MachineOSBuilds and pools.

use kube::Api;
use kube::api::{
    DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy, TypeMeta,
};
use kube::core::{DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ApplyError, Executor, ReconcilePass, apply_error};
use crate::action::Annotate;
use crate::kinds::Kind;
use crate::{Error, FIELD_MANAGER, error};
use mosb_plan::api::{
    Condition, MachineOsBuild, MachineOsBuildStatus, MachineOsConfigSpec, MachineOsConfigStatus,
    labels,
};

pub(super) const CONFIG: Kind = Kind::MachineOsConfig;
pub(super) const BUILD: Kind = Kind::MachineOsBuild;
pub(super) const POOL: Kind = Kind::MachineConfigPool;

/// Deletes only the object with this UID, not a newer one of the same name.
pub(crate) fn delete_params(uid: &str, policy: PropagationPolicy) -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(policy),
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    }
}

/// A missing object counts as deleted. A conflict may be another object of the same name or another
/// client's change, so the reconciler decides again.
pub(crate) fn ignore_not_found<T>(
    object: String,
    answer: Result<T, kube::Error>,
) -> Result<(), ApplyError> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error::is_not_found(&error) => Ok(()),
        Err(error) => Err(apply_error(object, "delete")(error)),
    }
}

pub(crate) fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(crate) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

pub(super) fn to_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("the API's own fields are JSON")
}

impl Executor {
    pub(super) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind.resource())
    }

    pub(super) async fn create_config(
        &self,
        name: &str,
        pool_uid: &str,
        spec: &MachineOsConfigSpec,
    ) -> Result<(), ApplyError> {
        let resource = CONFIG.resource();
        let pool = POOL.resource();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {
                "name": name,
                "annotations": { labels::MADE_FOR_LABEL: "" },
                "ownerReferences": [{ "apiVersion": pool.api_version, "kind": pool.kind, "name": name, "uid": pool_uid,
                    "controller": true, "blockOwnerDeletion": false }],
            },
            "spec": to_json(spec),
        }))
        .expect("an object of the API");
        let created = self.api(CONFIG).create(&post_params(), &object).await;
        // If it exists already, it is the administrator's own, and the watch will show it.
        created.map(drop).map_err(apply_error(format!("machineosconfig {name}"), "create"))
    }

    pub(super) async fn update_config(
        &self,
        name: &str,
        version: &str,
        spec: &MachineOsConfigSpec,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let mut spec = to_json(spec);
        // Remove fields that are no longer set.
        for field in ["baseImagePullSecret", "containerFile"] {
            if spec.get(field).is_none() {
                spec[field] = Value::Null;
            }
        }
        self.merge(CONFIG, name, version, json!({ "spec": spec }), pass).await
    }

    pub(super) async fn delete_config(&self, name: &str, uid: &str) -> Result<(), ApplyError> {
        let params = delete_params(uid, PropagationPolicy::Foreground);
        let answer = self.api(CONFIG).delete(name, &params).await;
        ignore_not_found(format!("machineosconfig {name}"), answer)
    }

    pub(super) async fn create_build(&self, build: &MachineOsBuild) -> Result<(), ApplyError> {
        let name = &build.metadata.name;
        let object = format!("machineosbuild {name}");
        let owner = build.metadata.owner_references.first();
        let owner = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
        let resource = BUILD.resource();
        let mut wire = to_json(build);
        wire["apiVersion"] = json!(resource.api_version);
        wire["kind"] = json!(resource.kind);
        let api = self.api(BUILD);
        let new: DynamicObject = serde_json::from_value(wire).expect("an object of the API");
        match api.create(&post_params(), &new).await {
            Ok(made) => {
                self.record_create(&made.metadata, owner);
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let there = api.get_opt(name).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                match there {
                    // Created by an earlier pass, or being deleted: the watch will show it.
                    None => Err(ApplyError::Conflict(object)),
                    Some(there)
                        if controlled_by(&there.metadata, owner)
                            || there.metadata.deletion_timestamp.is_some() =>
                    {
                        Err(ApplyError::Conflict(object))
                    }
                    Some(_) => Err(Error::NotOurs { object }.into()),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    pub(super) async fn delete_build(&self, name: &str, uid: &str) -> Result<(), ApplyError> {
        let params = delete_params(uid, PropagationPolicy::Foreground);
        let answer = self.api(BUILD).delete(name, &params).await;
        ignore_not_found(format!("machineosbuild {name}"), answer)
    }

    pub(super) async fn write_build_status(
        &self,
        name: &str,
        uid: &str,
        version: &str,
        status: &MachineOsBuildStatus,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        self.replace_status(BUILD, (name, uid, version), to_json(status), pass).await
    }

    pub(super) async fn write_config_status(
        &self,
        name: &str,
        uid: &str,
        version: &str,
        status: &MachineOsConfigStatus,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        self.replace_status(CONFIG, (name, uid, version), to_json(status), pass).await
    }

    /// Replaces the whole status. The API server ignores the rest of the object.
    async fn replace_status(
        &self,
        kind: Kind,
        (name, uid, version): (&str, &str, &str),
        status: Value,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let resource = kind.resource();
        let object = DynamicObject {
            types: Some(TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            }),
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            data: json!({ "status": status }),
        };
        let written = self.api(kind).replace_status(name, &post_params(), &object).await;
        let object = format!("{} {name}", resource.kind.to_lowercase());
        let written = written.map_err(apply_error(object, "update status"))?;
        self.record_write(pass, version, &written.metadata);
        Ok(())
    }

    pub(super) async fn annotate(
        &self,
        kind: Kind,
        change: &Annotate,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let version = pass.version(&change.uid, &change.resource_version).to_owned();
        let set = change.set.iter().map(|(key, to_json)| (key, json!(to_json)));
        let remove = change.remove.iter().map(|key| (key, Value::Null));
        let annotations: Map<String, Value> =
            set.chain(remove).map(|(key, to_json)| (key.clone(), to_json)).collect();
        let annotate = json!({ "metadata": { "annotations": annotations } });
        self.merge(kind, &change.name, &version, annotate, pass).await
    }

    pub(super) async fn merge(
        &self,
        kind: Kind,
        name: &str,
        version: &str,
        mut change: Value,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        change["metadata"]["resourceVersion"] = json!(version);
        let written = self.api(kind).patch(name, &patch_params(), &Patch::Merge(change)).await;
        let object = format!("{} {name}", kind.resource().kind.to_lowercase());
        let written = written.map_err(apply_error(object, "patch"))?;
        self.record_write(pass, version, &written.metadata);
        Ok(())
    }

    pub(super) async fn write_pool_conditions(
        &self,
        name: &str,
        version: &str,
        conditions: &[Condition],
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        // An atomic list: write all of it, on the version that it was read from.
        let change = json!({ "metadata": { "resourceVersion": version },
            "status": { "conditions": to_json(&conditions) } });
        let api = self.api(POOL);
        let written = api.patch_status(name, &patch_params(), &Patch::Merge(&change)).await;
        let object = format!("machineconfigpool {name}");
        let written = written.map_err(apply_error(object, "patch status"))?;
        self.record_write(pass, version, &written.metadata);
        Ok(())
    }
}

/// Whether the owner with this UID controls the object.
pub(super) fn controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    !uid.is_empty() && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_delete_that_is_refused_is_decided_again() {
        for (what, code, done, stale) in [
            ("gone", 404, true, false),
            ("changed meanwhile, or another one", 409, false, true),
            ("the server's fault", 500, false, false),
        ] {
            let status = Status::failure("said", "Reason").with_code(code).boxed();
            let found = ignore_not_found::<()>("job x".to_owned(), Err(kube::Error::Api(status)));
            assert_eq!(found.is_ok(), done, "{what}");
            let is_stale = matches!(found, Err(ApplyError::Conflict(_)));
            assert_eq!(is_stale, stale, "{what}");
        }
    }
}
