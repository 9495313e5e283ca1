//! What must not differ from the pods that mosb makes for Jobs on machines.

use serde_json::{Value, json};

use crate::admission_policy::pods::RUNTIME_CLASS;

/// Commands of the container that `mosb node apply` would not be run by.
const COMMANDS: [&str; 29] = [
    "mosb node apply --target {} --attempt 1",
    "sh -c true",
    "mosb node report",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --confirm --soft-reboot",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --confirm --confirm",
    "mosb node apply --target {} --attempt 1 --no-reboot --confirm",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt x",
    "mosb node apply --target {} --auth /etc/x --attempt 1",
    "mosb node apply --target $(X) --auth /run/mosb/auth/auth.json --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 -v",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 2",
    "mosb node apply --target {} {} --auth /run/mosb/auth/auth.json --attempt 1",
    "mosb node apply --target {} --no-reboot --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --no-reboot",
    "mosb node apply --target {} --attempt 1 --no-reboot --no-reboot",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --adopt --adopt",
    "mosb node apply --target {} --attempt 1 --no-reboot --adopt",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --soft-reboot --soft-reboot",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --soft-reboot --adopt",
    "mosb node apply --target {} --attempt 1 --no-reboot --soft-reboot",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --machine-part /etc/shadow --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --machine-part --attempt 1",
    "mosb node apply --target {} --machine-part /run/mosb/auth/machine-part.json --auth /run/mosb/auth/auth.json --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --machine-part /run/mosb/auth/machine-part.json",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --pull-settings /etc/shadow --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --pull-settings --attempt 1",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1 --pull-settings /run/mosb/auth/pull-settings.json",
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --machine-part /run/mosb/auth/machine-part.json --pull-settings /run/mosb/auth/pull-settings.json --attempt 1",
];
/// The command of a Job that brings only an image.
pub const PLAIN_COMMAND: &str =
    "mosb node apply --target {} --auth /run/mosb/auth/auth.json --attempt 1";
/// Commands of the container that `mosb node stage` would not be run by.
pub const STAGE_COMMANDS: [&str; 6] = [
    "mosb node stage --target {} --auth /run/mosb/auth/auth.json --no-reboot",
    "mosb node stage --target {} --auth /run/mosb/auth/auth.json --confirm",
    "mosb node stage --target {} --auth /run/mosb/auth/auth.json --adopt",
    "mosb node stage --target {} --auth /run/mosb/auth/auth.json --attempt 1",
    "mosb node stage --target {} --auth /run/mosb/auth/auth.json --machine-part /etc/shadow",
    "mosb node stage --machine-part /run/mosb/auth/machine-part.json --target {} --auth /run/mosb/auth/auth.json",
];

/// What is changed of a pod's spec, the value, and a part of the refusal.
pub fn changes() -> Vec<(&'static str, Value, &'static str)> {
    let container = |name: &str| json!({ "name": name, "image": "a" });
    let volume = |source: &str, value: Value| json!([{ "name": "auth", source: value }]);
    let field = |key: &str, operator: &str, values: Value| {
        let field = json!({ "key": key, "operator": operator, "values": values });
        json!([{ "matchFields": [field] }])
    };
    let preference = json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] });
    let terms =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let command = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        ("/containers/0/command", json!(words), "command of a container")
    };
    let others = [
        ("/containers/0/image", json!("quay.io/acme/mosb:latest"), "image by digest"),
        ("/containers/0/image", json!("mosb"), "image by digest"),
        ("/containers/0/command", Value::Null, "command of a container"),
        ("/containers/0/args", json!(["--verbose"]), "no args"),
        ("/containers/0/env", json!([{ "name": "PATH", "value": "/x" }]), "no args"),
        ("/containers/0/envFrom", json!([{ "secretRef": { "name": "x" } }]), "no args"),
        ("/containers/0/ports", json!([{ "containerPort": 80 }]), "no args"),
        (
            "/containers/0/lifecycle",
            json!({ "preStop": { "exec": { "command": ["sh"] } } }),
            "no args",
        ),
        ("/containers/0/livenessProbe", json!({ "exec": { "command": ["sh"] } }), "no args"),
        ("/containers/0/workingDir", json!("/x"), "no args"),
        ("/containers/0/tty", json!(true), "no args"),
        (
            "/containers/0/securityContext/capabilities",
            json!({ "add": ["ALL"] }),
            "securityContext of a container",
        ),
        (
            "/containers/0/securityContext/seLinuxOptions",
            json!({ "type": "spc_t" }),
            "securityContext of a container",
        ),
        (
            "/containers/0/securityContext/readOnlyRootFilesystem",
            json!(false),
            "securityContext of a container",
        ),
        ("/containers/0/volumeMounts/0/mountPath", json!("/usr/bin"), "mounted at"),
        ("/containers/0/volumeMounts/0/readOnly", json!(false), "mounted at"),
        ("/containers/0/volumeMounts/0/subPath", json!("auth.json"), "mounted at"),
        ("/containers/0/volumeMounts", json!([]), "mounted at"),
        ("/containers/0/volumeMounts/0/subPathExpr", json!("auth.json"), "mounted at"),
        ("/containers/0/volumeMounts/0/mountPropagation", json!("HostToContainer"), "mounted at"),
        ("/containers/1", container("more"), "exactly one container"),
        ("/initContainers", json!([container("more")]), "exactly one container"),
        ("/volumes", volume("hostPath", json!({ "path": "/" })), "only volume"),
        ("/volumes", volume("emptyDir", json!({})), "only volume"),
        ("/volumes", volume("configMap", json!({ "name": "x" })), "only volume"),
        (
            "/volumes",
            volume(
                "projected",
                json!({ "sources": [{ "serviceAccountToken": { "path": "token" } }] }),
            ),
            "only volume",
        ),
        ("/volumes/0/secret/secretName", json!("push"), "only volume"),
        ("/hostNetwork", json!(true), "no hostNetwork"),
        ("/hostIPC", json!(true), "no hostNetwork"),
        ("/nodeSelector", json!({ "a": "b" }), "no hostNetwork"),
        (
            "/hostAliases",
            json!([{ "ip": "192.0.2.1", "hostnames": ["registry"] }]),
            "no hostNetwork",
        ),
        ("/dnsConfig", json!({ "nameservers": ["192.0.2.1"] }), "no hostNetwork"),
        ("/securityContext", json!({ "fsGroup": 1 }), "no securityContext of its own"),
        ("/automountServiceAccountToken", json!(true), "no token"),
        ("/automountServiceAccountToken", Value::Null, "no token"),
        ("/serviceAccountName", json!("mosb-other"), "account default"),
        ("/affinity", Value::Null, "one node, by its name"),
        ("/affinity/podAffinity", json!({}), "one node, by its name"),
        (preferred, json!([{ "weight": 1, "preference": preference }]), "one node, by its name"),
        (terms, field("metadata.name", "NotIn", json!(["a"])), "one node, by its name"),
        (
            terms,
            json!([{ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }]),
            "one node, by its name",
        ),
        ("/nodeName", json!("a"), "no nodeName"),
        ("/runtimeClassName", json!(RUNTIME_CLASS), "no hostNetwork"),
        ("/resourceClaims", json!([{ "name": "a", "resourceClaimName": "a" }]), "no hostNetwork"),
    ];
    COMMANDS.map(command).into_iter().chain(others).collect()
}
