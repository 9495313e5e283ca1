//! `mosb builds`, `nodes` and `rollout` on a real API server. No controller runs: the marks that it
//! writes on nodes are written by the test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use mosb_tests::{Daemon, Finished, Node, finish, lasting, limited, programs, wait};

const API: &str = "machineconfiguration.openshift.io/v1";
const ONCE: &str = "mosb.dev/rollout-once";
const PIN: &str = "mosb.dev/rollout-build";
const BOOT: &str = "boot-1";
const SOON: Duration = Duration::from_secs(60);

/// An API server with a pool, of which build 2 is in service and build 1 was before.
struct Site {
    node: Node,
}

fn digest(number: u32) -> String {
    format!("sha256:{number:064x}")
}

fn image(number: u32) -> String {
    format!("registry.example.com/os/worker@{}", digest(number))
}

fn rendered(number: u32) -> String {
    format!("rendered-worker-{number:032x}")
}

fn build(number: u32) -> String {
    format!("worker-{number:032x}")
}

fn pin(number: u32) -> String {
    format!("{}@{}", build(number), digest(number))
}

impl Site {
    fn new() -> Self {
        let node = Node::control_plane(&programs()).unwrap();
        node.install_kinds();
        let site = Self { node };
        site.apply(&json!({ "apiVersion": API, "kind": "MachineConfigPool",
            "metadata": { "name": "worker" },
            "spec": { "nodeSelector": { "matchLabels": { "worker": "" } },
                "configuration": { "name": rendered(2) } } }));
        site.apply(&json!({ "apiVersion": API, "kind": "MachineOSConfig",
            "metadata": { "name": "worker" },
            "spec": { "machineConfigPool": { "name": "worker" },
                "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": "registry.example.com/os/worker:latest" } }));
        site.has_base(&format!("quay.io/fedora/fedora-coreos@{}", digest(9)));
        for number in [1, 2] {
            site.has_build(number);
        }
        let status = json!({ "status": { "currentImagePullSpec": image(2),
            "machineOSBuild": { "group": "machineconfiguration.openshift.io",
                "resource": "machineosbuilds", "name": build(2) } } });
        site.patch_status("machineosconfig/worker", &status);
        let entry = |number| {
            let time = format!("2026-01-0{number}T00:00:00Z");
            json!({ "build": build(number), "image": image(number), "config": rendered(number),
                "since": time, "ran": time })
        };
        site.annotate("mosb.dev/history", &json!([entry(2), entry(1)]).to_string());
        site
    }

    /// Build 3 was in service between builds 1 and 2, and no machine got it.
    fn has_build_that_never_ran(&self) {
        let history = self.annotation("mosb.dev/history");
        let mut history: Vec<Value> = serde_json::from_str(history.as_str().unwrap()).unwrap();
        let unused = json!({ "build": build(3), "image": image(3), "config": rendered(3),
            "since": "2026-01-01T12:00:00Z" });
        history.insert(1, unused);
        self.annotate("mosb.dev/history", &json!(history).to_string());
    }

    fn apply(&self, object: &Value) {
        self.node.apply(&object.to_string());
    }

    fn patch(&self, what: &str, patch: &Value) {
        self.node.kubectl(&["patch", what, "--type=merge", "-p", &patch.to_string()]).ok();
    }

    fn patch_status(&self, what: &str, patch: &Value) {
        let patch = patch.to_string();
        let arguments = ["patch", what, "--type=merge", "--subresource=status", "-p", &patch];
        self.node.kubectl(&arguments).ok();
    }

    fn annotate(&self, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch("machineosconfig/worker", &patch);
    }

    /// The stock image of the rendered config that the pool should have.
    fn has_base(&self, base: &str) {
        // A rendered config's spec never changes.
        static NUMBER: AtomicU32 = AtomicU32::new(0x100);
        let name = rendered(NUMBER.fetch_add(1, Ordering::Relaxed));
        self.apply(&json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": name },
            "spec": { "osImageURL": base, "config": { "ignition": { "version": "3.5.0" } } } }));
        let patch = json!({ "spec": { "configuration": { "name": name } } });
        self.patch("machineconfigpool/worker", &patch);
    }

    fn has_build(&self, number: u32) {
        let uid = self.node.get("machineosconfig/worker")["metadata"]["uid"].clone();
        let name = build(number);
        self.apply(&json!({ "apiVersion": API, "kind": "MachineOSBuild",
            "metadata": { "name": name,
                "annotations": { "mosb.dev/method": "direct", "mosb.dev/base": image(9),
                    "mosb.dev/stage": "replaced" },
                "ownerReferences": [{ "apiVersion": API, "kind": "MachineOSConfig",
                    "name": "worker", "uid": uid, "controller": true }] },
            "spec": { "machineConfig": { "name": rendered(number) },
                "machineOSConfig": { "name": "worker" },
                "renderedImagePushSpec": format!("registry.example.com/os/worker:{}", rendered(number)) } }));
        let condition = |kind: &str, status: &str| {
            json!({ "type": kind, "status": status,
            "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let states = ["Prepared", "Building", "Failed", "Interrupted"];
        let mut conditions: Vec<Value> =
            states.iter().map(|kind| condition(kind, "False")).collect();
        conditions.push(condition("Succeeded", "True"));
        let status = json!({ "status": { "conditions": conditions,
            "buildStart": format!("2026-01-0{number}T00:00:00Z"),
            "buildEnd": format!("2026-01-0{number}T00:01:00Z"),
            "digestedImagePushSpec": image(number) } });
        self.patch_status(&format!("machineosbuild/{name}"), &status);
    }

    /// A machine that booted this image, with these marks of the controller.
    fn machine(&self, name: &str, runs: u32, marks: &[(&str, String)]) {
        self.machine_with_staged(name, runs, None, marks);
    }

    /// The same, with this image staged in its boot.
    fn machine_with_staged(
        &self,
        name: &str,
        runs: u32,
        staged: Option<u32>,
        marks: &[(&str, String)],
    ) {
        let deployment = |number| json!({ "image": image(number), "digest": digest(number) });
        let mut report = json!({ "bootID": BOOT, "tool": "bootc", "booted": deployment(runs) });
        if let Some(staged) = staged {
            report["staged"] = deployment(staged);
        }
        let mut annotations = json!({
            "mosb.dev/node-report": report.to_string(),
            "machineconfiguration.openshift.io/currentImage": image(runs),
            "machineconfiguration.openshift.io/state": "Done",
        });
        for (key, value) in marks {
            annotations[*key] = json!(value);
        }
        self.apply(&json!({ "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "worker": "" }, "annotations": annotations } }));
        let empty = [
            "architecture",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ];
        let mut info = json!({ "bootID": BOOT });
        for field in empty {
            info[field] = json!("");
        }
        let status = json!({ "status": { "nodeInfo": info,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Test", "message": "" }] } });
        self.patch_status(&format!("node/{name}"), &status);
        // The API server adds the taint for a new node, which nobody here takes away.
        self.patch(&format!("node/{name}"), &json!({ "spec": { "unschedulable": null } }));
    }

    fn enable(&self) {
        self.node.make_namespace("mosb-rollout");
    }

    fn mosb(&self, line: &str) -> Finished {
        let mut command = limited(mosb_tests::program());
        command.args(line.split_whitespace()).arg("--kubeconfig").arg(self.node.kubeconfig());
        finish(command.env_clear().env("PATH", "/usr/bin:/bin"), &[])
    }

    /// Exit code and object.
    fn object(&self, line: &str) -> (Option<i32>, Value) {
        let finished = self.mosb(&format!("{line} -o json"));
        (finished.code(), finished.json())
    }

    /// The value of an annotation of the MachineOSConfig.
    fn annotation(&self, key: &str) -> Value {
        self.node.get("machineosconfig/worker")["metadata"]["annotations"][key].clone()
    }
}

fn staged(number: u32) -> String {
    let target = json!({ "image": image(number), "config": rendered(number) });
    json!({ "target": target, "bootID": BOOT }).to_string()
}

#[test]
fn builds_and_nodes_show_what_runs() {
    let site = Site::new();
    site.machine_with_staged("node-1", 1, Some(2), &[("mosb.dev/staged", staged(2))]);
    site.machine("node-2", 2, &[]);
    let (code, builds) = site.object("builds worker");
    assert_eq!((code, &builds["kind"]), (Some(0), &json!("BuildList")));
    let rows = builds["builds"].as_array().unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["build"]).collect();
    assert_eq!(names, [&json!(build(2)), &json!(build(1))], "newest first");
    assert_eq!((&rows[0]["inService"], &rows[1]["inService"]), (&json!(true), &json!(false)));
    // Pools without a MachineOSConfig before and after it have none.
    for pool in ["infra", "zone"] {
        site.apply(&json!({ "apiVersion": API, "kind": "MachineConfigPool",
            "metadata": { "name": pool },
            "spec": { "nodeSelector": { "matchLabels": { pool: "" } } } }));
    }
    assert_eq!(site.object("builds").1["builds"], builds["builds"], "of all pools");
    assert_eq!(rows[0]["pool"], "worker");
    assert_eq!(rows[0]["stagedOn"], json!(["node-1"]));
    assert_eq!(rows[0]["runningOn"], json!(["node-2"]));
    assert_eq!(rows[1]["runningOn"], json!(["node-1"]));
    assert_eq!((&rows[1]["method"], &rows[1]["base"]), (&json!("direct"), &json!(image(9))));

    let text = site.mosb("nodes worker").ok().text();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("NODE") && lines[1].starts_with("node-1"), "{text}");
    let (_, nodes) = site.object("nodes");
    assert_eq!(nodes["nodes"][0]["current"], json!(image(1)));
    assert_eq!(nodes["nodes"][0]["staged"], json!(image(2)));
    assert_eq!(nodes["nodes"][1]["state"], json!("Done"));
    for line in ["builds none", "nodes none", "rollout status none", "rollout start none"] {
        let (code, error) = site.object(line);
        assert_eq!((code, &error["code"]), (Some(2), &json!("no-pool")), "{line}: {error:#}");
    }
}

#[test]
fn what_machines_could_adopt_is_shown() {
    let site = Site::new();
    site.machine("node-1", 2, &[]);
    site.machine("node-2", 2, &[]);
    let reports = |node: &str, etc: &Value| {
        let deployment = json!({ "image": image(2), "digest": digest(2) });
        let report = json!({ "bootID": BOOT, "tool": "bootc", "booted": deployment, "etc": etc });
        let annotations = json!({ "mosb.dev/node-report": report.to_string() });
        site.patch(&format!("node/{node}"), &json!({ "metadata": { "annotations": annotations } }));
    };
    let motd = json!({ "count": 1, "paths": ["/etc/motd"] });
    reports("node-1", &json!({ "hidden": motd, "adoptable": motd, "kept": { "count": 0 } }));
    reports("node-2", &json!({ "hidden": motd }));
    let version = || site.node.get("machineosconfig/worker")["metadata"]["resourceVersion"].clone();
    let before = version();
    for line in ["nodes adopt worker --dry-run", "nodes drift worker"] {
        let text = site.mosb(line).ok().text();
        for want in ["node-1 can adopt /etc/motd\n", "node-2 has no record of the config"] {
            assert!(text.contains(want), "{line}: {text}");
        }
        assert!(!text.contains("node-1 has no record"), "{line}: {text}");
        // Where nobody rolls out, too.
        let (code, drift) = site.object(line);
        assert_eq!((code, &drift["kind"]), (Some(0), &json!("PoolDrift")), "{drift:#}");
        assert_eq!((&drift["adopts"], version()), (&json!(false), before.clone()), "{line}");
    }
    site.enable();
    site.mosb("nodes adopt worker --dry-run").ok();
    assert_eq!((site.annotation("mosb.dev/adopt"), version()), (Value::Null, before));
    let text = site.mosb("nodes adopt worker").ok().text();
    assert!(text.contains("machines adopt what their first config wrote"), "{text}");
    assert_eq!(site.annotation("mosb.dev/adopt"), json!("true"));
}

#[test]
fn requests_that_nobody_carries_out_are_refused() {
    let site = Site::new();
    let has = ("machineconfiguration.openshift.io/currentConfig", rendered(1));
    site.machine("node-1", 1, &[has]);
    site.apply(&json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": rendered(1) }, "spec": { "kernelArguments": ["a=1", "b=2"],
            "config": { "ignition": { "version": "3.5.0" } } } }));
    for line in ["start", "pause", "resume", "undo"] {
        let (code, error) = site.object(&format!("rollout {line} worker"));
        let code = (code, &error["code"]);
        assert_eq!(code, (Some(2), &json!("rollout-not-enabled")), "{line}: {error:#}");
    }
    site.enable();
    let written = |line: &str| {
        let (code, object) = site.object(&format!("rollout {line}"));
        assert_eq!(code, Some(0), "{line}: {object:#}");
        object["changed"].as_bool().unwrap()
    };
    site.has_build_that_never_ran();
    // The pool has a rendered config that no build is of: what is in service counts.
    assert!(written("start worker") && !written("start worker"));
    assert_eq!(site.annotation(ONCE), json!(pin(2)));
    assert!(written("undo worker") && !written("undo worker"));
    assert_eq!((site.annotation(PIN), site.annotation(ONCE)), (json!(pin(1)), json!(pin(1))));
    assert!(written(&format!("undo worker --to {}", build(2))));
    assert_eq!(site.annotation(PIN), json!(pin(2)));
    let (code, object) = site.object("rollout undo worker --to stock");
    assert_eq!((code, &object["changed"]), (Some(0), &json!(true)), "{object:#}");
    assert!(object["notes"].to_string().contains("stay on the machines: a=1, b=2"), "{object:#}");
    assert_eq!(site.annotation(PIN), json!(format!("stock@{}", digest(9))));
    site.has_base("quay.io/fedora/fedora-coreos:stable");
    let (code, error) = site.object("rollout undo worker --to stock");
    assert_eq!((code, &error["code"]), (Some(2), &json!("no-stock-digest")), "{error:#}");
    let started = site.mosb("rollout start worker").ok().text();
    assert!(started.contains("no longer pinned to stock@"), "{started}");
    assert_eq!((site.annotation(PIN), site.annotation(ONCE)), (Value::Null, json!(pin(2))));

    let paused = || site.node.get("machineconfigpool/worker")["spec"]["paused"].clone();
    assert!(written("pause worker") && !written("pause worker"));
    assert_eq!(paused(), json!(true));
    assert!(written("resume worker") && !written("resume worker"));
    assert_eq!(paused(), json!(false));

    let controller = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "machine-config-controller", "namespace": "openshift-machine-config-operator" },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "a", "image": "a" }] } } } });
    site.node.make_namespace("openshift-machine-config-operator");
    site.apply(&controller);
    let (code, error) = site.object("rollout start worker");
    assert_eq!((code, &error["code"]), (Some(2), &json!("other-rollout")), "{error:#}");
}

#[test]
fn a_roll_out_is_followed_until_its_end() {
    let site = Site::new();
    site.enable();
    site.machine("node-1", 1, &[]);
    site.machine("node-2", 2, &[]);
    let (code, status) = site.object("rollout status worker");
    assert_eq!((code, &status["phase"]), (Some(0), &json!("off")), "{status:#}");
    assert_eq!(site.object("rollout status worker --watch").0, Some(2), "nothing is rolled out");
    site.annotate("mosb.dev/rollout", "automatic");
    let (code, error) = site.object("rollout status worker --watch --timeout 2s");
    assert_eq!((code, &error["code"]), (Some(3), &json!("not-rolled-out")), "{error:#}");

    let mut watching = lasting(mosb_tests::program());
    watching.args(["rollout", "status", "worker", "--watch", "--timeout", "2m", "--kubeconfig"]);
    watching.arg(site.node.kubeconfig()).env_clear().env("PATH", "/usr/bin:/bin");
    let begins = |line: &str| line.contains("1 of 2 machines run").then_some(());
    let (watching, ()) = Daemon::start(watching, begins);
    let slot = json!({ "target": { "image": image(2), "config": rendered(2) },
        "since": "2026-01-03T00:00:00Z", "attempt": 1, "bootID": BOOT, "cordoned": true });
    let marks = [
        ("mosb.dev/slot", slot.to_string()),
        ("machineconfiguration.openshift.io/state", "Working".to_owned()),
        ("machineconfiguration.openshift.io/reason", "pod shop/web-0 is held".to_owned()),
    ];
    site.machine("node-1", 1, &marks);
    let logged = |text: &str| watching.log().contains(text).then_some(());
    wait("the reason", SOON, || logged("node-1 Working: pod shop/web-0 is held"));
    assert!(!watching.has_ended());
    site.machine("node-1", 2, &[]);
    wait("the end", SOON, || watching.has_ended().then_some(()));
    assert!(watching.log().contains("2 of 2 machines run"), "{}", watching.log());

    site.machine("node-1", 1, &[]);
    let condition = json!({ "type": "RolloutDegraded", "status": "True", "reason": "MachineLost",
        "message": "no machine is rebooted: not back: node-1" });
    let status = json!({ "status": { "conditions": [condition] } });
    site.patch_status("machineconfigpool/worker", &status);
    let (code, status) = site.object("rollout status worker --watch --timeout 2m");
    assert_eq!((code, &status["phase"]), (Some(1), &json!("failed")), "{status:#}");
    assert_eq!(status["behind"][0]["node"], json!("node-1"));
    site.patch("machineconfigpool/worker", &json!({ "spec": { "paused": true } }));
    let (code, status) = site.object("rollout status worker --watch");
    assert_eq!((code, &status["phase"]), (Some(2), &json!("paused")), "{status:#}");
}
