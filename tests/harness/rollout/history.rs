//! The rules of a roll-out, checked on all versions of the objects that a watch saw. Pure.
//!
//! Input: each version of nodes and pools, each new Job on a machine and each evicted pod, in the
//! order of their versions: all objects of a cluster share one counter. Output: [`Observed`], with
//! one line for each rule that was broken.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::limits::{
    PoolLimits, SLOT, annotation, has_slot, is_control_plane, is_cordoned, is_ready,
    is_unavailable, pool_of,
};
use super::node_object::{CORDONED_BY_ADMINISTRATOR, REBOOTED_BY_OTHERS};
use super::observer::Observed;

/// What a watch saw of one object.
#[derive(Debug, Clone)]
pub struct SeenObject {
    pub kind: SeenKind,
    pub object: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenKind {
    /// It was there at the beginning.
    FirstNode,
    Node,
    DeletedNode,
    Pool,
    DeletedPool,
    /// The first version of a Job on a machine.
    NewJob,
    /// The first version of a pod that was evicted.
    EvictedPod,
}

impl SeenObject {
    /// Its place among all changes of the cluster.
    pub fn version(&self) -> u64 {
        let text = self.object["metadata"]["resourceVersion"].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

/// The state of the cluster at one version, and what was observed until then.
#[derive(Debug, Default)]
pub struct RolloutHistory {
    pools: BTreeMap<String, PoolLimits>,
    nodes: BTreeMap<String, Value>,
    /// By machine and slot.
    drains: BTreeMap<String, usize>,
    /// By machine, slot and attempt.
    reboots: BTreeMap<String, usize>,
    /// Machines that were never Ready so far.
    new: BTreeSet<String>,
    observed: Observed,
}

impl RolloutHistory {
    /// What these versions show, in whatever order they are.
    pub fn of(mut seen: Vec<SeenObject>) -> Observed {
        seen.sort_by_key(SeenObject::version);
        let mut history = Self::default();
        seen.into_iter().for_each(|one| history.add(one));
        history.observed
    }

    fn add(&mut self, seen: SeenObject) {
        let name = seen.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let at = seen.version();
        match seen.kind {
            SeenKind::FirstNode => {
                self.nodes.insert(name, seen.object);
            }
            SeenKind::Node => self.node(&name, seen.object, at),
            SeenKind::DeletedNode => {
                self.nodes.remove(&name);
            }
            SeenKind::Pool => match PoolLimits::of(&seen.object) {
                Some(pool) => drop(self.pools.insert(name, pool)),
                None => drop(self.pools.remove(&name)),
            },
            SeenKind::DeletedPool => drop(self.pools.remove(&name)),
            SeenKind::NewJob => self.job(&seen.object, at),
            SeenKind::EvictedPod => self.evicted(&seen.object, at),
        }
    }

    fn broken(&mut self, at: u64, rule: String) {
        self.observed.broken.push(format!("version {at}: {rule}"));
    }

    fn node(&mut self, name: &str, now: Value, at: u64) {
        let before = self.nodes.remove(name);
        let before = before.filter(|before| before["metadata"]["uid"] == now["metadata"]["uid"]);
        if is_ready(&now) {
            self.new.remove(name);
        } else if before.is_none() {
            self.new.insert(name.to_owned());
        }
        let is_given = has_slot(&now) && !before.as_ref().is_some_and(has_slot);
        self.nodes.insert(name.to_owned(), now.clone());
        if is_given {
            *self.observed.slots.entry(name.to_owned()).or_default() += 1;
            self.given(name, before.as_ref(), &now, at);
        }
        if let Some(before) = &before {
            self.cordon(name, before, &now, at);
            self.reboot(name, before, &now, at);
        }
        self.count_unavailable(&now);
    }

    /// A slot is given only to a machine that is free, and only as the pool allows.
    fn given(&mut self, name: &str, before: Option<&Value>, now: &Value, at: u64) {
        if before.is_some_and(is_cordoned) {
            self.broken(at, format!("{name} got a slot although it was cordoned"));
        }
        if !before.is_some_and(is_ready) {
            self.broken(at, format!("{name} got a slot although it was not Ready"));
        }
        let target = slot(now)["target"].clone();
        let staged: Value =
            serde_json::from_str(annotation(now, "mosb.dev/staged")).unwrap_or_default();
        if target.is_null() || staged["target"] != target {
            self.broken(at, format!("{name} got a slot for {target}, and has staged {staged}"));
        }
        if is_control_plane(now) {
            let others = self.nodes.iter().filter(|(other, _)| *other != name);
            let mut others = others.filter(|(_, node)| is_control_plane(node));
            if let Some((other, _)) = others.find(|(_, node)| has_slot(node) || !is_ready(node)) {
                let rule = format!("{name} got a slot while {other} of the control plane was away");
                self.broken(at, rule);
            }
        }
        let pool = pool_of(self.pools.values(), now);
        if let Some(pool) = pool.filter(|pool| pool.paused).map(|pool| pool.name.clone()) {
            self.broken(at, format!("{name} got a slot although {pool} was paused"));
        }
        if let Some((pool, unavailable, most)) = self.unavailable(now)
            && unavailable > most
        {
            let rule = format!(
                "{name} got a slot: {unavailable} machines of {pool} are unavailable, and {most} may be"
            );
            self.broken(at, rule);
        }
    }

    /// The pool of a node, how many of its machines are unavailable, and how many may be.
    fn unavailable(&self, node: &Value) -> Option<(String, usize, usize)> {
        let pool = pool_of(self.pools.values(), node)?;
        let is_member = |node: &&Value| {
            pool_of(self.pools.values(), node).is_some_and(|of| of.name == pool.name)
        };
        let members: Vec<&Value> = self.nodes.values().filter(is_member).collect();
        let unavailable = members.iter().filter(|node| is_unavailable(node)).count();
        Some((pool.name.clone(), unavailable, pool.most_unavailable(members.len())))
    }

    fn count_unavailable(&mut self, node: &Value) {
        let is_new = node["metadata"]["name"].as_str().is_some_and(|name| self.new.contains(name));
        if let Some((pool, unavailable, _)) = self.unavailable(node).filter(|_| !is_new) {
            let most = self.observed.most_unavailable.entry(pool).or_default();
            *most = unavailable.max(*most);
        }
    }

    fn cordon(&mut self, name: &str, before: &Value, now: &Value, at: u64) {
        let by_others = |node: &Value| !annotation(node, CORDONED_BY_ADMINISTRATOR).is_empty();
        let slot_now = slot(now);
        match (is_cordoned(before), is_cordoned(now)) {
            (false, true) if slot_now["cordoned"] == true => {
                let drains = count(&mut self.drains, format!("{name} {}", slot_now["since"]));
                if drains > 1 {
                    self.broken(at, format!("{name} was cordoned {drains} times for {slot_now}"));
                }
            }
            (false, true) if !by_others(now) => {
                self.broken(at, format!("{name} was cordoned without a slot"));
            }
            (true, false) if by_others(now) => {
                self.broken(at, format!("{name}: the cordon of an administrator was undone"));
            }
            _ => {}
        }
        let is_left = slot(before)["cordoned"] == true && !has_slot(now) && is_cordoned(now);
        if is_left && !by_others(now) {
            self.broken(at, format!("{name} lost its slot and is still cordoned"));
        }
    }

    /// A machine reboots only with a slot, once an attempt.
    fn reboot(&mut self, name: &str, before: &Value, now: &Value, at: u64) {
        let boot = |node: &Value| node["status"]["nodeInfo"]["bootID"].clone();
        let (old, new) = (boot(before), boot(now));
        if old == new || old == "" || old.is_null() {
            return;
        }
        *self.observed.boots.entry(name.to_owned()).or_default() += 1;
        if old == annotation(now, REBOOTED_BY_OTHERS) {
            return;
        }
        let slot = slot(before);
        if slot.is_null() {
            return self.broken(at, format!("{name} was rebooted without a slot"));
        }
        let attempt = format!("{name} {} {}", slot["since"], slot["attempt"]);
        let reboots = count(&mut self.reboots, attempt);
        if reboots > 1 {
            self.broken(at, format!("{name} was rebooted {reboots} times for {slot}"));
        }
    }

    /// A Job that reboots a machine is created only for the slot that the machine has.
    fn job(&mut self, job: &Value, at: u64) {
        if job["metadata"]["labels"]["mosb.dev/node-job"] != "apply" {
            return;
        }
        let owner = &job["metadata"]["ownerReferences"][0];
        let name = owner["name"].as_str().unwrap_or_default();
        // Of a machine that left in the same moment nothing is known.
        let node = self.nodes.get(name).filter(|node| node["metadata"]["uid"] == owner["uid"]);
        let Some(slot) = node.map(slot) else {
            return;
        };
        let target: Value =
            serde_json::from_str(annotation(job, "mosb.dev/node-target")).unwrap_or_default();
        let attempt = annotation(job, "mosb.dev/attempt");
        if slot["target"] != target || slot["attempt"].as_u64() != attempt.parse().ok() {
            let rule = format!("{name}: a Job for {target}, attempt {attempt}, with slot {slot}");
            self.broken(at, rule);
        }
    }

    fn evicted(&mut self, pod: &Value, at: u64) {
        let name = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let Some(node) = self.nodes.get(&name) else {
            return;
        };
        let is_free = !has_slot(node);
        *self.observed.evicted.entry(name.clone()).or_default() += 1;
        if is_free {
            let pod = &pod["metadata"]["name"];
            self.broken(at, format!("pod {pod} was evicted from {name}, which has no slot"));
        }
    }
}

fn count(counts: &mut BTreeMap<String, usize>, key: String) -> usize {
    let count = counts.entry(key).or_default();
    *count += 1;
    *count
}

/// The slot of a node; null if it has none or it can't be read.
fn slot(node: &Value) -> Value {
    serde_json::from_str(annotation(node, SLOT)).unwrap_or_default()
}
