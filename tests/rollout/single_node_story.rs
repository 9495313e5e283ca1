//! A cluster of one machine, which is control plane and worker: it reboots with its API server and
//! the controller, which goes on afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use mosb_tests::{Api, Lab, finish, limited};

use crate::rollout_cluster::objects::NAMESPACE;
use crate::rollout_cluster::{CONFIG, RolloutCluster, mark, step};
use crate::{controller_pod, guarded_pod};

const NODE: &str = "node/machine-0";

#[test]
fn the_only_machine_reboots_with_its_control_plane() {
    let lab = Lab::single_node();
    for (what, after) in &lab.times {
        println!("{what}: after {:.1} s", after.as_secs_f64());
    }
    let cluster = RolloutCluster::start(&lab);
    let (node, machine) = (cluster.node(), lab.machine(0));
    let first = step("the first image", || cluster.image());
    let bundle = cluster.mosb("support-bundle -o -").ok();
    let mut tar = limited("tar");
    tar.args(["-xzO", "--wildcards", &format!("*/logs/{NAMESPACE}/*.log")]);
    let logs = finish(&mut tar, &bundle.stdout).ok().text();
    assert!(logs.contains("the lease is held; reconciling"), "{logs}");
    cluster.annotate(CONFIG, "mosb.dev/rollout=stage");
    step("staged", || {
        cluster.wait(NODE, |node| mark(node, "mosb.dev/staged").contains(&first));
    });
    assert_eq!(machine.staged_digest().as_ref(), Some(&first));

    // Where would its pods go? A budget holds none of them, as the machine is not drained.
    guarded_pod::create(node, machine.name());
    let guarded = cluster.wait("pod/guarded", |pod| mosb_tests::condition(pod, "Ready"));
    let controller = controller_pod::wait_ready(node);
    assert_eq!(cluster.seen(), (vec![0], 0));
    let outage = Outage::watch(node.another_api());
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("rolled out", || cluster.wait_updated(&first));
    let away = outage.end();
    println!("the API server was away for {:.1} s", away.as_secs_f64());
    assert!(away > Duration::ZERO, "it runs on the machine");
    assert_eq!(cluster.seen(), (vec![1], 1), "one reboot");
    assert_eq!(machine.run("cat /etc/story").ok().text(), "first");

    let after = cluster.wait("pod/guarded", |pod| mosb_tests::condition(pod, "Ready"));
    assert_eq!(after["metadata"]["uid"], guarded["metadata"]["uid"], "it was not evicted");
    let after = controller_pod::wait_ready(node);
    assert!(
        after["metadata"]["uid"] != controller["metadata"]["uid"]
            || controller_pod::restarts(&after) > 0
    );
    let unseen = |event: &Value| {
        event["message"].as_str().is_some_and(|text| text.contains("etcd is external"))
    };
    assert!(node.list("events").iter().any(unseen), "no event about the etcd that is no pod");

    let stock = lab.stock().digest;
    cluster.annotate(CONFIG, &format!("mosb.dev/rollout-build=stock@{stock}"));
    step("back to stock", || cluster.wait_updated(&stock));
    assert_eq!(cluster.seen(), (vec![1], 1), "one reboot");
    assert_eq!(machine.run("ls /etc/story 2>/dev/null || true").ok().text(), "");
}

/// Asks the API server all the time whether it is ready.
struct Outage {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Outage {
    fn watch(api: Api) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stopped = Arc::clone(&stopped);
            move || {
                let mut away = Duration::ZERO;
                while !stopped.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let is_ready = api.is_ready();
                    thread::sleep(Duration::from_millis(50));
                    if !is_ready {
                        away += asked.elapsed();
                    }
                }
                away
            }
        });
        Self { stopped, thread }
    }

    /// For how long it was not.
    fn end(self) -> Duration {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
