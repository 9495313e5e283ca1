//! The overlay for OpenShift, with its rights: builds run in a namespace of their own, from
//! ConfigMaps and Secrets of the Machine Config Operator's. No OpenShift runs here: the constraints
//! are a kind that no API server serves, but the right to it is granted all the same.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::deploy::rendered;
use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{Daemon, MOSB_IMAGE, Namespace, lasting};

const OPERATOR: &str = "openshift-machine-config-operator";
const RUNS: &str = "FROM configs AS final\nRUN cat /etc/yum.repos.d/a.repo /etc/pki/entitlement/key.pem > /usr/share/given\n";

/// The overlay, with the names of these two namespaces; the controller itself runs outside.
fn install(cluster: &Cluster, operator: &str) {
    for object in rendered("openshift") {
        let kind = object["kind"].as_str().unwrap();
        if ["Namespace", "Deployment", "Service", "SecurityContextConstraints"].contains(&kind) {
            continue;
        }
        let text = object.to_string();
        let text = text.replace("mosb-system", &cluster.namespace.name);
        cluster.node.apply(&text.replace(OPERATOR, operator));
    }
}

/// A controller with the rights of its account.
fn controller(cluster: &Cluster, operator: &str, folder: &Path) -> Daemon {
    let kubeconfig = fs::read_to_string(cluster.node.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    let account = format!("system:serviceaccount:{}:mosb-controller", cluster.namespace.name);
    kubeconfig["users"][0]["user"]["as"] = json!(account);
    let file = folder.join("kubeconfig");
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let mut command = lasting(mosb_tests::program());
    command
        .args(["controller", "--verbose", "--listen", "127.0.0.1:0"])
        .args(["--namespace", &cluster.namespace.name])
        .args(["--operator-namespace", operator])
        .arg("--security-context-constraints")
        .args(["--builder-image", MOSB_IMAGE])
        .arg("--kubeconfig")
        .arg(&file)
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    let listens = |line: &str| line.contains("listening on").then_some(());
    Daemon::start(command, listens).0
}

fn blocked(config: &Value) -> Option<String> {
    let conditions = config["status"]["conditions"].as_array()?;
    let blocked =
        conditions.iter().find(|one| one["type"] == "Blocked" && one["status"] == "True")?;
    Some(blocked["message"].as_str()?.to_owned())
}

#[test]
fn inputs_and_builds_have_their_own_namespaces() {
    let cluster = Cluster::new("two-namespaces");
    let node = cluster.node;
    let operator = Namespace::new(node, "operator");
    install(&cluster, &operator.name);
    let own = &cluster.namespace;
    for secret in ["push", "global-pull-secret-copy"] {
        let mut moved = own.get(&format!("secret/{secret}"));
        moved["metadata"] = json!({ "name": secret });
        operator.apply(&moved.to_string());
        own.kubectl(&["delete", "secret", secret]).ok();
    }
    let entitlement = format!("etc-pki-entitlement-{}", cluster.pool);
    let of_packages = [
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "etc-yum-repos-d" }, "data": { "a.repo": "[a]\n" } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": entitlement }, "stringData": { "key.pem": "entitled\n" } }),
    ];
    for object in of_packages {
        operator.apply(&object.to_string());
    }
    cluster.render("one");
    cluster.opt_in(None);
    let folder = tempfile::tempdir().unwrap();
    let controller = controller(&cluster, &operator.name, folder.path());

    // A name that the Role does not have yet.
    let what = format!("machineosconfig/{}", cluster.pool);
    let config = node.wait(&what, SOON, |config| blocked(config).is_some());
    let message = blocked(&config).unwrap();
    let want = format!(
        "secret {}/push: there is none in {}, and mosb may not read this one",
        operator.name, own.name
    );
    assert!(message.contains(&want), "{message}\n{}", controller.log());
    let names = ["push", &entitlement]
        .map(|name| json!({ "op": "add", "path": "/rules/0/resourceNames/-", "value": name }));
    operator
        .kubectl(&[
            "patch",
            "role",
            "mosb-controller-secrets",
            "--type=json",
            "--patch",
            &json!(names).to_string(),
        ])
        .ok();

    cluster.opt_in(Some(RUNS));
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/story"), "one");
    assert_eq!(cluster.file(&image, "/usr/share/given"), "[a]\nentitled\n");
    let build = cluster.current();
    assert_eq!(build["status"]["builder"]["job"]["namespace"], json!(own.name), "{build:#}");
    assert_eq!(operator.list("jobs,pods"), Vec::<Value>::new(), "something ran there");
    let log = controller.log();
    let forbidden = |line: &&str| line.contains("forbidden") && !line.contains("may not read");
    let forbidden: Vec<&str> = log.lines().filter(forbidden).collect();
    assert_eq!(forbidden, Vec::<&str>::new());
}
