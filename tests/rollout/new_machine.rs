//! Machines that join a pool later, and boot with the config that mosb keeps in the Secret of new
//! machines, or with a stub there that fetches it from `mosb serve-ignition`. Ignition's applier, the
//! unit of the first boot and the importer are real; the lab's kubelet has its kubeconfig from the
//! harness.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use mosb_tests::{Machine, wait};

use crate::controller_pod::rendered;
use crate::ignition_server_pod;
use crate::rollout_cluster::{
    CONFIG, RolloutCluster, STATE, WORKER, mark, objects::NAMESPACE, step,
};
use crate::test_lab::{assert_no_login, own_lab};

const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
const FIRST_BOOT: &str = "/var/lib/mosb/first-boot";
/// What joins a machine, as far as a test can see it.
const JOIN: &str = "/etc/kubernetes/join";
const SECRET: &str = "default/worker-user-data";
const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn machines_of_any_age_join_with_the_image() {
    let lab = own_lab();
    let cluster = RolloutCluster::start(&lab);
    let [there, current, older] = lab.machines() else { panic!("three machines") };
    // Built before: a build on a machine that is removed takes a minute longer.
    let first = step("the first image", || cluster.image());
    current.remove();
    older.remove();
    keep_user_data(&cluster);
    let before = step("its user data", || user_data(&cluster, &first));
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("the machine that was there runs it", || wait_runs(&cluster, there, &first));
    cluster.seen();
    let second = step("the second image", || cluster.change("second"));
    let after = step("its user data", || user_data(&cluster, &second));
    step("the machine that was there runs it", || wait_runs(&cluster, there, &second));
    cluster.seen();

    let began = [current, older].map(boots);
    current.join(&after);
    older.join(&before);
    for (machine, digest) in [(current, &second), (older, &first)] {
        wait_joined(&cluster, machine, digest);
    }
    step("all run the image in service", || cluster.wait_updated(&second));
    let made = [current, older].map(boots);
    println!("{}", current.console());
    assert_eq!(made[0] - began[0], 2, "the base, and the image that it keeps");
    assert_eq!(made[1] - began[1], 3, "the base, the older image, and the current one");
    // The one with a slot is the one that was behind. No kubelet ran in the base.
    let (joined, most) = cluster.seen();
    assert_eq!((joined, most), (vec![0, 0, 1], 1));
    [current, older].iter().for_each(|machine| assert_is_new(machine));

    let server = step("the server", || ignition_server_pod::install(cluster.node(), there));
    cluster.change_settings(|settings| settings["userData"]["endpoint"] = json!(server));
    let stub = step("the stub", || wait_user_data(&cluster, |config| is_stub(config, &server)));
    step("it serves the config", || {
        ignition_server_pod::wait_serving(cluster.node(), there, "worker");
    });
    older.remove();
    let began = boots(older);
    cluster.seen();
    older.join(&stub);
    wait_joined(&cluster, older, &second);
    step("all run the image in service", || cluster.wait_updated(&second));
    assert_eq!(boots(older) - began, 2, "{}", older.console());
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0));
    assert_is_new(older);
    let stub: Value = serde_json::from_slice(&stub).unwrap();
    let bearer = stub["ignition"]["config"]["replace"]["httpHeaders"][0]["value"].as_str().unwrap();
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let search = "grep -rlsF --devices=skip -e \"$0\" /etc /run /var/lib/mosb || true";
    let found = older.enter(&["sh", "-uc", search, token], &[]).ok().text();
    assert_eq!(found, "", "the token of the stub is there");
}

fn wait_joined(cluster: &RolloutCluster<'_>, machine: &Machine, digest: &str) {
    step("the new machine boots its image and joins", || {
        machine.load_archives();
        machine.wait_ready();
    });
    assert_eq!(machine.booted_digest(), digest, "{}", machine.name());
    label(cluster, machine);
}

/// It has all of the config, and nothing that the first boot needed.
fn assert_is_new(machine: &Machine) {
    assert_eq!(machine.run("cat /etc/story").ok().text(), "second");
    let join = machine.run(&format!("cat {JOIN}; stat -c ' %a' {JOIN}"));
    assert_eq!(join.ok().text(), "joins 600\n");
    let left = machine.run(&format!("ls -d {FIRST_BOOT} /run/mosb 2>/dev/null || true"));
    assert_eq!(left.ok().text(), "", "{}", machine.name());
    assert_no_login(machine);
}

/// How often the machine, or one before in its place, was booted.
fn boots(machine: &Machine) -> usize {
    machine.console().matches("firmware: booting").count()
}

/// A kubelet may not give its node a role.
fn label(cluster: &RolloutCluster<'_>, machine: &Machine) {
    cluster.node().kubectl(&["label", "node", machine.name(), &format!("{WORKER}=")]).ok();
}

fn wait_runs(cluster: &RolloutCluster<'_>, machine: &Machine, digest: &str) {
    cluster.wait(&format!("node/{}", machine.name()), |node| {
        mark(node, CURRENT_IMAGE).ends_with(digest)
            && (mark(node, STATE), mark(node, "mosb.dev/slot")) == ("Done", "")
    });
}

/// The Secret of new machines, as an administrator sets it up, and what joins them.
fn keep_user_data(cluster: &RolloutCluster<'_>) {
    let node = cluster.node();
    let (_, objects) = rendered(node, "user-data");
    objects.iter().for_each(|object| node.apply(&object.to_string()));
    let file = json!({ "path": JOIN, "mode": 0o600, "contents": { "source": "data:,joins" } });
    let config = json!({ "ignition": { "version": "3.0.0" }, "storage": { "files": [file] } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "join", "namespace": NAMESPACE },
        "stringData": { "ignition": config.to_string() } });
    node.apply(&secret.to_string());
    cluster.change_settings(|settings| settings["userData"] = json!({ "joinSecret": "join" }));
    cluster.annotate(CONFIG, &format!("mosb.dev/user-data={SECRET}"));
}

/// The config in the Secret, once it is that of this image.
fn user_data(cluster: &RolloutCluster<'_>, digest: &str) -> Vec<u8> {
    wait_user_data(cluster, |config| {
        let file = |path: &str| {
            let files = config["storage"]["files"].as_array()?;
            let file = files.iter().find(|file| file["path"] == path)?;
            Some(mosb_ignition::parse_data_url(file["contents"]["source"].as_str()?).unwrap())
        };
        let image = file(&format!("{FIRST_BOOT}/image"))
            .is_some_and(|text| String::from_utf8(text).unwrap().trim_end().ends_with(digest));
        image && file(JOIN).is_some()
    })
}

/// The config in the Secret, once it is one that fits.
fn wait_user_data(cluster: &RolloutCluster<'_>, fits: impl Fn(&Value) -> bool) -> Vec<u8> {
    let (namespace, name) = SECRET.split_once('/').unwrap();
    wait("user data", LIMIT, || {
        let secret = cluster.node().api().find(Some(namespace), "secret", name)?;
        let value = STANDARD.decode(secret["data"]["value"].as_str()?).unwrap();
        let config: Value = serde_json::from_slice(&value).unwrap();
        fits(&config).then_some(value)
    })
}

/// Whether it fetches the config from there, and has nothing else.
fn is_stub(config: &Value, server: &str) -> bool {
    let source = &config["ignition"]["config"]["replace"]["source"];
    *source == format!("https://{server}/worker") && config["storage"].is_null()
}
