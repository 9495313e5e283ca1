//! The program, killed at each call of another program.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Machine, SHELLS, a, b, c, file};

/// The programs of coreutils that it calls.
const PROGRAMS: [&str; 14] = [
    "cat",
    "chmod",
    "chown",
    "id",
    "ln",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "rmdir",
    "sha256sum",
    "sort",
    "stat",
    "sync",
];

/// Programs of which the call with this number kills the script with everything that it started.
fn killers(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for program in PROGRAMS {
        let text = format!(
            "#!/bin/sh\ncalls=$(($(/bin/cat \"$CALLS\") + 1))\necho $calls >\"$CALLS\"\n\
             [ $calls != \"$KILLED\" ] || kill -KILL 0\nexec /usr/bin/{program} \"$@\"\n"
        );
        fs::write(folder.join(program), text).unwrap();
        fs::set_permissions(folder.join(program), Permissions::from_mode(0o755)).unwrap();
    }
}

/// A copy with modes, owners and links.
fn copied(machine: &Machine) -> Machine {
    let copy = Machine { folder: tempfile::tempdir().unwrap() };
    let words = [machine.at("var"), machine.at("usr"), copy.root()];
    assert!(Command::new("cp").arg("-a").args(words).status().unwrap().success());
    copy
}

/// Kills the script at each call while it brings a machine from the first image to the second. It must
/// end as if it had not been killed, also with the third image next. Returns the number of calls.
fn killed_at_each_call(images: [&Value; 3]) -> u32 {
    let shell = SHELLS[0];
    let [first, second, third] = images;
    let start = Machine::new();
    start.update(shell, first);
    let (at_second, at_third) = (copied(&start), copied(&start));
    at_second.update(shell, second);
    at_third.update(shell, second);
    at_third.update(shell, third);
    start.install(second);
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    killers(&programs);
    let calls = folder.path().join("calls");
    let mut killed = 0;
    loop {
        killed += 1;
        let machine = copied(&start);
        fs::write(&calls, "0").unwrap();
        let mut command = machine.command(shell);
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        command.env("CALLS", &calls).env("KILLED", killed.to_string()).process_group(0);
        if command.output().unwrap().status.success() {
            return killed;
        }
        let another = copied(&machine);
        assert_eq!(machine.boot(shell), [""; 0], "call {killed}");
        machine.var().assert_same(&at_second.var(), &format!("killed at call {killed}"));
        assert_eq!(another.update(shell, third), [""; 0], "call {killed}");
        let what = format!("killed at call {killed}, then the third image");
        another.var().assert_same(&at_third.var(), &what);
    }
}

#[test]
fn a_killed_script_ends_the_same() {
    let calls = killed_at_each_call([&a(), &b(), &c()]);
    assert!(calls > 40, "{calls}: the programs are not called");
    let only = |content| json!({ "files": [file("/usr/local/bin/tool", content, 0o755)] });
    let calls = killed_at_each_call([&only("one"), &only("two"), &only("three")]);
    assert!(calls > 15, "{calls}: the programs are not called");
    let calls = killed_at_each_call([&only("one"), &json!({}), &only("two")]);
    assert!(calls > 5, "{calls}: the programs are not called");
}
