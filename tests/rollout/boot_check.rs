//! Images that don't come up: their machines go back to the earlier one by themselves, while the API
//! server answers nobody. The images, the units and systemd are real, and so is the kubelet;
//! `bootc rollback` is that of the lab's bootc.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{Lab, Machine, MachineImage, Namespace, mosb_image, wait};

use crate::node_story::target;
use crate::test_lab::{AUTH, POD, REBOOT, lab, namespace, node_pod};
use mosb_api::rollout::NodeReport;
use mosb_tests::MOSB_IMAGE;

/// Two boots of an image that does not come up, with the time for its checks, and one of the earlier one.
const GOES_BACK: Duration = Duration::from_secs(180);
/// The most boots until the machine runs its earlier image again.
const BOOTS: usize = 3;

/// An image that does not come up, and the cause that its machine records.
struct BadImage {
    name: &'static str,
    files: &'static [(&'static str, u32, &'static str)],
    units: &'static [(&'static str, &'static str)],
    cause: &'static str,
}

const NO_KUBELET: BadImage = BadImage {
    name: "no-kubelet",
    files: &[(
        "/etc/systemd/system/kubelet.service.d/bad.conf",
        0o644,
        "[Service]\nExecStart=\nExecStart=/bin/false\n",
    )],
    units: &[],
    cause: "the kubelet is not healthy at 127.0.0.1:10248, and it was before this image",
};
const FAILED_CHECK: BadImage = BadImage {
    name: "failed-check",
    files: &[("/etc/mosb/check.d/10-own", 0o755, "#!/bin/sh\necho no disk\nexit 1\n")],
    units: &[],
    cause: "the check /etc/mosb/check.d/10-own ended with 1: no disk",
};
const NO_NETWORK: BadImage = BadImage {
    name: "no-network",
    files: &[],
    units: &[(
        "break-network.service",
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'ip link set eth0 down'\n[Install]\nWantedBy=multi-user.target\n",
    )],
    cause: "there is no default route, and there was one before this image",
};
const NOT_COMPLETE: BadImage = BadImage {
    name: "not-complete",
    files: &[],
    units: &[(
        "stuck.service",
        "[Unit]\nBefore=boot-complete.target\n[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n[Install]\nRequiredBy=boot-complete.target\n",
    )],
    cause: "boot-complete.target was not reached; not started yet: stuck.service",
};

impl BadImage {
    fn config(&self) -> Value {
        let settings = ("/etc/mosb/boot-check.conf", 0o644, "TIME=8\nHOLD=1\nPAUSE=1\n");
        let files = self.files.iter().chain([&settings]).map(|(path, mode, content)| {
            let content: String = content.bytes().map(|byte| format!("%{byte:02X}")).collect();
            json!({ "path": path, "mode": mode, "contents": { "source": format!("data:,{content}") } })
        });
        let units = self
            .units
            .iter()
            .map(|(name, contents)| json!({ "name": name, "enabled": true, "contents": contents }));
        json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": files.collect::<Vec<_>>() },
            "systemd": { "units": units.collect::<Vec<_>>() },
        })
    }
}

/// Runs `mosb node` on a machine to its end; the report.
#[track_caller]
fn node(namespace: &Namespace<'_>, name: &str, machine: &Machine, words: &[&str]) -> NodeReport {
    namespace.apply(&node_pod(name, machine, words).to_string());
    let pod = namespace.wait(&format!("pod/{name}"), POD, |pod| {
        pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object()
    });
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 0, "{pod:#}\n{:?}", namespace.log(name, "main"));
    namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
    NodeReport::parse(ended["message"].as_str().unwrap()).unwrap()
}

/// The boots of a machine so far, each with the deployment that it took.
fn boots(machine: &Machine) -> usize {
    machine.console().lines().filter(|line| line.contains("firmware: booting ")).count()
}

/// Waits until it boots for this time, and its systemd runs.
#[track_caller]
fn wait_for_boots(machine: &Machine, count: usize) {
    wait(&format!("boot {count} of {}", machine.name()), GOES_BACK, || {
        let is_up = || machine.run("test -e /run/systemd/system").status.success();
        (boots(machine) == count && is_up()).then_some(())
    });
}

/// Each machine takes one of these images, and goes back to what it runs.
#[track_caller]
fn go_back(lab: &Lab, namespace: &Namespace<'_>, bad: &[&BadImage]) {
    let before: Vec<String> =
        lab.machines().iter().take(bad.len()).map(Machine::booted_digest).collect();
    let images: Vec<MachineImage> =
        bad.iter().map(|bad| lab.build_from("lab/os", &bad.config())).collect();
    for ((bad, image), machine) in bad.iter().zip(&images).zip(lab.machines()) {
        let words = ["stage", "--target", &target(image), "--auth", AUTH];
        let staged = node(namespace, bad.name, machine, &words).staged.unwrap().digest;
        assert_eq!(staged.unwrap().to_string(), image.digest, "{}", bad.name);
    }
    let counts: Vec<usize> = lab.machines().iter().map(boots).collect();
    lab.node().freeze("api-server");
    let begun = Instant::now();
    for machine in lab.machines().iter().take(bad.len()) {
        machine.run(&format!("{REBOOT} || true"));
    }
    for (index, bad) in bad.iter().enumerate() {
        wait_for_boots(lab.machine(index), counts[index] + BOOTS);
        println!("{}: back after {:.1} s", bad.name, begun.elapsed().as_secs_f64());
    }
    lab.node().thaw("api-server");
    for ((index, bad), image) in bad.iter().enumerate().zip(&images) {
        let machine = lab.machine(index);
        machine.wait_ready();
        assert_eq!(machine.booted_digest(), before[index], "{}", bad.name);
        let report = node(namespace, &format!("{}-after", bad.name), machine, &["report"]);
        let left = report.went_back.unwrap_or_else(|| panic!("{}", machine.console()));
        assert_eq!((left.image.to_string(), left.cause.trim()), (image.digest.clone(), bad.cause));
        assert!(!report.unchecked && !report.unconfirmed, "{}", bad.name);
        let boots = boots(machine) - counts[index];
        assert_eq!(boots, BOOTS, "{}: {}", bad.name, machine.console());
    }
}

#[track_caller]
fn story(rounds: usize) {
    let lab = lab();
    lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let namespace = namespace(&lab);
    for _ in 0..rounds {
        go_back(&lab, &namespace, &[&NO_KUBELET, &FAILED_CHECK, &NO_NETWORK]);
        go_back(&lab, &namespace, &[&NOT_COMPLETE]);
        if rounds > 1 {
            reboot(&lab);
        }
    }
}

/// What the times of the others are compared with.
fn reboot(lab: &Lab) {
    let machine = lab.machine(0);
    let (count, begun) = (boots(machine), Instant::now());
    machine.run(&format!("{REBOOT} || true"));
    wait_for_boots(machine, count + 1);
    println!("a reboot: {:.1} s", begun.elapsed().as_secs_f64());
    machine.wait_ready();
}

#[test]
fn images_that_fail_are_left_by_themselves() {
    story(1);
}

#[test]
#[ignore = "make test-all: ten times each"]
fn images_that_fail_are_left_each_time() {
    story(10);
}
