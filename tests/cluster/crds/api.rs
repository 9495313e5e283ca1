//! The copies of the CRDs, and how the API server is asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use mosb_tests::{node, wait};

/// The group of the real ones, and of the copies.
const REAL: &str = "machineconfiguration.openshift.io";
pub const GROUP: &str = "crds.mosb.test";

const DRY: PostParams = PostParams { dry_run: true, field_manager: None };

/// A client of a cluster administrator's.
pub struct Api {
    runtime: Runtime,
    client: kube::Client,
}

impl Api {
    /// One whose API server has the copies.
    pub fn new() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            for file in files() {
                install(&copy(&file, GROUP));
            }
        });
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async {
            let config = Kubeconfig::read_from(node().kubeconfig()).unwrap();
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(config, &options).await;
            kube::Client::try_from(config.unwrap()).unwrap()
        });
        Self { runtime, client }
    }

    fn of(&self, object: &Value) -> kube::Api<DynamicObject> {
        let kind = object["kind"].as_str().unwrap();
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(group, version, kind),
            &format!("{}s", kind.to_lowercase()),
        );
        kube::Api::all_with(self.client.clone(), &kind)
    }

    fn post(&self, object: &Value, how: &PostParams) -> Result<Value, String> {
        let typed = serde_json::from_value(object.clone()).unwrap();
        message_of_error(self.runtime.block_on(self.of(object).create(how, &typed)))
    }

    /// What the API server would make of a new object.
    pub fn try_create(&self, object: &Value) -> Result<Value, String> {
        self.post(object, &DRY)
    }

    /// An object that is there from now on.
    #[track_caller]
    pub fn created(&self, object: &Value) -> Value {
        self.post(object, &PostParams::default()).unwrap_or_else(|why| panic!("{object}: {why}"))
    }

    fn put(&self, object: &Value, how: &PostParams) -> Result<Value, String> {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let (api, name) = (self.of(object), name(object));
        message_of_error(self.runtime.block_on(api.replace(name, how, &typed)))
    }

    /// What it would make of a change.
    pub fn try_update(&self, object: &Value) -> Result<Value, String> {
        self.put(object, &DRY)
    }

    /// Changes an object.
    pub fn update(&self, object: &Value) -> Result<Value, String> {
        self.put(object, &PostParams::default())
    }

    fn put_status(&self, object: &Value, how: &PostParams) -> Result<Value, String> {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let (api, name) = (self.of(object), name(object));
        message_of_error(self.runtime.block_on(api.replace_status(name, how, &typed)))
    }

    /// What it would make of a status.
    pub fn try_status(&self, object: &Value) -> Result<Value, String> {
        self.put_status(object, &DRY)
    }

    /// Writes a status.
    pub fn write_status(&self, object: &Value) -> Result<Value, String> {
        self.put_status(object, &PostParams::default())
    }

    /// Server-side apply by one of several who own fields, which takes what it names.
    pub fn apply(&self, owner: &str, object: &Value) -> Result<Value, String> {
        let (api, name) = (self.of(object), name(object));
        let how = PatchParams::apply(owner).force();
        message_of_error(self.runtime.block_on(api.patch(name, &how, &Patch::Apply(object))))
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The object as the API server has it, or why it refuses it.
fn message_of_error(result: kube::Result<DynamicObject>) -> Result<Value, String> {
    match result {
        Ok(object) => Ok(serde_json::to_value(object).unwrap()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(why) => panic!("{why}"),
    }
}

/// An object of one of the kinds.
pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// `deploy/crds`, without what lists them.
pub fn files() -> Vec<PathBuf> {
    let folder = mosb_tests::repository().join("deploy/crds");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("kustomization.yaml"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 4);
    files
}

/// A CRD's text, in another group.
pub fn copy(file: &Path, group: &str) -> String {
    fs::read_to_string(file).unwrap().replace(REAL, group)
}

/// Installs a CRD and waits until objects can be made. A change of one that is there takes a moment
/// to be seen.
pub fn install(text: &str) {
    node().apply(text);
    let name = text.lines().find_map(|line| line.strip_prefix("  name: ")).unwrap();
    let established = ["wait", "--for=condition=Established", "crd", name, "--timeout=60s"];
    wait("an established CRD", Duration::from_secs(90), || {
        node().kubectl(&established).status.success().then_some(())
    });
}
