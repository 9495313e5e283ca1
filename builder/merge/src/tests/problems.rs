//! Rejected inputs and their messages.

use super::*;

#[test]
fn all_problems_are_reported_together() {
    let mut nameless = config("x", "worker", json!({}));
    nameless.config.metadata.name = "X y".to_owned();
    let mut roleless = config("no-role", "", json!({}));
    roleless.config.metadata.labels.clear();
    let bad = json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "etc/a" }, { "path": "/b", "mode": 99999 }] } });
    let configs = vec![
        nameless,
        roleless,
        config("a", "worker", json!({ "kernelType": "rt", "config": bad })),
        config("a", "master", json!({})),
        config(
            "b",
            "worker",
            json!({ "extensions": ["usbguard", "nvidia", "emacs"], "kernelArguments": "quiet" }),
        ),
        config("c", "worker", json!({ "config": { "ignition": { "version": "9.9.9" } } })),
        config("d", "worker", json!({ "extensions": ["kernel-devel"] })),
        config("e", "worker", json!({ "kernelType": "realtime" })),
        config("f", "worker", json!({ "config": {} })),
        config("unread", "infra", json!({ "config": { "ignition": { "version": "9.9.9" } } })),
    ];
    let want = [
        ("bad-name", "x.yaml"),
        ("no-role", "no-role.yaml: no-role: metadata.labels"),
        ("duplicate-name", "a.yaml: a: metadata.name"),
        ("bad-setting", "a.yaml: a: spec.kernelType"),
        ("bad-setting", "b.yaml: b: spec.kernelArguments"),
        ("kernel-devel", "d.yaml: d: spec.extensions"),
        ("bad-path", "a.yaml: a: spec.config.storage.files[0].path"),
        ("bad-mode", "a.yaml: a: spec.config.storage.files[1].mode"),
        ("unknown-ignition-spec", "c.yaml: c: spec.config"),
        ("unknown-ignition-spec", "f.yaml: f: spec.config"),
    ];
    let want = want.map(|(code, object)| (code.to_owned(), object.to_owned()));
    assert_eq!(problems(&request("worker", configs.clone())), want);
    let unknown = problems(&request(
        "worker",
        vec![config("b", "worker", json!({ "extensions": ["nvidia", "emacs"] }))],
    ));
    assert_eq!(unknown.len(), 2);
    assert!(unknown.iter().all(|(code, _)| code == "unknown-extension"));
}

#[test]
fn problems_of_merged_config_name_both_machine_configs() {
    let link = json!({ "ignition": { "version": "3.2.0" }, "storage": { "links": [{ "path": "/etc/l", "target": "/x" }] } });
    let configs = vec![
        file("a", "worker", "/etc/l/below", "a"),
        config("b", "worker", json!({ "config": link })),
    ];
    let request = request("worker", configs);
    let error = render(&request, &Contents::new()).unwrap_err();
    assert_eq!(error.code(), "invalid-when-merged");
    let problem = &error.findings()[0];
    assert_eq!(problem.code, "link-in-the-way");
    assert_eq!(
        problem.object.as_deref(),
        Some("a.yaml: a, b.yaml: b: spec.config.storage.files[0].path")
    );
}

#[test]
fn the_size_is_bounded_with_a_warning_before() {
    let sized = |bytes: usize| {
        vec![
            file("small", "worker", "/etc/a", "a"),
            file("large", "worker", "/etc/b", &"x".repeat(bytes)),
        ]
    };
    let near = rendered(&request("worker", sized(RENDERED_LIMIT / 10 * 9)));
    assert_eq!(near.warnings[0].code, "nearly-too-large");
    assert!(near.warnings[0].message.contains("is large ("));
    let error = render(&request("worker", sized(RENDERED_LIMIT)), &Contents::new()).unwrap_err();
    assert_eq!(error.code(), "rendered-too-large");
    assert!(error.to_string().contains("of which large ("), "{error}");
}
