//! Files, lists and odd objects.

use super::*;
use serde_json::json;

fn sorted(text: &str) -> Manifests {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, text).unwrap();
    Manifests::read(&[Input::File(file)])
}

fn object(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name } })
}

#[test]
fn lists_are_unpacked_and_kinds_are_sorted() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        object("MachineConfig", "a"), object("MachineConfigPool", "p"), { "kind": "Secret" }, { "kind": "Secret" },
        { "kind": "List", "items": [object("MachineConfig", "b")] },
    ] });
    let typed = json!({ "apiVersion": API_VERSION, "kind": "MachineConfigList", "items": [{ "metadata": { "name": "c" } }] });
    let others = [
        object("ControllerConfig", "cc"),
        object("KubeletConfig", "k"),
    ];
    let read = sorted(&format!("{list}\n{typed}\n{}\n{}", others[0], others[1]));
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    let configs: Vec<_> = read
        .configs
        .iter()
        .map(|one| (one.name(), one.origin.rsplit_once('(').unwrap().1))
        .collect();
    assert_eq!(
        configs,
        [
            ("a", "document 1, item 1)"),
            ("b", "document 1, item 5, item 1)"),
            ("c", "document 2, item 1)")
        ]
    );
    assert_eq!(
        (
            read.pools.len(),
            read.controller_configs.len(),
            read.pool_settings.len()
        ),
        (1, 1, 1)
    );
    let notices = read.notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(
        notices[0].message,
        "it and 1 more of kind Secret are skipped"
    );
}

#[test]
fn what_is_no_object_is_told_without_its_values() {
    for (what, text, want) in [
        ("empty", "", "it is empty"),
        ("text", "hunter2", "no object with a kind"),
        (
            "ignition",
            "ignition: {version: 3.5.0}",
            "an Ignition config",
        ),
        (
            "version",
            "apiVersion: v1\nkind: MachineConfig",
            "MachineConfig of \"v1\"",
        ),
        (
            "labels",
            &object("MachineConfig", "a")
                .to_string()
                .replace("{\"name\":\"a\"}", "\"hunter2\""),
            "it is no MachineConfig: a field holds another type: want ",
        ),
        (
            "spec",
            &format!(
                "{{\"spec\":\"hunter2\",{}",
                &object("MachineConfig", "a").to_string()[1..]
            ),
            "want a map there",
        ),
    ] {
        let read = sorted(text);
        let problem = &read.problems[0];
        assert!(problem.message.contains(want), "{what}: {problem:?}");
        assert!(
            !format!("{:?}", read.problems).contains("hunter2"),
            "{what}"
        );
    }
}

#[test]
fn objects_are_bounded() {
    let one = object("MachineConfig", "a").to_string();
    let items = vec![one; MOST + 10].join(",");
    let read = sorted(&format!("{{\"kind\":\"List\",\"items\":[{items}]}}"));
    assert_eq!(read.configs.len(), MOST);
    assert_eq!(read.problems.len(), 1);
    assert_eq!(read.problems[0].code, "too-many-objects");
}
