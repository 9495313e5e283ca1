//! Looks up whether the control plane is healthy: its API server, and its etcd.

use futures_util::future::try_join_all;
use hyper::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use super::lookup::ControlPlaneHealth;
use mosb_reconcile::Error;
use mosb_reconcile::error::describe;

/// Pods of one answer: a node runs one member of etcd.
const PAGE: u32 = 250;
/// The label that kubeadm and OpenShift give etcd's pods.
const ETCD: &str = "component=etcd";

/// Whether the API server is ready, which includes its etcd, and each pod of etcd on these nodes.
/// Pods on others count for nothing: a kubelet creates mirror pods with any label on its own node.
pub(super) async fn control_plane_health(
    client: &Client,
    nodes: &[String],
) -> Result<ControlPlaneHealth, Error> {
    let ready = Request::get("/readyz").body(Vec::new()).expect("a request to a fixed path");
    if let Err(error) = client.request_text(ready).await {
        let message = format!("the API server is not ready: {}", describe(&error));
        return Ok(ControlPlaneHealth::Unhealthy(message));
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    // One list for each node, so that the pods of others can't push these out of a page.
    let lists = try_join_all(nodes.iter().map(async |node| {
        let on_node = format!("spec.nodeName={node}");
        let params = ListParams::default().labels(ETCD).fields(&on_node).limit(PAGE);
        api.list(&params).await
    }));
    let pods = lists.await.map_err(Error::api("pods of etcd", "list"))?;
    let pods: Vec<Pod> = pods.into_iter().flatten().collect();
    let unready = pods.iter().find(|pod| !is_ready(pod));
    Ok(match unready {
        Some(pod) => {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            ControlPlaneHealth::Unhealthy(format!("pod kube-system/{name} of etcd is not Ready"))
        }
        None => ControlPlaneHealth::Healthy { is_etcd_external: pods.is_empty() },
    })
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use mosb_reconcile::fake_api::{FakeApi, FakeRequest};

    /// An API server that is ready and has these pods: name, node, and whether it is Ready.
    fn server(pods: &'static [(&'static str, &'static str, bool)]) -> Client {
        let list = move |request: &FakeRequest| {
            // Without a selector, all are listed.
            let is_listed = |node: &str| {
                !request.query.contains("spec.nodeName")
                    || request.query.ends_with(&format!("%3D{node}"))
                    || request.query.contains(&format!("%3D{node}&"))
            };
            let items: Vec<Value> = pods
                .iter()
                .filter(|(_, node, _)| is_listed(node))
                .map(|(name, node, ready)| {
                    let ready = if *ready { "True" } else { "False" };
                    json!({ "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [] },
                        "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
                })
                .collect();
            json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items })
        };
        FakeApi::new(list).client
    }

    #[tokio::test]
    async fn only_pods_of_etcd_on_its_nodes_count() {
        let nodes = ["master-0".to_owned(), "master-1".to_owned()];
        let healthy = |is_etcd_external| ControlPlaneHealth::Healthy { is_etcd_external };
        for (what, pods, want) in [
            (
                "all are Ready",
                &[("etcd-0", "master-0", true), ("etcd-1", "master-1", true)][..],
                healthy(false),
            ),
            (
                "a worker's mirror pod",
                &[("etcd-0", "master-0", true), ("etcd-w", "worker-0", false)],
                healthy(false),
            ),
            ("only a worker's", &[("etcd-w", "worker-0", true)], healthy(true)),
            (
                "one is not Ready",
                &[("etcd-0", "master-0", true), ("etcd-1", "master-1", false)],
                ControlPlaneHealth::Unhealthy(
                    "pod kube-system/etcd-1 of etcd is not Ready".to_owned(),
                ),
            ),
        ] {
            let found = control_plane_health(&server(pods), &nodes).await.unwrap();
            assert_eq!(found, want, "{what}");
        }
    }
}
