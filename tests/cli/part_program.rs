//! The harness runs the program with its own home, and reports its output, its exit code and its
//! end by a signal.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use mosb_tests::Mosb;

#[test]
fn wrong_use_is_seen_as_such() {
    let mosb = Mosb::new();
    let finished = mosb.run(["no-such-command"]);
    assert_eq!(finished.code(), Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("no-such-command"), "{}", finished.stderr);
    assert_eq!(fs::read_dir(mosb.tmp()).unwrap().count(), 0, "temporary files left");
}

#[test]
fn a_killed_program_is_seen_as_such() {
    let mosb = Mosb::new().with("NO_COLOR", "1");
    let target = format!("oci:{}", mosb.home().join("image").display());
    let mut command = mosb.command(["build", "-", "--output", &target]);
    // The program waits for a config that never arrives.
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!mosb.home().join("image").exists());
}
