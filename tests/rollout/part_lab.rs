//! The machines of the lab do what the tests of the roll-out rely on.

use std::collections::BTreeSet;

use serde_json::json;

use mosb_api::rollout::NodeTool;
use mosb_tests::{MOSB_IMAGE, MachineTools, condition, mosb_image, sha256};

use crate::test_lab::{POD, lab, namespace, pod, reboot, stage, timed};

#[test]
fn machines_differ_and_their_pods_meet() {
    let lab = lab();
    let mut ids = BTreeSet::new();
    for machine in lab.machines() {
        assert_eq!(machine.booted_digest(), lab.stock().digest);
        assert_eq!(machine.run("systemctl is-system-running").ok().text(), "running\n");
        assert_eq!(machine.run("hostname").ok().text().trim(), machine.name());
        let node = machine.wait_ready();
        for id in ["bootID", "machineID"] {
            ids.insert(node["status"]["nodeInfo"][id].to_string());
        }
    }
    assert_eq!(ids.len(), 6, "{ids:?}");
    // The real programs, if the environment names them.
    // The wrapper of `boot_loader.sh` runs bootc.
    for (tool, path) in
        [(NodeTool::Bootc, "/run/lab/bootc"), (NodeTool::RpmOstree, "/usr/bin/rpm-ostree")]
    {
        let want = sha256(&std::fs::read(MachineTools::get().program(tool)).unwrap());
        let sum = lab.machine(0).run(&format!("sha256sum < {path}")).ok().text();
        assert_eq!(sum.split_whitespace().next(), Some(&*want), "{tool}");
    }

    let (namespace, first, second) = (namespace(&lab), lab.machine(0), lab.machine(1));
    let serve = "while :; do echo from $(hostname) | nc -l -p 80; done";
    namespace.apply(&pod("server", first, serve).to_string());
    let server = namespace.wait("pod/server", POD, |pod| condition(pod, "Ready"));
    assert_eq!(server["spec"]["nodeName"], first.name());
    let registry = lab.registry().host_port.replace(':', " ");
    let ask = format!(
        "nc -w 5 {} 80 < /dev/null; nc -w 5 $KUBERNETES_SERVICE_HOST 443 < /dev/null
         nc -w 5 {registry} < /dev/null; echo reached",
        server["status"]["podIP"].as_str().unwrap()
    );
    namespace.apply(&pod("client", second, &ask).to_string());
    namespace.wait("pod/client", POD, |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(namespace.log("client", "main").unwrap(), "from server\nreached\n");

    // The kubelet of a machine has the rights of its node, and no others.
    let label = |node: &str| first.kubectl_as_kubelet(&["annotate", "node", node, "a=b"], &[]);
    label(first.name()).ok();
    let refused = label(second.name());
    assert!(refused.stderr.contains("nodes \"machine-1\" is forbidden"), "{refused:?}");
}

#[test]
fn a_power_cut_loses_what_is_staged() {
    let lab = lab();
    let (namespace, machine, stock) = (namespace(&lab), lab.machine(0), lab.stock());
    let built = timed("mosb build and push", || lab.build("lab/os", "/etc/story", "built"));

    timed("stage", || stage(&namespace, "stage", machine, &built));
    let before = machine.boot_id().unwrap();
    timed("power cut until Ready", || {
        machine.power_cut();
        machine.wait_reboot(&before);
        machine.wait_ready();
    });
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (stock.digest.clone(), None));

    timed("stage again", || stage(&namespace, "again", machine, &built));
    timed("reboot until Ready", || reboot(&namespace, "reboot", machine));
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (built.digest.clone(), None));
    assert_eq!(machine.run("cat /etc/story").ok().text(), "built");
    assert_eq!(machine.run("systemctl is-system-running").ok().text(), "running\n");
    let journal = machine.run("journalctl --boot=-1 --unit=ostree-finalize-staged").ok().text();
    assert!(journal.contains("Bootloader updated"), "{journal}");

    // Back to the first image. What is staged needs no registry.
    stage(&namespace, "back", machine, &stock);
    lab.registry_away(true);
    reboot(&namespace, "home", machine);
    lab.registry_away(false);
    assert_eq!(machine.booted_digest(), stock.digest);
    assert_eq!(lab.machine(1).booted_digest(), stock.digest);
}

#[test]
fn our_image_runs_on_every_machine() {
    let lab = lab();
    timed("import on three machines", || {
        lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    });
    timed("installed anew until Ready", || lab.machine(0).reinstall());
    let namespace = namespace(&lab);
    for machine in lab.machines() {
        let mut pod = pod(machine.name(), machine, "");
        let container = &mut pod["spec"]["containers"][0];
        container["image"] = json!(MOSB_IMAGE);
        container["command"] = json!(["mosb", "--version"]);
        namespace.apply(&pod.to_string());
        namespace.wait(&format!("pod/{}", machine.name()), POD, |pod| {
            pod["status"]["phase"] == "Succeeded"
        });
        let log = namespace.log(machine.name(), "main").unwrap();
        assert!(log.starts_with("mosb "), "{log}");
    }
}

#[test]
fn without_finalizing_a_machine_boots_what_it_had() {
    let lab = lab();
    let (namespace, machine) = (namespace(&lab), lab.machine(1));
    let built = lab.build("lab/os", "/etc/story", "lost");
    stage(&namespace, "stage", machine, &built);
    machine.fail_finalize(true);
    reboot(&namespace, "reboot", machine);
    let digests = (machine.booted_digest(), machine.staged_digest());
    assert_eq!(digests, (lab.stock().digest, None));
    let journal = machine.run("journalctl --boot=-1 --unit=ostree-finalize-staged").ok().text();
    assert!(journal.contains("No space left on device"), "{journal}");
}

#[test]
fn a_lost_machine_is_replaced() {
    let lab = lab();
    let machine = lab.machine(2);
    let before = machine.wait_ready();
    machine.hold_off(true);
    machine.power_cut();
    assert_eq!(machine.boot_id(), None);
    let node = format!("node/{}", machine.name());
    timed("off until NotReady", || lab.node().wait(&node, POD, |node| !condition(node, "Ready")));
    machine.hold_off(false);
    timed("on until Ready", || machine.wait_ready());

    machine.run("touch /etc/of-this-machine").ok();
    timed("installed anew until Ready", || machine.reinstall());
    assert_ne!(machine.wait_ready()["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(machine.run("test -e /etc/of-this-machine").code(), Some(0));
}
