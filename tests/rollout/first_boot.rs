//! The unit of a new machine under a real systemd: it brings the machine to an image whose registry
//! it reaches only by a mirror, with an authority that only its config has. There, a program of the
//! config in `/usr/local/bin` runs.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use mosb_tests::{FIRST_BOOT_UNIT, Machine, first_boot_files, wait};

use crate::test_lab::{POD, assert_no_login, lab, timed};

/// As Ignition would write them.
const WRITE: &str = "mkdir -p /var/lib/mosb
    tar -x --no-same-owner -C /var/lib/mosb
    chmod 700 /var/lib/mosb/first-boot
    chmod 600 /var/lib/mosb/first-boot/auth.json
    install -m 644 /var/lib/mosb/*.service /etc/systemd/system
    systemctl daemon-reload
    systemctl enable --quiet mosb-first-boot.service";

#[test]
fn a_new_machine_pulls_by_its_mirror() {
    let lab = lab();
    let (machine, registry) = (lab.machine(0), lab.registry());
    let file = |path: &str, mode: u32, text: &str| json!({ "path": path, "mode": mode, "contents": { "source": format!("data:;base64,{}", STANDARD.encode(text)) } });
    let unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/bin/x\n[Install]\nWantedBy=multi-user.target\n";
    // As docs/first-boot.md builds it: without --build-on.
    let config = json!({
        "ignition": { "version": "3.5.0" },
        "storage": { "files": [
            file("/etc/story", 0o644, "first"),
            file("/usr/local/bin/x", 0o755, "#!/bin/sh\necho ran > /run/x\n"),
        ] },
        "systemd": { "units": [{ "name": "x.service", "enabled": true, "contents": unit }] },
    });
    let image = lab.build_from("lab/os", &config);
    let logins = registry.pull_config().to_string();
    let files =
        first_boot_files("lab/os", &image.digest, &registry.host_port, &registry.ca_pem, &logins);
    machine.forget_registry_authority();
    // Certificates for this host in the other directory, and for another one.
    let host = &registry.host_port;
    let own = format!(
        "mkdir -p /etc/containers/certs.d/other.example /etc/docker/certs.d/{host}
         ln -s /nowhere /etc/docker/certs.d/{host}/gone.crt
         echo of the machine | tee /etc/containers/certs.d/other.example/ca.crt > /etc/docker/certs.d/{host}/notes"
    );
    machine.run(&own).ok();
    let before = settings(machine);

    let mut tar = Command::new("tar");
    let archive = tar.arg("-C").arg(files.path()).args(["-c", "."]).output().unwrap();
    machine.enter(&["sh", "-euc", WRITE], &archive.stdout).ok();
    // Where the script gives up, systemd starts neither it again nor the kubelet.
    machine.run("systemctl stop kubelet.service; echo 3 > /var/lib/mosb/first-boot/reboots").ok();
    let started = machine.run("systemctl start kubelet.service");
    assert!(!started.status.success(), "{started:?}");
    let state = machine.run(&format!(
        "systemctl show --value --property=ExecMainStatus {FIRST_BOOT_UNIT}
         systemctl is-active {FIRST_BOOT_UNIT}
         systemctl is-active --quiet kubelet.service && echo the kubelet runs; true"
    ));
    assert_eq!(state.text(), "78\nfailed\n");
    let again =
        format!("rm /var/lib/mosb/first-boot/reboots; systemctl reset-failed {FIRST_BOOT_UNIT}");
    machine.run(&again).ok();
    // A first try without the authority fails. The next one is not made of what that one saw.
    machine.run("mv /var/lib/mosb/first-boot/containers/certs.d /var/lib/mosb/").ok();
    let (boot, boots) = (machine.boot_id().unwrap(), booted(machine));
    machine.run(&format!("systemctl start --no-block {FIRST_BOOT_UNIT}")).ok();
    let journal = || machine.run(&format!("journalctl --unit={FIRST_BOOT_UNIT}")).ok().text();
    timed("a try that fails", || {
        wait("the first try", POD, || journal().contains("it is tried again").then_some(()));
    });
    assert!(journal().contains("certificate signed by unknown authority"), "{}", journal());
    machine.run("mv /var/lib/mosb/certs.d /var/lib/mosb/first-boot/containers/").ok();
    timed("the first image", || {
        machine.wait_reboot(&boot);
        machine.wait_ready();
    });

    assert_eq!(machine.booted_digest(), image.digest);
    assert_eq!(booted(machine) - boots, 1, "it rebooted once");
    assert_eq!(machine.run("cat /etc/story").ok().text(), "first");
    wait("the unit of the config", POD, || {
        machine.run("systemctl is-active x.service").status.success().then_some(())
    });
    assert_eq!(machine.run("cat /run/x").ok().text(), "ran\n");
    wait("the unit to forget", POD, || {
        machine
            .run("test ! -e /var/lib/mosb/first-boot -a ! -e /run/mosb")
            .status
            .success()
            .then_some(())
    });
    assert_no_login(machine);
    assert_eq!(settings(machine), before);
}

/// The settings of the machine's containers' tools.
fn settings(machine: &Machine) -> String {
    machine.run("cd /etc; find containers docker | sort | xargs ls -ld --time-style=+; find containers docker -type f | sort | xargs sha256sum").ok().text()
}

/// How often the machine was booted.
fn booted(machine: &Machine) -> usize {
    machine.console().matches("firmware: booting").count()
}
