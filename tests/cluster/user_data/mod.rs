//! The user data of a pool's new machines on a real API server: the Secret follows the image in
//! service, with the rights of `deploy/` and no others, and the real Ignition accepts its config.

pub mod site;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::test_cluster::SOON;
use mosb_tests::{Oracle, wait};
use site::{FIRST_BOOT, LABEL, NAME, RIGHTS, Site, file};

const TOKEN: &str = "join-hunter2";

fn join_config(path: &str) -> Value {
    let contents = json!({ "source": format!("data:,{TOKEN}") });
    json!({ "ignition": { "version": "3.2.0" },
        "storage": { "files": [{ "path": path, "mode": 0o600, "contents": contents }] } })
}

#[test]
fn the_secret_of_new_machines_follows_the_image() {
    let (site, first) = Site::with_first_image("user-data", &["kubernetes"]);
    let build = site.cluster.current()["metadata"]["name"].as_str().unwrap().to_owned();

    // Without the right to it, without it, and without its label.
    let place = site.machines.name.clone();
    let secret = format!("{place}/{NAME}");
    site.annotate(LABEL, Some(&secret));
    let message = site.reason("Forbidden");
    assert!(message.contains(&secret) && message.contains("deploy/user-data"), "{message}");
    site.grant("user-data");
    wait("the right to the Secret", RIGHTS, || {
        site.is_allowed("update", &place, NAME).then_some(())
    });
    site.reason("NoSecret");
    let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": NAME },
        "type": "cluster.x-k8s.io/secret", "stringData": { "mine": "stays" } });
    site.machines.apply(&object.to_string());
    let unlabelled = site.secret();
    site.reason("NotLabelled");
    assert_eq!(site.secret(), unlabelled);

    // With the label, and without the right to write it.
    let verbs = |verbs: &str| {
        let change = json!([{ "op": "replace", "path": "/rules/0/verbs", "value": verbs.split(' ').collect::<Vec<_>>() }]);
        let role = "mosb-controller-user-data";
        site.machines
            .kubectl(&["patch", "role", role, "--type=json", "-p", &change.to_string()])
            .ok();
        let may = verbs.contains("update");
        wait("the changed right", RIGHTS, || {
            (site.is_allowed("update", &place, NAME) == may).then_some(())
        });
    };
    // The right first: the controller writes as soon as it may.
    verbs("get");
    let labelled = format!("{LABEL}=");
    site.machines.kubectl(&["label", "secret", NAME, &labelled]).ok();
    let message = site.reason("WriteRefused");
    assert!(message.contains(&secret) && message.contains("cannot update resource"), "{message}");
    verbs("get update");

    // With both, it has the config of the image in service.
    let message = site.reason("DoesNotJoin");
    assert!(message.contains("userData.joinSecret") && message.contains(&first), "{message}");
    let (written, config) = site.with_image(&first);
    assert_eq!(written["metadata"]["uid"], unlabelled["metadata"]["uid"]);
    assert_eq!(written["type"], "cluster.x-k8s.io/secret");
    assert_eq!(Site::value(&written, "mine"), b"stays");
    assert_eq!(Site::value(&written, "format"), b"ignition");
    assert_eq!(written["data"]["userData"], written["data"]["value"]);
    // The login is the one that pulls, and the other one is nowhere.
    let registry = site.cluster.node.registry();
    let auth = |config: &Value| config["auths"][&registry.host_port]["auth"].clone();
    let given: Value =
        serde_json::from_str(&file(&config, &format!("{FIRST_BOOT}/auth.json")).unwrap()).unwrap();
    assert_eq!(auth(&given), auth(&registry.pull_config()));
    assert_ne!(auth(&given), auth(&registry.docker_config()));

    // What joins a machine.
    let join = |config: &str| site.join(config);
    site.cluster.settings_with(&json!({ "userData": { "joinSecret": "join" } }));
    let message = site.reason("InputsUnreadable");
    assert!(message.contains("/join (userData.joinSecret"), "{message}");
    join(&format!("{TOKEN}: {{"));
    let message = site.reason("BadJoinConfig");
    assert!(message.contains("join: ignition: line 1") && !message.contains(TOKEN), "{message}");
    let bootstrap = "/etc/kubernetes/bootstrap-kubeconfig";
    join(&join_config(bootstrap).to_string());
    site.reason("Current");
    let (_, config) = site.with_image(&first);
    assert_eq!(file(&config, bootstrap).as_deref(), Some(TOKEN));

    // Another image comes into service.
    site.cluster.render("two");
    let second = site.cluster.image_after(&first);
    let (replaced, config) = site.with_image(&second);
    for field in ["uid", "labels", "name"] {
        assert_eq!(replaced["metadata"][field], written["metadata"][field], "{field}");
    }
    assert_eq!(file(&config, bootstrap).as_deref(), Some(TOKEN));
    let verdict = Oracle::start().judge(&config);
    assert_eq!(verdict["accepted"], true, "{verdict:#}");
    assert_eq!(verdict["entries"].as_array().map(Vec::len), Some(0), "{verdict:#}");
    let files = config["storage"]["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["path"] != "/etc/story"), "that one is in the image");

    // Without another input, an event costs no request for the Secret; each may be several events.
    let before = site.reads();
    assert!(before > 0, "the audit log has no read");
    for number in 0..5 {
        site.annotate("test/event", Some(&number.to_string()));
    }
    let kubeconfig = "/etc/kubernetes/kubeconfig";
    join(&join_config(kubeconfig).to_string());
    let has_both = || file(&site.with_image(&second).1, kubeconfig);
    wait("the other config that joins machines", SOON, has_both);
    site.reason("Current");
    let reads = site.reads() - before;
    // Each event would cost one. After its own write, or a request that failed on a busy machine, a
    // pass may read again.
    assert!(reads < 5, "{reads} reads for one input");
    join(&join_config(bootstrap).to_string());
    let has_first = || file(&site.with_image(&second).1, bootstrap);
    wait("the config that joined machines before", SOON, has_first);
    let replaced = site.secret();

    is_printed(&site, &replaced, (&first, &build));
    nothing_else_may_be_done(&site);
    let log = site.cluster.log();
    for hidden in [TOKEN, auth(&given).as_str().unwrap()] {
        assert!(!log.contains(hidden), "{hidden}");
    }

    // Another controller makes the user data of its machines.
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "machine-config-controller" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "a", "image": "registry.invalid/none" }] } } } });
    site.cluster.namespace.apply(&deployment.to_string());
    let message = site.reason("OtherController");
    assert!(message.contains("machine-config-controller"), "{message}");
    let before = site.secret();
    assert_eq!(site.cluster.mosb(&["ignition", &site.cluster.pool]).code(), Some(2));
    // Without the annotation, nothing is reported, and the Secret stays.
    site.annotate(LABEL, None);
    let what = format!("machineosconfig/{}", site.cluster.pool);
    let has_none = |config: &Value| !config["status"].to_string().contains("\"UserData\"");
    site.cluster.node.wait(&what, SOON, has_none);
    assert_eq!(site.secret(), before);
}

/// ConfigMap `cluster-info` with signatures of bootstrap tokens, as kubeadm and the cluster's
/// bootstrap signer make it.
struct ClusterInfo<'s>(&'s Site);

const PUBLIC: &str = "kube-public";

impl ClusterInfo<'_> {
    /// Only the tokens with these IDs have a signature.
    fn sign(&self, ids: &[&str]) {
        let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "cluster-info", "namespace": PUBLIC },
            "data": { "kubeconfig": "kind: Config" } });
        for id in ids {
            object["data"][format!("jws-kubeconfig-{id}")] = json!("e30..c2ln");
        }
        self.0.cluster.node.apply(&object.to_string());
    }
}

impl Drop for ClusterInfo<'_> {
    fn drop(&mut self) {
        // Of a test that failed, too: the next one has the same node.
        let delete = ["delete", "configmap", "cluster-info", "--ignore-not-found"];
        self.0.cluster.node.kubectl(&[&["--namespace", PUBLIC][..], &delete].concat());
    }
}

#[test]
fn a_join_token_that_expired_is_reported() {
    let (site, image) = Site::with_first_image("join-token", &["kubernetes", "user-data"]);
    let place = site.machines.name.clone();
    let object = json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": NAME, "labels": { LABEL: "" } } });
    site.machines.apply(&object.to_string());
    wait("the rights", RIGHTS, || {
        let reads_info = site.is_allowed_on("configmaps", "get", PUBLIC, "cluster-info");
        (reads_info && site.is_allowed("update", &place, NAME)).then_some(())
    });
    assert!(!site.is_allowed_on("configmaps", "get", PUBLIC, "another"));
    assert!(!site.is_allowed_on("configmaps", "update", PUBLIC, "cluster-info"));

    // The token with this ID was deleted, and another one is alive.
    let info = ClusterInfo(&site);
    info.sign(&["another"]);
    let path = "/etc/kubernetes/bootstrap-kubeconfig";
    let join = |token: &str| {
        let config = json!({ "kind": "Config", "users": [{ "user": { "token": token } }] });
        let source = format!("data:;base64,{}", STANDARD.encode(config.to_string()));
        let file = json!({ "path": path, "mode": 0o600, "contents": { "source": source } });
        site.join(
            &json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } })
                .to_string(),
        );
    };
    let (first, second) = ("abcdef.joinhunter200000", "fedcba.joinhunter200000");
    join(first);
    site.cluster.settings_with(&json!({ "userData": { "joinSecret": "join" } }));
    site.annotate(LABEL, Some(&format!("{place}/{NAME}")));
    let message = site.reason("JoinTokenExpired");
    let secret = format!("secret {}/join", site.cluster.namespace.name);
    for part in [path, "bootstrap token abcdef", "kube-public/cluster-info", &secret] {
        assert!(message.contains(part), "{message}");
    }
    let notice = || {
        let finished = site.cluster.mosb(&["ignition", &site.cluster.pool]);
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        finished.stderr.contains("join-token-expired")
    };
    assert!(notice());
    let (_, config) = site.with_image(&image);
    assert!(file(&config, path).unwrap().contains(first));

    // A new one.
    info.sign(&["another", "fedcba"]);
    join(second);
    site.reason("Current");
    assert!(!notice());
    let (_, config) = site.with_image(&image);
    assert!(file(&config, path).unwrap().contains(second));

    // A token with a date.
    let payload = URL_SAFE_NO_PAD.encode(json!({ "exp": 1_767_312_000 }).to_string());
    join(&format!("e30.{payload}.c2ln"));
    let message = site.reason("JoinTokenExpired");
    assert!(message.contains("expired at 2026-01-02T00:00:00Z"), "{message}");
    assert!(notice());
    let log = site.cluster.log();
    assert!(!log.contains("joinhunter") && !log.contains(&payload), "{log}");
}

/// `mosb ignition` prints the same, and merges a machine's own config.
fn is_printed(site: &Site, secret: &Value, (first, build): (&str, &str)) {
    let pool = &*site.cluster.pool;
    let printed = site.cluster.mosb(&["ignition", pool]).ok();
    let mut want = Site::value(secret, "value");
    want.push(b'\n');
    assert!(printed.text().as_bytes() == want, "the Secret has another config");
    let object = site.cluster.mosb(&["ignition", pool, "--build", build, "-o", "json"]).ok().json();
    assert_eq!(object["image"], first);
    assert_eq!((&object["joins"], &object["holdsCredentials"]), (&json!(true), &json!(true)));
    let image = file(&object["config"], &format!("{FIRST_BOOT}/image"));
    assert_eq!(image.as_deref().map(str::trim_end), Some(first));

    let own = site.file(
        "own.ign",
        &json!({ "ignition": { "version": "3.4.0" }, "storage": {
        "files": [{ "path": "/etc/hostname", "contents": { "source": "data:,node-7" } }] } }),
    );
    let own = own.to_str().unwrap();
    let merged = site.cluster.mosb(&["ignition", pool, "--merge", own]).ok().json();
    assert_eq!(file(&merged, "/etc/hostname").as_deref(), Some("node-7"));
    assert_eq!(file(&merged, "/etc/kubernetes/bootstrap-kubeconfig").as_deref(), Some(TOKEN));
    assert_eq!(Oracle::start().judge(&merged)["accepted"], true);
    for (what, words, want) in [
        ("no pool", &["none"][..], "it has no MachineOSConfig"),
        ("no build", &[pool, "--build", "none"], "no image of a build none"),
        ("no file", &[pool, "--merge", "/none"], "/none: not readable"),
    ] {
        let finished = site.cluster.mosb(&[&["ignition"], words].concat());
        assert_eq!(finished.code(), Some(2), "{what}: {finished:?}");
        assert!(finished.stderr.contains(want), "{what}: {finished:?}");
    }
    let bad = site.file("bad.ign", &json!({ "ignition": { "version": TOKEN } }));
    let finished = site.cluster.mosb(&["ignition", pool, "--merge", bad.to_str().unwrap()]);
    assert_eq!(finished.code(), Some(2), "{finished:?}");
}

/// The account may read and replace the one Secret of that namespace.
fn nothing_else_may_be_done(site: &Site) {
    let place = &*site.machines.name;
    for verb in ["get", "update"] {
        assert!(site.is_allowed(verb, place, NAME), "{verb}");
        assert!(!site.is_allowed(verb, place, "another"), "{verb} of another one");
        assert!(!site.is_allowed(verb, "kube-system", NAME), "{verb} in another namespace");
    }
    for verb in ["create", "delete", "list", "patch", "watch"] {
        assert!(!site.is_allowed(verb, place, NAME), "{verb}");
    }
}
