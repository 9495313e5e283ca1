//! Random events for pools, from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::desired_pool::DesiredPool;
use super::left;
use crate::fault_cluster::{ALONE, FaultCluster, M, in_namespace, ours, text};
use mosb_tests::ApiFault;

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number less than `number`.
    pub fn below(&mut self, number: usize) -> usize {
        usize::try_from(self.next() % number as u64).unwrap()
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The events with their relative frequencies.
const WHAT: [(usize, &str); 11] = [
    (24, "another rendered config"),
    (8, "another Containerfile"),
    (6, "a MachineOSConfig made or deleted"),
    (6, "a build deleted"),
    (6, "a rebuild asked for"),
    (6, "a Job, or a Pod without one, deleted"),
    (4, "a Job's pod deleted"),
    (4, "a secret rotated"),
    (1, "settings changed"),
    (28, "a write disturbed"),
    (1, "nothing for a while"),
];
/// One of this many events is followed by a kill of the controller.
const KILL: usize = 200;

pub struct Events {
    random: Random,
    /// The owner UID and attempt of each deleted Job, or Pod without a Job. A controller that has
    /// not seen one creates it again.
    pub deleted: BTreeSet<(String, String)>,
    counts: BTreeMap<&'static str, usize>,
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:7} {what}")?;
        }
        Ok(())
    }
}

impl Events {
    pub fn new(random: Random) -> Self {
        Self { random, deleted: BTreeSet::new(), counts: BTreeMap::new() }
    }

    /// A random delay before the next event.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.below(500) as u64)
    }

    /// Decides whether to kill the controller now.
    pub fn kills(&mut self) -> bool {
        let kills = self.random.below(KILL) == 0;
        if kills {
            *self.counts.entry("the controller killed").or_default() += 1;
        }
        kills
    }

    /// Applies a random event to a random pool, if it is possible now.
    pub fn one(&mut self, cluster: &FaultCluster, desired_pools: &mut [DesiredPool]) {
        let all = WHAT.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.below(all);
        let what = WHAT.iter().find(|(weight, _)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        let what = what.unwrap().1;
        *self.counts.entry(what).or_default() += 1;
        let number = self.random.below(desired_pools.len());
        let desired = &mut desired_pools[number];
        let random = &mut self.random;
        match what {
            "another rendered config" => desired.renders(cluster, random),
            "another Containerfile" => desired.containerfile(cluster, random),
            "a MachineOSConfig made or deleted" => desired.toggle(cluster),
            "a build deleted" => {
                drop(delete(cluster, &ours("machineosbuilds", ""), &desired.pool, random))
            }
            "a rebuild asked for" => {
                let change =
                    json!({ "metadata": { "annotations": { format!("{M}/rebuild"): "" } } });
                try_change(cluster, &ours("machineosconfigs", &desired.pool), &change);
            }
            "a Job, or a Pod without one, deleted" => {
                let kind = if desired.pool.starts_with(ALONE) { "pods" } else { "jobs" };
                let runner = delete(cluster, &in_namespace(kind), &desired.pool, random);
                self.deleted.extend(runner.as_ref().map(left::attempt));
            }
            "a Job's pod deleted" if desired.pool.starts_with(ALONE) => {}
            "a Job's pod deleted" => {
                drop(delete(cluster, &in_namespace("pods"), &desired.pool, random));
            }
            "a secret rotated" => rotate(cluster, random),
            "settings changed" => {
                let number = random.below(1000).to_string();
                cluster.settings(&json!({ "annotations": { "number": number } }));
            }
            "a write disturbed" => {
                let faults = [
                    ApiFault::Refuse(409),
                    ApiFault::Refuse(500),
                    ApiFault::LoseAnswer,
                    ApiFault::EndWatch,
                ];
                cluster.proxy.disturb(&desired.pool, *random.one_of(&faults));
            }
            _ => {}
        }
    }
}

/// Changes an object that may be deleted already or may have a conflicting change.
pub fn try_change(cluster: &FaultCluster, object: &str, change: &Value) {
    let (code, answer) = cluster.proxy.api().ask("PATCH", object, Some(change));
    assert!([200, 404, 409].contains(&code), "{object} {change:#} {answer:#}");
}

/// Deletes a random object of a pool with a random propagation policy.
fn delete(
    cluster: &FaultCluster,
    collection: &str,
    pool: &str,
    random: &mut Random,
) -> Option<Value> {
    let mut all = cluster.all(collection);
    all.retain(|object| text(&object["metadata"]["name"]).contains(pool));
    if all.is_empty() {
        return None;
    }
    let policy = random.one_of(&["Background", "Foreground"]);
    let object = random.one_of(&all);
    let name = text(&object["metadata"]["name"]);
    cluster.delete(&format!("{collection}/{name}?propagationPolicy={policy}"));
    Some(object.clone())
}

/// Adds an unused credential to a Secret.
fn rotate(cluster: &FaultCluster, random: &mut Random) {
    let name = random.one_of(&["push", "global-pull-secret-copy"]);
    let mut logins = cluster.node.registry().docker_config();
    let number = random.below(1_000_000);
    logins["auths"][format!("rotated-{number}.example")] = json!({ "auth": "bm9ib2R5Om5v" });
    let change = json!({ "stringData": { ".dockerconfigjson": logins.to_string() } });
    cluster.change(&format!("{}/{name}", in_namespace("secrets")), &change);
}
