//! What `mosb bootstrap` and `mosb preflight` leave for a support case, and `mosb support-bundle`
//! without a cluster.

use std::fs;

use serde_json::{Value, json};

use crate::cli_commands::{Desk, words};

const PASSWORD: &str = "bundle-canary";

/// The files of a directory, each with its text.
fn files(desk: &Desk, folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(desk.at(folder)).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn json_of(files: &[(String, String)], name: &str) -> Value {
    let found = files.iter().find(|(path, _)| path == name);
    serde_json::from_str(&found.unwrap_or_else(|| panic!("{name}: {files:?}")).1).unwrap()
}

#[test]
fn a_failed_preflight_leaves_a_bundle() {
    let desk = Desk::new();
    let logins = json!({ "auths": { "127.0.0.1:1": { "username": "u", "password": PASSWORD } } });
    desk.write("auth.json", &logins);
    let line = format!("preflight 127.0.0.1:1/os/{PASSWORD}:1 --authfile auth.json --bundle left");
    let finished = desk.mosb.run(words(&line));
    assert_eq!(finished.code(), Some(3), "{}", finished.stderr);
    assert!(finished.stderr.contains("left: the support bundle"), "{}", finished.stderr);
    let found = files(&desk, "left");
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    let want = [
        ".mosb-bootstrap",
        "README.txt",
        "index.json",
        "inputs.json",
        "preflight.json",
        "versions.json",
    ];
    assert_eq!(names, want);
    assert_eq!(json_of(&found, "inputs.json")["inputs"], json!(["127.0.0.1:1/os/[secret]:1"]));
    let report = json_of(&found, "preflight.json");
    assert_eq!((&report["kind"], &report["outcome"]), (&json!("Preflight"), &json!("unknown")));
    for (name, text) in &found {
        assert!(!text.contains(PASSWORD), "{name}: {text}");
    }
}

#[test]
fn a_failed_bootstrap_leaves_its_findings() {
    let desk = Desk::new();
    desk.write(
        "first.yaml",
        &json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineOSConfig", "metadata": { "name": "worker" }, "spec": {} }),
    );
    let run = |more: &str| {
        let line = format!("bootstrap --manifests first.yaml --output out --bundle {more}");
        desk.mosb.run(words(&line))
    };
    let finished = run("left");
    assert_eq!(finished.code(), Some(2), "{}", finished.stderr);
    let failure = json_of(&files(&desk, "left"), "failure.json");
    assert_eq!((&failure["kind"], &failure["exitCode"]), (&json!("Error"), &json!(2)));
    assert!(!failure["findings"].as_array().unwrap().is_empty(), "{failure:#}");
    // The next failure replaces it.
    assert_eq!(run("left").code(), Some(2));
    assert_eq!(files(&desk, "left").len(), 6);
    // A directory of somebody else is left alone, and the failure stays the failure.
    fs::create_dir(desk.at("foreign")).unwrap();
    fs::write(desk.at("foreign/a"), "").unwrap();
    let finished = run("foreign");
    assert_eq!(finished.code(), Some(2));
    let (stderr, foreign) = (&finished.stderr, desk.at("foreign"));
    let warning = format!("no support bundle: {}: it holds a,", foreign.display());
    assert!(stderr.contains(&warning), "{stderr}");
    assert_eq!(files(&desk, "foreign").len(), 1);
    assert!(run("..").stderr.contains("--bundle ..: a directory with a name"));
}

#[test]
fn nothing_is_written_without_a_cluster() {
    let desk = Desk::new();
    // Nobody listens there.
    desk.write(
        "kubeconfig",
        &json!({ "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "users": [{ "name": "a", "user": {} }] }),
    );
    let line = "support-bundle -o bundle.tar.gz --kubeconfig kubeconfig --format json";
    let finished = desk.mosb.run(words(line));
    let error = finished.json();
    assert_eq!((finished.code(), &error["code"]), (Some(3), &json!("nothing-read")), "{error:#}");
    assert!(!desk.at("bundle.tar.gz").exists());
}
