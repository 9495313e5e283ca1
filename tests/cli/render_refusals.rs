//! Input that can't be rendered, and changes that nodes do not support.

use std::fs;

use serde_json::{Value, json};

use crate::render_commands::{Desk, file, machine_config, pool};

#[test]
fn unsupported_changes_set_the_exit_code() {
    let desk = Desk::new();
    desk.write("a.yaml", machine_config("a", "worker", file("/etc/a", "a")));
    let before = desk.run("render --pool worker a.yaml").ok().text();
    desk.write("before.yaml", before);
    desk.write("b.yaml", machine_config("b", "worker", file("/etc/b", "b")));
    let same = desk.run("render --pool worker a.yaml b.yaml --previous before.yaml");
    assert_eq!(same.code(), Some(0), "{}", same.stderr);
    let user = json!({ "config": { "ignition": { "version": "3.2.0" }, "passwd": { "users": [{ "name": "eve" }] } }, "fips": true });
    desk.write("c.yaml", machine_config("c", "worker", user));
    let other = desk.run("render --pool worker a.yaml c.yaml --previous before.yaml");
    assert_eq!(other.code(), Some(1));
    assert!(other.text().contains("name: eve"), "it is printed all the same");
    for field in ["c.yaml: c: spec.config.passwd.users[eve]: ", "c.yaml: c: spec.fips: "] {
        assert!(other.stderr.contains(&format!("warning: {field}")), "{}", other.stderr);
    }
    let explained =
        desk.run("render --pool worker a.yaml c.yaml --previous before.yaml --explain -o json");
    assert_eq!(explained.json()["unreconcilable"].as_array().unwrap().len(), 2);
    let broken = desk.run("render --pool worker a.yaml --previous a.yaml -o json");
    assert_eq!((broken.code(), &broken.json()["code"]), (Some(2), &json!("bad-config")));
}

/// For each case: the command line, the exit code, the error code, and the code and a part of the
/// object or message of each finding.
#[test]
fn bad_input_is_refused_with_every_problem() {
    let desk = Desk::new();
    let good = machine_config("good", "worker", file("/etc/a", "a"));
    let spec = |spec: Value| machine_config("bad", "worker", spec);
    let config = |config: Value| spec(json!({ "config": config }));
    let remote = |url: &str| {
        config(
            json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/r", "contents": { "source": url } }] } }),
        )
    };
    let mut unlabelled = good.clone();
    unlabelled["metadata"]["labels"] = Value::Null;
    let mut empty_selector = pool("worker");
    empty_selector["spec"]["machineConfigSelector"] = json!({});
    let bomb = (1..40).fold("a0: &a0 [x,x]\n".to_owned(), |text, n| {
        text + &format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0},*a{0}]\n", n - 1)
    });
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    for (name, text) in [
        ("good.yaml", good.to_string()),
        ("copy.yaml", good.to_string()),
        ("unlabelled.yaml", unlabelled.to_string()),
        ("pool.yaml", empty_selector.to_string()),
        ("bomb.yaml", bomb),
        ("deep.json", deep),
        ("broken.yaml", "a: [hunter2".to_owned()),
        ("version.yaml", config(json!({ "ignition": { "version": "4.0.0" } })).to_string()),
        ("two.yaml", format!("---\n{good}\n---\n{}", config(json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "a" }, { "path": "b" }] } })))),
        ("translate.yaml", config(json!({ "ignition": { "version": "2.2.0" }, "storage": { "files": [{ "filesystem": "data", "path": "/a" }] } })).to_string()),
        ("link.yaml", config(json!({ "ignition": { "version": "3.2.0" }, "storage": { "links": [{ "path": "/etc", "target": "/x" }] } })).to_string()),
        ("settings.yaml", spec(json!({ "kernelType": "rt", "extensions": "x", "osImageURL": 1 })).to_string()),
        ("tag.yaml", spec(json!({ "osImageURL": "quay.io/a:b" })).to_string()),
        ("remote.yaml", remote("http://user:hunter2@127.0.0.1:9/x?token=hunter2").to_string()),
        ("s3.yaml", remote("s3://bucket/x").to_string()),
        ("large.yaml", spec(json!({ "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/l", "contents": { "source": format!("data:,{}", "x".repeat(2_000_000)) } }] } } })).to_string()),
        ("kind.yaml", "a: hunter2".to_owned()),
    ] {
        desk.write(name, text);
    }
    fs::create_dir(desk.at("empty")).unwrap();
    for (line, exit, code, findings) in [
        (
            "good.yaml copy.yaml",
            2,
            "invalid-machine-configs",
            &["duplicate-name copy.yaml: good"][..],
        ),
        ("good.yaml good.yaml", 2, "invalid-machine-configs", &["duplicate-name good.yaml: good"]),
        (
            "unlabelled.yaml",
            2,
            "invalid-machine-configs",
            &["no-role unlabelled.yaml: good: metadata.labels"],
        ),
        (
            "good.yaml --pool-file pool.yaml",
            2,
            "invalid-machine-configs",
            &["bad-selector MachineConfigPool worker"],
        ),
        ("good.yaml --pool-file copy.yaml", 2, "invalid-machine-configs", &["bad-file copy.yaml"]),
        ("bomb.yaml", 2, "invalid-machine-configs", &["bad-file bomb.yaml"]),
        ("deep.json", 2, "invalid-machine-configs", &["bad-file deep.json"]),
        (
            "broken.yaml none.yaml empty kind.yaml two.yaml",
            2,
            "invalid-machine-configs",
            &[
                "bad-file broken.yaml",
                "unreadable-file none.yaml",
                "bad-file empty",
                "bad-object kind.yaml",
                "bad-path two.yaml (document 2): bad: spec.config.storage.files[0].path",
                "bad-path two.yaml (document 2): bad: spec.config.storage.files[1].path",
            ],
        ),
        (
            "version.yaml",
            2,
            "invalid-machine-configs",
            &["unknown-ignition-spec version.yaml: bad: spec.config"],
        ),
        (
            "translate.yaml",
            2,
            "invalid-machine-configs",
            &[" translate.yaml: bad: spec.config.storage.files[0]"],
        ),
        (
            "good.yaml link.yaml",
            2,
            "invalid-when-merged",
            &["link-in-the-way link.yaml: bad, good.yaml: good: spec.config.storage.files[0].path"],
        ),
        (
            "settings.yaml",
            2,
            "invalid-machine-configs",
            &[
                "bad-setting settings.yaml: bad: spec.osImageURL",
                "bad-setting settings.yaml: bad: spec.extensions",
                "bad-setting settings.yaml: bad: spec.kernelType",
            ],
        ),
        (
            "tag.yaml",
            2,
            "invalid-machine-configs",
            &["image-not-pinned tag.yaml: bad: spec.osImageURL"],
        ),
        ("large.yaml", 2, "rendered-too-large", &[]),
        ("remote.yaml --offline", 2, "offline", &[]),
        ("remote.yaml --timeout 2s", 3, "", &[]),
        ("s3.yaml", 2, "", &[" s3.yaml: bad"]),
    ] {
        let finished = desk.run(&format!("render --pool worker {line} -o json"));
        let error = finished.json();
        assert_eq!(finished.code(), Some(exit), "{line}: {error:#}");
        assert_eq!(error["kind"], "Error", "{line}");
        assert!(code.is_empty() || error["code"] == code, "{line}: {error:#}");
        let reported: Vec<String> = error["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                format!(
                    "{} {}",
                    it["code"].as_str().unwrap(),
                    it["object"].as_str().unwrap_or_default()
                )
            })
            .collect();
        assert!(findings.is_empty() || reported.len() == findings.len(), "{line}: {reported:#?}");
        for want in findings {
            assert!(reported.iter().any(|it| it.contains(want)), "{line}: {want} in {reported:#?}");
        }
        let all = format!("{}{error}", finished.stderr);
        assert!(!all.contains("hunter2"), "{line}: {all}");
        let place = error["message"].as_str().unwrap();
        if line.starts_with("remote") {
            assert!(
                place.contains(
                    "remote.yaml: bad: spec.config.storage.files[/r].contents: http://127.0.0.1:9/x"
                ),
                "{place}"
            );
        }
        let text = desk.run(&format!("render --pool worker {line}"));
        assert_eq!(text.text(), "", "{line}: nothing half-done goes through a pipe");
    }
}
