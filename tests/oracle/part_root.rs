//! The real Ignition and systemctl work on a private root, and tests can compare their changes.

use serde_json::json;

use mosb_tests::{Entry, Kind, Sandbox};

fn config(storage: serde_json::Value) -> String {
    json!({"ignition": {"version": "3.5.0"}, "storage": storage}).to_string()
}

#[test]
fn a_file_is_written_and_nothing_else_changes() {
    let sandbox = Sandbox::new();
    let before = sandbox.snapshot();
    let file =
        json!({"path": "/etc/new/hello", "mode": 0o600, "contents": {"source": "data:,hello"}});
    sandbox.ignition_apply(&config(json!({"files": [file]}))).unwrap();
    let after = sandbox.snapshot();
    let differences = before.differences(&after);
    assert_eq!(differences.len(), 2, "{differences:#?}");
    assert_eq!(after.0["etc/new"], Entry { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0 });
    assert_eq!(after.0["etc/new/hello"].mode, 0o600);
    assert_eq!(std::fs::read(sandbox.path("etc/new/hello")).unwrap(), b"hello");

    let other = Sandbox::new();
    assert_eq!(other.snapshot(), before, "another sandbox sees nothing of it");
}

#[test]
fn an_overwritten_file_is_read_again() {
    let sandbox = Sandbox::new();
    let before = sandbox.snapshot();
    let file = json!({"path": "/etc/debian_version", "overwrite": true, "contents": {"source": "data:,13"}});
    sandbox.ignition_apply(&config(json!({"files": [file]}))).unwrap();
    let after = sandbox.snapshot();
    let content = |snapshot: &mosb_tests::Snapshot| snapshot.0["etc/debian_version"].kind.clone();
    assert_ne!(content(&before), content(&after));
}

#[test]
fn a_rejected_config_fails_with_ignitions_message() {
    let file = json!({"path": "relative", "contents": {"source": "data:,x"}});
    let why = Sandbox::new().ignition_apply(&config(json!({"files": [file]}))).unwrap_err();
    assert!(why.contains("path not absolute"), "{why}");
}

#[test]
fn names_of_the_root_are_known_to_ignition() {
    let sandbox = Sandbox::new();
    sandbox.shell("echo mosb:x:4711: >> /etc/group");
    let file =
        json!({"path": "/etc/f", "group": {"name": "mosb"}, "contents": {"source": "data:,x"}});
    sandbox.ignition_apply(&config(json!({"files": [file]}))).unwrap();
    assert_eq!(sandbox.snapshot().0["etc/f"].gid, 4711);
}

#[test]
fn preset_makes_and_removes_links() {
    let sandbox = Sandbox::new();
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let units = json!([{"name": "mosb-test.service", "enabled": true, "contents": unit}]);
    let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
    sandbox.ignition_apply(&config.to_string()).unwrap();
    let link = "etc/systemd/system/multi-user.target.wants/mosb-test.service";
    assert!(!sandbox.snapshot().0.contains_key(link), "only the preset step makes the link");
    sandbox.preset(&["mosb-test.service"]).ok();
    let made = sandbox.snapshot();
    let target = "/etc/systemd/system/mosb-test.service".to_owned();
    assert_eq!(made.0[link].kind, Kind::Link { target });

    sandbox.shell("echo disable mosb-test.service > /etc/systemd/system-preset/20-ignition.preset");
    sandbox.preset(&["mosb-test.service"]).ok();
    assert!(!sandbox.snapshot().0.contains_key(link));
}
