//! Ends started Jobs and Pods after a random time, with the result that the number of their
//! rendered config selects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::desired_pool::{CRASHES, image};
use super::events::Random;
use crate::fault_cluster::kubelet::{End, StartedRunner, started_runners};
use crate::fault_cluster::{FaultCluster, ends, text};

pub struct Kubelet {
    random: Random,
    /// UIDs of Jobs and Pods that have ended.
    ended: BTreeSet<String>,
}

impl Kubelet {
    pub fn new(random: Random) -> Self {
        Self { random, ended: BTreeSet::new() }
    }

    /// Ends each started runner now or in a later turn.
    pub fn turn(&mut self, cluster: &FaultCluster, runners: &[Value]) {
        let now = |uid: &str| !self.ended.contains(uid) && self.random.below(3) == 0;
        for started in started_runners(cluster, runners, now) {
            let end = match started.number & 0xff {
                ends::NEVER => continue,
                ends::LOST if started.is_first => Some(End::Evicted),
                CRASHES if started.is_first => Some(End::Crashed),
                ends::FAILS => Some(End::Failed),
                number => containerfile(&started, cluster)
                    .map(|text| End::Made(image(number, Some(&text)))),
            };
            if end.is_some_and(|end| started.ends(cluster, end)) {
                self.ended.insert(started.uid().to_owned());
            }
        }
    }
}

/// The Containerfile of the runner's pod: empty if the build has none, `None` if the ConfigMap does
/// not exist.
fn containerfile(started: &StartedRunner<'_>, cluster: &FaultCluster) -> Option<String> {
    let Some(map) = started.needs("containerfile-") else {
        return Some(String::new());
    };
    let (code, map) = cluster.proxy.api().ask("GET", &map, None);
    (code == 200).then(|| text(&map["data"]["Containerfile"]).to_owned())
}
