//! Build Jobs on a real API server and kubelet. The objects are those of the golden files, which
//! the program's own tests compare with what it makes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mosb_api::yaml::{self, Limits};
use serde_json::{Value, json};

use mosb_tests::{
    BUSYBOX_IMAGE, Finished, MOSB_IMAGE, Namespace, Node, base_image, condition, mosb_image, node,
};

/// A pod on a busy machine.
const POD: Duration = Duration::from_secs(600);
/// The golden files of Jobs.
const JOBS: [&str; 7] = [
    "direct",
    "containerfile",
    "control-plane",
    "degraded",
    "everything",
    "long-names",
    "overrides",
];
const HEX: &str = "0123456789abcdef0123456789abcdef";

fn folder(name: &str) -> PathBuf {
    mosb_tests::repository().join(name)
}

/// The objects of a golden file, in this namespace.
fn objects(namespace: &Namespace, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder("testdata/job").join(file)).unwrap();
    let text = text.replace("mosb-system", &namespace.name);
    yaml::parse_all(text.as_bytes(), Limits::LIST).unwrap()
}

fn job(namespace: &Namespace, case: &str) -> Value {
    objects(namespace, &format!("{case}/job.yaml")).remove(0)
}

fn create(namespace: &Namespace, object: &Value, how: &[&str]) -> Finished {
    let place = format!("--namespace={}", namespace.name);
    let mut arguments = vec!["create", "--filename=-", &place];
    arguments.extend(how);
    node().kubectl_with(&arguments, object.to_string().as_bytes())
}

/// Without the owner, whom this test hasn't got: the garbage collector would take the object away.
fn orphan(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    object
}

#[test]
fn an_api_server_takes_every_object() {
    let namespace = Namespace::new(node(), "accepted");
    for case in JOBS {
        let inputs = objects(&namespace, &format!("{case}/inputs.yaml"));
        for object in inputs.into_iter().chain([job(&namespace, case)]) {
            let taken =
                create(&namespace, &orphan(object.clone()), &["--dry-run=server", "--output=json"]);
            let taken: Value = taken.ok().json();
            // Also a field of a newer API would be lost silently.
            for field in ["spec", "data", "rules", "subjects"] {
                lost(&format!("{case}: {}/{field}", object["kind"]), &object[field], &taken[field]);
            }
        }
    }
}

/// Everything that was given is there; the API server adds defaults.
fn lost(at: &str, given: &Value, taken: &Value) {
    match (given, taken) {
        (Value::Object(fields), _) => {
            for (field, value) in fields {
                lost(&format!("{at}.{field}"), value, &taken[field]);
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{at}");
            for (item, other) in items.iter().zip(others) {
                lost(at, item, other);
            }
        }
        _ => assert_eq!(given, taken, "{at}"),
    }
}

#[test]
fn all_but_buildah_passes_restricted() {
    let enforce = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let namespace = Namespace::labelled(node(), "restricted", enforce);
    let pod = |case: &str| {
        let template = &job(&namespace, case)["spec"]["template"];
        let metadata = json!({ "name": "build", "labels": template["metadata"]["labels"] });
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] });
        pod["spec"]["serviceAccountName"] = json!("build");
        pod
    };
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "build" } });
    create(&namespace, &account, &[]).ok();
    let tried = |pod: &Value| create(&namespace, pod, &["--dry-run=server"]);
    let mut with_buildah = 0;
    for case in JOBS {
        let whole = pod(case);
        let mut without_buildah = whole.clone();
        let containers = without_buildah["spec"]["initContainers"].as_array_mut().unwrap();
        containers.retain(|container| container["name"] != "image-build");
        assert_eq!(containers.len(), 1, "{case}");
        if without_buildah == whole {
            tried(&whole).ok();
            continue;
        }
        with_buildah += 1;
        tried(&without_buildah).ok();
        let refused = tried(&whole);
        let why = &refused.stderr;
        assert!(
            why.contains("violates PodSecurity") && why.contains("image-build"),
            "{case}: {why}"
        );
        assert!(!why.contains("wait-for-done") && !why.contains("image-push"), "{case}: {why}");
    }
    assert!((1..JOBS.len()).contains(&with_buildah), "{with_buildah}");
}

const SPEC: &str = "/run/mosb/spec/build.json";
/// Files below a folder, without those by which the kubelet changes all at once.
const LIST: &str = "find -L /run/mosb /etc/containers/certs.d /var/run/secrets -type f ! -path '*/..*' 2>/dev/null | sort";

/// The Job with every input, of which each container looks around instead of building.
#[test]
fn each_container_finds_what_is_its_own() {
    let namespace = Namespace::new(node(), "mounted");
    for object in objects(&namespace, "everything/inputs.yaml") {
        create(&namespace, &orphan(object), &[]).ok();
    }
    administrators_objects(&namespace);
    let mut job = orphan(job(&namespace, "everything"));
    job["spec"]["suspend"] = json!(false);
    let pod = &mut job["spec"]["template"]["spec"];
    pod["nodeSelector"] = json!({});
    for (list, name, script) in [
        ("initContainers", "wait-for-done", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"),
        ("initContainers", "image-build", "echo made >/run/mosb/image/index.json; mkdir /run/mosb/image/blobs; touch /run/mosb/failure/result.json
            mount -t tmpfs none /var/lib/mosb && echo mounts"),
        ("containers", "image-push", "cat /run/mosb/image/index.json; ls -d /run/mosb/image/blobs; touch /run/mosb/result/result.json /tmp/x
            touch /run/mosb/image/x /etc/x 2>/dev/null || echo read-only"),
    ] {
        let containers = pod[list].as_array_mut().unwrap();
        let container = containers.iter_mut().find(|container| container["name"] == name).unwrap();
        let script = format!("id -u; echo $MOSB_JOB_UID; head -c 1 $(find -L /run/mosb -name config.json) >/dev/null || exit 1\n{LIST}\n{script}");
        container["image"] = json!(BUSYBOX_IMAGE);
        container["command"] = json!(["/bin/sh", "-euc", script]);
        container["args"] = json!([]);
    }
    let created: Value = create(&namespace, &job, &["--output=json"]).ok().json();
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let what = format!("job/{}", created["metadata"]["name"].as_str().unwrap());
    namespace.wait_for_condition(&what, "Complete", POD);
    let logs = |container: &str| {
        let log = namespace.kubectl(&["logs", &what, "--container", container]).ok().text();
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let both = [
        "/etc/containers/certs.d/192.0.2.1:5000/ca.crt",
        "/etc/containers/certs.d/[2001:db8::1]:5000/ca.crt",
        "/run/mosb/base-image-pull-creds/config.json",
        "/run/mosb/containerfile/Containerfile",
    ];
    let config = [
        "/run/mosb/machine-config/0/machineconfig.json.gz",
        "/run/mosb/machine-config/1/machineconfig.json.gz",
        "/run/mosb/registries/registries.conf",
        "/run/mosb/registry-trust/registry-trust.pem",
        SPEC,
        "/run/mosb/trust-bundle/openshift-config-user-ca-bundle.crt",
    ];
    let token = ["ca.crt", "namespace", "token"]
        .map(|file| format!("/var/run/secrets/kubernetes.io/serviceaccount/{file}"));
    let lines =
        |parts: &[&[&str]]| parts.concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let token: Vec<&str> = token.iter().map(String::as_str).collect();
    assert_eq!(logs("wait-for-done"), lines(&[&["65532", uid], &[SPEC], &token]));
    let administrators = [
        "/run/mosb/etc-pki-entitlement/x",
        "/run/mosb/etc-pki-rpm-gpg/x",
        "/run/mosb/etc-yum-repos-d/x",
    ];
    assert_eq!(
        logs("image-build"),
        lines(&[&["0", uid], &both, &administrators, &config, &["mounts"]])
    );
    let push = ["/run/mosb/final-image-push-creds/config.json", "/run/mosb/image/index.json"];
    let end = ["made", "/run/mosb/image/blobs", "read-only"];
    assert_eq!(logs("image-push"), lines(&[&["65532", uid], &both, &push, &config, &end]));
}

/// What the container is for: buildah with an administrator's `RUN`, with entitlements,
/// repositories and keys of which it may change its copy, in the way that the pod has it; in a user
/// namespace on overlays, and without one on copies. `image-push`, which runs as another user, can
/// read what it left.
#[test]
fn buildah_runs_in_its_container() {
    let node = node();
    node.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let layout = base_image();
    let digest = layout.digest("base");
    node.registry().push(&layout.reference("base"), "buildah/os:base");
    let base = format!("{}@{digest}", node.registry().repository("buildah/os"));
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": format!("rendered-worker-{HEX}") },
        "spec": { "osImageURL": base, "config": { "ignition": { "version": "3.5.0" } } },
    });
    let containerfile = "FROM configs\nRUN cat /etc/pki/entitlement/x /etc/yum.repos.d/x /etc/pki/rpm-gpg/x >/usr/share/ran && echo own >/etc/yum.repos.d/own.repo && rm /etc/pki/rpm-gpg/x && touch /etc/pki/entitlement/new && ! ls /run/mosb && ! ls /var/run/secrets/kubernetes.io\n";
    for (case, driver) in [("everything", "overlay"), ("degraded", "vfs")] {
        let namespace = Namespace::new(node, "buildah");
        let mut job = orphan(job(&namespace, "everything"));
        job["spec"]["suspend"] = json!(false);
        let degraded = self::job(&namespace, "degraded")["spec"]["template"]["spec"].clone();
        let pod = &mut job["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({});
        if case == "degraded" {
            pod["hostUsers"] = json!(null);
            pod["initContainers"][1]["securityContext"] =
                degraded["initContainers"][1]["securityContext"].clone();
        }
        pod["serviceAccountName"] = json!("default");
        for object in objects(&namespace, "everything/inputs.yaml") {
            if ["ConfigMap", "Secret"].iter().any(|kind| object["kind"] == *kind) {
                create(&namespace, &real(node, object, containerfile, &config), &[]).ok();
            }
        }
        administrators_objects(&namespace);
        let volumes = pod["volumes"].as_array_mut().unwrap();
        let certs = volumes.iter_mut().find(|volume| volume["name"] == "certs").unwrap();
        let path = format!("{}/ca.crt", node.registry().host_port);
        certs["configMap"]["items"] = json!([{ "key": "node.pem", "path": path }]);
        let command = format!(
            "cp /run/mosb/machine-config/0/machineconfig.json.gz /tmp/config.yaml
             exec mosb build /tmp/config.yaml --method=containerfile --containerfile=/run/mosb/containerfile/Containerfile --output=oci:/run/mosb/image \
               --authfile=/run/mosb/base-image-pull-creds/config.json --registries-conf=/run/mosb/registries/registries.conf \
               --cache-dir=/var/lib/mosb --storage-driver={driver} --volume=/run/mosb/etc-pki-entitlement:/etc/pki/entitlement:copy \
               --volume=/run/mosb/etc-yum-repos-d:/etc/yum.repos.d:copy --volume=/run/mosb/etc-pki-rpm-gpg:/etc/pki/rpm-gpg:copy -v"
        );
        let scripts = [
            ("initContainers", 0, "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"),
            ("initContainers", 1, &*command),
            (
                "containers",
                0,
                "find /run/mosb/image -type f ! -readable; cat /run/mosb/image/index.json /run/mosb/image/blobs/sha256/* >/tmp/all; echo read",
            ),
        ];
        for (list, at, script) in scripts {
            let container = &mut pod[list][at];
            container["image"] = json!(MOSB_IMAGE);
            container["command"] = json!(["/bin/sh", "-euc", script]);
            container["args"] = json!([]);
            container["envFrom"] = json!([]);
        }
        let created: Value = create(&namespace, &job, &["--output=json"]).ok().json();
        let what = format!("job/{}", created["metadata"]["name"].as_str().unwrap());
        let ended = namespace
            .wait(&what, POD, |job| condition(job, "Complete") || condition(job, "Failed"));
        let logs = |container| namespace.kubectl(&["logs", &what, "--container", container]).text();
        assert!(condition(&ended, "Complete"), "{case}: {}", logs("image-build"));
        assert_eq!(logs("image-push"), "read\n", "{case}");
    }
}

/// An input with what this node's registry wants instead of the golden file's fakes.
fn real(node: &Node, object: Value, containerfile: &str, config: &Value) -> Value {
    let mut object = orphan(object);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    match name.split_once('-').unwrap().0 {
        "certs" => object["data"]["node.pem"] = json!(node.registry().ca_pem),
        "containerfile" => object["data"]["Containerfile"] = json!(containerfile),
        "mc" => object["data"]["machineconfig.json.gz"] = json!(config.to_string()),
        "base" => {
            let text = node.registry().docker_config().to_string();
            object["data"] = json!({});
            object["stringData"] = json!({ ".dockerconfigjson": text });
        }
        _ => {}
    }
    object
}

/// What an administrator keeps in the namespace.
fn administrators_objects(namespace: &Namespace) {
    for (kind, name) in [
        ("Secret", "etc-pki-entitlement-worker"),
        ("Secret", "etc-pki-rpm-gpg"),
        ("ConfigMap", "etc-yum-repos-d"),
    ] {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, field: { "x": name } });
        create(namespace, &object, &[]).ok();
    }
}
