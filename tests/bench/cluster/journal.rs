//! Records changes in the cluster with their times: changes of objects from watches, and container
//! events from containerd.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use mosb_tests::{Node, programs};

/// The watched kinds with their group and version. The last ones are watched in the namespace only.
const KINDS: [(&str, &str, &str); 10] = [
    (MACHINE, "v1", "MachineConfigPool"),
    (MACHINE, "v1", "MachineOSConfig"),
    (MACHINE, "v1", "MachineOSBuild"),
    ("batch", "v1", "Job"),
    ("", "v1", "Pod"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
];
const MACHINE: &str = "machineconfiguration.openshift.io";
/// This is longer than any build takes.
const LIMIT: Duration = Duration::from_secs(300);

/// A change of an object.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Timestamp,
    pub kind: &'static str,
    pub is_deleted: bool,
    pub object: Value,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    more: Condvar,
}

/// All recorded changes.
pub struct Journal {
    shared: Arc<Shared>,
    containers: Containers,
    // The drop ends its tasks.
    _runtime: Runtime,
}

impl Journal {
    /// Starts recording the kinds of a namespace and the kinds without one.
    pub fn begin(node: &'static Node, namespace: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let shared = Arc::<Shared>::default();
        let client = client(&runtime, node);
        for (group, version, kind) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let client = client.clone();
            let api: Api<DynamicObject> = if group == MACHINE {
                Api::all_with(client, &resource)
            } else {
                Api::namespaced_with(client, namespace, &resource)
            };
            runtime.spawn(watch(kind, api, Arc::clone(&shared)));
        }
        Self { shared, containers: Containers::begin(node), _runtime: runtime }
    }

    /// Waits for the first change at or after an instant that matches.
    #[track_caller]
    pub fn first(&self, what: &str, after: Timestamp, fits: impl Fn(&Seen) -> bool) -> Seen {
        let end = Timestamp::now() + LIMIT;
        let mut seen = self.shared.seen.lock().unwrap();
        loop {
            let mut later = seen.iter().filter(|one| one.at >= after);
            if let Some(found) = later.find(|one| fits(one)) {
                return found.clone();
            }
            assert!(Timestamp::now() < end, "waited in vain for {what}");
            seen = self.shared.more.wait_timeout(seen, LIMIT / 100).unwrap().0;
        }
    }

    /// All changes that match, in order.
    pub fn all(&self, fits: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().filter(|one| fits(one)).cloned().collect()
    }

    /// The start times of the first `count` container processes between two instants. A pod has
    /// that many.
    #[track_caller]
    pub fn starts(&self, after: Timestamp, until: Timestamp, count: usize) -> Vec<Timestamp> {
        let end = Timestamp::now() + Duration::from_secs(5);
        loop {
            let mut all = self.containers.starts();
            all.retain(|at| (after..=until).contains(at));
            if all.len() >= count {
                return all;
            }
            assert!(Timestamp::now() < end, "containerd reported only {all:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A client for the node's API server.
pub fn client(runtime: &Runtime, node: &Node) -> Client {
    let connect = mosb_controller::connect(Some(node.kubeconfig()), None);
    runtime.block_on(connect).unwrap().0
}

async fn watch(kind: &'static str, api: Api<DynamicObject>, shared: Arc<Shared>) {
    let mut events = std::pin::pin!(watcher(api, Config::default()));
    while let Some(event) = events.next().await {
        let (is_deleted, object) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (false, object),
            Ok(Event::Delete(object)) => (true, object),
            Ok(Event::Init | Event::InitDone) => continue,
            // The watch restarts by itself.
            Err(error) => {
                eprintln!("watch of {kind}: {error}");
                continue;
            }
        };
        let at = Timestamp::now();
        let object = serde_json::to_value(object).unwrap();
        let one = Seen { at, kind, is_deleted, object };
        shared.seen.lock().unwrap().push(one);
        shared.more.notify_all();
    }
}

/// Writes containerd's events to a file until the stop file exists.
const FOLLOW: &str = r#"
"$1" --namespace k8s.io events > "$2" &
while [ ! -e "$2.stop" ]; do sleep 0.5; done
kill $!
"#;

/// The events of containers with containerd's own timestamps.
struct Containers {
    log: PathBuf,
    _directory: TempDir,
    follower: Option<JoinHandle<()>>,
}

impl Containers {
    fn begin(node: &'static Node) -> Self {
        let directory = TempDir::new().unwrap();
        let log = directory.path().join("events");
        let ctr = programs().ctr().display().to_string();
        let path = log.display().to_string();
        let follower = thread::spawn(move || {
            node.inside(&["sh", "-c", FOLLOW, "sh", &ctr, &path]);
        });
        Self { log, _directory: directory, follower: Some(follower) }
    }

    /// The start times of container processes, in order.
    fn starts(&self) -> Vec<Timestamp> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let starts = whole.lines().filter(|line| line.contains(" /tasks/start "));
        starts.map(time).collect()
    }
}

/// Parses the time of a line such as `2026-01-31 12:00:00.123456789 +0000 UTC k8s.io /tasks/start
/// {…}`.
fn time(line: &str) -> Timestamp {
    let mut words = line.split(' ');
    let (date, time) = words.next().zip(words.next()).unwrap();
    format!("{date}T{time}Z").parse().unwrap()
}

impl Drop for Containers {
    fn drop(&mut self) {
        fs::write(self.log.with_extension("stop"), "").unwrap();
        if let Some(follower) = self.follower.take() {
            // The follower's result is not needed.
            follower.join().ok();
        }
    }
}
