//! Which versions of the kinds the API server has.

use std::collections::BTreeMap;

use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};

use super::kind::BootImageKind;
use mosb_reconcile::error::Error;

/// The version of each kind that is served.
pub(super) type ServedVersions = BTreeMap<BootImageKind, String>;

/// Asks the API server with one request.
pub(super) async fn discover(client: &Client) -> Result<ServedVersions, Error> {
    let groups = client.list_api_groups_aggregated().await;
    Ok(choose(&groups.map_err(Error::api("/apis", "get"))?))
}

/// The version that is preferred of each kind.
fn choose(groups: &APIGroupDiscoveryList) -> ServedVersions {
    let name =
        |group: &APIGroupDiscovery| group.metadata.as_ref().and_then(|meta| meta.name.clone());
    let groups: BTreeMap<_, _> =
        groups.items.iter().filter_map(|group| Some((name(group)?, group))).collect();
    let version = |kind: BootImageKind| {
        let mut served: Vec<&str> = Vec::new();
        for version in &groups.get(kind.group())?.versions {
            let mut resources = version.resources.iter();
            if resources.any(|one| one.resource.as_deref() == Some(kind.plural())) {
                served.extend(version.version.as_deref());
            }
        }
        let preferred = kind.preferred_versions().iter().find(|one| served.contains(one));
        preferred.or(served.first()).map(|one| (*one).to_owned())
    };
    BootImageKind::ALL.into_iter().filter_map(|kind| Some((kind, version(kind)?))).collect()
}

pub(super) fn resource(kind: BootImageKind, served: &ServedVersions) -> Option<ApiResource> {
    served.get(&kind).map(|version| kind.resource(version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_contract_of_cluster_api_and_the_servers_choice_else() {
        let version = |version: &str, plurals: &[&str]| {
            let resources: Vec<_> =
                plurals.iter().map(|plural| json!({ "resource": plural })).collect();
            json!({ "version": version, "resources": resources })
        };
        let groups = json!({ "items": [
            { "metadata": { "name": "cluster.x-k8s.io" }, "versions": [
                version("v1beta1", &["machinesets", "clusters", "machinedeployments"]),
                version("v1beta2", &["machinesets", "clusters"]) ] },
            { "metadata": { "name": "machine.openshift.io" }, "versions": [
                version("v1", &["controlplanemachinesets"]),
                version("v1beta1", &["machinesets", "machines"]) ] },
            { "metadata": { "name": "infrastructure.cluster.x-k8s.io" }, "versions": [
                version("v1beta2", &["awsmachinetemplates"]),
                version("v1beta1", &["awsmachinetemplates", "gcpmachinetemplates"]) ] },
            { "metadata": { "name": "other" }, "versions": [version("v1", &["machinesets"])] },
        ] });
        let found = choose(&serde_json::from_value(groups).unwrap());
        let found: Vec<String> =
            found.into_iter().map(|(kind, version)| format!("{kind}/{version}")).collect();
        let want = [
            "machinesets.machine.openshift.io/v1beta1",
            "controlplanemachinesets.machine.openshift.io/v1",
            "machinesets.cluster.x-k8s.io/v1beta2",
            "machinedeployments.cluster.x-k8s.io/v1beta1",
            "clusters.cluster.x-k8s.io/v1beta2",
            "awsmachinetemplates.infrastructure.cluster.x-k8s.io/v1beta2",
            "gcpmachinetemplates.infrastructure.cluster.x-k8s.io/v1beta1",
        ];
        assert_eq!(found, want);
    }
}
