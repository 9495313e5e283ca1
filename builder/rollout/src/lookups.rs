//! Resolves the lookups of a roll-out: registries, the control plane, pods on a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use kube::Api;
use kube::api::ListParams;

use super::alerts::firing;
use super::control_plane_health::control_plane_health;
use super::lookup::{ControlPlaneHealth, RolloutLookup, SeenPod, TargetImage};
use super::machine_part::machine_part_in;
use super::policy::{CheckedPod, CheckedPods};
use super::registry_lookups::RegistryLookups;
use super::snapshot::RolloutSnapshot;
use mosb_api::cluster_settings::{AlertBlock, PodsCheck};
use mosb_api::{RenderedName, labels};
use mosb_cluster::cluster_names::ROLLOUT_NAMESPACE;
use mosb_cluster::node_pool::{may_run_etcd, node_platform};
use mosb_cluster::resolver::{MachineAccess, MachineSecrets, Resolver};
use mosb_image::{Digest, PinnedRef, Platform};
use mosb_reconcile::{Error, Problem};
use mosb_registry::{Client, Source};
use mosb_types::ErrorClass;

/// Pods of one answer.
const PAGE: u32 = 250;
/// Pods of one drain that are remembered at once: more than any kubelet runs.
const ENOUGH_PODS: usize = 2000;
/// The most seconds of a grace period that are counted with: a year.
const MAX_GRACE: u32 = 365 * 24 * 60 * 60;
/// Nodes of one answer.
const NODE_PAGE: u32 = 500;
/// Pages of all nodes: more than Kubernetes supports.
const MAX_NODE_PAGES: usize = 20;

/// A lookup that leaves the cluster, with all that its answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RegistryQuery {
    Image { image: PinnedRef, secrets: MachineSecrets, platforms: BTreeSet<Platform> },
    StockImage(RenderedName),
    Alerts(AlertBlock),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RegistryAnswer {
    Image(TargetImage),
    StockImage(Result<PinnedRef, Problem>),
    Alerts(Result<BTreeSet<String>, Problem>),
}

/// Adds the results of all lookups to the snapshot. Those that leave the cluster are not waited for:
/// what is not known yet is `pending` in the results.
pub(super) async fn look_up(
    resolver: &Resolver,
    registries: &RegistryLookups<RegistryQuery, RegistryAnswer>,
    lookups: &[RolloutLookup],
    snapshot: &mut RolloutSnapshot,
) {
    for lookup in lookups {
        if let Some(query) = RegistryQuery::of(lookup, snapshot) {
            let pool = &snapshot.pool.metadata.name;
            let answer = answer(resolver.clone(), query.clone());
            let found = registries.ask(pool, &query, RegistryAnswer::failure, answer);
            let results = &mut snapshot.lookup_results;
            match (query, found) {
                (RegistryQuery::Image { image, .. }, Some(RegistryAnswer::Image(found))) => {
                    results.images.insert(image, found);
                }
                (RegistryQuery::StockImage(of), Some(RegistryAnswer::StockImage(found))) => {
                    results.stock_images.insert(of, found);
                }
                (RegistryQuery::Alerts(of), Some(RegistryAnswer::Alerts(found))) => {
                    results.alerts.insert(of, found);
                }
                _ => {
                    results.pending.insert(lookup.clone());
                }
            }
        }
    }
    let found = join_all(lookups.iter().map(|lookup| resolve(resolver, lookup))).await;
    for found in found {
        let results = &mut snapshot.lookup_results;
        match found {
            Found::Registry => {}
            Found::MachinePart(rendered, part) => {
                results.machine_parts.insert(rendered, part);
            }
            Found::ControlPlane(health) => results.control_plane = Some(health),
            Found::Slots(slots) => results.slots = Some(slots),
            Found::Pods(node, pods) => drop(results.pods.insert(node, pods)),
            Found::CheckedPods(of, found) => {
                let pods = CheckedPods { at: Timestamp::now(), found };
                results.checked_pods.insert(of, pods);
            }
        }
    }
}

impl RegistryQuery {
    fn of(lookup: &RolloutLookup, snapshot: &RolloutSnapshot) -> Option<Self> {
        match lookup {
            RolloutLookup::Image(image) => {
                let machines = snapshot.machines.iter();
                let platforms = machines.filter_map(|one| node_platform(&one.node.metadata.labels));
                Some(Self::Image {
                    image: image.clone(),
                    secrets: snapshot.config.as_ref().map(MachineSecrets::of).unwrap_or_default(),
                    platforms: platforms.collect(),
                })
            }
            RolloutLookup::StockImage(rendered) => Some(Self::StockImage(rendered.clone())),
            RolloutLookup::Alerts(alerts) => Some(Self::Alerts(alerts.clone())),
            RolloutLookup::MachinePart(_)
            | RolloutLookup::ControlPlane
            | RolloutLookup::Slots
            | RolloutLookup::Pods { .. }
            | RolloutLookup::CheckedPods { .. } => None,
        }
    }
}

impl RegistryAnswer {
    /// What is wrong with it. A missing image may have been pushed meanwhile.
    fn failure(&self) -> Option<ErrorClass> {
        match self {
            Self::Image(TargetImage::Present { .. })
            | Self::StockImage(Ok(_))
            | Self::Alerts(Ok(_)) => None,
            Self::Image(TargetImage::Missing) => Some(ErrorClass::Transient),
            Self::Image(TargetImage::Unknown(problem))
            | Self::StockImage(Err(problem))
            | Self::Alerts(Err(problem)) => Some(problem.class),
        }
    }
}

async fn answer(resolver: Resolver, query: RegistryQuery) -> RegistryAnswer {
    let limits = &resolver.limits;
    match query {
        RegistryQuery::Image { image, secrets, platforms } => {
            let asked = machine_image(&resolver, &image, &secrets, &platforms);
            let found = limits.with_timeout(|| image.to_string(), asked).await;
            RegistryAnswer::Image(found.unwrap_or_else(TargetImage::Unknown))
        }
        RegistryQuery::StockImage(rendered) => {
            let what = || format!("the image of machineconfig {rendered}");
            let asked = resolver.stock_image(&rendered);
            RegistryAnswer::StockImage(limits.with_timeout(what, asked).await)
        }
        RegistryQuery::Alerts(alerts) => RegistryAnswer::Alerts(firing(&alerts).await),
    }
}

enum Found {
    /// What leaves the cluster is not looked up here.
    Registry,
    MachinePart(RenderedName, Result<Digest, Problem>),
    ControlPlane(ControlPlaneHealth),
    Slots(Result<BTreeMap<String, String>, Problem>),
    Pods(String, Result<Vec<SeenPod>, Problem>),
    CheckedPods((String, PodsCheck), Result<Vec<CheckedPod>, Problem>),
}

async fn resolve(resolver: &Resolver, lookup: &RolloutLookup) -> Found {
    let limits = &resolver.limits;
    match lookup {
        RolloutLookup::Image(_) | RolloutLookup::StockImage(_) | RolloutLookup::Alerts(_) => {
            Found::Registry
        }
        RolloutLookup::MachinePart(rendered) => {
            let asked = async { Ok(machine_part_in(resolver, rendered).await?.digest()) };
            let what = || format!("the machine part of machineconfig {rendered}");
            Found::MachinePart(rendered.clone(), limits.with_timeout(what, asked).await)
        }
        RolloutLookup::ControlPlane => {
            let nodes =
                resolver.cache.machines.filter_list(|one| may_run_etcd(&one.metadata.labels));
            let nodes: Vec<String> = nodes.iter().map(|one| one.metadata.name.clone()).collect();
            let asked = async { Ok(control_plane_health(&resolver.client, &nodes).await?) };
            let found = limits.with_timeout(|| "the control plane".to_owned(), asked).await;
            Found::ControlPlane(
                found.unwrap_or_else(|problem: Problem| {
                    ControlPlaneHealth::Unhealthy(problem.message)
                }),
            )
        }
        RolloutLookup::Slots => {
            let what = || "the slots of all nodes".to_owned();
            Found::Slots(limits.with_timeout(what, slots(resolver)).await)
        }
        RolloutLookup::Pods { node } => {
            let what = || format!("the pods on node {node}");
            Found::Pods(node.clone(), limits.with_timeout(what, pods(resolver, node)).await)
        }
        RolloutLookup::CheckedPods { node, check } => {
            let what = || format!("the pods {check} on node {node}");
            let found = limits.with_timeout(what, checked_pods(resolver, node, check)).await;
            Found::CheckedPods((node.clone(), check.clone()), found)
        }
    }
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

/// The pods on a node that a drain evicts or waits for, of all namespaces. The API server leaves out
/// those that have ended, because anybody can make any number of them. With enough of them, the rest
/// is left for the next list.
async fn pods(resolver: &Resolver, node: &str) -> Result<Vec<SeenPod>, Problem> {
    let api: Api<Pod> = Api::all(resolver.client.clone());
    let selector = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    let mut params = ListParams::default().fields(&selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await;
        let page = page.map_err(Error::api(format!("pods on node {node}"), "list"))?;
        found.extend(page.items.iter().map(seen_pod).filter(|pod| !pod.stays()));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() || found.len() >= ENOUGH_PODS {
            return Ok(found);
        }
    }
}

/// The pods on a node that a check selects; of more than one page, the first.
async fn checked_pods(
    resolver: &Resolver,
    node: &str,
    check: &PodsCheck,
) -> Result<Vec<CheckedPod>, Problem> {
    let api: Api<Pod> = match &check.namespace {
        Some(namespace) => Api::namespaced(resolver.client.clone(), namespace),
        None => Api::all(resolver.client.clone()),
    };
    let params = ListParams::default().labels(&check.selector).limit(PAGE);
    let params = params.fields(&format!("spec.nodeName={node}"));
    let found = api.list(&params).await;
    let found = found.map_err(Error::api(format!("pods {check} on node {node}"), "list"))?;
    Ok(found.items.iter().map(checked_pod).collect())
}

fn checked_pod(pod: &Pod) -> CheckedPod {
    let metadata = &pod.metadata;
    let status = pod.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions).flatten();
    let phase = status.and_then(|status| status.phase.as_deref());
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    CheckedPod {
        name: format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()),
        is_ready: metadata.deletion_timestamp.is_none()
            && conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
        has_ended: matches!(phase, Some("Succeeded" | "Failed")),
    }
}

fn seen_pod(pod: &Pod) -> SeenPod {
    let metadata = &pod.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let annotations = metadata.annotations.as_ref();
    let own_labels = metadata.labels.as_ref();
    let tolerations = pod.spec.iter().flat_map(|spec| &spec.tolerations);
    let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
    let grace = u32::try_from(grace.max(0)).ok();
    let namespace = metadata.namespace.clone().unwrap_or_default();
    SeenPod {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        is_of_daemon_set: owners
            .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet"),
        is_mirror: annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        is_of_rollout: namespace == ROLLOUT_NAMESPACE
            && own_labels.is_some_and(|all| all.contains_key(labels::NODE_JOB)),
        tolerates_cordon: tolerations.flatten().any(is_for_cordon),
        deleting: metadata.deletion_timestamp.is_some(),
        grace: Duration::from_secs(u64::from(grace.unwrap_or(MAX_GRACE).min(MAX_GRACE))),
        namespace,
    }
}

/// Whether a pod with this toleration is scheduled on nodes that are cordoned.
fn is_for_cordon(toleration: &Toleration) -> bool {
    let is = |field: &Option<String>, value: &str| field.as_deref().is_none_or(|it| it == value);
    let has_no_value = toleration.value.as_deref().is_none_or(str::is_empty);
    let is_any = is(&toleration.key, "") && toleration.operator.as_deref() == Some("Exists");
    let is_it = toleration.key.as_deref() == Some("node.kubernetes.io/unschedulable")
        && (toleration.operator.as_deref() == Some("Exists") || has_no_value);
    (is_any || is_it) && (is(&toleration.effect, "NoSchedule") || is(&toleration.effect, ""))
}

/// Whether the registry itself has an image now, and for which of these platforms. No worker may
/// wait for it: it waits for its turn.
async fn machine_image(
    resolver: &Resolver,
    image: &PinnedRef,
    secrets: &MachineSecrets,
    wanted: &BTreeSet<Platform>,
) -> Result<TargetImage, Problem> {
    // Nothing is begun on machines that would get this login.
    let access = resolver.machine_access(secrets).await?;
    access.pull_only_login_for(image)?;
    let _permit = resolver.limits.wait_for_host(image.repo().host()).await;
    let MachineAccess { pull, settings, .. } = &access;
    let registry_client = resolver.registries.open(pull, settings, settings.proxy.as_ref())?;
    let client = registry_client.client();
    let Some(confirmed) = client.confirm(image).await? else {
        return Ok(TargetImage::Missing);
    };
    let mut platforms = BTreeSet::new();
    for platform in wanted {
        if is_for(client, image, platform).await? {
            platforms.insert(platform.clone());
        }
    }
    Ok(TargetImage::Present { image: confirmed, platforms })
}

/// Whether an image, or one of an index, is for this platform.
async fn is_for(
    client: &Client,
    image: &PinnedRef,
    platform: &Platform,
) -> Result<bool, mosb_registry::Error> {
    let source = Source::Registry(image.clone().into());
    match client.resolve(&source, Some(platform)).await {
        Ok(_) => Ok(true),
        Err(mosb_registry::Error::PlatformMissing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_tolerates_a_cordon_by_its_key_or_with_all_taints() {
        const KEY: &str = "node.kubernetes.io/unschedulable";
        for (what, toleration, want) in [
            ("all taints", json!({ "operator": "Exists" }), true),
            ("all of an effect", json!({ "operator": "Exists", "effect": "NoSchedule" }), true),
            ("of another effect", json!({ "operator": "Exists", "effect": "NoExecute" }), false),
            ("the key", json!({ "key": KEY, "operator": "Exists" }), true),
            ("the key, without a value", json!({ "key": KEY, "effect": "NoSchedule" }), true),
            ("the key with a value", json!({ "key": KEY, "value": "x" }), false),
            ("another key", json!({ "key": "x", "operator": "Exists" }), false),
        ] {
            let spec = json!({ "containers": [], "tolerations": [toleration] });
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            assert_eq!(seen_pod(&pod).tolerates_cordon, want, "{what}");
        }
    }

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
