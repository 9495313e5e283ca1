//! A pool whose machines must verify each image: they refuse one that is not signed, by name in the
//! pool's status, and take it once it is. What is real and what is not is said in
//! [`signed_images`](crate::signed_images).

use serde_json::{Value, json};

use mosb_tests::Machine;

use crate::rollout_cluster::{CONFIG, POOL, RolloutCluster, condition, condition_message, step};
use crate::signed_images::{Keys, attachments, base64};
use crate::test_lab::own_lab;

const REPOSITORY: &str = "acme/worker-os";

#[test]
fn a_pool_moves_to_signed_images_and_back() {
    let lab = own_lab();
    let (registry, keys) = (lab.registry(), Keys::make());
    let cluster = RolloutCluster::start(&lab);
    let first = step("the first image", || cluster.image());
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("unverified, as before", || cluster.wait_updated(&first));
    cluster.seen();

    // What runs already is not pulled again. The last machine keeps a skopeo that verifies nothing.
    lab.machines()[..2].iter().for_each(Machine::use_newer_skopeo);
    cluster.annotate(CONFIG, "mosb.dev/verify-on-machines=required");
    cluster.wait_updated(&first);
    // The image is to come into service without a signature, so that the machines refuse it.
    cluster.annotate(CONFIG, "mosb.dev/checks=signature=warn");
    // The base is verified by the policy, too.
    let policy = keys.policy(&registry.repository(REPOSITORY), &registry.repository("lab/stock"));
    let files = [
        ("/etc/containers/policy.json", policy),
        ("/etc/containers/registries.d/lab.yaml", attachments(&registry.host_port)),
    ];
    let second = step("an image with the policy", || {
        cluster.change_files("60-policy", &files.map(|(path, text)| file(path, &text)))
    });
    // After three tries.
    let pool = step("refused by each machine", || {
        cluster.wait(POOL, |pool| {
            condition(pool, "NodeDegraded") == "True" && pool["status"]["degradedMachineCount"] == 3
        })
    });
    let message = condition_message(&pool, "NodeDegraded");
    let codes = ["signature-refused: ", "machine-cannot-verify: "];
    let names = ["machine-0", "machine-1", "machine-2"];
    for part in names.into_iter().chain(codes).chain(["no signature exists", "skopeo version 1.9"])
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0), "no reboot, no cordon");

    // Signed, and with a skopeo that verifies: at their next try, or with the next image.
    lab.machine(2).use_newer_skopeo();
    let identity = registry.repository(&format!("{REPOSITORY}:latest"));
    let image = format!("{}@{second}", registry.repository(REPOSITORY));
    keys.sign(registry, &image, "os.key", &identity);
    step("signed and rolled out", || cluster.wait_updated(&second));
    let (boots, most) = cluster.seen();
    assert_eq!((boots, most), (vec![1, 1, 1], 1), "one reboot each, one at a time");
    for machine in lab.machines() {
        let booted = &machine.status()["status"]["booted"]["image"]["image"];
        assert_eq!(booted["signature"], "containerPolicy", "{booted:#}");
    }

    // And back: the policy that the machines have now still applies where it is verified.
    cluster.annotate(CONFIG, "mosb.dev/verify-on-machines=none");
    cluster.wait_updated(&second);
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0), "the setting alone changes nothing");
}

fn file(path: &str, text: &str) -> Value {
    let source = format!("data:;base64,{}", base64(text.as_bytes()));
    json!({ "path": path, "mode": 420, "overwrite": true, "contents": { "source": source } })
}
