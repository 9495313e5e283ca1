//! Probes what a cluster supports, without changing anything.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;

use super::snapshot::Support;
use mosb_cluster::kinds;
use mosb_image::RepoRef;
use mosb_reconcile::Error;
use mosb_reconcile::error::code;
use mosb_reconcile::write::FIELD_MANAGER;

/// Whether pods really get user namespaces: the API server keeps the field in a dry run, and the
/// container runtime of every node supports it.
///
/// # Errors
/// The API server does not answer.
pub async fn user_namespaces(client: &Client, namespace: &str) -> Result<Support, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "generateName": "mosb-probe-" },
        "spec": { "hostUsers": false, "automountServiceAccountToken": false, "containers": [{ "name": "probe", "image": "probe",
            "securityContext": { "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": { "drop": ["ALL"] },
                "seccompProfile": { "type": "RuntimeDefault" } } }] },
    }))
    .expect("a pod");
    let dry = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let object = format!("pod {namespace}/mosb-probe (dry run)");
    let answer = pods.create(&dry, &pod).await;
    let created = answer.map_err(Error::api(object, "create"))?;
    if created.spec.and_then(|spec| spec.host_users) != Some(false) {
        // A server without the feature drops the field.
        return Ok(Support::No);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await;
    let nodes = nodes.map_err(Error::api("nodes", "list"))?;
    Ok(match nodes.items.as_slice() {
        [] => Support::Unknown,
        nodes if nodes.iter().all(has_user_namespaces) => Support::Yes,
        _ => Support::No,
    })
}

/// Whether the node's default runtime supports it.
fn has_user_namespaces(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut handlers =
        status.into_iter().flat_map(|status| status.runtime_handlers.iter().flatten());
    handlers.any(|handler| {
        let by_itself = handler.name.as_deref().unwrap_or_default().is_empty();
        let features = handler.features.as_ref();
        by_itself && features.is_some_and(|features| features.user_namespaces == Some(true))
    })
}

/// Whether a repository has more components before its name than the published CRDs accept in a
/// digest.
pub fn is_nested(repo: &RepoRef) -> bool {
    repo.repository().split('/').count() > 2
}

/// Whether the cluster's CRDs reject a digest in a nested repository: a dry run on an existing
/// MachineOSConfig.
///
/// # Errors
/// The API server does not answer.
pub async fn nested_digests_refused(client: &Client, config: &str) -> Result<bool, Error> {
    let api: Api<DynamicObject> =
        Api::all_with(client.clone(), &kinds::MACHINE_OS_CONFIG.resource());
    let digest = "0".repeat(64);
    let image = format!("registry.example.com/one/two/three@sha256:{digest}");
    let change = json!({ "status": { "currentImagePullSpec": image } });
    let dry = PatchParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch_status(config, &dry, &Patch::Merge(&change)).await {
        Ok(_) => Ok(false),
        Err(error) if code(&error) == Some(422) => Ok(true),
        Err(error) => {
            let object = format!("machineosconfig {config} (dry run)");
            Err(Error::api(object, "patch status")(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_runtime_of_a_node_is_checked() {
        let handler =
            |name: &str, can: bool| json!({ "name": name, "features": { "userNamespaces": can } });
        for (what, handlers, want) in [
            ("an old kubelet", json!(null), false),
            ("its own", json!([handler("", true)]), true),
            ("another one", json!([handler("kata", true), handler("", false)]), false),
        ] {
            let node = json!({ "status": { "runtimeHandlers": handlers } });
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(has_user_namespaces(&node), want, "{what}");
        }
    }

    #[test]
    fn nested_is_more_than_a_namespace_and_a_name() {
        for (repo, want) in [
            ("registry.example/os", false),
            ("registry.example/acme/os", false),
            ("registry.example/acme/team/os", true),
        ] {
            assert_eq!(is_nested(&repo.parse().unwrap()), want, "{repo}");
        }
    }
}
