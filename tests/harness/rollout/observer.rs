//! Watches nodes, pools, Jobs on machines and evictions during a whole story. At its end, each
//! version of them is checked against the rules in [`history`](super::history).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::follower::{Followed, Follower};
use super::history::{RolloutHistory, SeenKind, SeenObject};
use crate::node::{Api, Node, wait};

const NODES: &str = "/api/v1/nodes?";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools?";
const JOBS: &str = "/apis/batch/v1/namespaces/mosb-rollout/jobs?";
const PODS: &str = "/api/v1/pods?";
/// How long a watch may be late.
const LIMIT: Duration = Duration::from_secs(180);

/// What was observed until now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The rules that were broken.
    pub broken: Vec<String>,
    /// The most machines of a pool that were unavailable at once, whatever the cause.
    pub most_unavailable: BTreeMap<String, usize>,
    /// How often a machine rebooted.
    pub boots: BTreeMap<String, usize>,
    /// How often a machine without a slot got one.
    pub slots: BTreeMap<String, usize>,
    /// How many pods were evicted from a machine.
    pub evicted: BTreeMap<String, usize>,
}

/// A running observer. Its end checks the rules.
#[derive(Debug)]
pub struct RolloutObserver {
    api: Arc<Api>,
    record: Arc<Mutex<Record>>,
    followers: Vec<Follower>,
}

/// What the watches saw.
#[derive(Debug, Default)]
struct Record {
    seen: Vec<SeenObject>,
    /// The newest version of each node, by UID.
    newest: BTreeMap<String, String>,
    /// UIDs of Jobs, and of evicted pods.
    known: BTreeSet<String>,
    has_gap: bool,
}

impl RolloutObserver {
    /// Begins to watch; returns when it sees what there is.
    #[track_caller]
    pub fn start(node: &Node) -> Self {
        let api = Arc::new(node.another_api());
        let record = Arc::new(Mutex::new(Record::default()));
        let follow = |target: &str, add: fn(&mut Record, Followed)| {
            let record = Arc::clone(&record);
            let report = move |followed| add(&mut lock(&record), followed);
            Follower::start(Arc::clone(&api), target, report)
        };
        let followers = vec![
            follow(POOLS, Record::pool),
            follow(NODES, Record::node),
            follow(JOBS, Record::job),
            follow(PODS, Record::pod),
        ];
        let observer = Self { api: Arc::clone(&api), record, followers };
        observer.catch_up();
        observer
    }

    /// What it observed until now.
    #[track_caller]
    pub fn observed(&self) -> Observed {
        self.catch_up();
        let (seen, has_gap) = {
            let record = lock(&self.record);
            (record.seen.clone(), record.has_gap)
        };
        let mut observed = RolloutHistory::of(seen);
        if has_gap {
            observed.broken.push("the watch of nodes had a gap".to_owned());
        }
        observed
    }

    /// How often each of these machines rebooted.
    #[track_caller]
    pub fn boots(&self, names: &[String]) -> Vec<usize> {
        let observed = self.observed();
        names.iter().map(|name| observed.boots.get(name).copied().unwrap_or_default()).collect()
    }

    /// Waits until it saw the newest version of each node.
    #[track_caller]
    fn catch_up(&self) {
        let nodes = self.api.list(None, "nodes", "");
        wait("the observer to see all nodes", LIMIT, || {
            let record = lock(&self.record);
            let is_seen = |node: &Value| {
                let seen = record.newest.get(uid(node));
                seen.is_some_and(|seen| number(seen) >= number(version(node)))
            };
            nodes.iter().all(is_seen).then_some(())
        });
    }

    /// Checks the rules.
    #[track_caller]
    pub fn finish(mut self) -> Observed {
        let observed = self.observed();
        self.followers.clear();
        assert!(observed.broken.is_empty(), "{:#?}", observed.broken);
        observed
    }
}

impl Drop for RolloutObserver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it saw may explain the panic.
            let seen = lock(&self.record).seen.clone();
            println!("observed: {:#?}", RolloutHistory::of(seen));
        } else if !self.followers.is_empty() {
            panic!("an observer that was not asked; call finish");
        }
    }
}

impl Record {
    fn pool(&mut self, followed: Followed) {
        match followed {
            Followed::All(all) => all.into_iter().for_each(|one| self.add(SeenKind::Pool, one)),
            Followed::Is(one) => self.add(SeenKind::Pool, one),
            Followed::Deleted(one) => self.add(SeenKind::DeletedPool, one),
        }
    }

    fn node(&mut self, followed: Followed) {
        match followed {
            Followed::All(all) if self.newest.is_empty() => {
                all.into_iter().for_each(|one| self.add_node(SeenKind::FirstNode, one));
            }
            Followed::All(all) => {
                let is_known = |one: &Value| {
                    self.newest.get(uid(one)).is_some_and(|seen| seen == version(one))
                };
                self.has_gap |= !all.iter().all(is_known);
                all.into_iter().for_each(|one| self.add_node(SeenKind::Node, one));
            }
            Followed::Is(one) => self.add_node(SeenKind::Node, one),
            Followed::Deleted(one) => self.add_node(SeenKind::DeletedNode, one),
        }
    }

    fn add_node(&mut self, kind: SeenKind, node: Value) {
        self.newest.insert(uid(&node).to_owned(), version(&node).to_owned());
        self.add(kind, node);
    }

    fn job(&mut self, followed: Followed) {
        match followed {
            Followed::All(all) => self.known.extend(all.iter().map(|one| uid(one).to_owned())),
            Followed::Is(one) if self.is_new(&one) => self.add(SeenKind::NewJob, one),
            Followed::Is(_) | Followed::Deleted(_) => {}
        }
    }

    fn pod(&mut self, followed: Followed) {
        match followed {
            Followed::All(_) => {}
            Followed::Is(one) | Followed::Deleted(one) => {
                if is_evicted(&one) && self.is_new(&one) {
                    self.add(SeenKind::EvictedPod, one);
                }
            }
        }
    }

    fn is_new(&mut self, object: &Value) -> bool {
        self.known.insert(uid(object).to_owned())
    }

    fn add(&mut self, kind: SeenKind, mut object: Value) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.seen.push(SeenObject { kind, object });
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// Whether the eviction API ended it, rather than a taint or another pod.
fn is_evicted(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is =
        |one: &Value| one["type"] == "DisruptionTarget" && one["reason"] == "EvictionByEvictionAPI";
    conditions.is_some_and(|all| all.iter().any(is))
}
