//! Resolves the lookups of a roll-out: registries, the control plane, pods on a node.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;

use super::control_plane_health::control_plane_health;
use super::lookup::{ControlPlaneHealth, RolloutLookup, SeenPod, TargetImage};
use super::snapshot::RolloutSnapshot;
use crate::Error;
use crate::cluster_names::ROLLOUT_NAMESPACE;
use crate::lookup::Problem;
use crate::lookups::{LookupError, MachineSecrets, Resolver};
use crate::observe::node_platform;
use crate::reconciler::NoDecision;
use crate::workload::may_run_etcd;
use mosb_image::{Digest, PinnedRef};
use mosb_plan::api::{RenderedName, labels};
use mosb_types::ErrorClass;

/// Pods of one answer.
const PAGE: u32 = 250;
/// Pages of the pods on one node: more pods than any kubelet runs.
const MAX_PAGES: usize = 8;
/// Nodes of one answer.
const NODE_PAGE: u32 = 500;
/// Pages of all nodes: more than Kubernetes supports.
const MAX_NODE_PAGES: usize = 20;

/// Adds the results of all lookups to the snapshot.
pub(super) async fn look_up(
    resolver: &Resolver,
    lookups: &[RolloutLookup],
    snapshot: &mut RolloutSnapshot,
) -> Result<(), NoDecision> {
    let seen = &*snapshot;
    let found = join_all(lookups.iter().map(|lookup| resolve(resolver, lookup, seen))).await;
    for found in found {
        let results = &mut snapshot.lookup_results;
        match found? {
            Found::Image(image, status) => drop(results.images.insert(image, status)),
            Found::StockImage(rendered, image) => {
                results.stock_images.insert(rendered, image);
            }
            Found::MachinePart(rendered, part) => {
                results.machine_parts.insert(rendered, part);
            }
            Found::ControlPlane(health) => results.control_plane = Some(health),
            Found::Slots(slots) => results.slots = Some(slots),
            Found::Pods(node, pods) => drop(results.pods.insert(node, pods)),
        }
    }
    Ok(())
}

enum Found {
    Image(PinnedRef, TargetImage),
    StockImage(RenderedName, Result<PinnedRef, Problem>),
    MachinePart(RenderedName, Result<Digest, Problem>),
    ControlPlane(ControlPlaneHealth),
    Slots(Result<BTreeMap<String, String>, Problem>),
    Pods(String, Result<Vec<SeenPod>, Problem>),
}

async fn resolve(
    resolver: &Resolver,
    lookup: &RolloutLookup,
    snapshot: &RolloutSnapshot,
) -> Result<Found, NoDecision> {
    let limits = &resolver.limits;
    match lookup {
        RolloutLookup::Image(image) => {
            let machines = snapshot.machines.iter();
            let platforms: BTreeSet<_> =
                machines.filter_map(|one| node_platform(&one.metadata.labels)).collect();
            let secrets = snapshot.config.as_ref().map(MachineSecrets::of).unwrap_or_default();
            let asked = resolver.machine_image(image, &secrets, &platforms);
            let found = limits.with_timeout(|| image.to_string(), asked).await;
            let status = match found.map_err(LookupError::into_problem) {
                Ok(status) => status,
                Err(Ok(problem)) => TargetImage::Unknown(problem),
                Err(Err(_)) => return Err(NoDecision::Busy),
            };
            Ok(Found::Image(image.clone(), status))
        }
        RolloutLookup::StockImage(rendered) => {
            let asked = async { Ok(resolver.stock_image(rendered).await?) };
            let what = || format!("the image of machineconfig {rendered}");
            let found = limits.with_timeout(what, asked).await;
            Ok(Found::StockImage(rendered.clone(), to_result(found)?))
        }
        RolloutLookup::MachinePart(rendered) => {
            let asked = async { Ok(resolver.machine_part(rendered).await?.digest()) };
            let what = || format!("the machine part of machineconfig {rendered}");
            let found = limits.with_timeout(what, asked).await;
            Ok(Found::MachinePart(rendered.clone(), to_result(found)?))
        }
        RolloutLookup::ControlPlane => {
            let nodes =
                resolver.cache.machines.filter_list(|one| may_run_etcd(&one.metadata.labels));
            let nodes: Vec<String> = nodes.iter().map(|one| one.metadata.name.clone()).collect();
            let asked = async { Ok(control_plane_health(&resolver.client, &nodes).await?) };
            let found = limits.with_timeout(|| "the control plane".to_owned(), asked).await;
            Ok(Found::ControlPlane(match to_result(found)? {
                Ok(health) => health,
                Err(problem) => ControlPlaneHealth::Unhealthy(problem.message),
            }))
        }
        RolloutLookup::Slots => {
            let asked = async { Ok(slots(resolver).await?) };
            let found = limits.with_timeout(|| "the slots of all nodes".to_owned(), asked).await;
            Ok(Found::Slots(to_result(found)?))
        }
        RolloutLookup::Pods { node } => {
            let asked = async { Ok(pods(resolver, node).await?) };
            let found = limits.with_timeout(|| format!("the pods on node {node}"), asked).await;
            Ok(Found::Pods(node.clone(), to_result(found)?))
        }
    }
}

fn to_result<T>(found: Result<T, LookupError>) -> Result<Result<T, Problem>, NoDecision> {
    found.map_or_else(
        |error| error.into_problem().map(Err).map_err(|_| NoDecision::Busy),
        |found| Ok(Ok(found)),
    )
}

/// The slots of all nodes. Without a resourceVersion, the answer is not older than the request.
async fn slots(resolver: &Resolver) -> Result<BTreeMap<String, String>, Problem> {
    let api: Api<Node> = Api::all(resolver.client.clone());
    let mut params = ListParams::default().limit(NODE_PAGE);
    let mut found = BTreeMap::new();
    for _ in 0..MAX_NODE_PAGES {
        let page = api.list_metadata(&params).await.map_err(Error::api("nodes", "list"))?;
        found.extend(page.items.into_iter().filter_map(|node| {
            let slot = node.metadata.annotations?.remove(labels::NODE_SLOT)?;
            Some((node.metadata.name?, slot))
        }));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
    // A part of them must not be taken for all.
    Err(Problem {
        class: ErrorClass::Internal,
        reason: "internal".to_owned(),
        message: format!("more than {} nodes", NODE_PAGE as usize * MAX_NODE_PAGES),
    })
}

/// The pods on a node, of all namespaces.
async fn pods(resolver: &Resolver, node: &str) -> Result<Vec<SeenPod>, Problem> {
    let api: Api<Pod> = Api::all(resolver.client.clone());
    let selector = format!("spec.nodeName={node}");
    let mut params = ListParams::default().fields(&selector).limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = api.list(&params).await;
        let page = page.map_err(Error::api(format!("pods on node {node}"), "list"))?;
        found.extend(page.items.iter().map(seen_pod));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
    // A part of them must not be taken for all.
    Err(Problem {
        class: ErrorClass::Internal,
        reason: "internal".to_owned(),
        message: format!("node {node}: more than {} pods", found.len()),
    })
}

fn seen_pod(pod: &Pod) -> SeenPod {
    let metadata = &pod.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let annotations = metadata.annotations.as_ref();
    let own_labels = metadata.labels.as_ref();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let namespace = metadata.namespace.clone().unwrap_or_default();
    SeenPod {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        is_of_daemon_set: owners
            .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet"),
        is_mirror: annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        is_of_rollout: namespace == ROLLOUT_NAMESPACE
            && own_labels.is_some_and(|all| all.contains_key(labels::NODE_JOB)),
        is_finished: matches!(phase, Some("Succeeded" | "Failed")),
        deleting: metadata.deletion_timestamp.is_some(),
        ends: metadata.deletion_timestamp.clone(),
        namespace,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_pod_that_a_daemon_set_controls_is_one_of_a_daemon_set() {
        let owner = |kind: &str, controls: bool| {
            json!([{ "apiVersion": "apps/v1", "kind": kind, "name": "agent", "uid": "1",
                "controller": controls }])
        };
        for (what, owners, want) in [
            ("a DaemonSet", owner("DaemonSet", true), true),
            ("a DaemonSet that does not control it", owner("DaemonSet", false), false),
            ("another controller", owner("ReplicaSet", true), false),
            // The garbage collector takes the owner away.
            ("a DaemonSet that was deleted with --cascade=orphan", json!([]), false),
            ("nobody", Value::Null, false),
        ] {
            let metadata = json!({ "name": "agent", "ownerReferences": owners });
            let pod: Pod = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            assert_eq!(seen_pod(&pod).is_of_daemon_set, want, "{what}");
        }
    }
}
