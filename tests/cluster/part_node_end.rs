//! A Kubernetes node that does not start says why, and of one that ends nothing stays.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::part_node::{POD, pod};
use mosb_tests::{Namespace, Node, programs, run, wait};

#[test]
#[ignore = "make test-all: of the tests' own node"]
fn a_failed_start_names_the_component() {
    let broken = tempfile::TempDir::new().unwrap();
    for name in ["containerd", "ctr"] {
        let path = broken.path().join(name);
        std::fs::write(&path, "#!/bin/sh\necho what is wrong\nexit 7\n").unwrap();
        run("chmod", ["755".as_ref(), path.as_os_str()]);
    }
    let mut programs = programs();
    programs.containerd = broken.path().to_owned();
    let why = Node::start(&programs).unwrap_err();
    assert_eq!(why, "containerd ended: exit status: 7\nwhat is wrong");
    programs.containerd = "/nowhere".into();
    let why = Node::start(&programs).unwrap_err();
    assert_eq!(why, "/nowhere/ctr is missing; run `make parts`");
}

/// Set in the process that is killed.
const KILLED: &str = "MOSB_TEST_OF_A_KILLED_NODE";

#[test]
#[ignore = "make test-all: of the tests' own node"]
fn a_kill_leaves_nothing_of_a_node() {
    if std::env::var_os(KILLED).is_some() {
        return wait_to_be_killed();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--include-ignored",
            "--nocapture",
            "part_node_end::a_kill_leaves_nothing_of_a_node",
        ])
        .env(KILLED, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with('[')).expect("a second node that starts");
    let [directory, group, interface]: [String; 3] = serde_json::from_str(&line).unwrap();
    assert!(Path::new(&directory).is_dir());
    let left = || {
        let mut left = vec![];
        left.extend(Path::new(&directory).exists().then(|| directory.clone()));
        left.extend(
            Path::new("/sys/class/net").join(&interface).exists().then(|| interface.clone()),
        );
        // It fails if a group of another test goes away while it looks.
        let find = Command::new("find").args(["/sys/fs/cgroup", "-name", &group]).output();
        let groups = String::from_utf8(find.unwrap().stdout).unwrap();
        left.extend(groups.lines().map(str::to_owned));
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&group)).map(str::to_owned));
        left.extend(processes_that_mention(&directory));
        left
    };
    assert!(left().len() > 3, "{:?}", left());
    child.kill().unwrap();
    child.wait().unwrap();
    let started = Instant::now();
    wait("nothing left", Duration::from_secs(60), || left().is_empty().then_some(()));
    println!("gone after {:.1} s", started.elapsed().as_secs_f64());
}

fn wait_to_be_killed() {
    let node = Node::start(&programs()).unwrap();
    let namespace = Namespace::new(&node, "killed");
    namespace.apply(&pod("lasting", "sleep 600", json!({"hostUsers": false})));
    namespace.wait_for_condition("pod/lasting", "Ready", POD);
    println!("\n{}", json!(node.traces()));
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

/// Command lines of the whole machine.
fn processes_that_mention(what: &str) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        // A process may end between the two calls.
        std::fs::read(entry.unwrap().path().join("cmdline")).ok()
    });
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(what)).collect()
}
