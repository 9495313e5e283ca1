//! What is seen of the cluster.

use super::*;
use mosb_cluster::cluster_cache::POOL_WATCHES;
use mosb_reconcile::watch::WatchState;

fn cache() -> ClusterCache {
    let cache = ClusterCache::empty("mosb");
    let pool = |name: &str, roles: Value, source: &str| {
        let pool = json!({ "metadata": { "name": name, "uid": format!("uid-{name}") }, "spec": {
            "machineConfigSelector": { "matchExpressions": [{ "key": labels::ROLE, "operator": "In", "values": roles }] },
            "configuration": { "name": format!("rendered-{name}-{:032}", 0), "source": [{ "name": source }] } } });
        (name.to_owned(), serde_json::from_value(pool).unwrap())
    };
    cache.pools.replace([
        pool("worker", json!(["worker"]), "00-worker"),
        pool("infra", json!(["worker", "infra"]), "70-gone"),
    ]);
    let config = |name: &str, meta: Value| {
        let mut whole = json!({ "name": name, "uid": format!("uid-{name}"), "generation": 1 });
        for (key, value) in meta.as_object().unwrap() {
            whole[key] = value.clone();
        }
        (name.to_owned(), serde_json::from_value(whole).unwrap())
    };
    let role = |role: &str| json!({ "labels": { labels::ROLE: role } });
    let owner = json!([{ "apiVersion": "v1", "kind": "MachineConfigPool", "name": "infra", "uid": POOL, "controller": true }]);
    cache.machine_configs.replace([
        config("00-worker", role("worker")),
        config("50-infra", role("infra")),
        config("60-master", role("master")),
        config("61-nobodys", json!({})),
        config(
            OLD,
            json!({ "ownerReferences": owner, "generation": 2,
            "annotations": { labels::GENERATED_BY_CONTROLLER_VERSION: "mosb" } }),
        ),
        config(NEW, json!({ "labels": { labels::ROLE: "" } })),
    ]);
    cache
}

#[test]
fn failed_watches_of_pools_and_builds_are_seen() {
    let cache = cache();
    for watch in POOL_WATCHES {
        assert_eq!(observe(&cache, "infra").unwrap().broken_watch, None, "{watch}");
        let broken = WatchState::Broken { listed: true, why: "away".to_owned() };
        cache.watch_health.set(watch, broken, false);
        let found = observe(&cache, "infra").unwrap().broken_watch;
        assert_eq!(found, Some(format!("{watch}: away")));
        cache.watch_health.set(watch, WatchState::Current, false);
    }
}

#[test]
fn a_pool_is_seen_with_what_it_selects_and_its_rendered_configs() {
    let cache = cache();
    let snapshot = observe(&cache, "infra").unwrap();
    let inputs = snapshot.inputs.unwrap();
    assert_eq!(inputs.sources().collect::<Vec<_>>(), ["00-worker", "50-infra"]);
    let seen: Vec<_> = snapshot.rendered.iter().collect();
    let [old, new] = seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((&*old.name, old.is_ours, old.is_edited), (OLD, true, true), "it was edited");
    assert_eq!((&*new.name, new.is_ours), (NEW, false), "somebody else's");
    assert_eq!(snapshot.named, [OLD.to_owned()].into());
    assert!(observe(&cache, "gone").is_none());
    assert_eq!(snapshot.other_renderer, None);
    for (name, want) in [
        ("mosb/machine-config-controller", true),
        ("openshift-machine-config-operator/machine-config-controller", true),
        ("elsewhere/machine-config-controller", false),
    ] {
        cache.renderers.replace([(name.to_owned(), 1)]);
        assert_eq!(cache.other_renderer().is_some(), want, "{name}");
        cache.renderers.replace([(name.to_owned(), 0)]);
        assert_eq!(cache.other_renderer(), None, "{name} without replicas");
    }
}

#[test]
fn a_change_concerns_the_pools_that_have_or_select_it() {
    let cache = cache();
    let config = |name: &str| Trigger::MachineConfig(name.to_owned(), None);
    for (what, cause, want) in [
        ("everybody's", config("00-worker"), &["infra", "worker"][..]),
        ("one's own", config("50-infra"), &["infra"]),
        ("another role", config("60-master"), &[]),
        ("one that was there", config("70-gone"), &["infra"]),
        ("the rendered one", config(OLD), &["infra"]),
        ("the pool", Trigger::Pool("infra".to_owned()), &["infra"]),
        ("settings", Trigger::All, &["infra", "worker"]),
        ("a secret", Trigger::Secret("a".to_owned()), &[]),
        (
            "the secret that tags are pinned with",
            Trigger::Secret("global-pull-secret-copy".to_owned()),
            &["infra", "worker"],
        ),
    ] {
        let affected_pools = crate::observe::affected_pools(&cache, &cause);
        let affected_pools: Vec<_> = affected_pools.iter().map(String::as_str).collect();
        assert_eq!(affected_pools, want, "{what}");
    }
}

#[test]
fn the_base_is_that_of_the_settings_else_of_the_last_config_map() {
    let cache = ClusterCache::empty("mosb");
    let fill = |name: &str, key: &str, text: &str| {
        let map = json!({ "metadata": { "name": name }, "data": { key: text } });
        let map = serde_json::from_value(map).unwrap();
        cache.settings[name].replace([(name.to_owned(), map)]);
    };
    let os = || {
        let read = cache.settings().map_err(mosb_reconcile::Problem::from);
        read.map(|(settings, _)| settings.base_os_container_image)
    };
    assert_eq!(os(), Ok(None));
    let older = "machine-config-osimageurl";
    fill(older, "baseOSContainerImage", "a.test/os:1\n");
    assert_eq!(os(), Ok(Some("a.test/os:1".to_owned())));
    let text = "baseOSContainerImage: b.test/os:1";
    fill("mosb-config", "config.yaml", text);
    assert_eq!(os(), Ok(Some("b.test/os:1".to_owned())));
    let before = observe_settings(&cache);
    fill("mosb-config", "config.yaml", "builderImage: b.test/mosb:1");
    assert_ne!(observe_settings(&cache), before);
    fill("mosb-config", "config.yaml", "nonsense: 1");
    assert_eq!(os().unwrap_err().class, ErrorClass::InvalidInput);
}

fn observe_settings(cache: &ClusterCache) -> Value {
    let pool = json!({ "metadata": { "name": "infra" } });
    cache.pools.replace([("infra".to_owned(), serde_json::from_value(pool).unwrap())]);
    observe(cache, "infra").unwrap().inputs.unwrap().settings
}

#[test]
fn a_recorded_base_is_pinned_or_is_the_stream() {
    use crate::lookups::request;
    use mosb_api::cluster_settings::{CONFIG_KEY, CONFIG_MAP};
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let of = |settings: Value, recorded: Option<String>| {
        let cache = cache();
        let map = json!({ "metadata": { "name": CONFIG_MAP }, "data": { CONFIG_KEY: settings.to_string() } });
        cache.settings[CONFIG_MAP]
            .replace([(CONFIG_MAP.to_owned(), serde_json::from_value(map).unwrap())]);
        let mut pool = (*cache.pools.get("infra").unwrap()).clone();
        let before = json!({ "quay.io/os:1": format!("quay.io/os@{}", digest("1")) });
        pool.metadata.annotations.insert(labels::PINS.to_owned(), before.to_string());
        cache.pools.replace([("infra".to_owned(), pool)]);
        let annotations: Value = recorded.map_or(json!({}), |base| json!({ labels::BASE: base }));
        let config = json!({ "metadata": { "name": "infra", "annotations": annotations },
            "spec": { "machineConfigPool": { "name": "infra" } } });
        cache.configs.replace([("infra".to_owned(), serde_json::from_value(config).unwrap())]);
        let snapshot = observe(&cache, "infra").unwrap();
        let stamp = snapshot.inputs.as_ref().unwrap().stamp("rendered");
        let request = request(&cache, &snapshot, Vec::new()).unwrap();
        (request.os_image.unwrap(), request.pins.get("quay.io/os:1").cloned(), stamp)
    };
    let tag = json!({ "baseOSContainerImage": "quay.io/os:1" });
    let pinned = |digit: &str| Some(format!("quay.io/os@{}", digest(digit)));
    let (image, pin, before) = of(tag.clone(), None);
    assert_eq!((&*image, pin), ("quay.io/os:1", pinned("1")), "that of the last rendering");
    let (image, pin, after) = of(tag.clone(), Some(format!("quay.io/os:1@{}", digest("2"))));
    assert_eq!((&*image, pin), ("quay.io/os:1", pinned("2")));
    assert_ne!(before, after, "it is rendered again");
    let (_, pin, _) = of(tag, Some(format!("quay.io/os:2@{}", digest("2"))));
    assert_eq!(pin, pinned("1"), "that of another tag");
    let stream = json!({ "baseOSContainerImage": "quay.io/os:1", "baseStream": "quay.io/next:1" });
    let recorded = Some(format!("quay.io/next:1@{}", digest("3")));
    let (image, _, _) = of(stream, recorded);
    assert_eq!(image, format!("quay.io/next@{}", digest("3")));
}
