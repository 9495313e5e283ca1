//! Watches all nodes while a story runs: boots, machines that are unavailable at once, and the steps
//! of each slot.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use mosb_tests::{Api, Lab};

use crate::rollout_cluster::{NODE_JOBS, WORKER};
use crate::slot_times::{SlotTimes, unix_time};

/// How often it looks at all nodes.
const INTERVAL: Duration = Duration::from_millis(100);

/// What was seen since the last question.
#[derive(Debug, Default)]
pub struct Seen {
    pub most_unavailable: usize,
    /// The condition `Ready` of each of these machines, and whether it was cordoned.
    pub unavailable: BTreeMap<String, String>,
    /// The boots that each node reported.
    pub boots: BTreeMap<String, BTreeSet<String>>,
    pub slots: Vec<SlotTimes>,
}

pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    pub fn start(lab: &Lab) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let stopped = Arc::new(AtomicBool::new(false));
        let api = lab.node().another_api();
        let machines = lab.machines().iter();
        let files = machines.map(|one| (one.name().to_owned(), one.boot_id_file())).collect();
        let thread = thread::spawn({
            let (seen, stopped) = (Arc::clone(&seen), Arc::clone(&stopped));
            move || watch(&api, &files, &seen, &stopped)
        });
        Self { seen, stopped, thread: Some(thread) }
    }

    /// What was seen since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn watch(
    api: &Api,
    boot_id_files: &BTreeMap<String, PathBuf>,
    seen: &Mutex<Seen>,
    stopped: &AtomicBool,
) {
    let mut slots: BTreeMap<String, SlotTimes> = BTreeMap::new();
    while !stopped.load(Ordering::Relaxed) {
        let nodes = api.list(None, "nodes", WORKER);
        let pods = api.list(Some(NODE_JOBS), "pods", "");
        let now = unix_time();
        let unavailable: Vec<_> = nodes.iter().filter(|node| is_unavailable(node)).collect();
        let mut seen = seen.lock().unwrap();
        seen.most_unavailable = seen.most_unavailable.max(unavailable.len());
        for node in unavailable {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
            let ready: Vec<_> = conditions.filter(|one| one["type"] == "Ready").collect();
            let why = format!("cordoned: {}, {ready:?}", node["spec"]["unschedulable"]);
            seen.unavailable.insert(name, why);
        }
        for node in &nodes {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap();
            seen.boots.entry(name.clone()).or_default().insert(boot.to_owned());
            let running = boot_id_files.get(&name).and_then(|file| {
                let id = std::fs::read_to_string(file).ok()?;
                Some(id.trim().to_owned())
            });
            let slot = slots.entry(name.clone()).or_default();
            slot.observe(now, node, &pods, running.as_deref());
            if slot.has_ended() {
                seen.slots.extend(slots.remove(&name));
            }
        }
        drop(seen);
        thread::sleep(INTERVAL);
    }
}

fn is_unavailable(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true || !mosb_tests::condition(node, "Ready")
}
