//! Files below `/var` on a machine that takes one image after the other.

use serde_json::{Value, json};

use mosb_tests::{Lab, Machine, Namespace};

use crate::test_lab::{lab, namespace, reboot, stage, timed};

const SCRIPT: &str = "/usr/local/bin/story";
const EDITED: &str = "/opt/story/edited";
const FOLDER: &str = "/var/lib/story";
const LINK: &str = "/opt/story/link";

fn file(path: &str, mode: u32, content: &str) -> Value {
    let content: String = content.bytes().map(|byte| format!("%{byte:02X}")).collect();
    json!({ "path": path, "mode": mode, "contents": { "source": format!("data:,{content}") } })
}

/// A script that an enabled unit runs, a file, a directory and a link.
fn config(word: &str, mode: u32) -> Value {
    let script = format!("#!/bin/sh\necho {word} > /run/story\n");
    let unit = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={SCRIPT}\n[Install]\nWantedBy=multi-user.target\n"
    );
    json!({
        "ignition": { "version": "3.5.0" },
        "storage": {
            "files": [file(SCRIPT, 0o755, &script), file(EDITED, 0o640, word)],
            "directories": [{ "path": FOLDER, "mode": mode, "group": { "name": "adm" } }],
            "links": [{ "path": LINK, "target": format!("to {word}") }],
        },
        "systemd": { "units": [{ "name": "story.service", "enabled": true, "contents": unit }] },
    })
}

/// The machine takes this image.
#[track_caller]
fn follow(lab: &Lab, namespace: &Namespace<'_>, name: &str, config: &Value) {
    let machine = lab.machine(0);
    let image = lab.build_from("lab/os", config);
    timed(name, || {
        stage(namespace, name, machine, &image);
        reboot(namespace, &format!("{name}-reboot"), machine);
    });
    assert_eq!(machine.booted_digest(), image.digest);
    assert_eq!(machine.run("systemctl is-system-running --wait").ok().text(), "running\n");
}

/// What the unit did, and type, mode, owner and content of the paths.
fn state(machine: &Machine) -> String {
    let line = format!(
        "cat /run/story; systemctl is-active story.service
         stat -c '%F %a %U:%G' {SCRIPT} {FOLDER}; cat {EDITED}; echo; readlink {LINK}; true"
    );
    machine.run(&line).text()
}

fn journal(machine: &Machine) -> String {
    machine
        .run("journalctl --boot --output=cat --unit=mosb-var-files | grep '^mosb: ' || true")
        .text()
}

#[test]
fn files_below_var_follow_the_image() {
    let lab = lab();
    let (namespace, machine) = (namespace(&lab), lab.machine(0));
    let [a, b] = [config("one", 0o700), config("two", 0o1750)];
    let c = json!({ "ignition": { "version": "3.5.0" } });
    let first = "one\nactive\nregular file 755 root:root\ndirectory 700 root:adm\none\nto one\n";

    follow(&lab, &namespace, "a", &a);
    assert_eq!((state(machine), journal(machine)), (first.to_owned(), String::new()));
    let order = machine.run(
        "systemctl show --value --property=ExecMainExitTimestampMonotonic mosb-var-files.service
         systemctl show --value --property=ActiveEnterTimestampMonotonic sysinit.target
         systemctl show --value --property=ExecMainStartTimestampMonotonic story.service",
    );
    let order: Vec<u64> = order.ok().text().lines().map(|line| line.parse().unwrap()).collect();
    assert!(order.len() == 3 && order.is_sorted() && order[0] > 0, "{order:?}");

    machine.run(&format!("echo mine > {EDITED}")).ok();
    follow(&lab, &namespace, "b", &b);
    // Ignition drops the sticky bit of a config of this version.
    let second =
        "two\nactive\nregular file 755 root:root\ndirectory 750 root:adm\nmine\n\nto two\n";
    assert_eq!(state(machine), second);
    let stays = "it is not as mosb wrote it, so it stays";
    assert_eq!(journal(machine), format!("mosb: /var{EDITED}: {stays} as it is\n"));

    follow(&lab, &namespace, "c", &c);
    let left = machine.run(&format!("ls -d {SCRIPT} {FOLDER} {LINK} {EDITED}; true"));
    assert_eq!(left.text(), format!("{EDITED}\n"));
    assert!(journal(machine).contains(&format!("/var{EDITED}: {stays}, although")));

    machine.run(&format!("rm {EDITED}")).ok();
    follow(&lab, &namespace, "back", &a);
    assert_eq!((state(machine), journal(machine)), (first.to_owned(), String::new()));
}
