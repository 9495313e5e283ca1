//! A registry's password is searched for wherever builds leave something. It is in the Secrets that are there for it, and nowhere else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster_world::{BUILD, Cluster};
use crate::harness::{MOSB_IMAGE, finish, limited, run};

const RUNS: &str = "FROM configs AS final\nRUN sleep 3; echo ran > /etc/ran\n";
const FAILS: &str = "FROM configs AS final\nRUN env; cat /proc/mounts; exit 7\n";
/// Secrets that are there to hold it; builds' copies begin with `final-`.
const HOLDERS: [&str; 2] = ["push", "registry-login"];

/// All that was left anywhere, as files, and the words to look for.
struct Evidence {
    folder: TempDir,
    needles: tempfile::NamedTempFile,
}

impl Evidence {
    fn new(cluster: &Cluster) -> Self {
        let registry = cluster.node.registry();
        let auth = &registry.docker_config()["auths"][&registry.host_port]["auth"];
        let auth = auth.as_str().unwrap();
        let mut words = vec![registry.password.clone(), auth.to_owned()];
        // Within anything that is base64 itself, wherever it begins there.
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

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Files that hold one of the words, by their names here.
    fn hits(&self) -> Vec<String> {
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

    /// Every object of every kind, with all of its fields; of the Secrets, those that have no right to it.
    fn objects(&self, cluster: &Cluster, when: &str) {
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
        let secrets = cluster.namespace.get("secrets");
        let holds = |secret: &&Value| {
            let name = secret["metadata"]["name"].as_str().unwrap();
            HOLDERS.contains(&name) || name.starts_with("final-")
        };
        let (holding, others): (Vec<_>, Vec<_>) =
            secrets["items"].as_array().unwrap().iter().partition(holds);
        assert!(!holding.is_empty());
        self.put(
            &format!("objects/{when}-secrets"),
            json!(others).to_string(),
        );
        // What is beside the data of those that may.
        let bare = holding.into_iter().cloned().map(|mut secret| {
            secret["data"] = Value::Null;
            secret
        });
        self.put(
            &format!("objects/{when}-holders"),
            Value::from_iter(bare).to_string(),
        );
    }

    /// What each blob is that was pushed for the pool, unpacked.
    fn blobs(&self, cluster: &Cluster) {
        let storage = cluster.node.registry().storage().join("docker/registry/v2");
        let repository = storage.join("repositories").join(&cluster.pool);
        let mut count = 0;
        for links in ["_layers/sha256", "_manifests/revisions/sha256"] {
            for link in fs::read_dir(repository.join(links)).unwrap() {
                let hex = link.unwrap().file_name().into_string().unwrap();
                let data = storage
                    .join("blobs/sha256")
                    .join(&hex[..2])
                    .join(&hex)
                    .join("data");
                let unpack = r#"case $(head -c 2 "$1" | od -An -tx1) in ' 1f 8b') gzip -dc "$1" ;; ' 28 b5') zstd -dcq "$1" ;; *) cat "$1" ;; esac >"$2""#;
                let to = self.path("blobs").join(hex);
                run(
                    "sh",
                    [
                        "-euc",
                        unpack,
                        "sh",
                        data.to_str().unwrap(),
                        to.to_str().unwrap(),
                    ],
                );
                count += 1;
            }
        }
        assert!(count > 8, "{count} blobs");
    }
}

/// What is gone soon: command lines and environments of all processes; logs and last words of the namespace's containers,
/// as second names of their files, which keep what is written later.
struct Watcher<'a> {
    node: &'a Path,
    namespace: &'a str,
    to: PathBuf,
    lines: BTreeSet<String>,
}

impl Watcher<'_> {
    fn look(&mut self) {
        for process in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["cmdline", "environ"] {
                // It may have ended.
                let Ok(text) = fs::read(process.path().join(file)) else {
                    continue;
                };
                let text = String::from_utf8_lossy(&text).replace('\0', " ");
                if self.lines.len() < 100_000 {
                    self.lines.insert(text);
                }
            }
        }
        let prefix = format!("{}_", self.namespace);
        for pod in entries(&self.node.join("log/pods")) {
            if pod
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(&prefix)
            {
                let containers = entries(&pod);
                containers
                    .iter()
                    .flat_map(|it| entries(it))
                    .for_each(|log| self.keep(&log));
            }
        }
        for pod in entries(&self.node.join("lib/kubelet/pods")) {
            let containers = entries(&pod.join("containers"));
            containers
                .iter()
                .flat_map(|it| entries(it))
                .for_each(|last| self.keep(&last));
        }
    }

    fn keep(&self, file: &Path) {
        let name = file
            .strip_prefix(self.node)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('/', "!");
        // It is kept already, or gone by now; that enough was kept is asked at the end.
        fs::hard_link(file, self.to.join(name)).ok();
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.flatten().map(|entry| entry.path()).collect()
}

/// Builds in each way, and looks on.
fn builds(cluster: &mut Cluster, evidence: &Evidence) {
    let rendered = cluster.render("one");
    cluster.start();
    cluster.opt_in(None);
    let first = cluster.image_after("");
    cluster.opt_in(Some(RUNS));
    cluster.building();
    evidence.objects(cluster, "during");
    cluster.image_after(&first);
    cluster.opt_in(Some(FAILS));
    cluster.pool_says("BuildFailed");
    evidence.objects(cluster, "failed");
    by_hand(cluster, &rendered);
    evidence.objects(cluster, "after");
    evidence.put("controller", cluster.log());
    let audit: Vec<_> = cluster.node.audit().iter().map(Value::to_string).collect();
    evidence.put("audit", audit.join("\n"));
    for component in [
        "api-server",
        "controller-manager",
        "scheduler",
        "kubelet",
        "containerd",
    ] {
        evidence.put(component, cluster.node.logs(component));
    }
}

fn by_hand(cluster: &Cluster, rendered: &str) {
    let config = cluster.node.get(&["machineconfig", rendered]);
    cluster.config_map(
        "machine-config",
        &json!({ "machineconfig.yaml": config.to_string() }),
    );
    cluster.config_map(
        "registry-ca",
        &json!({ "ca.crt": cluster.node.registry().ca_pem }),
    );
    cluster.secret("registry-login", &cluster.node.registry().docker_config());
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("job-templates/by-hand.yaml");
    let job = fs::read_to_string(job).unwrap();
    let job = job.replace("registry.example/mosb:latest", MOSB_IMAGE);
    let job = job.replace("registry.example/os/images", &cluster.push);
    let job = job.replace("generateName: mosb-build-", "name: by-hand");
    cluster.namespace.apply(&job);
    cluster
        .namespace
        .wait_for_condition("job/by-hand", "Complete", BUILD);
}

#[test]
fn the_push_password_is_nowhere_but_in_its_secrets() {
    let mut cluster = Cluster::new("canary");
    let evidence = Evidence::new(&cluster);
    let [node, ..] = cluster.node.traces();
    let namespace = cluster.namespace.name.clone();
    let mut watcher = Watcher {
        node: Path::new(&node),
        namespace: &namespace,
        to: evidence.path("pods"),
        lines: BTreeSet::new(),
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                watcher.look();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            builds(&mut cluster, &evidence)
        }));
        done.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        built.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
    let lines: Vec<_> = watcher.lines.into_iter().collect();
    evidence.put("processes", lines.join("\n"));
    evidence.blobs(&cluster);

    // It looked where it says.
    let processes = fs::read_to_string(evidence.path("processes")).unwrap();
    for program in [
        "job build --",
        "job push --",
        "job wait-for-done --",
        "buildah",
        "mosb build /run/mosb/machine-config",
    ] {
        assert!(processes.contains(program), "{program} was not seen");
    }
    let kept: Vec<_> = entries(&evidence.path("pods"))
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    for container in ["wait-for-done", "image-build", "image-push", "!build!"] {
        for part in ["log!pods", "lib!kubelet"] {
            assert!(
                kept.iter()
                    .any(|file| file.contains(part) && file.contains(container)),
                "{part} {container}: {kept:#?}"
            );
        }
    }
    assert_eq!(evidence.hits(), Vec::<String>::new());

    // And finds what is there: in an object, in a layer, in a Secret that has no right to it.
    let registry = cluster.node.registry();
    let hidden = json!({ "a": STANDARD_NO_PAD.encode(registry.docker_config().to_string()) });
    cluster.config_map("planted", &hidden);
    cluster.secret("base-planted", &registry.docker_config());
    evidence.objects(&cluster, "planted");
    evidence.put(
        "blobs/planted",
        format!("a tar with {} in it", registry.password),
    );
    let mut hits = evidence.hits();
    hits.sort();
    assert_eq!(
        hits,
        [
            "./blobs/planted",
            "./objects/planted",
            "./objects/planted-secrets"
        ]
    );
    for planted in ["configmap/planted", "secret/base-planted"] {
        cluster.namespace.kubectl(&["delete", planted]).ok();
    }
    assert!(cluster.namespace.find("configmap/planted").is_none());
}
