//! Builds by OpenShift's own API. No OpenShift runs here: the API is a CRD, and its builder a
//! thread of the test that really carries out what a Build says, with buildah, from the objects
//! that it names.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster_signatures::{Keys, SECRET, descriptions};
use crate::test_cluster::{Cluster, FAILS, SOON, state};
use mosb_tests::{Finished, Node, condition, finish, limited};

const RUNS: &str = "FROM configs AS final\nRUN echo ran > /etc/ran\n";

/// The same story as with Jobs, and neither a Job nor a pod of ours. The controller signs the images.
#[test]
#[ignore = "make test-all: the API and its builder are stand-ins"]
fn images_are_built_by_openshift() {
    let mut cluster = Cluster::new("openshift");
    let pool = cluster.pool.clone();
    let crd = mosb_tests::repository().join("testdata/openshift/builds.yaml");
    cluster.node.apply(&fs::read_to_string(crd).unwrap());
    cluster.node.wait("customresourcedefinition/builds.build.openshift.io", SOON, |crd| {
        condition(crd, "Established")
    });
    let builders = ["Job", "openshift-image-builder"];
    cluster.settings_with(&json!({ "builders": builders, "signing": { "secret": SECRET } }));
    let keys = Keys::new(&["os.key"]);
    keys.give(&cluster, "os.key");
    let rendered = cluster.render("one");
    cluster.opt_in_by("openshift-image-builder", None);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends the thread whatever happens here.
        let _end = SetOnDrop(&is_over);
        let builder = OpenShift { node: cluster.node, namespace: cluster.namespace.name.clone() };
        let is_over = &is_over;
        scope.spawn(move || builder.work(is_over));
        cluster.start();

        let first = cluster.image_after("");
        assert_eq!(cluster.file(&first, "/etc/story"), "one");
        let current = cluster.file(&first, "/etc/machine-config-daemon/currentconfig");
        assert!(current.contains(&rendered), "{current}");
        let build = cluster.current();
        assert_eq!(
            build["status"]["builder"],
            json!({ "imageBuilderType": "openshift-image-builder" })
        );
        // The one tag that it has.
        let tagged = format!("{}:{rendered}", cluster.push);
        let manifest = keys.verified(&cluster, &tagged, "os.key").expect("it is signed");
        assert_eq!(manifest["signatures"].as_array().unwrap().len(), 1, "{manifest:#}");
        assert_eq!(manifest["signatures"][0]["identity"], tagged, "{manifest:#}");
        let found = descriptions(&manifest);
        for part in ["SPDX-2.3", "by https://mosb.dev/builder/controller, of "] {
            assert!(found.iter().any(|one| one.contains(part)), "{part}: {found:?}");
        }
        // Who looks once knows what the cluster serves, too.
        let status = cluster.mosb(&["status"]).ok().text();
        assert!(status.contains(&pool) && !status.contains("build.openshift.io"), "{status}");
        let name = build["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.wait_deleted(&format!("build/build-{name}"));
        cluster.nothing_is_left_of(&name);

        // With instructions.
        cluster.opt_in(Some(RUNS));
        let second = cluster.image_after(&first);
        assert_eq!(cluster.file(&second, "/etc/ran"), "ran\n");
        assert_eq!(cluster.file(&second, "/etc/story"), "one");
        assert!(keys.verified(&cluster, &second, "os.key").is_some(), "{second}");

        // Which can fail; the Build stays.
        cluster.opt_in(Some(FAILS));
        cluster.wait_for_pool_condition("BuildFailed");
        let failed = cluster.current();
        assert_eq!(state(&failed), "Failed");
        let message = cluster.message(&failed, "Failed");
        for part in ["DockerBuildFailed", "what went wrong"] {
            assert!(message.contains(part), "{message}");
        }
        let name = failed["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(cluster.namespace.find(&format!("build/build-{name}")).is_some());

        // Nobody wants images any more.
        cluster.node.kubectl(&["delete", "machineosconfig", &pool, "--wait=false"]).ok();
        cluster.wait_deleted(&format!("machineosconfig/{pool}"));
        cluster.wait_deleted(&format!("machineosbuild/{name}"));
        cluster.wait_deleted(&format!("build/build-{name}"));
        cluster.nothing_is_left_of(&name);
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The builder of an OpenShift cluster, as far as its API says what it does.
struct OpenShift {
    node: &'static Node,
    namespace: String,
}

/// Why a Build ended, in the API's words.
struct Trouble {
    reason: &'static str,
    log: String,
}

impl OpenShift {
    fn work(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            for build in &self.node.api().list(Some(&self.namespace), "builds", "") {
                let phase = build["status"]["phase"].as_str().unwrap_or("New");
                if matches!(phase, "New" | "Pending") {
                    self.attend_to(build);
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn attend_to(&self, build: &Value) {
        let spec = &build["spec"];
        let docker = &spec["strategy"]["dockerStrategy"];
        let mut wanted = vec![
            format!("secret/{}", text(&docker["pullSecret"]["name"])),
            format!("secret/{}", text(&spec["output"]["pushSecret"]["name"])),
        ];
        let maps = spec["source"]["configMaps"].as_array().unwrap();
        wanted.extend(
            maps.iter().map(|map| format!("configmap/{}", text(&map["configMap"]["name"]))),
        );
        // A pod whose volumes are missing waits for them.
        if wanted.iter().any(|object| self.get(object).is_null()) {
            self.status(build, json!({ "phase": "Pending" }));
            return;
        }
        self.status(build, json!({ "phase": "Running", "startTimestamp": now() }));
        let end = match self.carry_out(spec) {
            Ok(digest) => json!({ "phase": "Complete", "completionTimestamp": now(),
                "output": { "to": { "imageDigest": digest } } }),
            Err(trouble) => {
                json!({ "phase": "Failed", "completionTimestamp": now(), "reason": trouble.reason,
                "message": "it failed", "logSnippet": tail(&trouble.log) })
            }
        };
        self.status(build, end);
    }

    /// Builds and pushes; the digest that the registry has.
    fn carry_out(&self, spec: &Value) -> Result<String, Trouble> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let source = &spec["source"];
        assert_eq!(
            (text(&source["type"]), text(&spec["strategy"]["type"])),
            ("Dockerfile", "Docker")
        );
        fs::create_dir(at("context")).unwrap();
        fs::write(at("Dockerfile"), text(&source["dockerfile"])).unwrap();
        for copied in source["configMaps"].as_array().unwrap() {
            let map = self.get(&format!("configmap/{}", text(&copied["configMap"]["name"])));
            let into = folder.path().join("context").join(text(&copied["destinationDir"]));
            fs::create_dir_all(&into).unwrap();
            for (key, value) in map["data"].as_object().into_iter().flatten() {
                fs::write(into.join(key), text(value)).unwrap();
            }
            for (key, value) in map["binaryData"].as_object().into_iter().flatten() {
                fs::write(into.join(key), STANDARD.decode(text(value)).unwrap()).unwrap();
            }
        }
        let credentials = |name: &Value, file: &str| {
            let secret = self.get(&format!("secret/{}", text(name)));
            assert_eq!(secret["type"], "kubernetes.io/dockerconfigjson");
            let config = STANDARD.decode(text(&secret["data"][".dockerconfigjson"])).unwrap();
            fs::write(at(file), config).unwrap();
        };
        credentials(&spec["strategy"]["dockerStrategy"]["pullSecret"]["name"], "pull.json");
        credentials(&spec["output"]["pushSecret"]["name"], "push.json");

        let buildah = |words: &[&str]| -> Finished {
            let mut command = limited("buildah");
            command
                .args(["--storage-driver=vfs", &format!("--root={}", at("root"))])
                .arg(format!("--runroot={}", at("run")))
                .args(words);
            finish(&mut command, &[])
        };
        let certificates = self.node.registry().certificates();
        let certificates = format!("--cert-dir={}", certificates.display());
        let built = buildah(&[
            "build",
            "--isolation=chroot",
            "--tag=built",
            &certificates,
            &format!("--authfile={}", at("pull.json")),
            &format!("--file={}", at("Dockerfile")),
            &at("context"),
        ]);
        let trouble = |reason, done: &Finished| Trouble { reason, log: done.text() };
        if built.code() != Some(0) {
            return Err(trouble("DockerBuildFailed", &built));
        }
        let output = &spec["output"]["to"];
        assert_eq!(text(&output["kind"]), "DockerImage");
        let pushed = buildah(&[
            "push",
            &certificates,
            &format!("--authfile={}", at("push.json")),
            &format!("--digestfile={}", at("digest")),
            "built",
            &format!("docker://{}", text(&output["name"])),
        ]);
        if pushed.code() != Some(0) {
            return Err(trouble("PushImageToRegistryFailed", &pushed));
        }
        Ok(fs::read_to_string(at("digest")).unwrap())
    }

    fn get(&self, what: &str) -> Value {
        let (kind, name) = what.split_once('/').unwrap();
        self.node.api().find(Some(&self.namespace), kind, name).unwrap_or_default()
    }

    fn status(&self, build: &Value, status: Value) {
        let change = json!({ "status": status }).to_string();
        let name = text(&build["metadata"]["name"]);
        // One that was deleted meanwhile gets no report.
        self.kubectl(&[
            "patch",
            "build",
            name,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &change,
        ]);
    }

    fn kubectl(&self, words: &[&str]) -> Finished {
        let namespace = format!("--namespace={}", self.namespace);
        let words: Vec<&str> = [&*namespace].into_iter().chain(words.iter().copied()).collect();
        self.node.kubectl(&words)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// In whole seconds, as the API's other clients write it.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
