//! `kubectl mosb`: the program as a plug-in of the real kubectl.

use std::os::unix::fs::symlink;
use std::path::Path;

use mosb_tests::{Finished, finish, limited, programs};

/// kubectl with a folder in the search path in which `kubectl-mosb` is a link to the program.
fn kubectl(folder: &Path, arguments: &[&str]) -> Finished {
    let mut command = limited(programs().kubernetes.join("kubectl"));
    let path = format!("{}:/usr/bin:/bin", folder.display());
    command.env_clear().env("PATH", path).args(arguments);
    finish(command.env("HOME", folder), &[])
}

#[test]
fn kubectl_runs_the_plugin_and_help_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kubectl-mosb");
    symlink(mosb_tests::program(), &link).unwrap();
    let kubectl = |arguments: &[&str]| kubectl(folder.path(), arguments);

    let listed = kubectl(&["plugin", "list"]).ok().text();
    assert!(listed.contains(&link.display().to_string()), "{listed}");
    let version = kubectl(&["mosb", "version", "-o", "json"]).ok().json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));

    let help = kubectl(&["mosb", "--help"]).ok().text();
    for part in [
        "Usage: kubectl mosb [OPTIONS] <COMMAND>",
        "  kubectl mosb build worker.yaml",
        "`kubectl mosb plan` shows",
    ] {
        assert!(help.contains(part), "{part}\n{help}");
    }
    let help = kubectl(&["mosb", "rebuild", "--help"]).ok().text();
    let example = "  kubectl mosb rebuild worker && kubectl mosb wait worker";
    assert!(help.contains(example), "{help}");

    let help = kubectl(&["mosb", "rollout", "start", "--help"]).ok().text();
    let example =
        "  kubectl mosb rollout start worker && kubectl mosb rollout status worker --watch";
    assert!(help.contains(example), "{help}");

    let wrong = kubectl(&["mosb", "wait"]);
    assert_eq!(wrong.code(), Some(2));
    let usage = "Usage: kubectl mosb wait <POOL>";
    assert!(wrong.stderr.contains(usage), "{}", wrong.stderr);
    // kubectl hands on exit codes and all arguments as they are.
    let absent = folder.path().join("absent").display().to_string();
    let finished = kubectl(&["mosb", "status", "--kubeconfig", &absent]);
    assert_eq!(finished.code(), Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains(&absent), "{}", finished.stderr);
}
