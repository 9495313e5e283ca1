//! When what happened in the cluster: each object's every change as a watch tells it, each
//! container as containerd does.

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

/// What is watched: group, version, kind; of the last ones, those in the namespace.
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
/// Longer than any build takes.
const LIMIT: Duration = Duration::from_secs(300);

/// One change of an object.
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

/// What was seen since it began.
pub struct Journal {
    shared: Arc<Shared>,
    containers: Containers,
    // Its tasks end with it.
    _runtime: Runtime,
}

impl Journal {
    /// Begins, in a namespace and with what has none.
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

    /// The first change at or after an instant that fits, as soon as there is one.
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

    /// All changes in order that fit.
    pub fn all(&self, fits: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().filter(|one| fits(one)).cloned().collect()
    }

    /// When processes of containers began, from one instant to another: the first so many, which a
    /// pod has.
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

/// With which the cluster is asked.
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
            // It begins anew.
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

/// Writes down what containerd tells, until the stop file is there.
const FOLLOW: &str = r#"
"$1" --namespace k8s.io events > "$2" &
while [ ! -e "$2.stop" ]; do sleep 0.5; done
kill $!
"#;

/// What containerd tells of containers: events with its own times.
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

    /// When the processes of containers began, in order.
    fn starts(&self) -> Vec<Timestamp> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let starts = whole.lines().filter(|line| line.contains(" /tasks/start "));
        starts.map(time).collect()
    }
}

/// `2026-01-31 12:00:00.123456789 +0000 UTC k8s.io /tasks/start {…}`
fn time(line: &str) -> Timestamp {
    let mut words = line.split(' ');
    let (date, time) = words.next().zip(words.next()).unwrap();
    format!("{date}T{time}Z").parse().unwrap()
}

impl Drop for Containers {
    fn drop(&mut self) {
        fs::write(self.log.with_extension("stop"), "").unwrap();
        if let Some(follower) = self.follower.take() {
            // Its last output is of no use.
            follower.join().ok();
        }
    }
}
