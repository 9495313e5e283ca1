//! Opting in: by a MachineOSConfig, or by a pool's label, for which one is created.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Decision;
use crate::action::{Action, new_object};
use crate::pool_reason::PoolReason;
use crate::snapshot::{LabelOptIn, Snapshot};
use mosb_api::{
    API_VERSION, ContainerFile, ImageBuilder, MachineConfigPool, MachineOsConfig,
    MachineOsConfigSpec, Metadata, NameRef, OwnerReference, labels,
};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{EventReason, PoolBuild, new_event, pool_conditions, regarding};
use mosb_reconcile::write::Patch;

/// Without a MachineOSConfig: creates one if the pool has the label, else cleans up the pool.
pub(super) fn without_config(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let Some(pool) = &snapshot.pool else {
        return Decision::unchanged(PoolReason::NotOptedIn);
    };
    match &snapshot.label {
        Some(label) if !snapshot.cluster.machine_config_operator => match spec(pool, label) {
            Ok(spec) => Decision::of(
                PoolReason::OptingIn,
                vec![Action::Create(new_object::config(&config(pool, spec)))],
            ),
            Err(why) => Decision::unchanged(PoolReason::LabelIncomplete(why)),
        },
        _ => opted_out(pool, now),
    }
}

/// Updates a MachineOSConfig that was created for the label; `None` if nothing changed.
pub(super) fn follow_label(snapshot: &Snapshot, config: &MachineOsConfig) -> Option<Decision> {
    config.metadata.annotations.get(labels::MADE_FOR_LABEL)?;
    let (kind, metadata) = (kinds::MACHINE_OS_CONFIG, &config.metadata);
    let pool = snapshot.pool.as_ref()?;
    let Some(label) = &snapshot.label else {
        let action = object::delete(kind, metadata);
        return Some(Decision::of(PoolReason::OptingOut, vec![action]));
    };
    // If the ConfigMaps are missing, keep the last spec.
    let spec = spec(pool, label).ok()?;
    if spec == config.spec {
        return None;
    }
    let action =
        object::patch(kind, metadata, Patch { spec: replacement(&spec), ..Patch::default() });
    Some(Decision::of(PoolReason::OptingIn, vec![action]))
}

/// A MachineOSConfig that the pool owns.
fn config(pool: &MachineConfigPool, spec: MachineOsConfigSpec) -> MachineOsConfig {
    let owner = &pool.metadata;
    MachineOsConfig {
        metadata: Metadata {
            name: owner.name.clone(),
            annotations: [(labels::MADE_FOR_LABEL.to_owned(), String::new())].into(),
            owner_references: vec![OwnerReference {
                api_version: API_VERSION.to_owned(),
                kind: kinds::MACHINE_CONFIG_POOL.name.to_owned(),
                name: owner.name.clone(),
                uid: owner.uid().to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(false),
            }],
            ..Metadata::default()
        },
        spec,
        status: Default::default(),
    }
}

/// A merge patch that gives a MachineOSConfig this spec.
fn replacement(spec: &MachineOsConfigSpec) -> Value {
    let mut spec = json!(spec);
    // Remove fields that are no longer set.
    for field in ["baseImagePullSecret", "containerFile"] {
        if spec.get(field).is_none() {
            spec[field] = Value::Null;
        }
    }
    spec
}

fn spec(pool: &MachineConfigPool, label: &LabelOptIn) -> Result<MachineOsConfigSpec, String> {
    let Some(settings) = &label.settings else {
        return Err("there is no ConfigMap on-cluster-build-config; create it, or a MachineOSConfig instead of the label".to_owned());
    };
    let value = |key: &str| settings.get(key).map(|text| text.trim()).unwrap_or_default();
    let required = |key: &str| match value(key) {
        "" => Err(format!("its ConfigMap on-cluster-build-config has no {key}; add it")),
        text => Ok(text.to_owned()),
    };
    let push = required("finalImagePullspec")?;
    let is_tagged = push.rsplit_once('/').is_some_and(|(_, last)| last.contains(':'));
    let pull = value("baseImagePullSecretName");
    let file = label.containerfile.clone();
    Ok(MachineOsConfigSpec {
        machine_config_pool: NameRef { name: pool.metadata.name.clone() },
        image_builder: ImageBuilder { image_builder_type: "Job".to_owned() },
        base_image_pull_secret: (!pull.is_empty()).then(|| NameRef { name: pull.to_owned() }),
        rendered_image_push_secret: NameRef { name: required("finalImagePushSecretName")? },
        rendered_image_push_spec: if is_tagged { push } else { format!("{push}:latest") },
        container_file: file
            .filter(|text| !text.is_empty())
            .map(|content| ContainerFile { containerfile_arch: "NoArch".to_owned(), content })
            .into_iter()
            .collect(),
    })
}

/// Cleans up the pool. Owner references take care of builds, workloads and inputs.
fn opted_out(pool: &MachineConfigPool, now: Timestamp) -> Decision {
    let metadata = &pool.metadata;
    let conditions =
        pool_conditions(&metadata.name, &pool.status.conditions, PoolBuild::OptedOut, now);
    let image = metadata.annotations.get(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG);
    let mut actions = Vec::new();
    if conditions.is_some() || image.is_some() {
        let on = regarding("MachineConfigPool", metadata);
        let edge = metadata.resource_version();
        let note = "the pool has no MachineOSConfig any more; its images stay in the registry";
        let event = new_event(on, EventReason::ConfigDeleted, edge, note);
        actions.push(Action::Event(event));
    }
    if let Some(conditions) = conditions {
        actions.push(object::replace_conditions(metadata, &conditions));
    }
    if image.is_some() {
        let mut patch = Patch::default();
        patch.remove(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG);
        actions.push(object::patch(kinds::MACHINE_CONFIG_POOL, metadata, patch));
    }
    if actions.is_empty() {
        Decision::unchanged(PoolReason::NotOptedIn)
    } else {
        Decision::of(PoolReason::OptingOut, actions)
    }
}
