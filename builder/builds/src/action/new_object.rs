//! The objects that the controller of images creates, and what one with the name of a new one is.
//! Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::{DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use mosb_api::{MachineConfig, MachineOsBuild, MachineOsConfig, Metadata, labels};
use mosb_cluster::kinds;
use mosb_cluster::object::workload_kind;
use mosb_reconcile::Kind;
use mosb_reconcile::write::{Existing, IfExists, NewObject};
use mosb_workload::{Input, Workload};

/// For a pool that opted in by its label; its status is empty.
pub fn config(config: &MachineOsConfig) -> NewObject {
    let body = json!({ "metadata": config.metadata, "spec": config.spec });
    ours(kinds::MACHINE_OS_CONFIG, &config.metadata, body, IfExists::DecideAgain)
}

/// Its status is empty.
pub fn build(build: &MachineOsBuild) -> NewObject {
    let owner = build.metadata.owner_references.first();
    NewObject {
        owner_uid: owner.map(|owner| owner.uid.clone()),
        ..ours(
            kinds::MACHINE_OS_BUILD,
            &build.metadata,
            json!(build),
            IfExists::CompareMetadata(compare_build),
        )
    }
}

/// The MachineConfig that brings a pool its pre-built image.
pub fn component(config: &MachineConfig) -> NewObject {
    ours(kinds::MACHINE_CONFIG, &config.metadata, json!(config), IfExists::DecideAgain)
}

pub fn workload(workload: &Workload) -> NewObject {
    let kind = workload_kind(workload.builder());
    let if_exists = IfExists::CompareMetadata(compare_workload);
    match workload {
        Workload::Job(job) => owned(kind, workload.metadata(), job, if_exists),
        Workload::Pod(pod) => owned(kind, workload.metadata(), pod, if_exists),
        Workload::Build(build) => owned(kind, workload.metadata(), build, if_exists),
    }
}

pub fn input(input: &Input) -> NewObject {
    let (kind, metadata) = (input.kind().into(), input.metadata());
    let if_exists = IfExists::CompareMetadata(compare_input);
    match input {
        Input::ConfigMap(map) => owned(kind, metadata, map, if_exists),
        Input::Secret(secret) => owned(kind, metadata, secret, if_exists),
        Input::ServiceAccount(account) => owned(kind, metadata, account, if_exists),
        Input::Role(role) => owned(kind, metadata, role, if_exists),
        Input::RoleBinding(binding) => owned(kind, metadata, binding, if_exists),
    }
}

/// An object of ours as the API has it: with its kind, and without the metadata that only the API
/// server sets.
fn ours(kind: Kind, metadata: &Metadata, mut body: Value, if_exists: IfExists) -> NewObject {
    let resource = kind.resource();
    body["apiVersion"] = json!(resource.api_version);
    body["kind"] = json!(resource.kind);
    let object: DynamicObject = serde_json::from_value(body).expect("an object of the API");
    let (name, body) = (metadata.name.clone(), Arc::new(json!(object)));
    NewObject { kind, name, owner_uid: None, body, if_exists }
}

fn owned(kind: Kind, meta: &ObjectMeta, object: &impl Serialize, if_exists: IfExists) -> NewObject {
    let owner = meta.owner_references.iter().flatten().next();
    NewObject {
        kind,
        name: meta.name.clone().unwrap_or_default(),
        owner_uid: owner.map(|owner| owner.uid.clone()),
        body: Arc::new(json!(object)),
        if_exists,
    }
}

/// Created by an earlier pass, or being deleted: the watch will show it.
fn compare_build(new: &NewObject, there: &DynamicObject) -> Existing {
    let meta = &there.metadata;
    outdated_if(is_controlled_by(meta, new) || meta.deletion_timestamp.is_some())
}

fn compare_workload(new: &NewObject, there: &DynamicObject) -> Existing {
    let attempt = there.annotations().get(labels::ATTEMPT).map(String::as_str);
    let wanted = new.body["metadata"]["annotations"][labels::ATTEMPT].as_str();
    if is_controlled_by(&there.metadata, new) && attempt == wanted {
        return Existing::Same;
    }
    outdated_if(is_leftover(there))
}

fn compare_input(new: &NewObject, there: &DynamicObject) -> Existing {
    let owner = new.owner_uid.as_deref().unwrap_or_default();
    if there.owner_references().iter().any(|one| one.uid == owner) {
        return Existing::Same;
    }
    outdated_if(is_leftover(there))
}

fn outdated_if(is_outdated: bool) -> Existing {
    if is_outdated { Existing::Outdated } else { Existing::NotOurs }
}

/// Whether it belongs to an earlier attempt or build and is being deleted.
fn is_leftover(there: &DynamicObject) -> bool {
    there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT)
}

/// Whether the owner of the new object controls the one that exists.
fn is_controlled_by(meta: &ObjectMeta, new: &NewObject) -> bool {
    let uid = new.owner_uid.as_deref().unwrap_or_default();
    let mut owners = meta.owner_references.iter().flatten();
    !uid.is_empty() && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object of a build with this owner and attempt.
    fn object(owner: &str, attempt: &str) -> Value {
        json!({ "metadata": {
            "name": "x",
            "labels": { labels::EPHEMERAL_BUILD_OBJECT: "" },
            "annotations": { labels::ATTEMPT: attempt },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true }],
        } })
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_existing_object_is_ours_or_deleted_or_a_conflict() {
        let new = object("owner", "2");
        let build = build(&read(new.clone()));
        let job = workload(&Workload::Job(read(new.clone())));
        let secret = input(&Input::Secret(read(new.clone())));
        let mut foreign = object("other", "2");
        foreign["metadata"]["labels"] = json!({});
        let mut deleted = foreign.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for (what, new, there, want) in [
            ("our build", &build, &new, Existing::Outdated),
            ("a build that is being deleted", &build, &deleted, Existing::Outdated),
            ("another's build", &build, &foreign, Existing::NotOurs),
            ("this workload", &job, &new, Existing::Same),
            ("one of an earlier attempt", &job, &object("owner", "1"), Existing::Outdated),
            ("one of an earlier build", &job, &object("other", "2"), Existing::Outdated),
            ("another's Job", &job, &foreign, Existing::NotOurs),
            ("this input", &secret, &object("owner", "1"), Existing::Same),
            ("an input of an earlier workload", &secret, &object("other", "2"), Existing::Outdated),
            ("another's Secret", &secret, &foreign, Existing::NotOurs),
        ] {
            let IfExists::CompareMetadata(compare) = new.if_exists else { panic!("{what}") };
            assert_eq!(compare(new, &read(there.clone())), want, "{what}");
        }
    }

    #[test]
    fn a_new_object_has_its_kind_and_no_status() {
        let object = object("owner", "1");
        let ours = "machineconfiguration.openshift.io/v1";
        for (new, api_version, kind) in [
            (config(&read(object.clone())), ours, "MachineOSConfig"),
            (build(&read(object.clone())), ours, "MachineOSBuild"),
            (component(&read(object.clone())), ours, "MachineConfig"),
            (workload(&Workload::Job(read(object.clone()))), "batch/v1", "Job"),
            (workload(&Workload::Pod(read(object.clone()))), "v1", "Pod"),
            (input(&Input::Secret(read(object.clone()))), "v1", "Secret"),
            (input(&Input::Role(read(object.clone()))), "rbac.authorization.k8s.io/v1", "Role"),
        ] {
            let body = &new.body;
            assert_eq!((&body["apiVersion"], &body["kind"]), (&json!(api_version), &json!(kind)));
            assert!(["null", "{}"].contains(&&*body["status"].to_string()), "{kind}");
        }
    }
}
