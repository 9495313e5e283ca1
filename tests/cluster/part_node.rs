//! The Kubernetes node does what the tests rely on.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{
    BUSYBOX_IMAGE, COUNTED, Finished, Namespace, Node, RECORDED, condition, node, programs, wait,
};

/// A pod on a busy machine.
pub const POD: Duration = Duration::from_secs(120);

/// A pod that runs a script in busybox, with more in its spec.
pub fn pod(name: &str, script: &str, more: Value) -> String {
    let mut spec = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "containers": [container(script)],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).to_string()
}

fn container(script: &str) -> Value {
    json!({
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-euc", script],
    })
}

/// Runs a script in a pod to its success; returns its output.
#[track_caller]
fn output(namespace: &Namespace, name: &str, script: &str, more: Value) -> String {
    namespace.apply(&pod(name, script, more));
    let ended = namespace.wait(&format!("pod/{name}"), POD, |pod| {
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap())
    });
    let log = namespace.kubectl(&["logs", name]).ok().text();
    assert_eq!(ended["status"]["phase"], "Succeeded", "{log}\n{ended:#}");
    log
}

#[test]
fn the_node_is_ready_and_has_user_namespaces() {
    let node = node();
    for (what, after) in &node.times {
        println!("{what}: after {:.1} s", after.as_secs_f64());
    }
    let found = node.get("node/node");
    assert_eq!(found["status"]["nodeInfo"]["kubeletVersion"], "v1.34.4");
    assert_eq!(node.wait("node/node", POD, |node| condition(node, "Ready"))["kind"], "Node");
    assert_eq!(node.ended(), "");
    assert!(node.logs("kubelet").contains("Successfully registered node"));
    let handlers = found["status"]["runtimeHandlers"].as_array().unwrap();
    let able = |handler: &Value| handler["features"]["userNamespaces"] == true;
    assert!(handlers.iter().any(able), "{handlers:#?}");
}

#[test]
fn a_job_with_a_native_sidecar_completes() {
    let namespace = Namespace::new(node(), "sidecar");
    let mut sidecar =
        container("trap 'exit 0' TERM; touch /work/ready; while :; do sleep 1 & wait $!; done");
    sidecar["name"] = json!("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["volumeMounts"] = json!([{"name": "work", "mountPath": "/work"}]);
    let mut main = container("until [ -e /work/ready ]; do sleep 0.1; done");
    main["volumeMounts"] = sidecar["volumeMounts"].clone();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "build"},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never",
            "initContainers": [sidecar],
            "containers": [main],
            "volumes": [{"name": "work", "emptyDir": {}}],
        }}},
    });
    let started = Instant::now();
    namespace.apply(&job.to_string());
    namespace.wait_for_condition("job/build", "Complete", POD);
    println!("a job with a sidecar: {:.1} s", started.elapsed().as_secs_f64());
}

#[test]
fn a_pod_may_have_a_user_namespace() {
    let namespace = Namespace::new(node(), "confined");
    let map = "cat /proc/self/uid_map; grep ^Seccomp: /proc/self/status";
    let mapped = output(&namespace, "mapped", map, json!({"hostUsers": false}));
    let words: Vec<_> = mapped.split_whitespace().collect();
    assert_eq!(words[0], "0", "{mapped}");
    assert_ne!(words[1], "0", "the identity: {mapped}");
    assert_eq!(words[3..], ["Seccomp:", "2"], "a filter: {mapped}");

    let plain = output(&namespace, "plain", map, json!({}));
    let words: Vec<_> = plain.split_whitespace().collect();
    assert_eq!(words, ["0", "0", "4294967295", "Seccomp:", "2"], "{plain}");
}

/// What buildah does in a build pod, without buildah.
#[test]
fn a_user_namespace_can_mount_an_overlay() {
    let namespace = Namespace::new(node(), "overlay");
    let mut builder = container(
        "cd /work; mkdir lower upper work merged; echo low > lower/file
         mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
         echo high > merged/file; rm merged/file; ls -l upper; chown 1000 upper; umount merged
         ls /var/run/secrets/kubernetes.io/serviceaccount",
    );
    builder["securityContext"] = json!({"capabilities": {"add": ["SYS_ADMIN"]}});
    builder["volumeMounts"] = json!([{"name": "work", "mountPath": "/work"}]);
    let more = json!({
        "hostUsers": false,
        "automountServiceAccountToken": true,
        "containers": [builder],
        "volumes": [{"name": "work", "emptyDir": {}}],
    });
    let output = output(&namespace, "builder", "", more);
    let lines: Vec<_> = output.lines().collect();
    assert!(lines[1].starts_with("c---------"), "a whiteout: {output}");
    assert_eq!(lines[2..], ["ca.crt", "namespace", "token"], "{output}");
}

#[test]
#[ignore = "make test-all: of the tests' own node"]
fn too_much_disk_evicts_a_pod() {
    let namespace = Namespace::new(node(), "evicted");
    let mut greedy = container("dd if=/dev/zero of=/big bs=1M count=20; sleep 600");
    greedy["resources"] = json!({"limits": {"ephemeral-storage": "5Mi"}});
    namespace.apply(&pod("greedy", "", json!({"containers": [greedy]})));
    namespace.wait("pod/greedy", POD, |pod| pod["status"]["reason"] == "Evicted");
    namespace.kubectl(&["delete", "pod", "greedy"]).ok();
    assert_eq!(namespace.find("pod/greedy"), None);
}

#[test]
fn an_imported_image_is_there_without_a_registry() {
    let node = node();
    let name = "mosb.test/imported:1";
    node.import(&node.busybox(), name);
    let listed = node.inside(&["ctr", "--namespace=k8s.io", "images", "list"]).ok();
    let line = listed.text().lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line.contains("io.cri-containerd.pinned=pinned"), "{line}");
    let namespace = Namespace::new(node, "imported");
    let mut imported = container("echo imported");
    imported["image"] = json!(name);
    let more = json!({"containers": [imported]});
    assert_eq!(output(&namespace, "imported", "", more), "imported\n");
}

#[test]
fn pods_reach_the_api_and_the_registry() {
    let node = node();
    let namespace = Namespace::new(node, "network");
    let registry = node.registry().host_port.replace(':', " ");
    let listener = TcpListener::bind((node.outside(), 0)).unwrap();
    let script = format!(
        "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null; nc -w 5 {} 443 < /dev/null
         nc -w 5 {registry} < /dev/null; nc -w 5 {} {} < /dev/null
         echo reached; ls /var/run/secrets/kubernetes.io/serviceaccount; sleep 600",
        node.address(),
        node.outside(),
        listener.local_addr().unwrap().port(),
    );
    let peer = std::thread::spawn(move || listener.accept().unwrap().1);
    let token = json!({"automountServiceAccountToken": true});
    namespace.apply(&pod("client", &script, token));
    wait("the pod's word", POD, || {
        let log = namespace.kubectl(&["logs", "client"]).text();
        log.starts_with("reached\nca.crt\nnamespace\ntoken").then_some(())
    });
    let pod = namespace.get("pod/client");
    let address = peer.join().unwrap().ip().to_string();
    assert_eq!(pod["status"]["podIP"], address, "no address is translated");
    let inside = namespace.kubectl(&["exec", "client", "--", "hostname"]).ok();
    assert_eq!(inside.text(), "client\n");
}

#[test]
fn containerd_pulls_only_with_a_secret() {
    let node = node();
    let registry = node.registry();
    assert!(registry.ca_pem.starts_with("-----BEGIN CERTIFICATE-----"));
    registry.push(&node.busybox(), "part-node/busybox:1");
    assert!(registry.storage().join("docker/registry/v2/repositories/part-node/busybox").is_dir());
    let copy = tempfile::TempDir::new().unwrap();
    registry.pull("part-node/busybox:1", &format!("dir:{}", copy.path().display()));
    assert!(copy.path().join("manifest.json").is_file());
    let namespace = Namespace::new(node, "pull");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": registry.pull_config().to_string()},
    });
    namespace.apply(&secret.to_string());
    let mut puller = container("echo pulled");
    puller["image"] = json!(registry.repository("part-node/busybox:1"));
    puller["imagePullPolicy"] = json!("Always");
    namespace.apply(&pod("without", "", json!({"containers": [puller.clone()]})));
    let with = json!({"containers": [puller], "imagePullSecrets": [{"name": "pull"}]});
    assert_eq!(output(&namespace, "with", "", with), "pulled\n");
    namespace.wait("pod/without", POD, |pod| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        waiting["message"].as_str().is_some_and(|why| why.contains("401"))
            || waiting["reason"] == "ImagePullBackOff"
    });
}

#[test]
fn admission_guards_owners_and_pods() {
    let node = node();
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = Namespace::labelled(node, "admission", restricted);
    let refused = |finished: Finished, why: &str| {
        assert_ne!(finished.code(), Some(0), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    };
    let place = format!("--namespace={}", namespace.name);
    let create = ["create", &place, "--dry-run=server", "--filename=-"];
    let root = pod("root", "true", json!({}));
    refused(node.kubectl_with(&create, root.as_bytes()), "violates PodSecurity");

    namespace.kubectl(&["create", "configmap", "owner"]).ok();
    namespace.kubectl(&["create", "serviceaccount", "maker"]).ok();
    let role = ["create", "role", "maker", "--verb=create,get", "--resource=configmaps"];
    namespace.kubectl(&role).ok();
    let user = format!("system:serviceaccount:{}:maker", namespace.name);
    let subject = format!("--serviceaccount={}:maker", namespace.name);
    namespace.kubectl(&["create", "rolebinding", "maker", "--role=maker", &subject]).ok();
    wait("the right to be in force", POD, || {
        let asks = ["auth", "can-i", "create", "configmaps", &place, &format!("--as={user}")];
        node.kubectl(&asks).status.success().then_some(())
    });
    let owner = namespace.get("configmap/owner");
    let owned = |blocks: bool| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }]}})
        .to_string()
    };
    let account = format!("--as={user}");
    let create = ["create", &place, &account, "--filename=-"];
    refused(node.kubectl_with(&create, owned(true).as_bytes()), "cannot set blockOwnerDeletion");
    node.kubectl_with(&create, owned(false).as_bytes()).ok();

    let verbs: Vec<_> = node
        .audit()
        .into_iter()
        .filter(|event| event["impersonatedUser"]["username"] == user.as_str())
        .filter(|event| event["objectRef"]["resource"] == "configmaps")
        .map(|event| (event["verb"].clone(), event["responseStatus"]["code"].clone()))
        .collect();
    assert_eq!(verbs, [(json!("create"), json!(403)), (json!("create"), json!(201))]);
}

#[test]
fn a_control_plane_alone_distinguishes_users() {
    let plane = Node::control_plane(&programs()).unwrap();
    for user in [COUNTED, RECORDED] {
        let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig_of(user).display());
        let map = format!("map-of-{user}");
        let literal = format!("--from-literal=by={user}");
        let words = ["create", "configmap", &map, &literal, &kubeconfig];
        plane.kubectl(&words).ok();
    }
    let audit = plane.audit();
    let sent = |user: &str| {
        let mut all = audit.iter().filter(|event| event["user"]["username"] == user);
        let created = all.find(|event| event["verb"] == "create").unwrap();
        created["requestObject"]["data"]["by"].clone()
    };
    assert_eq!([sent(COUNTED), sent(RECORDED)], [Value::Null, json!(RECORDED)]);
}
