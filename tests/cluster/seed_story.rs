//! An installation with images that exist already: three pools, from manifests through `mosb
//! bootstrap` into a cluster, and what comes after. On a node of its own, as its controller renders
//! every pool there is.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::test_cluster::state;
use mosb_tests::{
    Compression, Daemon, Finished, Image, Layout, MOSB_IMAGE, Mosb, Node, PlainBase, Tree, lasting,
    mosb_image, programs, wait,
};

const API: &str = "machineconfiguration.openshift.io/v1";
const ROLE: &str = "machineconfiguration.openshift.io/role";
const PRE_BUILT: &str = "machineconfiguration.openshift.io/pre-built-image";
const CURRENT: &str = "machineconfiguration.openshift.io/current-machine-os-build";
const NEWEST: &str = "machineconfiguration.openshift.io/newestImageEquivalentConfig";
const NAMESPACE: &str = "mosb-system";
/// A build on a busy machine.
const BUILD: Duration = Duration::from_secs(600);

struct SeedStoryCluster {
    node: Node,
    desk: Mosb,
    /// The release's own base image.
    base: String,
    controller: Option<Daemon>,
}

impl SeedStoryCluster {
    fn new() -> Self {
        let node = Node::start(&programs()).unwrap();
        node.install_kinds();
        node.make_namespace(NAMESPACE);
        node.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
        let mut cluster = Self { node, desk: Mosb::new(), base: String::new(), controller: None };
        let layout = Layout::create(&cluster.at("base"));
        let tree = Tree::new().directory("etc", 0o755).file("etc/os-release", 0o644, "ID=test\n");
        let image =
            Image::new().layer(Compression::Gzip, tree.tar()).label("containers.bootc", "1");
        let digest = layout.put("base", &image);
        let registry = cluster.node.registry();
        registry.push(&layout.reference("base"), "os/base:1");
        cluster.base = format!("{}@{digest}", registry.repository("os/base"));
        cluster.manifests();
        cluster
    }

    fn at(&self, name: &str) -> PathBuf {
        self.desk.home().join("work").join(name)
    }

    fn write(&self, name: &str, objects: &[Value]) {
        let file = self.at("manifests").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let texts = objects.iter().map(|object| format!("---\n{object}\n"));
        fs::write(file, texts.collect::<String>()).unwrap();
    }

    /// What the cluster begins with: `master` has no image of its own, `infra` has all that
    /// `worker` has.
    fn manifests(&self) {
        let registry = self.node.registry();
        let pool = |name: &str, roles: Value| {
            json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": name }, "spec": {
                "machineConfigSelector": { "matchExpressions": [{ "key": ROLE, "operator": "In", "values": roles }] },
                "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } } })
        };
        let pools = [
            pool("master", json!(["master"])),
            pool("worker", json!(["worker"])),
            pool("infra", json!(["worker", "infra"])),
        ];
        self.write("pools.yaml", &pools);
        let configs = ["master", "worker", "infra"].map(|role| machine_config("50", role));
        self.write("configs.yaml", &configs);
        let secret = |name: &str, logins: Value| {
            json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "stringData": { ".dockerconfigjson": logins.to_string() } })
        };
        self.write(
            "secrets.yaml",
            &[secret("push", registry.docker_config()), secret("pull", registry.pull_config())],
        );
        self.write("settings.yaml", &[self.settings()]);
    }

    fn settings(&self) -> Value {
        let registry = self.node.registry();
        let settings = json!({
            "baseOSContainerImage": self.base, "globalPullSecret": "pull",
            "imageRegistryBundles": { &registry.host_port: registry.ca_pem },
        });
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "mosb-config", "namespace": NAMESPACE },
            "data": { "config.yaml": settings.to_string() } })
    }

    /// Builds a pool's image before there is a cluster; what it is.
    fn pre_built(&self, pool: &str) -> String {
        let registry = self.node.registry();
        let rendered = self.run(&[
            "render",
            "--pool",
            pool,
            "--os-image",
            &self.base,
            "manifests/pools.yaml",
            "manifests/configs.yaml",
        ]);
        fs::write(self.at("rendered.yaml"), rendered.text()).unwrap();
        let repository = registry.repository(&format!("os/{pool}"));
        self.run(&[
            "build",
            "rendered.yaml",
            "--platform=linux/amd64",
            "--digestfile=digest",
            &format!("--output={repository}"),
            &format!("--authfile={}", registry.authfile().display()),
            &format!("--cert-dir={}", registry.certificates().display()),
        ]);
        let digest = fs::read_to_string(self.at("digest")).unwrap();
        format!("{repository}@{}", digest.trim())
    }

    /// Asks for images of a pool, and to begin with this one.
    fn seed(&self, pool: &str, image: &str) -> String {
        let push = self.node.registry().repository(&format!("os/{pool}"));
        self.desk.seed_new(pool, image, &push)
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Finished {
        let finished = self.desk.run(words);
        assert_eq!(finished.code(), Some(0), "{words:?}: {finished:?}");
        finished
    }

    fn start(&mut self) {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--render", "--verbose"])
            .args(["--builder-image", MOSB_IMAGE])
            .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE])
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let acts = |line: &str| line.contains("the lease is held; reconciling").then_some(());
        self.controller = Some(Daemon::start(command, acts).0);
    }

    fn config(&self, pool: &str) -> Value {
        self.node.get(&format!("machineosconfig/{pool}"))
    }

    /// Waits until a MachineOSConfig has an image in service and nothing of seeding is left to do.
    #[track_caller]
    fn serves(&self, pool: &str, image: &str) -> Value {
        let what = format!("machineosconfig/{pool}");
        self.node.wait(&what, BUILD, |config| {
            config["status"]["currentImagePullSpec"] == image
                && config["metadata"]["annotations"].get(PRE_BUILT).is_none()
        })
    }

    /// Waits for an image that mosb built in the cluster.
    #[track_caller]
    fn builds_another(&self, pool: &str, before: &str) -> String {
        let config = self.node.wait(&format!("machineosconfig/{pool}"), BUILD, |config| {
            let image = config["status"]["currentImagePullSpec"].as_str();
            image.is_some_and(|image| !image.is_empty() && image != before)
        });
        let image = &config["status"]["currentImagePullSpec"];
        image.as_str().unwrap().to_owned()
    }

    fn build_of(&self, config: &Value) -> Value {
        let name = config["metadata"]["annotations"][CURRENT].as_str().unwrap();
        self.node.get(&format!("machineosbuild/{name}"))
    }

    fn jobs(&self) -> Vec<Value> {
        self.node.list("jobs")
    }

    /// Every event of a kind and reason; of one object there is at most one for each edge.
    fn events(&self, kind: &str, name: &str, reason: &str) -> usize {
        let all = self.node.list("events.events.k8s.io");
        let ours = |event: &&Value| {
            let on = &event["regarding"];
            event["reason"] == reason && on["kind"] == kind && on["name"] == name
        };
        all.iter().filter(ours).count()
    }

    fn rendered(&self, pool: &str) -> String {
        let pool = self.node.get(&format!("machineconfigpool/{pool}"));
        let name = &pool["spec"]["configuration"]["name"];
        name.as_str().unwrap().to_owned()
    }

    /// Layers of an image, and the base that it says it was built on.
    fn image(&self, image: &str) -> (Vec<String>, String) {
        let name = image.strip_prefix(&self.node.registry().repository("")).unwrap();
        let layout = Layout::at(tempfile::tempdir().unwrap().keep());
        self.node.registry().pull(name, &layout.reference("i"));
        let manifest = layout.json(&layout.digest("i"));
        let config = layout.json(manifest["config"]["digest"].as_str().unwrap());
        let base = &config["config"]["Labels"]["baseOSContainerImage"];
        (layers(&manifest), base.as_str().unwrap().to_owned())
    }
}

fn layers(manifest: &Value) -> Vec<String> {
    let layers = manifest["layers"].as_array().unwrap().iter();
    let digests = layers.map(|layer| layer["digest"].as_str().unwrap().to_owned());
    digests.collect()
}

fn machine_config(number: &str, role: &str) -> Value {
    json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": format!("{number}-{role}"), "labels": { ROLE: role } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [
            { "path": format!("/etc/{number}-{role}"), "contents": { "source": "data:,x" } } ] } } } })
}

fn condition(object: &Value, kind: &str) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|one| one["type"] == kind).cloned()
}

#[test]
fn an_installation_begins_with_images() {
    let mut cluster = SeedStoryCluster::new();
    let (worker, infra) = (cluster.pre_built("worker"), cluster.pre_built("infra"));
    let seeds = [("worker", &worker), ("infra", &infra)];
    for (pool, image) in seeds {
        let name = format!("machineosconfig-{pool}.yaml");
        fs::write(cluster.at("manifests").join(name), cluster.seed(pool, image)).unwrap();
    }
    cluster.run(&["bootstrap", "--manifests", "manifests", "--output", "out"]);

    // Into a cluster whose controller is at work already.
    cluster.start();
    let secrets = cluster.at("manifests/secrets.yaml");
    let out = cluster.at("out");
    let apply = ["apply", "-f", secrets.to_str().unwrap(), "-f", out.to_str().unwrap()];
    cluster.node.kubectl(&apply).ok();
    for (pool, image) in seeds {
        let config = cluster.serves(pool, image);
        let seeded = condition(&config, "Seeded").unwrap();
        assert_eq!(
            (&seeded["status"], &seeded["reason"]),
            (&json!("True"), &json!("PreBuiltImageSeeded"))
        );
        assert_eq!(config["status"]["observedGeneration"], config["metadata"]["generation"]);
        let build = cluster.build_of(&config);
        assert_eq!(state(&build), "Succeeded");
        for one in build["status"]["conditions"].as_array().unwrap() {
            assert_eq!(one["reason"], "PreBuiltImageSeeded", "{one}");
        }
        assert_eq!(build["status"]["conditions"].as_array().map(Vec::len), Some(5));
        assert_eq!(build["metadata"]["labels"][PRE_BUILT], "true");
        assert_eq!(build["status"]["digestedImagePushSpec"], image.as_str());
        assert_eq!(build["spec"]["machineConfig"]["name"], cluster.rendered(pool));
        let (start, end) = (&build["status"]["buildStart"], &build["status"]["buildEnd"]);
        assert!(start.as_str() < end.as_str(), "{start} {end}");
        assert!(build["status"].get("builder").is_none_or(|builder| builder.get("job").is_none()));
        let what = format!("machineconfigpool/{pool}");
        cluster.node.wait(&what, BUILD, |pool| {
            pool["metadata"]["annotations"][NEWEST] == image.as_str()
                && condition(pool, "ImageBuildDegraded")
                    .is_some_and(|one| one["reason"] == "BuildSuccess")
        });
        let one_event =
            || (cluster.events("MachineOSConfig", pool, "PreBuiltImageSeeded") == 1).then_some(());
        wait("one event PreBuiltImageSeeded", BUILD, one_event);
        // What was rendered at the desk is what the cluster renders.
        let all = cluster.node.list("machineconfigs");
        let names = all.iter().map(|one| one["metadata"]["name"].as_str().unwrap());
        let rendered: Vec<_> =
            names.filter(|name| name.starts_with(&format!("rendered-{pool}-"))).collect();
        assert_eq!(rendered, [cluster.rendered(pool)]);
        assert!(out.join(format!("machineconfig-{}.yaml", rendered[0])).is_file());
    }
    assert_eq!(cluster.jobs(), Vec::<Value>::new(), "nothing is built");
    assert_eq!(cluster.node.list("machineosbuilds").len(), 2);

    // A change is built by a Job: on the release's base, and not on what the pool began with.
    cluster.node.apply(&machine_config("60", "worker").to_string());
    let base = Layout::at(cluster.at("base"));
    let base = layers(&base.json(&base.digest("base")));
    for (pool, image) in seeds {
        let next = cluster.builds_another(pool, image);
        let (layers, on) = cluster.image(&next);
        assert_eq!(on, cluster.base, "{pool}");
        assert_eq!((layers.len(), &layers[0]), (base.len() + 1, &base[0]));
        let config = cluster.config(pool);
        assert_eq!(condition(&config, "Seeded").unwrap()["status"], "True");
        let build = cluster.build_of(&config);
        assert_eq!(state(&build), "Succeeded");
        assert!(build["metadata"]["labels"].get(PRE_BUILT).is_none());
        assert_eq!(build["status"]["builder"]["imageBuilderType"], "Job");
    }

    // The release's base becomes another one.
    let changed = seeds.map(|(pool, _)| (pool, cluster.builds_another(pool, "")));
    let second = PlainBase::Second.image();
    let registry = cluster.node.registry();
    registry.push(&second.reference("base"), "os/base:2");
    cluster.base = format!("{}@{}", registry.repository("os/base"), second.digest("base"));
    cluster.node.apply(&cluster.settings().to_string());
    for (pool, before) in changed {
        let next = cluster.builds_another(pool, &before);
        let (found, on) = cluster.image(&next);
        let base = layers(&second.json(&second.digest("base")));
        assert_eq!((&found[..found.len() - 1], on), (&base[..], cluster.base.clone()), "{pool}");
    }

    // Nobody wants images of `worker` any more: the pool is on the stock image, and `infra` stays
    // as it is.
    let component = "10-prebuiltimage-osimageurl-worker";
    assert!(cluster.node.find(&format!("machineconfig/{component}")).is_some());
    cluster.node.kubectl(&["delete", "machineosconfig", "worker"]).ok();
    wait("the end of the component", BUILD, || {
        let is_deleted = cluster.node.find(&format!("machineconfig/{component}")).is_none();
        is_deleted.then_some(())
    });
    let stock = || {
        let rendered =
            cluster.node.find(&format!("machineconfig/{}", cluster.rendered("worker")))?;
        (rendered["spec"]["osImageURL"] == cluster.base.as_str()).then_some(())
    };
    wait("the stock image in the pool's config", BUILD, stock);
    let infras = cluster.node.get("machineconfig/10-prebuiltimage-osimageurl-infra");
    assert_eq!(infras["spec"]["osImageURL"], infra.as_str());

    // Another one takes its place, once the registry has it: it was there when the manifest was
    // checked.
    let configs = ["50", "70"].map(|number| machine_config(number, "worker"));
    cluster.write("configs.yaml", &configs);
    let second = cluster.pre_built("worker");
    assert_ne!(second, worker);
    let copy = Layout::create(&cluster.at("copy"));
    let name = second.strip_prefix(&cluster.node.registry().repository("")).unwrap().to_owned();
    cluster.node.registry().pull(&name, &copy.reference("second"));
    cluster.node.registry().delete(&name);
    let jobs = cluster.jobs().len();
    cluster.node.apply(&cluster.seed("worker", &second));
    let blocked = cluster.node.wait("machineosconfig/worker", BUILD, |config| {
        condition(config, "Blocked").is_some_and(|one| one["status"] == "True")
    });
    let message = condition(&blocked, "Blocked").unwrap()["message"].to_string();
    assert!(message.contains(&second) && message.contains("no such image"), "{message}");
    assert!(
        cluster.node.find(&format!("machineconfig/{component}")).is_none(),
        "no pool is pointed at it"
    );
    cluster.node.registry().push(&copy.reference("second"), "os/worker:again");
    // So that the controller looks for it again at once.
    cluster.node.kubectl(&["annotate", "machineosconfig", "worker", "test=again"]).ok();
    let config = cluster.serves("worker", &second);
    assert_eq!(state(&cluster.build_of(&config)), "Succeeded");
    assert_eq!(cluster.jobs().len(), jobs, "nothing is built");
    let made = cluster.node.get(&format!("machineconfig/{component}"));
    assert_eq!(made["spec"]["osImageURL"], second.as_str());
}
