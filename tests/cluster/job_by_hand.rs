//! One build as a Job that a person creates, in a cluster that has nothing of mosb: the files of
//! job-templates as they are, but for the image and the place to push to.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mosb_api::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_tests::{Layout, MOSB_IMAGE, Namespace, base_image, condition, mosb_image, node};

/// A pod on a busy machine, with buildah in it.
const POD: Duration = Duration::from_secs(600);
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// A namespace with all that the Job names, and the image that it builds.
struct Built<'a> {
    namespace: Namespace<'a>,
    repository: String,
    rendered: String,
    folder: TempDir,
}

impl Built<'_> {
    fn new(name: &str, enforce: &str) -> Self {
        let node = node();
        node.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
        let enforce = json!({ "pod-security.kubernetes.io/enforce": enforce });
        let built = Self {
            namespace: Namespace::labelled(node, name, enforce),
            repository: format!("{name}/os"),
            rendered: format!("rendered-worker-{HEX}"),
            folder: TempDir::new().unwrap(),
        };
        let registry = node.registry();
        let base = format!("{}:base", registry.repository(&built.repository));
        registry.push(&base_image().reference("base"), &format!("{}:base", built.repository));
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": { "name": built.rendered },
            "spec": { "osImageURL": base, "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [
                { "path": "/etc/by-hand", "contents": { "source": "data:,hello" } },
            ] } } },
        });
        built.config_map("machine-config", "machineconfig.yaml", &config.to_string());
        built.config_map("registry-ca", "ca.crt", &registry.ca_pem);
        built.create(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "registry-login" }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": registry.docker_config().to_string() },
        }));
        built
    }

    fn create(&self, object: &Value) -> Value {
        let words =
            ["create", "--output=json", "--filename=-", "--namespace", &self.namespace.name];
        let created = node().kubectl_with(&words, object.to_string().as_bytes());
        created.ok().json()
    }

    fn config_map(&self, name: &str, key: &str, text: &str) {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { key: text } });
        self.create(&map);
    }

    /// Runs the Job to its end, and unpacks what is above the base; returns the folder.
    fn by(&self, template: &str) -> &Path {
        let registry = node().registry();
        let file = mosb_tests::repository().join("job-templates").join(template);
        let job = fs::read_to_string(file).unwrap();
        let job = job.replace("registry.example/mosb:latest", MOSB_IMAGE);
        let job = job.replace("registry.example/os/images", &registry.repository(&self.repository));
        let job = self.create(&yaml::parse_one(job.as_bytes()).unwrap());
        let what = format!("job/{}", job["metadata"]["name"].as_str().unwrap());
        let ended = |job: &Value| condition(job, "Complete") || condition(job, "Failed");
        let job = self.namespace.wait(&what, POD, ended);
        let log = self.namespace.kubectl(&["logs", &what]).text();
        assert!(condition(&job, "Complete"), "{log}");
        assert!(log.contains(&self.rendered) && log.contains("sha256:"), "{log}");
        let layout = Layout::at(self.folder.path().join("built"));
        registry
            .pull(&format!("{}:{}", self.repository, self.rendered), &layout.reference("built"));
        let base = base_image().layers("base").len();
        for layer in layout.layers("built").into_iter().skip(base) {
            let to = self.folder.path().join("files");
            tar::Archive::new(layer).unpack(to).unwrap();
        }
        self.folder.path()
    }
}

#[test]
fn a_person_builds_with_nothing_installed() {
    let built = Built::new("by-hand", "restricted");
    let files = built.by("by-hand.yaml").join("files");
    assert_eq!(fs::read_to_string(files.join("etc/by-hand")).unwrap(), "hello");
}

#[test]
fn a_person_builds_with_a_containerfile() {
    let built = Built::new("by-hand-runs", "privileged");
    let text = "FROM configs AS final\nRUN cat /etc/by-hand /proc/self/uid_map > /etc/ran\n";
    built.config_map("containerfile", "Containerfile", text);
    let files = built.by("by-hand-containerfile.yaml").join("files");
    let ran = fs::read_to_string(files.join("etc/ran")).unwrap();
    let map = ran.strip_prefix("hello").unwrap();
    let words: Vec<_> = map.split_whitespace().collect();
    assert_eq!((words[0], words[2]), ("0", "65536"));
    assert_ne!(words[1], "0", "root in the pod is root on the node");
}
