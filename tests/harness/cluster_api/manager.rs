//! Installs the kinds and webhooks of Cluster API, and runs the manager beside the control plane.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::node::Node;
use crate::parts::CLUSTER_API;
use crate::tls::Certificate;

/// The component, whose log is [`Node::logs`] of this name.
const COMPONENT: &str = "cluster-api";
const WEBHOOKS: &str = "127.0.0.1:9443";

impl Node {
    /// Runs Cluster API's core controllers, and waits until their webhooks answer.
    #[track_caller]
    pub fn run_cluster_api(&self) {
        let part = CLUSTER_API.directory();
        let files = self.kubeconfig().with_file_name(COMPONENT);
        fs::create_dir_all(&files).unwrap();
        let authority = Certificate::authority(&files, "authority");
        // The names of the files are those that the manager expects.
        Certificate::server(&files, "tls", &authority);
        let authority = STANDARD.encode(fs::read(&authority.certificate).unwrap());

        let objects = self.kustomize(&part.join("config/default"));
        let of_kind = |suffix: &str| {
            let kind = |object: &&Value| object["kind"].as_str().unwrap().ends_with(suffix);
            objects.iter().filter(kind).cloned().collect::<Vec<_>>()
        };
        let mut kinds = of_kind("CustomResourceDefinition");
        for kind in &mut kinds {
            point_to_manager(&mut kind["spec"]["conversion"]["webhook"], &authority);
        }
        self.apply_all(&kinds);
        self.established();

        let line = [
            part.join(COMPONENT).display().to_string(),
            format!("--kubeconfig={}", self.kubeconfig().display()),
            format!("--webhook-cert-dir={}", files.display()),
            "--diagnostics-address=127.0.0.1:8443".to_owned(),
            "--health-addr=127.0.0.1:9440".to_owned(),
        ];
        self.run(COMPONENT, &line).unwrap_or_else(|why| panic!("{why}"));
        let serves = || self.logs(COMPONENT).contains("Serving webhook server");
        self.until("the webhooks of Cluster API", serves).unwrap_or_else(|why| panic!("{why}"));

        let mut configurations = of_kind("WebhookConfiguration");
        for configuration in &mut configurations {
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                point_to_manager(webhook, &authority);
            }
        }
        self.apply_all(&configurations);
    }
}

/// Replaces the Service of a webhook by the manager's address beside the API server.
fn point_to_manager(webhook: &mut Value, authority: &str) {
    let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
    let url = format!("https://{WEBHOOKS}{path}");
    webhook["clientConfig"] = json!({ "url": url, "caBundle": authority });
}
