//! Pools, MachineOSConfigs and labels that disappear in the middle of a roll-out.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::observe::{NO_POOL, affected_pools};
use crate::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::{MachineConfigPool, MachineOsConfig, Metadata, labels};
use mosb_cluster::cluster_cache::{ClusterCache, SeenMachine, Trigger};

/// A machine that a budget holds in its drain.
fn draining() -> Fleet {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_some());
    fleet
}

/// A machine that reboots.
fn rebooting() -> (Fleet, String) {
    let mut fleet = rolling(2, "automatic");
    loop {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        if let Some((name, _)) = fleet.nodes.iter().find(|(_, node)| node.is_down) {
            let name = name.clone();
            return (fleet, name);
        }
    }
}

pub fn delete_config(fleet: &mut Fleet, name: &str) {
    let now = fleet.now;
    fleet.configs.get_mut(name).unwrap().metadata.deletion_timestamp = Some(Time(now));
}

fn has_no_slot(fleet: &Fleet) -> bool {
    fleet.nodes.values().all(|node| node.slot().is_none() && !node.machine.unschedulable)
}

#[test]
fn a_pool_and_its_config_that_are_deleted_together_leave_nothing_behind() {
    for (choice, is_reported) in [("keep", false), ("stock", true)] {
        for is_pool_slow in [false, true] {
            let mut fleet = draining();
            fleet.annotate(labels::ON_DELETE, choice);
            delete_config(&mut fleet, "worker");
            if is_pool_slow {
                // Somebody else's finalizer.
                let now = fleet.now;
                fleet.pool().metadata.deletion_timestamp = Some(Time(now));
            } else {
                fleet.pools.clear();
            }
            fleet.settle();
            let what = format!("{choice} {is_pool_slow}");
            assert!(fleet.configs.is_empty() && has_no_slot(&fleet), "{what}");
            assert_eq!(running(&fleet, 1), 2, "{what}");
            let event = fleet.events.iter().find(|(reason, _)| reason == "StockSkipped");
            assert_eq!(event.is_some(), is_reported, "{what}");
            assert!(event.is_none_or(|(_, note)| note.contains("pool worker")), "{event:?}");
        }
    }
}

#[test]
fn a_machine_that_another_controller_finds_in_its_slot_is_named() {
    let mut fleet = draining();
    let mut snapshot = fleet.snapshot("worker");
    snapshot.other_controller = Some("Deployment x/machine-config-controller".to_owned());
    let decision = decide(&snapshot, fleet.now);
    assert!(decision.actions.is_empty() && decision.lookups.is_empty());
    let reason = decision.reason.to_string();
    assert!(reason.ends_with("slot and cordon stay on w0"), "{reason}");
    fleet.node("w0").held.clear();
    fleet.settle();
    let mut snapshot = fleet.snapshot("worker");
    snapshot.other_controller = Some("Deployment x/machine-config-controller".to_owned());
    let reason = decide(&snapshot, fleet.now).reason.to_string();
    assert!(reason.ends_with("scale the other one to 0"), "{reason}");
}

#[test]
fn a_machine_that_leaves_all_pools_is_uncordoned_or_finished() {
    let mut fleet = draining();
    fleet.node("w0").pool = "shared".to_owned();
    fleet.settle();
    assert!(has_no_slot(&fleet));
    let cancelled = fleet.events.iter().any(|(reason, _)| reason == "NodeDrainCancelled");
    assert!(cancelled, "{:?}", fleet.events);

    let (mut fleet, name) = rebooting();
    fleet.node(&name).pool = "shared".to_owned();
    let waiting = fleet.pass(NO_POOL, usize::MAX);
    assert!(waiting.reason.to_string().contains(&name), "{}", waiting.reason);
    assert!(fleet.nodes[&name].slot().is_some(), "its Job runs");
    assert!(waiting.requeue_after.is_some());
    fleet.settle();
    assert!(has_no_slot(&fleet) && fleet.jobs.is_empty());
    assert_eq!(fleet.nodes[&name].booted, image(2).digest());
}

#[test]
fn the_stage_job_of_a_machine_that_leaves_its_pool_is_deleted_unless_its_new_pool_wants_the_same() {
    for (pool, mode, serves, is_deleted) in [
        ("none", None, 1, true),
        ("infra", None, 1, true),
        ("infra", None, 2, true),
        ("infra", Some("stage"), 3, true),
        ("infra", Some("stage"), 2, false),
    ] {
        for has_reported in [false, true] {
            let what = format!("{pool} {mode:?} {serves} {has_reported}");
            let mut fleet = rolling(1, "stage");
            fleet.add_pool("infra");
            fleet.serve("infra", serves);
            if let Some(mode) = mode {
                let metadata = &mut fleet.configs.get_mut("infra").unwrap().metadata;
                metadata.annotations.insert(labels::ROLLOUT.to_owned(), mode.to_owned());
            }
            let is_staging = |fleet: &Fleet| {
                let mut jobs = fleet.jobs.values();
                jobs.any(|job| job.seen.verb == NodeVerb::Stage && job.seen.has_login)
            };
            while !is_staging(&fleet) {
                fleet.pass("worker", usize::MAX);
            }
            let node = fleet.node("w0");
            node.pool = pool.to_owned();
            if !has_reported {
                node.machine.metadata.annotations.remove(labels::NODE_REPORT);
            }
            let keys = ["worker", "infra", NO_POOL];
            for key in keys {
                fleet.pass(key, usize::MAX);
            }
            if is_deleted {
                let targets = fleet.jobs.values().filter_map(|job| job.seen.target.as_ref());
                let mut images = targets.map(|target| &target.image);
                assert!(images.all(|one| *one != image(2)), "{what}");
                let status = &fleet.pools["infra"].status.conditions;
                assert!(mode.is_some() || has_reported || status.is_empty(), "{what}");
            } else {
                assert!(is_staging(&fleet), "{what}");
                fleet.settle();
                assert_eq!(fleet.nodes["w0"].staged, Some(image(2).digest()), "{what}");
            }
        }
    }
}

#[test]
fn machines_with_a_slot_or_a_job_and_of_no_pool_are_observed_under_a_key_of_their_own() {
    let cache = ClusterCache::empty("mosb");
    let named = |name: &str| Metadata { name: name.to_owned(), ..Metadata::default() };
    let machine = |name: &str, label: &str, has_slot: bool| {
        let mut metadata = named(name);
        metadata.labels.insert(label.to_owned(), String::new());
        if has_slot {
            metadata.annotations.insert(labels::NODE_SLOT.to_owned(), "{}".to_owned());
        }
        (name.to_owned(), SeenMachine { metadata, ..SeenMachine::default() })
    };
    let pool = |name: &str| {
        let selector = serde_json::json!({ "matchLabels": { name: "" } });
        let mut pool = MachineConfigPool { metadata: named(name), ..MachineConfigPool::default() };
        pool.spec.node_selector = serde_json::from_value(selector).unwrap();
        (name.to_owned(), pool)
    };
    cache.pools.replace([pool("worker")]);
    let machines = [
        machine("in", "worker", true),
        machine("out", "none", true),
        machine("free", "none", false),
        machine("staging", "none", false),
        machine("staging-in", "worker", false),
    ];
    cache.machines.replace(machines);
    let job = |node: &str| {
        let owner =
            serde_json::json!({ "apiVersion": "v1", "kind": "Node", "name": node, "uid": "" });
        let job = serde_json::json!({ "metadata": { "name": node, "ownerReferences": [owner] } });
        (node.to_owned(), serde_json::from_value(job).unwrap())
    };
    cache.node_jobs.replace([job("staging"), job("staging-in"), job("deleted"), job("out")]);
    let mut config = MachineOsConfig { metadata: named("trial"), ..MachineOsConfig::default() };
    config.spec.machine_config_pool.name = "trial".to_owned();
    let see = |name: &str| observe(&cache, name, &OwnPlace::default(), &DrainRecords::default());
    let names = |seen: RolloutSnapshot| -> Vec<String> {
        seen.machines.iter().map(|machine| machine.name().to_owned()).collect()
    };
    assert_eq!(names(see(NO_POOL).unwrap()), ["out", "staging"]);
    assert_eq!(names(see("worker").unwrap()), ["in", "staging-in"]);
    assert!(see("trial").is_none());
    cache.configs.replace([("trial".to_owned(), config.clone())]);
    assert!(see("trial").is_none(), "its pool may be created yet");
    config.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    cache.configs.replace([("trial".to_owned(), config)]);
    assert_eq!(see("trial").unwrap().leaving.len(), 1);
    let deleted = affected_pools(&cache, &Trigger::Pool("trial".to_owned()));
    assert!(deleted.iter().eq([NO_POOL, "trial", "worker"]), "{deleted:?}");
    let left = affected_pools(&cache, &Trigger::Machine([("x".to_owned(), String::new())].into()));
    assert!(left.iter().eq([NO_POOL]), "{left:?}");
    cache.pools.replace([pool("worker"), pool("gpu"), pool("infra")]);
    let shared = [("gpu".to_owned(), String::new()), ("infra".to_owned(), String::new())];
    let shared = affected_pools(&cache, &Trigger::Machine(shared.into()));
    assert!(shared.iter().eq([NO_POOL, "gpu", "infra"]), "{shared:?}");
}

#[test]
fn jobs_of_an_earlier_node_of_the_same_name_count_for_nothing_and_are_deleted() {
    let mut fleet = rolling(1, "automatic");
    while !fleet.jobs.values().any(|job| matches!(job.seen.phase, JobPhase::Succeeded(_))) {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    assert!(fleet.nodes["w0"].staged.is_some());
    // Somebody deletes the Node, and its kubelet registers again in the same boot.
    fleet.nodes.remove("w0");
    fleet.add_node("w0", "worker", 1);
    let earlier: Vec<String> = fleet.jobs.keys().cloned().collect();
    // A slot for a machine that has nothing staged would be refused by `check_slot`.
    fleet.pass("worker", usize::MAX);
    assert!(earlier.iter().all(|name| !fleet.jobs.contains_key(name)), "{earlier:?}");
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len(), fleet.jobs.len()), (1, 1, 0));
}

/// A second MachineOSConfig for the pool.
fn add_rival(fleet: &mut Fleet) {
    let mut rival = fleet.configs["worker"].clone();
    rival.metadata = fleet.metadata("rival");
    rival.metadata.annotations.insert(labels::ROLLOUT.to_owned(), "automatic".to_owned());
    fleet.configs.insert("rival".to_owned(), rival);
}

#[test]
fn a_rival_releases_no_failed_machine_and_is_reported_before_the_first_roll_out() {
    let mut fleet = rolling(3, "automatic");
    fleet.max_unavailable(IntOrString::Int(2));
    let wrong = image(2).digest();
    fleet.nodes.values_mut().for_each(|node| _ = node.not_bootable.insert(wrong));
    fleet.settle();
    let slots = |fleet: &Fleet| fleet.nodes.values().filter(|node| node.slot().is_some()).count();
    assert_eq!((slots(&fleet), fleet.reboots.len()), (2, 2));
    add_rival(&mut fleet);
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").1, "Rivals");
    assert_eq!(slots(&fleet), 2, "they did not boot their target");
    // The one that is being deleted waits for nothing, and the other one decides.
    delete_config(&mut fleet, "rival");
    fleet.configs.get_mut("rival").unwrap().metadata.finalizers =
        vec![labels::ROLLOUT_FINALIZER.to_owned()];
    fleet.settle();
    assert_eq!((fleet.configs.len(), slots(&fleet), fleet.reboots.len()), (1, 2, 2));

    let mut fleet = Fleet::new(1);
    add_rival(&mut fleet);
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").1, "Rivals");
    let mut fleet = Fleet::new(1);
    add_rival(&mut fleet);
    fleet.configs.get_mut("rival").unwrap().metadata.annotations.clear();
    let version = fleet.version;
    fleet.settle();
    assert_eq!(fleet.version, version, "no mode, no write");
}

#[test]
fn a_failed_machine_is_uncordoned_when_its_config_is_deleted() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").not_bootable.insert(image(2).digest());
    fleet.settle();
    assert_eq!(fleet.nodes["w0"].state(), "Degraded");
    delete_config(&mut fleet, "worker");
    fleet.settle();
    assert!(fleet.configs.is_empty() && has_no_slot(&fleet));
}

#[test]
fn a_pool_that_is_being_deleted_begins_nothing_and_cancels_its_drains() {
    let mut fleet = draining();
    let now = fleet.now;
    fleet.pool().metadata.deletion_timestamp = Some(Time(now));
    fleet.node("w0").held.clear();
    fleet.settle();
    assert!(has_no_slot(&fleet) && fleet.reboots.is_empty());
}

#[test]
fn a_shared_node_gets_nothing_and_the_others_go_on() {
    let mut fleet = rolling(2, "automatic");
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(2).to_string());
    fleet.shared_nodes.insert("s".to_owned(), vec!["a".to_owned(), "worker".to_owned()]);
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
    let (_, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!(reason, "SharedNodes");
    assert!(message.contains("node s: selected by the pools a, worker"), "{message}");
    let once =
        |fleet: &Fleet| fleet.configs["worker"].metadata.annotation(labels::ROLLOUT_ONCE).is_some();
    assert!(once(&fleet), "it is of this pool once its labels are corrected");
    fleet.shared_nodes.clear();
    fleet.settle();
    assert!(!once(&fleet));
    assert_eq!(status(&fleet, "RolloutDegraded").0, "False");
}

#[test]
fn a_pool_without_a_mode_that_is_pinned_to_stock_causes_no_lookup_and_no_write() {
    let mut fleet = Fleet::new(2);
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    let version = fleet.version;
    fleet.settle();
    assert_eq!((fleet.version, fleet.asked.len()), (version, 0));
}

#[test]
fn a_rebuild_leaves_the_image_in_service_a_target() {
    for edit in [
        |fleet: &mut Fleet| fleet.builds.iter_mut().for_each(|one| one.status.conditions.clear()),
        |fleet: &mut Fleet| {
            let rebuilt = image(8).to_string();
            fleet.builds.iter_mut().for_each(|one| {
                one.status.digested_image_push_spec.clone_from(&rebuilt);
            });
        },
    ] {
        let mut fleet = draining();
        edit(&mut fleet);
        fleet.settle();
        assert_eq!(status(&fleet, "RolloutDegraded").0, "False");
        assert!(fleet.nodes["w0"].slot().is_some(), "its drain goes on");
        fleet.node("w0").held.clear();
        fleet.settle();
        assert_eq!(running(&fleet, 2), 2);
    }
}

#[test]
fn a_wrong_pin_is_reported_with_its_annotation() {
    for annotation in [labels::ROLLOUT_BUILD, labels::ROLLOUT_ONCE] {
        let other = format!("build-1@{}", image(9).digest());
        let stock = format!("stock@{}", image(9).digest());
        for value in [pin(9).to_string(), other, stock] {
            let mut fleet = rolling(1, "automatic");
            fleet.annotate(annotation, &value);
            fleet.settle();
            let message = status(&fleet, "RolloutDegraded").2;
            assert!(message.starts_with(annotation), "{value}: {message}");
        }
    }
}
