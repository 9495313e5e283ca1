//! A cluster with `deploy/rollout` and the controller, which runs beside it with the rights that the
//! overlay gives, and an observer that watches from the beginning to the end.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::machines::SimulatedMachines;
use super::observer::{Observed, RolloutObserver};
use crate::api_proxy::ApiProxy;
use crate::child::{Daemon, Finished, finish, lasting, limited};
use crate::node::{Api, Node};
use crate::one_node::programs;
use crate::root::base_image;
use crate::{mosb_image, program};

/// The namespace of Jobs on machines.
pub const ROLLOUT_NAMESPACE: &str = "mosb-rollout";
const NAMESPACE: &str = "mosb-system";

/// A cluster of its own: the controller serves every pool there is.
#[derive(Debug)]
pub struct RolloutCluster {
    controllers: Mutex<Vec<Daemon>>,
    pub machines: SimulatedMachines,
    pub observer: RolloutObserver,
    proxy: Option<ApiProxy>,
    kubeconfig: PathBuf,
    /// The image of mosb, by digest.
    image: String,
    pub node: Node,
}

impl RolloutCluster {
    /// With these settings of the cluster beside the registry's.
    pub fn start(settings: &Value) -> Self {
        let cluster = Self::without_controller(settings, false);
        cluster.start_controller("first");
        cluster
    }

    /// The same with a proxy between the controller and the API server, which injects faults.
    pub fn start_behind_proxy(settings: &Value) -> Self {
        let cluster = Self::without_controller(settings, true);
        cluster.start_controller("first");
        cluster
    }

    fn without_controller(settings: &Value, has_proxy: bool) -> Self {
        let node = Node::start(&programs()).unwrap();
        let registry = node.registry();
        registry.push(&base_image().reference("base"), "acme/base:v1");
        registry.push(&format!("oci-archive:{}", mosb_image().display()), "acme/mosb:dev");
        node.install_kinds();
        node.install_overlay("rollout");
        apply_settings(&node, settings);
        let image = format!("acme/mosb@{}", digest(&node, "acme/mosb:dev"));
        let image = registry.repository(&image);
        let direct = node.controller_kubeconfig();
        let proxy = has_proxy.then(|| ApiProxy::of(Api::start(&programs().kubectl(), &direct)));
        let kubeconfig = match &proxy {
            Some(proxy) => node.write_kubeconfig("proxy", &proxy.kubeconfig()),
            None => direct,
        };
        Self {
            controllers: Mutex::default(),
            machines: SimulatedMachines::start(&node),
            observer: RolloutObserver::start(&node),
            proxy,
            kubeconfig,
            image,
            node,
        }
    }

    /// The digest of the stock image of all pools.
    pub fn stock(&self) -> String {
        base_image().digest("base").to_string()
    }

    /// The stock image, as a MachineConfig names it.
    pub fn base(&self) -> String {
        self.node.registry().repository(&format!("acme/base@{}", self.stock()))
    }

    pub fn proxy(&self) -> &ApiProxy {
        self.proxy.as_ref().expect("start_behind_proxy")
    }

    fn controllers(&self) -> MutexGuard<'_, Vec<Daemon>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a controller of this identity beside those there are. One of the identity that had the
    /// Lease goes on at once.
    pub fn start_controller(&self, identity: &str) {
        let listens = |line: &str| line.contains("listening on").then_some(());
        let controller = Daemon::start(self.command(identity), listens).0;
        self.controllers().push(controller);
    }

    fn command(&self, identity: &str) -> Command {
        let mut command = lasting(program());
        command
            .args(["controller", "--render", "--rollout", "--verbose"])
            .args(["--builder-image", &self.image])
            .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("POD_NAME", identity);
        command
    }

    /// Kills the controllers, without a word to them.
    pub fn kill_controllers(&self) {
        let killed = std::mem::take(&mut *self.controllers());
        drop(killed);
    }

    /// Kills the controller after each write; see [`ApiProxy::kill_after_each_write`].
    #[track_caller]
    pub fn kill_after_each_write(&self, begin: impl FnOnce(), is_over: impl Fn() -> bool) -> usize {
        let controller = (|| self.kill_controllers(), || self.start_controller("first"));
        self.proxy().kill_after_each_write(controller, begin, is_over)
    }

    /// Kills the controller and starts another one, which goes on with the Lease at once.
    pub fn restart(&self) {
        self.kill_controllers();
        self.start_controller("first");
    }

    /// The logs of the running controllers, the oldest first.
    pub fn logs(&self) -> Vec<String> {
        self.controllers().iter().map(Daemon::log).collect()
    }

    /// Whether a controller has ended by itself.
    pub fn has_ended(&self, index: usize) -> bool {
        self.controllers()[index].has_ended()
    }

    /// `mosb`, as an administrator runs it.
    pub fn mosb(&self, line: &str) -> Finished {
        let mut command = limited(program());
        command.args(line.split_whitespace()).arg("--kubeconfig").arg(self.node.kubeconfig());
        finish(command.env_clear().env("PATH", "/usr/bin:/bin"), &[])
    }

    /// Changes an object without a namespace (`machineconfigpools/worker`).
    #[track_caller]
    pub fn patch(&self, what: &str, patch: &Value) {
        let target = format!("/apis/machineconfiguration.openshift.io/v1/{what}");
        let (code, answer) = self.node.api().ask("PATCH", &target, Some(patch));
        assert_eq!(code, 200, "{answer:#}");
    }

    /// Ends the story: checks the rules of the observer and what the helper saw.
    #[track_caller]
    pub fn finish(self) -> Observed {
        self.kill_controllers();
        assert_eq!(self.machines.wrong(), Vec::<String>::new());
        self.observer.finish()
    }

    /// Prints what explains a failure.
    pub fn print(&self) {
        self.logs().iter().for_each(|log| println!("{log}"));
        for arguments in [&["nodes"][..], &["jobs,pods", "--all-namespaces"]] {
            let list = [&["get", "--output=wide"], arguments].concat();
            println!("{}", self.node.kubectl(&list).text());
        }
    }
}

/// The settings and Secrets that an administrator creates.
fn apply_settings(node: &Node, more: &Value) {
    let registry = node.registry();
    // Machines get no login that pushes.
    let logins =
        [("push", registry.docker_config()), ("global-pull-secret-copy", registry.pull_config())];
    for (name, login) in logins {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "stringData": { ".dockerconfigjson": login.to_string() } });
        node.apply(&secret.to_string());
    }
    let mut settings = json!({ "imageRegistryBundles": { &registry.host_port: registry.ca_pem },
        // The image of build pods is in the registry.
        "job": { "imagePullSecrets": ["global-pull-secret-copy"] } });
    let more = more.as_object().cloned().unwrap_or_default();
    settings.as_object_mut().unwrap().extend(more);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "mosb-config", "namespace": NAMESPACE },
        "data": { "config.yaml": settings.to_string() } });
    node.apply(&map.to_string());
}

fn digest(node: &Node, image: &str) -> String {
    let mut command = limited("skopeo");
    command
        .args(["inspect", "--format", "{{.Digest}}", "--authfile"])
        .arg(node.registry().authfile())
        .arg("--cert-dir")
        .arg(node.registry().certificates())
        .arg(format!("docker://{}", node.registry().repository(image)));
    finish(&mut command, &[]).ok().text().trim().to_owned()
}
