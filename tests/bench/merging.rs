//! Rendering of many MachineConfigs, compared with a Go program that merges them by Ignition's own
//! library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_api::yaml;
use serde_json::{Value, json};

use crate::content::{Content, Random};
use crate::fixture::Fixture;
use crate::race::{Contender, race, run, run_watched};
use crate::report::{Report, Table, megabytes, seconds};
use mosb_tests::parts::IGNITION_ORACLE;

/// The approximate size of one MachineConfig's file in bytes.
const SIZE: usize = 10_000;
/// The number of files of each MachineConfig, and the number of different paths of all. The
/// rendered config must not exceed the size limit of an object.
const FILES: usize = 4;
const PATHS: u64 = 400;

/// The number of MachineConfigs, and the rounds of the Go program and of mosb. The Go program takes
/// about a minute for the last row.
const COUNTS: [(usize, usize, usize); 3] = [(50, 5, 15), (500, 5, 15), (5000, 1, 5)];

pub fn measure(fixture: &Fixture, report: &mut Report) {
    let mut table = Table::new([
        "",
        "total size",
        "Ignition's library",
        "mosb render",
        "×",
        "peak memory, Ignition's",
        "peak memory, mosb's",
        "×",
    ]);
    let mut took = Vec::new();
    for (count, theirs, ours) in COUNTS {
        let (directory, bytes) = machine_configs(fixture, count);
        let times = race(vec![
            Contender::new(format!("Ignition's library, {count}"), theirs, || {
                run(&mut go(&directory)).1
            }),
            Contender::new(format!("mosb render, {count}"), ours, || {
                run(&mut own(fixture, &directory)).1
            }),
        ]);
        let peak = |mut command: Command| run_watched(&mut command).1;
        let peaks = [
            peak(go(&directory)),
            (0..5).map(|_| peak(own(fixture, &directory))).fold(0, u64::max),
        ];
        let time = times[1].to(&times[0]);
        let memory = peaks[1] as f64 / peaks[0] as f64;
        table.row([
            format!("{count} MachineConfigs"),
            megabytes(bytes),
            seconds(times[0].median()),
            seconds(times[1].median()),
            format!("{time:.2}"),
            megabytes(peaks[0]),
            megabytes(peaks[1]),
            format!("{memory:.2}"),
        ]);
        if count == 500 {
            let what = format!("merging {count} MachineConfigs vs. Ignition's library");
            report.at_most(format!("{what}, time"), time, 0.33, "×");
            report.at_most(format!("{what}, memory"), memory, 0.5, "×");
        }
        took.push(times[1].median().as_secs_f64());
    }
    report.table("merging", table);
    let [few, some, many] = took[..] else { unreachable!("one for each count") };
    // The growth is relative to a duration linear in the number. Differences cancel the constant
    // time for the start of the program.
    let growth = (many - few) / (some - few) * 450.0 / 4950.0;
    report.at_most("growth from 50 to 500 to 5000 MachineConfigs", growth, 1.2, "× linear");
}

fn go(directory: &Path) -> Command {
    let mut command = Command::new(IGNITION_ORACLE.program());
    command.arg("bench").arg(directory);
    command
}

fn own(fixture: &Fixture, directory: &Path) -> Command {
    let mut command = fixture.mosb(&fixture.shared("program-trees"));
    command
        .args(["render", "--pool", "worker", "--offline", "-q", "-o", "name"])
        .args(["--os-image", OS_IMAGE])
        .arg(directory);
    command
}

const OS_IMAGE: &str = "registry.example.com/os@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Writes a directory of MachineConfigs and returns it with their total size in bytes.
fn machine_configs(fixture: &Fixture, count: usize) -> (PathBuf, u64) {
    let directory = fixture.fresh("machine-configs");
    fs::create_dir(&directory).unwrap();
    let mut content = Content::new(count as u64);
    let mut random = Random::new(count as u64);
    let mut bytes = 0;
    for number in 0..count {
        let text = yaml::to_text(&machine_config(number, &mut content, &mut random));
        bytes += text.len() as u64;
        fs::write(directory.join(format!("{number:05}.yaml")), text).unwrap();
    }
    (directory, bytes)
}

/// A typical MachineConfig: some files, a unit, a drop-in, a key. All spec versions since 2.2
/// occur.
fn machine_config(number: usize, content: &mut Content, random: &mut Random) -> Value {
    let versions = ["2.2.0", "3.1.0", "3.2.0", "3.2.0", "3.4.0", "3.5.0"];
    let version = versions[number % versions.len()];
    let mut paths: Vec<_> = (0..FILES).map(|_| random.next() % PATHS).collect();
    paths.sort();
    paths.dedup();
    let files: Vec<_> = paths
        .iter()
        .map(|path| {
            let bytes = STANDARD.encode(content.take((SIZE - 1500) / FILES * 3 / 4));
            let mut file = json!({
                "path": format!("/etc/example/{path}.conf"),
                "mode": 0o644,
                "contents": {"source": format!("data:text/plain;charset=utf-8;base64,{bytes}")},
            });
            if version.starts_with('2') {
                file["filesystem"] = json!("root");
            }
            file
        })
        .collect();
    let unit = random.next() % PATHS;
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {
            "name": format!("{number:05}-example"),
            "labels": {"machineconfiguration.openshift.io/role": "worker"},
        },
        "spec": {"config": {
            "ignition": {"version": version},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [format!("ssh-ed25519 {:016x}", unit)]}]},
            "storage": {"files": files},
            "systemd": {"units": [
                {"name": format!("example-{unit}.service"), "enabled": true,
                 "contents": "[Unit]\nDescription=example\n[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n"},
                {"name": "crio.service", "dropins": [
                    {"name": format!("{}.conf", random.next() % 20), "contents": format!("[Service]\nEnvironment=N={number}\n")}]},
            ]},
        }},
    })
}
