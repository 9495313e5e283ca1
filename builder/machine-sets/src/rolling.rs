//! Which MachineDeployments replace machines. Pure.

use std::collections::BTreeMap;

use super::machine_set::MachineSet;
use super::snapshot::BootImageSnapshot;
use mosb_cluster::cluster_cache::BootImageKind;

/// The Clusters with a MachineDeployment whose machines are being replaced, and which.
pub(super) fn rolling_clusters(snapshot: &BootImageSnapshot) -> BTreeMap<String, String> {
    let sets = |kind| snapshot.list(kind).into_iter().filter_map(MachineSet::new);
    let mut of_deployments: BTreeMap<_, Vec<MachineSet<'_>>> = BTreeMap::new();
    for set in sets(BootImageKind::ClusterApiMachineSet) {
        if let Some(deployment) = set.deployment() {
            let key = (&*set.object.namespace, deployment);
            of_deployments.entry(key).or_default().push(set);
        }
    }
    let rolling = sets(BootImageKind::MachineDeployment).filter(|set| {
        let key = (&*set.object.namespace, &*set.object.name);
        let machine_sets = of_deployments.get(&key).map(Vec::as_slice).unwrap_or_default();
        is_rolling_out(*set, machine_sets)
            || snapshot.is_outdated(set.object) && !set.replaces_on_delete()
    });
    rolling.filter_map(|set| Some((set.cluster()?, set.object.name.clone()))).collect()
}

/// Whether the machines of a MachineDeployment are being replaced. Its counts and its condition
/// follow the status of its MachineSets, which is older than `observedGeneration` says for a while:
/// so an earlier MachineSet with machines counts, too.
fn is_rolling_out(deployment: MachineSet<'_>, machine_sets: &[MachineSet<'_>]) -> bool {
    let object = deployment.object;
    let status = &object.status;
    if status["observedGeneration"].as_i64().unwrap_or_default() < object.generation {
        return true;
    }
    if deployment.replaces_on_delete() {
        return false;
    }
    if object.condition("RollingOut") == Some("True") {
        return true;
    }
    let is_earlier = |set: &MachineSet<'_>| set.template_name() != deployment.template_name();
    if machine_sets.iter().any(|set| is_earlier(set) && has_machines(*set)) {
        return true;
    }
    let wanted = object.spec["replicas"].as_i64().unwrap_or_default();
    let replicas = status["replicas"].as_i64().unwrap_or_default();
    let updated = &status["upToDateReplicas"];
    let updated = updated.as_i64().or_else(|| status["updatedReplicas"].as_i64());
    updated.unwrap_or_default() < replicas.max(wanted)
}

fn has_machines(set: MachineSet<'_>) -> bool {
    let counts = [&set.object.spec["replicas"], &set.object.status["replicas"]];
    counts.into_iter().any(|count| count.as_i64().is_some_and(|count| count > 0))
}
