//! A hash of everything that the result of a reconcile depends on: spec, Secrets, settings and
//! the observed state of builds. What mosb itself writes into statuses is left out, so that its own
//! write does not retry what failed.

use super::snapshot::Snapshot;
use mosb_api::{Condition, Metadata, labels};
use mosb_cluster::status::blocking_conditions;
use mosb_reconcile::driver::InputsHash;
use mosb_workload::Workload;

/// The hash of a MachineOSConfig's inputs: if it is unchanged, a failed reconcile would fail
/// again.
pub fn inputs(snapshot: &Snapshot) -> InputsHash {
    let mut snapshot = snapshot.clone();
    snapshot.lookup_results = Default::default();
    snapshot.earlier_problem = None;
    if let Some(config) = &mut snapshot.config {
        forget_version(&mut config.metadata);
        config.status = Default::default();
    }
    if let Some(pool) = &mut snapshot.pool {
        forget_version(&mut pool.metadata);
        pool.status.conditions = blocking(&pool.status.conditions);
        pool.status.machine_count = 0;
        pool.status.updated_machine_count = 0;
    }
    for build in &mut snapshot.builds {
        forget_version(&mut build.metadata);
        build.metadata.annotations.remove(labels::NOT_SIGNED);
        build.status = Default::default();
    }
    snapshot.broken_watch = None;
    for component in &mut snapshot.components {
        component.resource_version.clear();
    }
    for seen in snapshot.workloads.iter_mut().chain(&mut snapshot.check_jobs) {
        seen.quiet = Default::default();
        let metadata = match &mut seen.workload {
            Workload::Job(job) => &mut job.metadata,
            Workload::Pod(pod) => &mut pod.metadata,
            Workload::Build(build) => &mut build.metadata,
        };
        metadata.resource_version = None;
        for pod in &mut seen.pods {
            pod.metadata.resource_version = None;
        }
    }
    InputsHash::of(&format!("{snapshot:?}"))
}

fn forget_version(metadata: &mut Metadata) {
    metadata.resource_version = None;
}

/// The conditions of a pool that a build depends on: a roll-out or an update of its own writes others.
fn blocking(conditions: &[Condition]) -> Vec<Condition> {
    let blocking = blocking_conditions(conditions).into_iter();
    blocking.map(|kind| Condition { kind: kind.to_owned(), ..Condition::default() }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::observe::{Facts, observe};
    use mosb_api::cluster_settings::CONFIG_MAP;
    use mosb_api::{MachineConfigPool, MachineOsConfig};
    use mosb_cluster::ClusterCache;
    use mosb_cluster::cluster_cache::ManagedObject;
    use mosb_cluster::cluster_names::IMAGE_CONFIG;
    use mosb_cluster::status::IMAGE_BUILD_DEGRADED;
    use mosb_reconcile::watch::WatchState;

    fn config(change: impl FnOnce(&mut serde_json::Value)) -> MachineOsConfig {
        let mut object = json!({
            "metadata": { "name": "worker", "uid": "c", "resourceVersion": "1", "generation": 1 },
            "spec": { "machineConfigPool": { "name": "worker" }, "renderedImagePushSecret": { "name": "push" } },
        });
        change(&mut object);
        serde_json::from_value(object).unwrap()
    }

    fn pool(change: impl FnOnce(&mut serde_json::Value)) -> MachineConfigPool {
        let mut object =
            json!({ "metadata": { "name": "worker", "uid": "p", "resourceVersion": "1" } });
        change(&mut object);
        serde_json::from_value(object).unwrap()
    }

    fn secret(name: &str, version: &str) -> (String, ManagedObject) {
        let meta = json!({ "name": name, "uid": name, "resourceVersion": version });
        let meta: kube::api::ObjectMeta = serde_json::from_value(meta).unwrap();
        (name.to_owned(), meta.into())
    }

    /// A cluster with one pool.
    fn cache() -> ClusterCache {
        let cache = ClusterCache::empty("mosb");
        let named = "worker".to_owned();
        cache.configs.apply_event(Event::Apply((named.clone(), config(|_| ()))));
        cache.pools.apply_event(Event::Apply((named, pool(|_| ()))));
        cache.secrets.apply_event(Event::Apply(secret("push", "1")));
        cache
    }

    fn digest(cache: &ClusterCache) -> InputsHash {
        inputs(&observe(cache, "worker", Facts::default()))
    }

    #[test]
    fn our_own_writes_are_no_inputs_and_spec_secrets_and_settings_are() {
        type Change = fn(&ClusterCache);
        let cases: [(&str, Change, bool); 11] = [
            ("nothing", |_| (), false),
            (
                "a watch that failed",
                |cache| {
                    let broken = WatchState::Broken { listed: true, why: "away".to_owned() };
                    cache.watch_health.set("jobs", broken, false);
                },
                false,
            ),
            (
                "the status of the MachineOSConfig",
                |cache| {
                    let new = config(|object| {
                        object["metadata"]["resourceVersion"] = json!("2");
                        object["status"] = json!({ "conditions": [{ "type": "Blocked", "status": "True", "message": "x" }] });
                    });
                    cache.configs.apply_event(Event::Apply(("worker".to_owned(), new)));
                },
                false,
            ),
            (
                "conditions of the pool that block nothing",
                |cache| {
                    let new = pool(|object| {
                        object["metadata"]["resourceVersion"] = json!("2");
                        let kinds = [IMAGE_BUILD_DEGRADED, "Updating", "RolloutDegraded"];
                        let conditions =
                            kinds.map(|kind| json!({ "type": kind, "status": "True" }));
                        object["status"] = json!({ "conditions": conditions, "machineCount": 3 });
                    });
                    cache.pools.apply_event(Event::Apply(("worker".to_owned(), new)));
                },
                false,
            ),
            (
                "a condition of the pool that blocks builds",
                |cache| {
                    let new = pool(|object| {
                        let condition = json!({ "type": "RenderDegraded", "status": "True" });
                        object["status"] = json!({ "conditions": [condition] });
                    });
                    cache.pools.apply_event(Event::Apply(("worker".to_owned(), new)));
                },
                true,
            ),
            (
                "another Secret",
                |cache| drop(cache.secrets.apply_event(Event::Apply(secret("other", "2")))),
                false,
            ),
            (
                "the spec",
                |cache| {
                    let new =
                        config(|object| object["spec"]["renderedImagePushSpec"] = json!("x/y:z"));
                    cache.configs.apply_event(Event::Apply(("worker".to_owned(), new)));
                },
                true,
            ),
            (
                "an annotation",
                |cache| {
                    let new =
                        config(|object| object["metadata"]["annotations"] = json!({ "a": "b" }));
                    cache.configs.apply_event(Event::Apply(("worker".to_owned(), new)));
                },
                true,
            ),
            (
                "its Secret",
                |cache| drop(cache.secrets.apply_event(Event::Apply(secret("push", "2")))),
                true,
            ),
            (
                "the registries that are blocked",
                |cache| {
                    let image = json!({ "metadata": { "name": IMAGE_CONFIG, "generation": 2 } });
                    cache.image_configs.apply_event(Event::Apply((IMAGE_CONFIG.to_owned(), image)));
                },
                true,
            ),
            (
                "the settings",
                |cache| {
                    let map = json!({ "metadata": { "name": CONFIG_MAP, "resourceVersion": "2" } });
                    let map = serde_json::from_value(map).unwrap();
                    let store: &Arc<_> = &cache.settings[CONFIG_MAP];
                    store.apply_event(Event::Apply((CONFIG_MAP.to_owned(), map)));
                },
                true,
            ),
        ];
        for (what, change, is_news) in cases {
            let cache = cache();
            let before = digest(&cache);
            change(&cache);
            assert_eq!(digest(&cache) != before, is_news, "{what}");
        }
    }
}
