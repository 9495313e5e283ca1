//! What a bundle reads of a cluster: which objects, pages of lists, versions; each request with a
//! deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use mosb_api::{GROUP, labels};
use mosb_controller::cluster_names::{IGNITION_NAMESPACE, ROLLOUT_NAMESPACE};
use mosb_controller::{Error, Kind, Namespaces, kinds};

/// How long one request may take.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(4);
/// Requests at the same time.
pub(super) const REQUESTS: usize = 8;
/// Objects of a page of a list, and of all its pages.
const PAGE: u32 = 500;
pub(super) const OBJECTS: usize = 5_000;
/// Rendered configs that are read whole.
const RENDERED_CONFIGS: usize = 200;

/// Kinds of the whole cluster.
const CLUSTER_KINDS: [Kind; 12] = [
    kinds::MACHINE_CONFIG_POOL,
    kinds::MACHINE_OS_CONFIG,
    kinds::MACHINE_OS_BUILD,
    kinds::MACHINE_CONFIG,
    kinds::NODE,
    kinds::CONTROLLER_CONFIG,
    kinds::KUBELET_CONFIG,
    kinds::CONTAINER_RUNTIME_CONFIG,
    kinds::IMAGE_DIGEST_MIRROR_SET,
    kinds::IMAGE_TAG_MIRROR_SET,
    kinds::IMAGE_CONTENT_SOURCE_POLICY,
    kinds::IMAGE_CONFIG,
];
/// Kinds of the namespaces that mosb writes to.
const NAMESPACED_KINDS: [Kind; 6] =
    [kinds::DEPLOYMENT, kinds::POD, kinds::JOB, kinds::CONFIG_MAP, kinds::LEASE, kinds::EVENT];

/// What to read.
pub struct Scope<'s> {
    pub client: &'s Client,
    pub namespaces: &'s Namespaces,
    /// Leaves out what is of other pools.
    pub pool: Option<&'s str>,
    /// Leaves out other nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// When reading ends.
    pub end: Instant,
}

/// The objects of a kind.
pub(super) struct Listed {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub objects: Vec<Value>,
}

type ListResult = (String, Result<(Listed, bool), Option<String>>);

impl Scope<'_> {
    pub(super) fn own_namespaces(&self) -> BTreeSet<String> {
        [&*self.namespaces.own, ROLLOUT_NAMESPACE, IGNITION_NAMESPACE].map(str::to_owned).into()
    }

    /// All lists, in the order in which their objects are added.
    pub(super) fn sources(&self) -> Vec<(Kind, Option<String>)> {
        let mut sources: Vec<_> = CLUSTER_KINDS.into_iter().map(|kind| (kind, None)).collect();
        for namespace in self.own_namespaces() {
            let own = NAMESPACED_KINDS.into_iter();
            sources.extend(own.map(|kind| (kind, Some(namespace.clone()))));
        }
        let own = &self.namespaces.own;
        sources.push((kinds::OPENSHIFT_BUILD, Some(own.clone())));
        if self.namespaces.operator != *own {
            let operator = Some(self.namespaces.operator.clone());
            sources.extend(
                [kinds::DEPLOYMENT, kinds::CONFIG_MAP].map(|kind| (kind, operator.clone())),
            );
        }
        // Events about objects without a namespace.
        if own != "default" {
            sources.push((kinds::EVENT, Some("default".to_owned())));
        }
        sources
    }

    /// The result of a request, or why there is none.
    pub(super) async fn limited<T>(
        &self,
        object: &str,
        verb: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let end = self.end.min(Instant::now() + REQUEST_TIME);
        let answer = timeout_at(end, request).await;
        let late = |_| Err(kube::Error::Service("no answer in time".into()));
        answer.unwrap_or_else(late).map_err(Error::api(object, verb))
    }

    pub(super) async fn list(&self, kind: Kind, namespace: Option<String>) -> ListResult {
        let what = match &namespace {
            Some(namespace) => format!("{} of namespace {namespace}", kind.plural),
            None => kind.plural.to_owned(),
        };
        let listed = self.pages(kind, namespace.as_deref(), &what).await;
        let listed = match listed {
            Ok((mut objects, is_whole)) => {
                objects.retain(|object| self.includes(kind, namespace.as_deref(), object));
                objects.sort_by_key(name);
                Ok((Listed { kind, namespace, objects }, is_whole))
            }
            // A kind that this cluster does not have.
            Err(error) if kind.is_optional && error.status_code() == Some(404) => Err(None),
            Err(error) => Err(Some(error.to_string())),
        };
        (what, listed)
    }

    async fn pages(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        what: &str,
    ) -> Result<(Vec<Value>, bool), Error> {
        let resource = kind.resource();
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            // Contents of configs are large, and all but those of a few are left out.
            let (page, next) = if kind == kinds::MACHINE_CONFIG {
                let list = self.limited(what, "list", api.list_metadata(&params)).await?;
                (values(list.items), list.metadata.continue_)
            } else {
                let list = self.limited(what, "list", api.list(&params)).await?;
                (values(list.items), list.metadata.continue_)
            };
            objects.extend(page);
            match next.filter(|next| !next.is_empty()) {
                None => return Ok((objects, true)),
                Some(_) if objects.len() >= OBJECTS => return Ok((objects, false)),
                Some(next) => params = params.continue_token(&next),
            }
        }
    }

    /// Whether an object is not of another pool or node.
    fn includes(&self, kind: Kind, namespace: Option<&str>, object: &Value) -> bool {
        if kind == kinds::EVENT && namespace == Some("default") {
            let about = &object["involvedObject"];
            let is_api = about["apiVersion"].as_str().is_some_and(|text| text.starts_with(GROUP));
            return is_api || about["kind"] == kinds::NODE.name;
        }
        if kind == kinds::NODE {
            return self.nodes.as_ref().is_none_or(|nodes| nodes.contains(&name(object)));
        }
        let Some(wanted) = self.pool else { return true };
        pool_of(kind, object).is_none_or(|pool| pool == wanted)
    }

    pub(super) async fn secrets(&self, namespace: String) -> Result<Vec<Secret>, String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let what = format!("secrets of namespace {namespace}");
        let params = ListParams::default().limit(PAGE);
        let list = self.limited(&what, "list", api.list(&params)).await;
        let list = list.map_err(|error| error.to_string())?;
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(_) => Err(format!("{what}: more than {PAGE}; they are left out")),
            None => Ok(list.items),
        }
    }

    /// The rendered configs of pools, for paths and names in them.
    pub(super) async fn rendered_configs(
        &self,
        names: BTreeSet<String>,
    ) -> Vec<Result<Value, (String, String)>> {
        let resource = kinds::MACHINE_CONFIG.resource();
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let read = |name: String| {
            let api = api.clone();
            async move {
                let what = format!("machineconfig {name}");
                let found = self.limited(&what, "get", api.get(&name)).await;
                let found = found.map_err(|error| (what, error.to_string()))?;
                Ok(serde_json::to_value(found).unwrap_or_default())
            }
        };
        let names = stream::iter(names.into_iter().take(RENDERED_CONFIGS));
        names.map(read).buffered(REQUESTS).collect().await
    }

    pub(super) async fn versions(&self) -> Result<Value, String> {
        let server = self.limited("API server", "get", self.client.apiserver_version());
        let groups = self.limited("API groups", "list", self.client.list_api_groups());
        let version = format!("{GROUP}/v1");
        let ours = self.client.list_api_group_resources(&version);
        let ours = self.limited(&version, "list", ours);
        let (server, groups, ours) = tokio::join!(server, groups, ours);
        let text = |error: Error| error.to_string();
        let groups = groups.map_err(text)?.groups.into_iter().map(|group| {
            let versions = group.versions.into_iter().map(|version| version.version);
            (group.name, versions.collect::<Vec<_>>())
        });
        let resources = ours.map(|list| list.resources).unwrap_or_default();
        Ok(json!({
            "mosb": mosb_commands::bundle::version(),
            "apiServer": server.map_err(text)?,
            "groups": groups.collect::<BTreeMap<_, _>>(),
            GROUP: resources.into_iter().map(|one| one.name).collect::<BTreeSet<_>>(),
        }))
    }
}

fn values<T: serde::Serialize>(objects: Vec<T>) -> Vec<Value> {
    objects.into_iter().map(|object| serde_json::to_value(object).unwrap_or_default()).collect()
}

/// The one pool that an object is of.
fn pool_of(kind: Kind, object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    let given = match kind {
        kinds::MACHINE_CONFIG_POOL => &metadata["name"],
        kinds::MACHINE_OS_CONFIG => &object["spec"]["machineConfigPool"]["name"],
        kinds::MACHINE_CONFIG => {
            let name = metadata["name"].as_str()?.strip_prefix("rendered-")?;
            return Some(name.rsplit_once('-')?.0.to_owned());
        }
        _ => {
            let annotated = &metadata["annotations"][labels::POOL];
            let labelled = &metadata["labels"][labels::TARGET_MACHINE_CONFIG_POOL];
            if annotated.is_string() { annotated } else { labelled }
        }
    };
    given.as_str().map(str::to_owned)
}

pub(super) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_other_pools_are_recognised() {
        let labelled = json!({ "labels": { labels::TARGET_MACHINE_CONFIG_POOL: "a" } });
        for (kind, object, want) in [
            (kinds::MACHINE_CONFIG_POOL, json!({ "metadata": { "name": "a" } }), Some("a")),
            (
                kinds::MACHINE_OS_CONFIG,
                json!({ "spec": { "machineConfigPool": { "name": "a" } } }),
                Some("a"),
            ),
            (
                kinds::MACHINE_CONFIG,
                json!({ "metadata": { "name": "rendered-a-b-0123" } }),
                Some("a-b"),
            ),
            (kinds::MACHINE_CONFIG, json!({ "metadata": { "name": "99-a" } }), None),
            (
                kinds::JOB,
                json!({ "metadata": { "annotations": { labels::POOL: "a" } } }),
                Some("a"),
            ),
            (kinds::POD, json!({ "metadata": labelled }), Some("a")),
            (kinds::POD, json!({ "metadata": {} }), None),
        ] {
            assert_eq!(pool_of(kind, &object).as_deref(), want, "{object}");
        }
    }
}
