//! What of the cache a snapshot shows, and which changes of it count.

use std::collections::BTreeSet;

use super::fixture::Fixture;
use crate::observe::{affected_keys, observe, server_key};
use crate::snapshot::{Subject, UserData};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher::Event;
use mosb_api::{MachineOsConfig, labels};
use mosb_cluster::cluster_cache::{ClusterCache, Trigger};

fn cache(configs: Vec<MachineOsConfig>) -> ClusterCache {
    let cache = ClusterCache::empty("mosb-system");
    cache.configs.apply_event(Event::Init);
    for config in configs {
        let name = config.metadata.name.clone();
        cache.configs.apply_event(Event::InitApply((name, config)));
    }
    cache.configs.apply_event(Event::InitDone);
    cache
}

fn config(name: &str, secret: Option<&str>) -> MachineOsConfig {
    let mut config = Fixture::new().config;
    config.metadata.name = name.to_owned();
    config.spec.machine_config_pool.name = name.to_owned();
    match secret {
        Some(secret) => {
            config.metadata.annotations.insert(labels::USER_DATA.to_owned(), secret.to_owned());
        }
        None => config.metadata.annotations.clear(),
    }
    config
}

fn user_data(cache: &ClusterCache, name: &str) -> Option<Box<UserData>> {
    match observe(cache, name)?.subject {
        Subject::UserData(user_data) => Some(user_data),
        Subject::Server(_) => panic!("{name}"),
    }
}

/// The MachineOSConfigs that a change affects.
fn affected_configs(cache: &ClusterCache, trigger: &Trigger) -> BTreeSet<String> {
    let mut keys = affected_keys(cache, trigger);
    keys.remove(&server_key());
    keys
}

#[test]
fn a_pool_without_user_data_is_left_alone() {
    let mut deleting = config("deleting", Some("machines/c"));
    deleting.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let cache = cache(vec![
        config("a", Some("machines/a")),
        config("b", None),
        config("c", Some("machines/c")),
        config("d", Some("machines/c")),
        deleting,
    ]);
    assert!(observe(&cache, "b").is_none());
    assert!(observe(&cache, "none").is_none());
    assert!(observe(&cache, "deleting").is_none());
    assert!(user_data(&cache, "a").unwrap().sharing.is_empty());
    assert_eq!(user_data(&cache, "c").unwrap().sharing, ["d"]);
    let names = |trigger| -> BTreeSet<String> { affected_configs(&cache, &trigger) };
    let all = ["a", "c", "d", "deleting"].map(str::to_owned);
    assert_eq!(names(Trigger::All), all.clone().into());
    assert_eq!(names(Trigger::Secret("join".to_owned())), all.into());
    assert_eq!(names(Trigger::ManagedObject("a".to_owned())), ["a".to_owned()].into());
    for (config, want) in [("b", &["b"][..]), ("a", &["a"]), ("c", &["c", "d", "deleting"])] {
        let found = names(Trigger::Config(config.to_owned(), config.to_owned()));
        assert!(found.iter().eq(want), "{config}: {found:?}");
    }
    assert!(names(Trigger::Pool("worker".to_owned())).is_empty());
}

#[test]
fn rivals_of_a_pool_are_those_that_stay() {
    let of_worker = |name, secret| {
        let mut config = config(name, secret);
        config.spec.machine_config_pool.name = "worker".to_owned();
        config
    };
    let mut deleting = of_worker("deleting", None);
    deleting.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let cache = cache(vec![
        of_worker("a", Some("machines/a")),
        of_worker("b", Some("machines/b")),
        of_worker("c", None),
        deleting,
        config("infra", Some("machines/infra")),
    ]);
    assert_eq!(user_data(&cache, "a").unwrap().rivals, ["b", "c"]);
    assert!(user_data(&cache, "infra").unwrap().rivals.is_empty());
    // The others of its pool may be alone again.
    let trigger = Trigger::Config("gone".to_owned(), "worker".to_owned());
    assert!(affected_configs(&cache, &trigger).iter().eq(["a", "b", "gone"]));
}

#[test]
fn the_inputs_are_what_the_config_is_made_of() {
    type Change = fn(&mut Fixture);
    let digest = |fixture: &Fixture| fixture.snapshot().inputs();
    let before = digest(&Fixture::new());
    let cases: [(&str, Change, bool); 9] = [
        ("another image", |it| it.serve(2), true),
        ("a pin", |it| it.annotate(labels::ROLLOUT_BUILD, "x"), true),
        ("another Secret", |it| it.annotate(labels::USER_DATA, "a/b"), true),
        ("a rival", |it| it.rivals.push("x".to_owned()), true),
        ("another pool with its Secret", |it| it.sharing.push("x".to_owned()), true),
        ("an endpoint", |it| it.endpoint = Some("a"), true),
        ("a build without its image", |it| it.builds[0].status = Default::default(), true),
        ("a condition", |it| it.config.status.conditions.push(Default::default()), false),
        ("a version", |it| it.config.metadata.resource_version = Some("2".to_owned()), false),
    ];
    for (what, change, is_input) in cases {
        let mut fixture = Fixture::new();
        change(&mut fixture);
        assert_eq!(digest(&fixture) != before, is_input, "{what}");
    }
}
