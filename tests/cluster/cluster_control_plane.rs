//! Where the images of control-plane machines are built, on a real API server and scheduler: a
//! second node that is only an object.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::Node;

const ROLE: &str = "node-role.kubernetes.io/control-plane";
const NAME: &str = "control-plane-0";
/// Far less than the time after which a node that reports nothing is unreachable.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// A control-plane node that no kubelet serves: what is bound to it stays as the scheduler left it.
/// A thread reports that it is Ready.
struct ControlPlaneNode {
    node: &'static Node,
    stop: Option<Sender<()>>,
    reports: Option<JoinHandle<()>>,
}

impl ControlPlaneNode {
    fn cordoned(node: &'static Node) -> Self {
        let mut guard = Self { node, stop: None, reports: None };
        let labels =
            json!({ ROLE: "", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" });
        let taints = json!([{ "key": ROLE, "effect": "NoSchedule" }]);
        let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NAME, "labels": labels },
            "spec": { "unschedulable": true, "taints": taints } });
        node.apply(&object.to_string());
        let capacity =
            json!({ "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "100" });
        let api = node.another_api();
        let report = move || {
            let ready = json!({ "type": "Ready", "status": "True", "reason": "Test", "message": "",
                "lastHeartbeatTime": Timestamp::now().strftime("%FT%TZ").to_string() });
            let status = json!({ "status": { "allocatable": capacity, "capacity": capacity,
                "conditions": [ready] } });
            api.ask("PATCH", &format!("/api/v1/nodes/{NAME}/status"), Some(&status))
        };
        let (code, answer) = report();
        assert_eq!(code, 200, "{answer:#}");
        let (stop, stopped) = channel();
        guard.stop = Some(stop);
        guard.reports = Some(thread::spawn(move || {
            while stopped.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                report();
            }
        }));
        guard
    }
}

impl Drop for ControlPlaneNode {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(reports) = self.reports.take() {
            // Its panic is printed already.
            reports.join().ok();
        }
        // Nobody but the API server knows its pods.
        let on_it = format!("--field-selector=spec.nodeName={NAME}");
        let pods = ["delete", "pods", "--all-namespaces", &on_it, "--force"];
        self.node.kubectl(&pods);
        self.node.kubectl(&["delete", "node", NAME]);
    }
}

#[test]
fn workers_build_no_images_of_control_planes() {
    let mut cluster = Cluster::new("control-plane");
    let control_plane = ControlPlaneNode::cordoned(cluster.node);
    let selector = json!({ "spec": { "nodeSelector": { "matchLabels": { ROLE: "", "kubernetes.io/os": null } } } });
    cluster.patch(&format!("machineconfigpool/{}", cluster.pool), &selector);
    cluster.render("one");
    cluster.opt_in(None);
    cluster.start();

    // The worker has capacity, and the build waits.
    let what = format!("machineosconfig/{}", cluster.pool);
    let is_blocked = |config: &Value| {
        let conditions = config["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| {
            one["type"] == "Blocked"
                && one["status"] == "True"
                && one["reason"] == "NoControlPlaneNode"
        })
    };
    let config = cluster.node.wait(&what, SOON, is_blocked);
    let message = cluster.message(&config, "Blocked");
    assert!(message.contains("unschedulable"), "{message}");
    cluster.wait_status("no-control-plane-node");
    for pod in cluster.pods() {
        assert_eq!(pod["spec"]["nodeName"], json!(null), "{pod:#}");
    }

    // Capacity is added.
    cluster.node.kubectl(&["uncordon", NAME]).ok();
    let bound = || {
        let pods = cluster.pods();
        let node = pods.first()?["spec"]["nodeName"].as_str()?;
        Some(node.to_owned())
    };
    assert_eq!(mosb_tests::wait("the pod to be bound", SOON, bound), NAME);
    cluster.node.kubectl(&["delete", "machineosconfig", &cluster.pool, "--wait=false"]).ok();
    drop(control_plane);
    cluster.wait_deleted(&format!("machineosconfig/{}", cluster.pool));
}
