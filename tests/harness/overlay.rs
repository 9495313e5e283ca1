//! What `deploy/` installs, for a controller that runs beside the cluster with the same rights.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::node::Node;
use crate::repository::repository;

const NAMESPACE: &str = "mosb-system";

impl Node {
    /// Applies everything of an overlay but the Deployment of the controller.
    #[track_caller]
    pub fn install_overlay(&self, overlay: &str) {
        let mut objects = self.overlay(overlay);
        objects.retain(|object| object["kind"] != "Deployment");
        self.apply_all(&objects);
    }

    /// The objects of a folder of `deploy/`.
    #[track_caller]
    pub fn overlay(&self, folder: &str) -> Vec<Value> {
        self.kustomize(&repository().join("deploy").join(folder))
    }

    /// The objects that `kubectl kustomize` makes of a folder.
    #[track_caller]
    pub fn kustomize(&self, folder: &Path) -> Vec<Value> {
        let text = self.kubectl(&["kustomize", folder.to_str().unwrap()]).ok().text();
        text.split("\n---\n").map(|object| serde_saphyr::from_str(object).unwrap()).collect()
    }

    /// A kubeconfig with a token of the account of the controller.
    #[track_caller]
    pub fn controller_kubeconfig(&self) -> PathBuf {
        let words = ["create", "token", "mosb-controller", "--namespace", NAMESPACE];
        let token = self.kubectl(&words).ok().text();
        let admin = fs::read_to_string(self.kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({ "token": token.trim() });
        self.write_kubeconfig("controller", &config)
    }

    /// Writes a kubeconfig beside that of the administrator.
    pub fn write_kubeconfig(&self, name: &str, config: &Value) -> PathBuf {
        let file = self.kubeconfig().with_file_name(name);
        fs::write(&file, config.to_string()).unwrap();
        file
    }
}
