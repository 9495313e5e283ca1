//! Every pair of spec versions.

use mosb_ignition::SpecVersion;
use serde_json::{Value, json};

use super::{Case, letter};
use crate::merge_oracle::generated2;

/// Each version merged with each version, and then a third config.
pub fn versions() -> Vec<Case> {
    let mut all: Vec<(&str, fn(usize, &str) -> Value)> = Vec::new();
    all.extend(generated2::VERSIONS.map(|version| (version, typical2 as fn(usize, &str) -> Value)));
    all.extend(SpecVersion::ALL.map(|version| (version.as_str(), typical3 as _)));
    let mut cases = Vec::new();
    for (first, of_first) in &all {
        cases.push((first.to_string(), vec![of_first(0, first)]));
        cases.push((format!("{first}, second"), vec![of_first(1, first)]));
        for (number, (second, of_second)) in all.iter().enumerate() {
            let (third, of_third) = all[(number + 4) % all.len()];
            cases.push((
                format!("{first}, then {second}, then {third}"),
                vec![of_first(0, first), of_second(1, second), of_third(2, third)],
            ));
        }
    }
    cases
}

/// Typical content of a MachineConfig of spec 3.
fn typical3(number: usize, version: &str) -> Value {
    let own = letter(number);
    json!({
        "ignition": {"version": version, "security": {"tls": {"certificateAuthorities": [{"source": "data:,ca"}]}}},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["both", own], "passwordHash": own, "shouldExist": true}]},
        "kernelArguments": {"shouldExist": [own]},
        "storage": {
            "files": [
                {"path": "/etc/both", "mode": 420, "contents": {"source": format!("data:,{own}"), "compression": (["", "gzip"][number % 2])}},
                {"path": format!("/etc/{own}"), "overwrite": true, "contents": {"source": "data:,x"}},
                {"path": "/etc/mode", "mode": 384 + number},
            ],
            "directories": [{"path": "/var/both", "mode": 448 + number, "user": {"id": number}}],
            "links": [{"path": format!("/links/{own}"), "target": "/x", "hard": number == 1}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": number + 1, "label": own, "sizeMiB": 5, "startMiB": 10 * number + 1}]}],
            "luks": [{"name": "data", "device": "/dev/a", "clevis": {"tpm2": true}, "discard": number == 0}],
        },
        "systemd": {"units": [
            {"name": "both.service", "enabled": number != 1, "contents": format!("[Unit]\nA={own}\n[Install]\nWantedBy=b\n")},
            {"name": "crio.service", "dropins": [{"name": format!("{own}.conf"), "contents": "[Unit]\n"}, {"name": "both.conf", "contents": format!("[Unit]\nA={own}\n")}]},
        ]},
    })
}

/// Typical content of a MachineConfig of spec 2.
fn typical2(number: usize, version: &str) -> Value {
    let own = letter(number);
    let mut config = json!({
        "ignition": {"version": version, "security": {"tls": {"certificateAuthorities": [{"source": "data:,ca"}]}}},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["both", own], "passwordHash": own}]},
        "storage": {
            "files": [
                {"filesystem": "root", "path": "/etc/both", "mode": 420, "contents": {"source": format!("data:,{own}"), "compression": (["", "gzip"][number % 2])}},
                {"filesystem": "root", "path": format!("/etc/{own}"), "overwrite": true, "contents": {"source": "data:,x"}},
                {"filesystem": "root", "path": "/etc/mode", "mode": 384 + number},
            ],
            "directories": [{"filesystem": "root", "path": "/var/both", "mode": 448 + number, "user": {"id": number}}],
            "links": [{"filesystem": "root", "path": format!("/links/{own}"), "target": "/x", "hard": number == 1}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": number + 1, "label": own, "sizeMiB": 5, "startMiB": 10 * number + 1}]}],
        },
        "systemd": {"units": [
            {"name": "both.service", "enabled": number != 1, "contents": format!("[Unit]\nA={own}\n[Install]\nWantedBy=b\n")},
            {"name": "crio.service", "dropins": [{"name": format!("{own}.conf"), "contents": "[Unit]\n"}, {"name": "both.conf", "contents": format!("[Unit]\nA={own}\n")}]},
        ]},
    });
    if version < "2.3" {
        // ign-converter rejects the partitions of these versions.
        config["storage"]["disks"] = json!([]);
    }
    config
}
