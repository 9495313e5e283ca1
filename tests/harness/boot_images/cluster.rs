//! An API server with the kinds of boot images and the controller, which runs beside it with the
//! rights of `deploy/boot-images` and the Roles that `mosb boot-images rbac` prints.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::kinds::{ClusterApi, cluster_api, immutable_templates, openshift, providers, templates};
use super::objects::{MACHINE_API_NAMESPACE, golden, release};
use crate::api_proxy::ApiProxy;
use crate::child::{Daemon, Finished, finish, lasting, limited};
use crate::image::MOSB_IMAGE;
use crate::node::{Api, Node};
use crate::one_node::programs;
use crate::program;

/// mosb's namespace, which has the golden ConfigMap on plain Kubernetes.
pub const MOSB_NAMESPACE: &str = "mosb-system";
/// The namespace of a Cluster API cluster.
pub const TENANT: &str = "tenant";

/// A controller that does nothing else has these kinds in time on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

/// A cluster of its own: the controller serves every machine set there is.
#[derive(Debug)]
pub struct BootImageCluster {
    controller: Mutex<Option<Daemon>>,
    proxy: ApiProxy,
    kubeconfig: PathBuf,
    pub api_version: ClusterApi,
    has_openshift: bool,
    pub node: Node,
}

impl BootImageCluster {
    /// With these kinds, the golden images of a release, and no controller yet.
    pub fn new(api_version: ClusterApi, has_openshift: bool, number: u32) -> Self {
        let node = Node::control_plane(&programs()).unwrap();
        let mut kinds = cluster_api(api_version);
        kinds.extend(openshift().into_iter().filter(|_| has_openshift));
        Self::install(node, kinds, api_version, has_openshift, number)
    }

    /// The same without OpenShift, with Cluster API's own kinds and core controllers. Nothing
    /// answers for a provider.
    pub fn with_core_controllers(number: u32) -> Self {
        let node = Node::control_plane(&programs()).unwrap();
        node.run_cluster_api();
        Self::install(node, providers(), ClusterApi::V1Beta2, false, number)
    }

    fn install(
        node: Node,
        mut objects: Vec<Value>,
        api_version: ClusterApi,
        has_openshift: bool,
        number: u32,
    ) -> Self {
        objects.extend(templates(api_version));
        objects.extend(immutable_templates());
        objects.extend([MACHINE_API_NAMESPACE, TENANT].map(namespace));
        node.apply_all(&objects);
        node.install_overlay("boot-images");
        // No controller manager makes it, and the controller asks whether it may create pods.
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "default", "namespace": MOSB_NAMESPACE } });
        node.apply(&account.to_string());
        // Last: it waits for all kinds.
        node.install_kinds();
        let proxy = ApiProxy::of(Api::start(&programs().kubectl(), &node.controller_kubeconfig()));
        let kubeconfig = node.write_kubeconfig("proxy", &proxy.kubeconfig());
        let controller = Mutex::default();
        let cluster = Self { controller, proxy, kubeconfig, api_version, has_openshift, node };
        cluster.set_release(number);
        cluster
    }

    pub fn proxy(&self) -> &ApiProxy {
        &self.proxy
    }

    /// The settings of the cluster.
    pub fn settings(&self, boot_images: &Value) {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" },
            "data": { "config.yaml": json!({ "bootImages": boot_images }).to_string() } });
        self.apply(MOSB_NAMESPACE, &map);
    }

    /// The images of the release with this number are published, and the cluster runs it.
    pub fn set_release(&self, number: u32) {
        let of_openshift = format!("4.20.{number}");
        let version = if self.has_openshift { of_openshift } else { release(number) };
        self.apply(MOSB_NAMESPACE, &golden(number, &version));
    }

    /// A Secret with the stub of new machines.
    pub fn stub(&self, namespace: &str, name: &str, ignition: &Value) {
        let bytes = STANDARD.encode(ignition.to_string());
        let key = if namespace == MACHINE_API_NAMESPACE { "userData" } else { "value" };
        let mut data = json!({ key: bytes });
        if key == "value" {
            data["format"] = json!(STANDARD.encode("ignition"));
        }
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": data });
        self.apply(namespace, &secret);
    }

    /// A stub that every image reads, with the right to it.
    pub fn readable_stub(&self, namespace: &str, name: &str) {
        let stub = json!({ "ignition": { "version": "3.1.0", "config": { "merge": [{
            "source": "https://api-int.example.com:22623/config/worker" }] } } });
        self.stub(namespace, name, &stub);
        self.right_to_stubs(namespace, &[name]);
    }

    /// The right to these stubs, as `mosb boot-images rbac` prints it.
    pub fn right_to_stubs(&self, namespace: &str, names: &[&str]) {
        let metadata = json!({ "namespace": namespace, "name": "stubs" });
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get", "update"] }] });
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "stubs" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": MOSB_NAMESPACE, "name": "mosb-controller" }] });
        self.node.apply_all(&[role, binding]);
    }

    /// The stub that a Secret has.
    #[track_caller]
    pub fn stub_of(&self, namespace: &str, name: &str) -> Value {
        let secret = self.get(namespace, &format!("secret/{name}"));
        let key = if namespace == MACHINE_API_NAMESPACE { "userData" } else { "value" };
        let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[track_caller]
    pub fn apply(&self, namespace: &str, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(namespace);
        self.node.apply(&object.to_string());
    }

    /// Applies an object with its status, as its own controller would write it.
    #[track_caller]
    pub fn apply_with_status(&self, namespace: Option<&str>, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        self.node.apply(&object.to_string());
        let text = object.to_string();
        let words = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--subresource=status",
            "--filename=-",
            "--output=json",
        ];
        let written = self.node.kubectl_with(&words, text.as_bytes()).ok().text();
        serde_json::from_str(&written).unwrap()
    }

    /// An object, as `machineset.machine.openshift.io/a`.
    #[track_caller]
    pub fn get(&self, namespace: &str, what: &str) -> Value {
        self.find(namespace, what).unwrap_or_else(|| panic!("{what}: there is none in {namespace}"))
    }

    #[track_caller]
    pub fn find(&self, namespace: &str, what: &str) -> Option<Value> {
        let (kind, name) = what.split_once('/').unwrap();
        self.node.api().find(Some(namespace), kind, name)
    }

    /// The name of the template of a set of Cluster API, as `machineset.cluster.x-k8s.io/a`.
    #[track_caller]
    pub fn template_of(&self, what: &str) -> String {
        let set = self.get(TENANT, what);
        let reference = &set["spec"]["template"]["spec"]["infrastructureRef"];
        reference["name"].as_str().unwrap().to_owned()
    }

    /// The object with the conditions of the cluster.
    pub fn status(&self) -> Option<Value> {
        let kind = if self.has_openshift {
            "machineconfiguration.operator.openshift.io"
        } else {
            "bootimagestatus"
        };
        self.node.api().find(None, kind, "cluster")
    }

    #[track_caller]
    pub fn patch(&self, namespace: &str, what: &str, change: &Value) {
        let change = change.to_string();
        self.node
            .kubectl(&["patch", what, "--namespace", namespace, "--type=merge", "--patch", &change])
            .ok();
    }

    /// Waits until this gives a value, while the controller runs.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, found: impl Fn() -> Option<T>) -> T {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {}\n{}",
                self.log(),
                self.mosb(&["boot-images", "status"]).text()
            );
            sleep(4 * PAUSE);
        }
    }

    pub fn start_controller(&self) {
        let mut command = lasting(program());
        command
            .args(["controller", "--boot-images", "--verbose", "--builder-image", MOSB_IMAGE])
            .args(["--listen", "127.0.0.1:0", "--namespace", MOSB_NAMESPACE, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("POD_NAME", "first");
        let listens = |line: &str| line.contains("listening on").then_some(());
        let started = Daemon::start(command, listens).0;
        *self.controller.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }

    /// Kills the controller with SIGKILL.
    pub fn kill_controller(&self) {
        drop(self.controller.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub fn log(&self) -> String {
        let controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        controller.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// Waits until the log of the process that runs now has this text. It logs the state of all
    /// sets after its first pass, and when the state changes.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        self.wait(&format!("{text:?} in the log"), || self.log().contains(text).then_some(()));
    }

    /// `mosb`, as an administrator runs it.
    pub fn mosb(&self, words: &[&str]) -> Finished {
        finish(&mut self.mosb_command(words), &[])
    }

    fn mosb_command(&self, words: &[&str]) -> Command {
        let mut command = limited(program());
        command
            .args(words)
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
            .args(["--namespace", MOSB_NAMESPACE])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command
    }

    /// Kills the controller after each write; see [`ApiProxy::kill_after_each_write`].
    #[track_caller]
    pub fn kill_after_each_write(&self, begin: impl FnOnce(), is_over: impl Fn() -> bool) -> usize {
        let controller = (|| self.kill_controller(), || self.start_controller());
        self.proxy.kill_after_each_write(controller, begin, is_over)
    }
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}
