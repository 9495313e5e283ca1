//! User data that fetches its config: the controller fills the Secrets of `deploy/ignition-server` with
//! the rights of that folder and no others, a `mosb serve-ignition` has what is in its Secret, and the
//! real Ignition fetches the config. The kubelet's part, which mounts the Secret, is the test's.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::deploy::rendered;
use crate::test_cluster::SOON;
use crate::user_data::site::{FIRST_BOOT, LABEL, NAME, RIGHTS, Site, file};
use mosb_ignition_server::{Period, TokenKey, accepted_tokens};
use mosb_tests::{IgnitionServer, ignition_fetch, wait};

const NAMESPACE: &str = "mosb-ignition";
const SERVER: &str = "mosb-ignition-server";
const AUTHORITY: &str = "mosb-ignition-authority";
/// What the values of a Secret may have together.
const MAX_SECRET_SIZE: usize = 1024 * 1024;

/// The objects of `deploy/ignition-server` beside rights and Deployment, for this controller.
fn install(site: &Site) {
    let mut objects = rendered("ignition-server");
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        !kind.contains("Role") && kind != "Deployment"
    });
    // The namespace comes first.
    objects.sort_by_key(|object| object["kind"] != "Namespace");
    for mut object in objects {
        if object["metadata"]["namespace"] == "mosb-system" {
            object["metadata"]["namespace"] = json!(site.cluster.namespace.name);
        }
        site.cluster.node.apply(&object.to_string());
    }
    site.grant("ignition-server");
    wait("the right to the server's Secret", RIGHTS, || {
        site.is_allowed("update", NAMESPACE, SERVER).then_some(())
    });
}

fn server_secret(site: &Site) -> Value {
    let place = format!("--namespace={NAMESPACE}");
    site.cluster.node.kubectl(&[&place, "get", "secret", SERVER, "-o", "json"]).ok().json()
}

fn keys(secret: &Value) -> Vec<&str> {
    secret["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// Mounts the Secret as it is, as the kubelet does: all files change at once.
fn mount(secret: &Value, directory: &Path) {
    let version = format!("..{}", secret["metadata"]["resourceVersion"].as_str().unwrap());
    fs::create_dir_all(directory.join(&version)).unwrap();
    for key in keys(secret) {
        fs::write(directory.join(&version).join(key), Site::value(secret, key)).unwrap();
    }
    let link = directory.join("..data_tmp");
    std::os::unix::fs::symlink(version, &link).unwrap();
    fs::rename(link, directory.join("..data")).unwrap();
}

#[test]
fn a_stub_fetches_the_controllers_config() {
    let (mut site, first) = Site::with_first_image("serve-ignition", &["kubernetes", "user-data"]);
    let pool = site.cluster.pool.to_string();
    let object = json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": NAME, "labels": { LABEL: "" } } });
    site.machines.apply(&object.to_string());

    // The server runs before it has anything.
    let mounted = TempDir::new().unwrap();
    let server = IgnitionServer::start(mounted.path());
    assert_eq!(server.health("/readyz"), "503");
    let endpoint = json!({ "userData": { "endpoint": server.machines.to_string() } });
    site.cluster.settings_with(&endpoint);
    site.annotate(LABEL, Some(&format!("{}/{NAME}", site.machines.name)));
    let message = site.reason("NoServer");
    assert!(message.contains("deploy/ignition-server"), "{message}");
    assert!(site.secret()["data"].is_null());
    install(&site);
    let message = site.reason("DoesNotJoin");
    let url = format!("https://{}/{pool}", server.machines);
    assert!(message.contains(&url) && message.contains(&first), "{message}");

    // The Secret of the machines has a stub, and the server's has neither tokens nor the CA's key.
    let mut stub = Site::value(&site.secret(), "value");
    assert!(stub.len() < 4096, "{} bytes", stub.len());
    let parsed: Value = serde_json::from_slice(&stub).unwrap();
    let replace = &parsed["ignition"]["config"]["replace"];
    assert_eq!(replace["source"], url);
    let header = replace["httpHeaders"][0]["value"].as_str().unwrap();
    let token = header.strip_prefix("Bearer ").unwrap();
    let config_key = format!("{pool}.ign.gz");
    let tokens_key = format!("{pool}.tokens");
    let secret = wait("the server's Secret", SOON, || {
        let secret = server_secret(&site);
        (keys(&secret).len() == 5).then_some(secret)
    });
    let mut want = [&*config_key, &*tokens_key, "tls.crt", "tls.json", "tls.key"];
    want.sort_unstable();
    assert_eq!(keys(&secret), want);
    let tokens = String::from_utf8(Site::value(&secret, &tokens_key)).unwrap();
    assert!(!tokens.contains(token), "{tokens}");
    let authority = site.cluster.namespace.get(&format!("secret/{AUTHORITY}"));
    assert_eq!(keys(&authority), ["ca.crt", "ca.key", "ca.not-after", "token.key"]);

    // The real Ignition has the config that mosb prints.
    mount(&secret, mounted.path());
    wait("the server with its certificate", SOON, || {
        (server.health("/readyz") == "200").then_some(())
    });
    let printed = site.cluster.mosb(&["ignition", &pool]).ok().text();
    let fetched = ignition_fetch(&stub).unwrap();
    assert_eq!(fetched, ignition_fetch(printed.as_bytes()).unwrap());
    let image = file(&fetched, &format!("{FIRST_BOOT}/image")).unwrap();
    assert_eq!(image.trim_end(), first);

    tokens_are_checked(&site, &server, &stub);
    mount(&secret, mounted.path());

    // A server's Secret that is full, and one of somebody else, stay as they are.
    let place = format!("--namespace={NAMESPACE}");
    let patch = |change: &Value| {
        let file = site.file("patch.json", change);
        let file = format!("--patch-file={}", file.display());
        site.cluster.node.kubectl(&[&place, "patch", "secret", SERVER, "--type=merge", &file]).ok();
    };
    let filler = STANDARD.encode(vec![b'x'; MAX_SECRET_SIZE - 3072]);
    patch(&json!({ "data": { &config_key: null, "filler": filler } }));
    let full = server_secret(&site);
    site.cluster.render("two");
    let second = site.cluster.image_after(&first);
    let message = site.reason("TooLarge");
    assert!(message.contains(SERVER) && message.contains("a Secret takes 1048576"), "{message}");
    assert_eq!(server_secret(&site), full);
    patch(&json!({ "data": { "filler": null }, "metadata": { "labels": { LABEL: null } } }));
    let others = server_secret(&site);
    let message = site.reason("NoServer");
    assert!(message.contains("not the one of deploy/ignition-server"), "{message}");
    assert_eq!(server_secret(&site), others);
    patch(&json!({ "metadata": { "labels": { LABEL: "" } } }));
    site.reason("DoesNotJoin");

    // The other image reaches the server, and the stub stays.
    let newer = server_secret(&site);
    mount(&newer, mounted.path());
    wait("the other image", SOON, || {
        let fetched = ignition_fetch(&stub).unwrap();
        let image = file(&fetched, &format!("{FIRST_BOOT}/image")).unwrap();
        (image.trim_end() == second).then_some(())
    });
    assert_eq!(Site::value(&site.secret(), "value"), stub);

    // A controller that is started again makes the same.
    let versions = |site: &Site| {
        let version = |object: Value| object["metadata"]["resourceVersion"].clone();
        let authority = site.cluster.namespace.get(&format!("secret/{AUTHORITY}"));
        [version(authority), version(server_secret(site)), version(site.secret())]
    };
    let before = versions(&site);
    site.cluster.stop();
    let kubeconfig = site.kubeconfig();
    site.cluster.start_with(&kubeconfig);
    site.reason("DoesNotJoin");
    wait("its pass", SOON, || site.cluster.log().contains("its Secrets are current").then_some(()));
    assert_eq!(versions(&site), before);

    nothing_else_may_be_done(&site);
    for log in [site.cluster.log(), server.log()] {
        assert!(!log.contains(token) && !log.contains("PRIVATE KEY"), "{log}");
    }

    // An emptied CA is made anew, and with it certificate, tokens and stub.
    let empty = ["patch", "secret", AUTHORITY, "--type=merge", r#"--patch={"data":null}"#];
    site.cluster.namespace.kubectl(&empty).ok();
    wait("another stub", SOON, || (Site::value(&site.secret(), "value") != stub).then_some(()));
    let certificate = |secret: &Value| secret["data"]["tls.crt"].clone();
    let renewed = wait("another certificate", SOON, || {
        let renewed = server_secret(&site);
        (certificate(&renewed) != certificate(&newer)).then_some(renewed)
    });
    let older = std::mem::replace(&mut stub, Site::value(&site.secret(), "value"));
    mount(&renewed, mounted.path());
    let fetch = |stub: &[u8]| ignition_fetch(&limited(stub, ONE_TRY));
    wait("a fetch with the other stub", SOON, || fetch(&stub).ok().map(drop));
    let log = fetch(&older).unwrap_err();
    assert!(log.contains("certificate signed by unknown authority"), "{log}");

    // Without the annotation, the last pool is no longer served.
    site.annotate(LABEL, None);
    let left = wait("no pool at the server", SOON, || {
        let left = server_secret(&site);
        (!keys(&left).contains(&&*config_key)).then_some(left)
    });
    assert_eq!(keys(&left), ["tls.crt", "tls.json", "tls.key"]);
    mount(&left, mounted.path());
    wait("a refused fetch", SOON, || {
        fetch(&stub).err().filter(|log| log.contains("Service Unavailable"))
    });
}

/// The real Ignition gets the config with the tokens of this pool that are accepted now.
fn tokens_are_checked(site: &Site, server: &IgnitionServer, stub: &[u8]) {
    let pool = &*site.cluster.pool;
    let authority = site.cluster.namespace.get(&format!("secret/{AUTHORITY}"));
    let key = TokenKey::from_bytes(&Site::value(&authority, "token.key")).unwrap();
    let bearer = |pool: &str, period| format!("Bearer {}", key.token(pool, period).expose());
    let with = |header: Option<&str>| {
        let mut config: Value = serde_json::from_slice(stub).unwrap();
        let replace = &mut config["ignition"]["config"]["replace"];
        match header {
            Some(header) => replace["httpHeaders"][0]["value"] = json!(header),
            None => replace["httpHeaders"] = json!([]),
        }
        config.to_string().into_bytes()
    };
    let now = Period::at(Timestamp::now());
    assert_eq!(with(Some(&bearer(pool, now))), stub, "the stub has the token of now");
    for (what, header, refused) in [
        ("the next one", Some(bearer(pool, now.next())), None),
        ("the one that was replaced", Some(bearer(pool, now.previous())), None),
        (
            "an older one",
            Some(bearer(pool, now.previous().previous())),
            Some("its token is not one of this pool"),
        ),
        ("of another pool", Some(bearer("infra", now)), Some("its token is not one of this pool")),
        ("a wrong one", Some("Bearer wrong".to_owned()), Some("its token is not one of this pool")),
        ("none", None, Some("it has no token")),
    ] {
        let before = server.log().len();
        // It tries again with a token that is not known.
        let is_tried = header.is_some() && refused.is_some();
        let (time, answer) =
            if is_tried { (TRIES, "Service Unavailable") } else { (BUSY, "resource not found") };
        let fetched = ignition_fetch(&limited(&with(header.as_deref()), time));
        match (fetched, refused) {
            (Ok(_), None) => {}
            (Err(log), Some(cause)) => {
                assert!(log.contains(answer), "{what}: {log}");
                let log = server.log().split_off(before);
                assert!(log.contains(cause), "{what}: {log}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }

    // The server has what a controller wrote that has not run for so long.
    let then = Timestamp::from_second(Timestamp::now().as_second() - 61 * 24 * 3600).unwrap();
    let mut old = server_secret(site);
    let tokens = STANDARD.encode(accepted_tokens(&key, pool, then));
    old["data"][format!("{pool}.tokens")] = json!(tokens);
    old["metadata"]["resourceVersion"] = json!("old");
    let mounted = TempDir::new().unwrap();
    mount(&old, mounted.path());
    let server = IgnitionServer::start(mounted.path());
    let port = |stub: &[u8]| {
        let url = format!("https://{}/{pool}", server.machines);
        let mut config: Value = serde_json::from_slice(stub).unwrap();
        config["ignition"]["config"]["replace"]["source"] = json!(url);
        config.to_string().into_bytes()
    };
    let expired = bearer(pool, Period::at(then));
    let log = ignition_fetch(&limited(&port(&with(Some(&expired))), BUSY)).unwrap_err();
    assert!(log.contains("resource not found"), "{log}");
    assert!(server.log().contains("its token expired"), "{}", server.log());
}

/// For so many seconds Ignition tries if it is called again, or if no answer would satisfy it.
const ONE_TRY: u32 = 2;
/// The same where it must get an answer.
const TRIES: u32 = 6;
/// An answer on a busy machine.
const BUSY: u32 = 20;

/// The same stub, with which Ignition tries for so many seconds only.
fn limited(stub: &[u8], seconds: u32) -> Vec<u8> {
    let mut config: Value = serde_json::from_slice(stub).unwrap();
    config["ignition"]["timeouts"] = json!({ "httpTotal": seconds });
    config.to_string().into_bytes()
}

/// The account may read and replace the server's Secret, and replace the one with the CA.
fn nothing_else_may_be_done(site: &Site) {
    let own = &*site.cluster.namespace.name;
    for (verb, namespace, name, want) in [
        ("get", NAMESPACE, SERVER, true),
        ("update", NAMESPACE, SERVER, true),
        ("get", NAMESPACE, "another", false),
        ("update", NAMESPACE, "another", false),
        ("list", NAMESPACE, "", false),
        ("create", NAMESPACE, "", false),
        ("delete", NAMESPACE, SERVER, false),
        ("patch", NAMESPACE, SERVER, false),
        ("update", own, AUTHORITY, true),
        ("update", own, "another", false),
        ("update", "kube-system", AUTHORITY, false),
        ("get", "kube-system", SERVER, false),
    ] {
        assert_eq!(site.is_allowed(verb, namespace, name), want, "{verb} {namespace}/{name}");
    }
}

#[test]
fn the_servers_pod_has_no_rights() {
    let objects = rendered("ignition-server");
    let named = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let namespace = named("Namespace").next().unwrap();
    mosb_tests::node().apply(&namespace.to_string());
    let account = named("ServiceAccount").next().unwrap();
    mosb_tests::node().apply(&account.to_string());
    let deployment = named("Deployment").next().unwrap();
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("server");
    let place = format!("--namespace={NAMESPACE}");
    let create = [&place, "create", "--dry-run=server", "--filename=-"];
    mosb_tests::node().kubectl_with(&create, pod.to_string().as_bytes()).ok();
    let spec = &pod["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(1));
    assert_eq!(spec["volumes"][0]["secret"]["secretName"], SERVER);
    // Only the controller's account is bound to anything.
    for binding in named("RoleBinding").chain(named("ClusterRoleBinding")) {
        assert_eq!(binding["subjects"].as_array().map(Vec::len), Some(1), "{binding}");
        assert_eq!(binding["subjects"][0]["name"], "mosb-controller", "{binding}");
    }
    for kind in ["NetworkPolicy", "Service", "Deployment"] {
        let object = named(kind).next().unwrap();
        let dry = ["apply", "--server-side", "--dry-run=server", "--filename=-"];
        mosb_tests::node().kubectl_with(&dry, object.to_string().as_bytes()).ok();
    }
    let policy = named("NetworkPolicy").next().unwrap();
    assert_eq!(policy["spec"]["egress"], json!([]));
}
