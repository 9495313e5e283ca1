//! A Kubernetes namespace of a test's own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::Node;
use super::kubectl::kind_and_name;

/// A fresh namespace, deleted with what is in it when this value is dropped.
#[derive(Debug)]
pub struct Namespace<'n> {
    node: &'n Node,
    pub name: String,
}

impl<'n> Namespace<'n> {
    /// Called `<name>-<number>`; pods can be made in it at once.
    #[track_caller]
    pub fn new(node: &'n Node, name: &str) -> Self {
        Self::labelled(node, name, json!({}))
    }

    /// With labels, such as those of Pod Security.
    #[track_caller]
    pub fn labelled(node: &'n Node, name: &str, labels: Value) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self { node, name: format!("{name}-{number}") };
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace.name, "labels": labels},
        });
        node.apply(&object.to_string());
        // What other components put into each new namespace, and what pods are refused without.
        for object in ["serviceaccount/default", "configmap/kube-root-ca.crt"] {
            namespace.wait(object, Duration::from_secs(60), |_| true);
        }
        namespace
    }

    /// `kubectl --namespace …`.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> super::Finished {
        let mut all = vec!["--namespace", self.name.as_str()];
        all.extend(arguments);
        self.node.kubectl(&all)
    }

    /// Creates or changes what a YAML or JSON text says, in this namespace.
    #[track_caller]
    pub fn apply(&self, text: &str) {
        self.node.apply_in(Some(&self.name), text);
    }

    /// An object, such as `pod/x`.
    #[track_caller]
    pub fn get(&self, what: &str) -> Value {
        self.find(what).unwrap_or_else(|| panic!("{what}: there is none in {}", self.name))
    }

    /// The same, if it is there.
    #[track_caller]
    pub fn find(&self, what: &str) -> Option<Value> {
        let (kind, name) = kind_and_name(what);
        self.node.api().find(Some(&self.name), kind, name)
    }

    /// All objects of these kinds (`jobs,pods`).
    #[track_caller]
    pub fn list(&self, kinds: &str) -> Vec<Value> {
        self.list_labelled(kinds, "")
    }

    /// The same of those that have a label (`name=value`).
    #[track_caller]
    pub fn list_labelled(&self, kinds: &str, label: &str) -> Vec<Value> {
        self.node.api().list(Some(&self.name), kinds, label)
    }

    /// What a container of a pod has written so far, if it has begun.
    #[track_caller]
    pub fn log(&self, pod: &str, container: &str) -> Option<String> {
        self.node.api().log(&self.name, pod, container)
    }

    /// Waits until an object (`pod/x`) is there and fits. Past the limit the test ends, with the
    /// object as it is, and what there is and happened in the namespace.
    #[track_caller]
    pub fn wait(&self, what: &str, limit: Duration, fits: impl Fn(&Value) -> bool) -> Value {
        match self.node.watch(Some(&self.name), what, limit, fits) {
            Ok(found) => found,
            Err(last) => panic!(
                "waited {} s in vain for {what} in {}: {last:#?}\n{}\n{}\n{}",
                limit.as_secs(),
                self.name,
                self.kubectl(&["get", "pods,jobs", "--output=wide"]).text(),
                self.kubectl(&["get", "events"]).text(),
                self.node.ended(),
            ),
        }
    }

    /// Waits until an object has a condition that is `True`.
    #[track_caller]
    pub fn wait_for_condition(&self, what: &str, kind: &str, limit: Duration) -> Value {
        self.wait(what, limit, |object| condition(object, kind))
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // The end of the node ends it too; no wait, and a second panic would hide the test's own.
        let delete = ["delete", "namespace", &self.name, "--wait=false"];
        self.node.kubectl(&delete);
    }
}

/// Whether an object's status has a condition of this type that is `True`.
pub fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    })
}
