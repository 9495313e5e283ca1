//! `mosb job wait-for-done` against a real API server: one ConfigMap, one right.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use mosb_build::result_dir::ResultDir;
use mosb_image::Digest;
use mosb_plan::payload::BuildSpec;
use serde_json::{Value, json};

use mosb_tests::build_fixture::names;
use mosb_tests::{ApiFault, ApiProxy, Finished, Mosb, Namespace, Write, node, run, wait};

const BUILD: &str = "worker-0123456789abcdef0123456789abcdef";
const NAME: &str = "digest-worker-0123456789abcdef0123456789abcdef";
const WAIT: Duration = Duration::from_secs(60);

/// A Job's UID, an empty ConfigMap of it, and a sidecar that may get and patch that one.
struct SidecarConfig {
    namespace: Namespace<'static>,
    uid: String,
    mosb: Mosb,
}

impl SidecarConfig {
    #[track_caller]
    fn new(name: &str) -> Self {
        let namespace = Namespace::new(node(), name);
        // A Job that is never started is enough of an owner.
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "build" },
            "spec": { "suspend": true, "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "main", "image": "none" }],
            } } },
        });
        namespace.apply(&job.to_string());
        let uid = namespace.get("job/build")["metadata"]["uid"].as_str().unwrap().to_owned();
        let post = Self { namespace, uid, mosb: Mosb::new() };
        post.make_map(&post.uid);
        for object in [
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "sidecar" } }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "sidecar" },
                "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "patch"] }],
            }),
        ] {
            post.namespace.apply(&object.to_string());
        }
        for folder in ["result", "failure"] {
            fs::create_dir(post.folder(folder)).unwrap();
        }
        let image = format!("quay.io/os@sha256:{}", "0".repeat(64));
        let spec = json!({
            "format": BuildSpec::FORMAT, "build": BUILD, "namespace": post.namespace.name,
            "machineConfig": "/none", "base": image, "baseName": image, "platform": "linux/amd64",
            "push": "quay.io/os", "buildOn": "os-change", "nodes": "any", "prepared": "without",
        });
        fs::write(post.folder("build.json"), spec.to_string()).unwrap();
        let token = post.namespace.kubectl(&["create", "token", "sidecar"]).ok().text();
        post.write_kubeconfig(token.trim());
        post
    }

    /// The right is given apart, so that a test can be early.
    fn allow(&self) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "sidecar" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sidecar" },
            "subjects": [{ "kind": "ServiceAccount", "name": "sidecar", "namespace": self.namespace.name }],
        });
        self.namespace.apply(&binding.to_string());
    }

    fn make_map(&self, uid: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NAME, "ownerReferences": [
                { "apiVersion": "batch/v1", "kind": "Job", "name": "build", "uid": uid, "controller": true },
            ] },
        });
        self.namespace.apply(&map.to_string());
    }

    fn write_kubeconfig(&self, token: &str) {
        let text = fs::read_to_string(node().kubeconfig()).unwrap();
        let mut config = mosb_api::yaml::parse_one(text.as_bytes()).unwrap();
        config["users"][0]["user"] = json!({ "token": token });
        fs::write(self.kubeconfig(), config.to_string()).unwrap();
    }

    fn kubeconfig(&self) -> PathBuf {
        self.mosb.home().join("kubeconfig")
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.mosb.home().join(name)
    }

    fn start(&self) -> Child {
        let path = |name| self.folder(name).display().to_string();
        let (spec, result, failure) = (path("build.json"), path("result"), path("failure"));
        let mut command = self.mosb.command([
            "job",
            "wait-for-done",
            "--spec",
            &spec,
            "--result",
            &result,
            "--failure",
            &failure,
            "--job-uid",
            &self.uid,
        ]);
        command.env("KUBECONFIG", self.kubeconfig());
        let log = fs::File::create(self.mosb.home().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        wait("its handler of SIGTERM, or its end", WAIT, || {
            (handles_sigterm(child.id()) || child.try_wait().unwrap().is_some()).then_some(())
        });
        child
    }

    /// What the sidecar that was started last has logged.
    fn log(&self) -> String {
        fs::read_to_string(self.mosb.home().join("log")).unwrap()
    }

    /// Ends it as the kubelet does. One that tries to deliver in vain fails after 15 seconds.
    fn terminate(&self, child: Child) -> Finished {
        run("kill", ["-TERM", &child.id().to_string()]);
        let output = child.wait_with_output().unwrap();
        Finished {
            what: "the sidecar".to_owned(),
            status: output.status,
            stdout: output.stdout,
            stderr: self.log(),
        }
    }

    fn put(&self, folder: &str, outcome: Value) -> String {
        let mut result = json!({ "jobUid": "forged", "build": BUILD });
        result.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        let text = result.to_string();
        ResultDir::new(&self.folder(folder)).put(&text).unwrap();
        text
    }

    fn data(&self) -> Value {
        self.namespace.get(&format!("configmap/{NAME}"))["data"].clone()
    }

    /// The result in the ConfigMap, once there is one.
    #[track_caller]
    fn result(&self) -> Value {
        let map = self
            .namespace
            .wait(&format!("configmap/{NAME}"), WAIT, |map| map["data"]["result.json"].is_string());
        serde_json::from_str(map["data"]["result.json"].as_str().unwrap()).unwrap()
    }

    #[track_caller]
    fn acknowledged(&self, text: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result_dir = ResultDir::new(&self.folder("result"));
        runtime.block_on(result_dir.acknowledged(text, WAIT)).map_err(|error| error.to_string())
    }
}

/// Whether a process has a handler of SIGTERM.
fn handles_sigterm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    // The lowest bit is that of signal 1; SIGTERM is signal 15.
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << 14) != 0)
}

fn succeeded() -> Value {
    json!({ "outcome": "Succeeded", "digest": Digest::of(b"image"), "method": "direct" })
}

fn failed() -> Value {
    json!({ "outcome": "Failed", "step": "image-push", "class": "refused", "reason": "x", "message": "a message" })
}

#[test]
fn a_result_is_delivered_and_acknowledged() {
    let post = SidecarConfig::new("sidecar-result");
    // Before the right is there: it is a fault that passes.
    let child = post.start();
    let text = post.put("result", succeeded());
    wait("a refused write", WAIT, || post.log().contains("trying again").then_some(()));
    post.allow();
    post.acknowledged(&text).unwrap();
    let result = post.result();
    assert_eq!((&result["jobUid"], &result["outcome"]), (&json!(post.uid), &json!("Succeeded")));
    assert_eq!(post.data()["digest"], json!(Digest::of(b"image")));
    post.terminate(child).ok();

    // Killed after all that and started again, it ends the same.
    let before =
        post.namespace.get(&format!("configmap/{NAME}"))["metadata"]["resourceVersion"].clone();
    fs::remove_file(post.folder("result").join("acknowledged")).unwrap();
    let mut child = post.start();
    post.acknowledged(&text).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let after =
        post.namespace.get(&format!("configmap/{NAME}"))["metadata"]["resourceVersion"].clone();
    assert_eq!(before, after, "the same is not written twice");
    assert_eq!(names(&post.folder("result")), ["acknowledged", "result.json"]);

    // A later result takes the place of the earlier one, and its digest goes.
    let child = post.start();
    let text = post.put("result", failed());
    post.acknowledged(&text).unwrap();
    let data = post.data();
    assert!(data.get("digest").is_none(), "{data:#}");
    post.terminate(child).ok();
}

#[test]
fn the_untrusted_folder_reports_only_failures() {
    let post = SidecarConfig::new("sidecar-failure");
    post.allow();
    let child = post.start();
    post.put("failure", succeeded());
    std::thread::sleep(Duration::from_millis(800));
    assert!(post.data().is_null(), "a success from there was reported");
    post.put("failure", failed());
    let result = post.result();
    assert_eq!((&result["outcome"], &result["step"]), (&json!("Failed"), &json!("image-build")));
    assert_eq!((&result["jobUid"], &result["message"]), (&json!(post.uid), &json!("a message")));
    post.terminate(child).ok();

    // Links and other things there are not followed.
    let post = SidecarConfig::new("sidecar-links");
    post.allow();
    let other = post.mosb.home().join("other");
    fs::write(&other, post.put("failure", failed())).unwrap();
    fs::remove_file(post.folder("failure").join("result.json")).unwrap();
    std::os::unix::fs::symlink(other, post.folder("failure").join("result.json")).unwrap();
    let child = post.start();
    std::thread::sleep(Duration::from_millis(800));
    post.terminate(child).ok();
    assert!(post.data().is_null());
}

/// What is left at the last moment is delivered.
#[test]
fn on_sigterm_it_delivers_what_is_there() {
    let post = SidecarConfig::new("sidecar-term");
    let child = post.start();
    std::thread::sleep(Duration::from_millis(300));
    post.put("failure", failed());
    wait("a refused write", WAIT, || post.log().contains("trying again").then_some(()));
    assert!(post.data().is_null(), "it may not yet");
    post.allow();
    post.terminate(child).ok();
    assert_eq!(post.result()["outcome"], "Failed");

    let post = SidecarConfig::new("sidecar-nothing");
    post.allow();
    let child = post.start();
    std::thread::sleep(Duration::from_millis(300));
    post.terminate(child).ok();
    assert!(post.data().is_null());
}

#[test]
fn the_waiter_learns_of_a_lost_config_map() {
    let post = SidecarConfig::new("sidecar-other");
    post.allow();
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });
    post.namespace.apply(&other.to_string());
    post.namespace.kubectl(&["delete", "configmap", NAME]).ok();
    let child = post.start();
    let text = post.put("result", succeeded());
    let refused = post.acknowledged(&text).unwrap_err();
    assert!(refused.contains("is not there"), "{refused}");
    assert!(!post.terminate(child).status.success());

    let owner =
        post.namespace.get("configmap/other")["metadata"]["uid"].as_str().unwrap().to_owned();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": NAME, "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": owner }] },
    });
    post.namespace.apply(&map.to_string());
    fs::remove_file(post.folder("result").join("acknowledged")).unwrap();
    let child = post.start();
    let refused = post.acknowledged(&text).unwrap_err();
    assert!(refused.contains("another Job"), "{refused}");
    let finished = post.terminate(child);
    assert!(finished.stderr.contains("another Job"));
    assert!(post.data().is_null(), "nothing was written");
}

/// Killed before the API server did what it asked, after that, and while it waits for the answer:
/// begun again, as the kubelet does, it tells the result once.
#[test]
fn killed_at_its_write_it_reports_once() {
    let proxy = ApiProxy::start(node());
    for (what, fault) in [
        ("before", ApiFault::Hang { done: false }),
        ("after", ApiFault::Die),
        ("between", ApiFault::Hang { done: true }),
    ] {
        let post = SidecarConfig::new(&format!("sidecar-{what}"));
        let place = post.namespace.name.clone();
        fs::write(post.kubeconfig(), proxy.kubeconfig().to_string()).unwrap();
        proxy.follow(&place, &[(Write::Next, fault)]);
        let mut child = post.start();
        let text = post.put("result", succeeded());
        wait(what, WAIT, || proxy.is_hit(&place).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        proxy.open();
        let child = post.start();
        post.acknowledged(&text).unwrap();
        assert_eq!(post.result()["jobUid"], json!(post.uid), "{what}");
        assert_eq!(post.data()["digest"], json!(Digest::of(b"image")), "{what}");
        let patch = format!("PATCH configmaps/{NAME}");
        assert_eq!(proxy.written(&place), [patch], "{what}");
        post.terminate(child).ok();
    }
}
