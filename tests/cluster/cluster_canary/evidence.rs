//! Collects everything that builds leave behind, and searches it for the password.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::test_cluster::Cluster;
use mosb_tests::{finish, limited, run};

/// Secrets that may contain the password. Copies for builds have the prefix `final-`.
const HOLDERS: [&str; 2] = ["push", "registry-login"];

/// The collected data as files, and the strings to search for.
pub struct Evidence {
    folder: TempDir,
    needles: tempfile::NamedTempFile,
}

impl Evidence {
    pub fn new(cluster: &Cluster) -> Self {
        let registry = cluster.node.registry();
        let auth = &registry.docker_config()["auths"][&registry.host_port]["auth"];
        let auth = auth.as_str().unwrap();
        let mut words = vec![registry.password.clone(), auth.to_owned()];
        // Base64 of the secret at each of the three possible offsets in a longer text.
        for secret in [&*registry.password, auth] {
            for (before, skipped) in [("", 0), ("x", 2), ("xx", 3)] {
                let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret}"));
                words.push(encoded[skipped..encoded.len() - 2].to_owned());
            }
        }
        let needles = tempfile::NamedTempFile::new().unwrap();
        fs::write(&needles, words.join("\n")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for inside in ["objects", "pods", "blobs"] {
            fs::create_dir(folder.path().join(inside)).unwrap();
        }
        Self { folder, needles }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The files that contain one of the strings, relative to the folder.
    pub fn hits(&self) -> Vec<String> {
        let mut grep = limited("grep");
        grep.env("LC_ALL", "C")
            .args(["-rlaF", "-f"])
            .arg(self.needles.path())
            .arg(".")
            .current_dir(&self.folder);
        let found = finish(&mut grep, &[]);
        assert!(found.stderr.is_empty(), "{}", found.stderr);
        found.text().lines().map(str::to_owned).collect()
    }

    /// Collects every object of every kind with all fields, and the Secrets that must not contain
    /// the password.
    pub fn objects(&self, cluster: &Cluster, when: &str) {
        let node = cluster.node;
        let listed = ["api-resources", "--verbs=list", "--output=name"];
        let kinds = node.kubectl(&listed).ok().text();
        let others: Vec<_> = kinds.lines().filter(|kind| *kind != "secrets").collect();
        assert!(
            others.len() > 30
                && others.contains(&"machineosbuilds.machineconfiguration.openshift.io"),
            "{others:?}"
        );
        let words = [
            "get",
            &others.join(","),
            "--all-namespaces",
            "--show-managed-fields",
            "--output=json",
        ];
        let all = node.kubectl(&words).ok().text();
        assert!(all.contains("managedFields") && all.contains("MachineOSBuild"));
        self.put(&format!("objects/{when}"), all);
        let secrets = cluster.namespace.list("secrets");
        let holds = |secret: &&Value| {
            let name = secret["metadata"]["name"].as_str().unwrap();
            HOLDERS.contains(&name) || name.starts_with("final-")
        };
        let (holding, others): (Vec<_>, Vec<_>) = secrets.iter().partition(holds);
        assert!(!holding.is_empty());
        self.put(&format!("objects/{when}-secrets"), json!(others).to_string());
        self.put(&format!("objects/{when}-logs"), archived_logs(&secrets));
        // The metadata of the Secrets that may contain it.
        let bare = holding.into_iter().cloned().map(|mut secret| {
            secret["data"] = Value::Null;
            secret
        });
        self.put(&format!("objects/{when}-holders"), Value::from_iter(bare).to_string());
    }

    /// Collects the uncompressed content of each blob that was pushed for the pool.
    pub fn blobs(&self, cluster: &Cluster) {
        let storage = cluster.node.registry().storage().join("docker/registry/v2");
        let repository = storage.join("repositories").join(&cluster.pool);
        let mut count = 0;
        for links in ["_layers/sha256", "_manifests/revisions/sha256"] {
            for link in fs::read_dir(repository.join(links)).unwrap() {
                let hex = link.unwrap().file_name().into_string().unwrap();
                let data = storage.join("blobs/sha256").join(&hex[..2]).join(&hex).join("data");
                let unpack = r#"case $(head -c 2 "$1" | od -An -tx1) in ' 1f 8b') gzip -dc "$1" ;; ' 28 b5') zstd -dcq "$1" ;; *) cat "$1" ;; esac >"$2""#;
                let to = self.path("blobs").join(hex);
                run("sh", ["-euc", unpack, "sh", data.to_str().unwrap(), to.to_str().unwrap()]);
                count += 1;
            }
        }
        assert!(count > 8, "{count} blobs");
    }
}

/// The content of the Secrets that archive logs.
fn archived_logs(secrets: &[Value]) -> Vec<u8> {
    let mut all = Vec::new();
    for secret in secrets {
        let name = secret["metadata"]["name"].as_str().unwrap();
        if name.starts_with("log-") {
            for packed in secret["data"].as_object().unwrap().values() {
                let packed = STANDARD.decode(packed.as_str().unwrap()).unwrap();
                GzDecoder::new(&*packed).read_to_end(&mut all).unwrap();
            }
        }
    }
    all
}
