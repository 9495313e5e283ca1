//! A pool whose new machines get user data, with a controller that has rights of `deploy/` only.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{Namespace, wait};

pub const LABEL: &str = "mosb.dev/user-data";
pub const NAME: &str = "worker-user-data";
pub const FIRST_BOOT: &str = "/var/lib/mosb/first-boot";
pub const RIGHTS: Duration = Duration::from_secs(60);

pub struct Site {
    pub cluster: Cluster,
    /// Where the machine sets look.
    pub machines: Namespace<'static>,
    files: TempDir,
}

impl Site {
    fn new(name: &str) -> Self {
        let cluster = Cluster::new(name);
        let machines = Namespace::new(cluster.node, "machines");
        Self { cluster, machines, files: TempDir::new().unwrap() }
    }

    /// With the rights in these folders of `deploy/`, and the pool's first image.
    pub fn with_first_image(name: &str, folders: &[&str]) -> (Self, String) {
        let mut site = Self::new(name);
        folders.iter().for_each(|folder| site.grant(folder));
        site.cluster.render("one");
        site.cluster.opt_in(None);
        let kubeconfig = site.kubeconfig();
        site.cluster.start_with(&kubeconfig);
        let image = site.cluster.image_after("");
        (site, image)
    }

    pub fn account(&self) -> String {
        format!("system:serviceaccount:{}:mosb-controller", self.cluster.namespace.name)
    }

    /// A kubeconfig of the controller's account: an administrator that impersonates it.
    pub fn kubeconfig(&self) -> PathBuf {
        let text = fs::read_to_string(self.cluster.node.kubeconfig()).unwrap();
        let mut config: Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"]["as"] = json!(self.account());
        self.file("kubeconfig", &config)
    }

    pub fn file(&self, name: &str, content: &Value) -> PathBuf {
        let path = self.files.path().join(name);
        fs::write(&path, content.to_string()).unwrap();
        path
    }

    /// The rights in a folder of `deploy/`, for this controller.
    pub fn grant(&self, folder: &str) {
        for mut object in self.cluster.node.overlay(folder) {
            let kind = object["kind"].as_str().unwrap().to_owned();
            if !kind.contains("Role") {
                continue;
            }
            let own = &self.cluster.namespace.name;
            let metadata = &mut object["metadata"];
            // Other tests use this node too.
            if kind.ends_with("Binding") {
                let name = metadata["name"].as_str().unwrap();
                metadata["name"] = json!(format!("{name}-{own}"));
            }
            if metadata["namespace"] == "mosb-system" {
                metadata["namespace"] = json!(own);
            } else if folder == "user-data" && metadata["namespace"] == "default" {
                metadata["namespace"] = json!(self.machines.name);
            }
            if let Some(subjects) = object.get_mut("subjects") {
                subjects[0]["namespace"] = json!(own);
            }
            self.cluster.node.apply(&object.to_string());
        }
    }

    /// Whether the API server lets the controller's account do this with a Secret.
    pub fn is_allowed(&self, verb: &str, namespace: &str, name: &str) -> bool {
        self.is_allowed_on("secrets", verb, namespace, name)
    }

    pub fn is_allowed_on(&self, resource: &str, verb: &str, namespace: &str, name: &str) -> bool {
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": { "user": self.account(), "resourceAttributes": { "verb": verb, "group": "",
                "resource": resource, "namespace": namespace, "name": name } } });
        let target = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (code, answer) = self.cluster.node.api().ask("POST", target, Some(&review));
        assert_eq!(code, 201, "{answer:#}");
        answer["status"]["allowed"] == true
    }

    pub fn annotate(&self, key: &str, value: Option<&str>) {
        let change = json!({ "metadata": { "annotations": { key: value } } });
        self.cluster.patch(&format!("machineosconfig/{}", self.cluster.pool), &change);
    }

    /// Waits for the condition with this reason; its message. What was refused is tried again when
    /// the object changes.
    #[track_caller]
    pub fn reason(&self, reason: &str) -> String {
        self.annotate("test/tried", Some(reason));
        let found = |config: &Value| {
            let conditions = config["status"]["conditions"].as_array()?;
            let one = conditions.iter().find(|one| one["type"] == "UserData")?;
            (one["reason"] == reason).then(|| one["message"].as_str().unwrap().to_owned())
        };
        let what = format!("machineosconfig/{}", self.cluster.pool);
        let config = self.cluster.node.wait(&what, SOON, |config| found(config).is_some());
        found(&config).unwrap()
    }

    /// Sets what joins a machine.
    pub fn join(&self, config: &str) {
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "join" },
            "stringData": { "ignition": config } });
        self.cluster.namespace.apply(&object.to_string());
    }

    pub fn secret(&self) -> Value {
        self.machines.get(&format!("secret/{NAME}"))
    }

    pub fn value(secret: &Value, key: &str) -> Vec<u8> {
        STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()
    }

    /// How often the controller read the Secret.
    pub fn reads(&self) -> usize {
        let (account, place) = (self.account(), &*self.machines.name);
        let is_read = |event: &Value| {
            let object = &event["objectRef"];
            event["verb"] == "get"
                && event["impersonatedUser"]["username"] == account.as_str()
                && object["resource"] == "secrets"
                && object["namespace"] == place
        };
        self.cluster.node.audit().iter().filter(|event| is_read(event)).count()
    }

    /// Waits until the Secret has the config with this image; the Secret and the config.
    #[track_caller]
    pub fn with_image(&self, image: &str) -> (Value, Value) {
        let has_image = || {
            let secret = self.secret();
            secret["data"]["value"].as_str()?;
            let config: Value = serde_json::from_slice(&Self::value(&secret, "value")).unwrap();
            let found = file(&config, &format!("{FIRST_BOOT}/image"))?;
            (found.trim_end() == image).then_some((secret, config))
        };
        wait(&format!("user data with {image}"), SOON, has_image)
    }
}

/// The contents of a file of a config.
pub fn file(config: &Value, path: &str) -> Option<String> {
    let files = config["storage"]["files"].as_array()?;
    let file = files.iter().find(|file| file["path"] == path)?;
    let source = file["contents"]["source"].as_str().unwrap();
    let bytes = mosb_ignition::parse_data_url(source).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}
