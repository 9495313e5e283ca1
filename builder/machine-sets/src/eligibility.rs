//! Which sets are left alone whatever their image is. Pure.

use super::history;
use super::machine_set::MachineSet;
use super::obstacle::Obstacle;
use super::snapshot::BootImageSnapshot;
use super::unread::too_large;
use mosb_api::boot_images::ManagedKind;
use mosb_boot_image::{Architecture, ArchitectureError, Skip, Stream};
use mosb_cluster::cluster_cache::{BootImageKind, MACHINE_API_NAMESPACE, SeenObject, object_key};

/// Label of a set: the OS stream that it follows.
const OS_STREAM: &str = "machineconfiguration.openshift.io/osstream";
/// Label of machines: their operating system, if it is not Linux.
const OS_ID: &str = "machine.openshift.io/os-id";
/// Annotation that pauses the controllers of Cluster API.
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Label of objects that follow from a ClusterClass.
const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
/// Where OpenShift has copies of the sets of its machine API.
const CLUSTER_API_NAMESPACE: &str = "openshift-cluster-api";
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
/// Annotation of a set: the labels of its nodes, for the cluster autoscaler.
const LABELS_ANNOTATION: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";

/// Whether mosb may change the image of this set at all.
pub(super) fn check(set: MachineSet<'_>, snapshot: &BootImageSnapshot) -> Result<(), Obstacle> {
    let object = set.object;
    if object.is_being_deleted {
        return Err(Skip::Deleting.into());
    }
    let read =
        [Some(object), history::find(set, snapshot), cluster(set, snapshot), twin(set, snapshot)];
    if let Some(object) = read.into_iter().flatten().find(|object| object.is_too_large) {
        return Err(too_large(object).into());
    }
    if let Some(deployment) = set.deployment() {
        return Err(Skip::PartOfDeployment { deployment: deployment.to_owned() }.into());
    }
    if let Some(owner) = set.foreign_owner() {
        return Err(Skip::Owned { owner }.into());
    }
    if set.machine_label(OS_ID) == Some("Windows") {
        return Err(Skip::Windows.into());
    }
    if let Some(authority) = other_authority(set, snapshot) {
        return Err(Skip::OtherAuthority { authority }.into());
    }
    if object.labels.contains_key(TOPOLOGY_OWNED) {
        return Err(Skip::ClusterClass.into());
    }
    if let Some(paused) = paused(set, snapshot) {
        return Err(Skip::Paused { object: paused }.into());
    }
    Ok(())
}

/// The object that decides instead of this one, where OpenShift has a set in both APIs.
fn other_authority(set: MachineSet<'_>, snapshot: &BootImageSnapshot) -> Option<String> {
    let object = set.object;
    if set.is_machine_api() {
        let authority = object.status["authoritativeAPI"].as_str()?;
        let is_other = matches!(authority, "ClusterAPI" | "Migrating");
        return is_other.then(|| format!("MachineSet of Cluster API ({authority})"));
    }
    let twin = twin(set, snapshot)?;
    let authority = twin.status["authoritativeAPI"].as_str();
    (authority == Some("MachineAPI")).then(|| format!("MachineSet {}", twin.key()))
}

/// The set of the machine API that OpenShift has a copy of.
fn twin<'s>(set: MachineSet<'_>, snapshot: &'s BootImageSnapshot) -> Option<&'s SeenObject> {
    if set.is_machine_api() || set.object.namespace != CLUSTER_API_NAMESPACE {
        return None;
    }
    let key = object_key(MACHINE_API_NAMESPACE, &set.object.name);
    snapshot.get(BootImageKind::MachineApiMachineSet, &key)
}

/// The Cluster that a set of Cluster API belongs to.
fn cluster<'s>(set: MachineSet<'_>, snapshot: &'s BootImageSnapshot) -> Option<&'s SeenObject> {
    snapshot.get(BootImageKind::Cluster, &set.cluster()?)
}

/// What is paused: the set or its Cluster.
fn paused(set: MachineSet<'_>, snapshot: &BootImageSnapshot) -> Option<String> {
    if set.is_machine_api() {
        return None;
    }
    let object = set.object;
    if object.annotations.contains_key(PAUSED) || object.spec["paused"] == true {
        return Some("it".to_owned());
    }
    let cluster = cluster(set, snapshot)?;
    let is_paused = cluster.spec["paused"] == true || cluster.annotations.contains_key(PAUSED);
    is_paused.then(|| format!("Cluster {}", cluster.key()))
}

/// The OS stream that the set asks for.
pub(super) fn stream_label(set: MachineSet<'_>) -> Option<&str> {
    set.object.labels.get(OS_STREAM).map(String::as_str)
}

/// The architecture of the machines of a set.
pub(super) fn architecture(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    stream: &Stream,
) -> Result<Architecture, Obstacle> {
    let own = || snapshot.own_architecture.ok_or(Obstacle::Skip(Skip::NoArchitecture));
    if set.kind == ManagedKind::ControlPlaneMachineSets {
        return own();
    }
    let annotation = set.object.annotation(LABELS_ANNOTATION);
    if set.is_machine_api() {
        if let Some(annotation) = annotation {
            return Ok(Architecture::from_labels_annotation(annotation)?);
        }
        let version = snapshot.cluster_version.as_ref();
        let desired = version.map(|version| &version.status["desired"]["architecture"]);
        if desired.is_some_and(|desired| desired == "Multi") {
            return Err(Skip::NoArchitecture.into());
        }
        return own();
    }
    let template = set.template()?;
    let template = snapshot.get(template.kind, &object_key(&template.namespace, &template.name));
    let node_info = template.map(|template| &template.status["nodeInfo"]);
    if node_info.is_some_and(|info| info["operatingSystem"] == "windows") {
        return Err(Skip::Windows.into());
    }
    match annotation.map(Architecture::from_labels_annotation) {
        // Labels for the autoscaler that say nothing of the architecture: others may.
        None | Some(Err(ArchitectureError::NoLabel)) => {}
        Some(architecture) => return Ok(architecture?),
    }
    let reported = node_info.and_then(|info| info["architecture"].as_str());
    if let Some(name) = reported.or_else(|| set.machine_label(ARCHITECTURE_LABEL)) {
        return Ok(Architecture::from_kubernetes(name)?);
    }
    let mut only = Architecture::ALL.into_iter().filter(|one| stream.images_of(*one).is_some());
    match (only.next(), only.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Skip::NoArchitecture.into()),
    }
}
