//! Of a lab that ends nothing stays: neither its directory nor its control groups, its interface, its
//! mounts, the processes in it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, thread};

use serde_json::json;

use mosb_tests::{Lab, wait};

use crate::test_lab::{POD, timed};

/// Set in the process that is killed.
const KILLED: &str = "MOSB_TEST_OF_A_KILLED_LAB";

/// The registry is away when it happens.
#[test]
fn a_panic_leaves_nothing_of_a_lab() {
    let lab = Lab::start(1);
    let traces = lab.node().traces();
    assert!(left_of(&traces).len() > 2, "{:?}", left_of(&traces));
    lab.registry_away(true);
    let test = thread::spawn(move || assert!(lab.machines().is_empty(), "this panic is wanted"));
    timed("the end of a lab", || {
        test.join().unwrap_err();
        wait("nothing left", POD, || left_of(&traces).is_empty().then_some(()));
    });
}

/// The machine stages an image meanwhile: its deployments are immutable then.
#[test]
fn a_kill_leaves_nothing_of_a_lab() {
    if std::env::var_os(KILLED).is_some() {
        return wait_to_be_killed();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("part_lab_end::a_kill_leaves_nothing_of_a_lab")
        .env(KILLED, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with('[')).expect("a lab that starts");
    let traces: [String; 3] = serde_json::from_str(&line).unwrap();
    assert!(left_of(&traces).len() > 3, "{:?}", left_of(&traces));
    child.kill().unwrap();
    child.wait().unwrap();
    timed("the end of a killed lab", || {
        wait("nothing left", POD, || left_of(&traces).is_empty().then_some(()));
    });
}

fn wait_to_be_killed() {
    let lab = Lab::start(1);
    let built = lab.build("lab/os", "/etc/story", "killed");
    let auth = lab.registry().pull_config().to_string();
    let login = "umask 077; cat > /run/ostree/auth.json";
    lab.machine(0).enter(&["sh", "-euc", login], auth.as_bytes()).ok();
    lab.machine(0).run(&format!("bootc switch {}", built.reference)).ok();
    println!("\n{}", json!(lab.node().traces()));
    std::io::stdout().flush().unwrap();
    loop {
        thread::park();
    }
}

fn left_of([directory, group, interface]: &[String; 3]) -> Vec<String> {
    // It fails if a group of another test goes away while it looks.
    let groups = Command::new("find").args(["/sys/fs/cgroup", "-name", group]).output().unwrap();
    let groups = String::from_utf8(groups.stdout).unwrap();
    let mut left: Vec<String> = groups.lines().map(str::to_owned).collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(group)).map(str::to_owned));
    let paths = [directory.clone(), format!("/sys/class/net/{interface}")];
    left.extend(paths.into_iter().filter(|path| Path::new(path).exists()));
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        // A process may end between the two calls.
        fs::read(entry.unwrap().path().join("cmdline")).ok()
    });
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    left.extend(lines.filter(|line| line.contains(directory)));
    left
}
