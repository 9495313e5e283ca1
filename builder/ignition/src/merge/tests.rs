//! The table of merges, which the real Ignition can check too, and the additional results of
//! [`Merger`].

use serde_json::{Value, json};

use super::*;

/// Each line: what it is about, the configs (of spec 3.5.0, unless they say another), what they
/// make, and, where this is other than what Ignition makes, the decision behind it.
const CASES: &str = include_str!("../../../../testdata/ignition/merge.jsonl");

fn document(mut config: Value) -> Document {
    let section = config.as_object().unwrap().keys();
    let section = section.clone().find(|key| key.eq_ignore_ascii_case("ignition"));
    let section = section.map_or("ignition".to_owned(), String::clone);
    if config[&section]["version"].is_null() {
        config[&section]["version"] = json!("3.5.0");
    }
    Document::read(&config).unwrap().document
}

fn merged(configs: impl IntoIterator<Item = Value>) -> Merged {
    let mut merger = Merger::explaining();
    for (origin, config) in configs.into_iter().enumerate() {
        merger.add(origin, document(config));
    }
    merger.finish()
}

/// `place from overrides`, a line each.
fn origins(configs: impl IntoIterator<Item = Value>) -> Vec<String> {
    let provenance = merged(configs).provenance.into_iter();
    provenance.map(|p| format!("{} {} {:?}", p.place, p.from, p.overrides)).collect()
}

#[test]
fn every_case_of_the_table() {
    for line in CASES.lines() {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let configs: Vec<Value> = serde_json::from_value(case["configs"].take()).unwrap();
        let mut want = case["want"].take();
        if want["ignition"]["version"].is_null() {
            want["ignition"]["version"] = json!("3.5.0");
        }
        let merged = merged(configs.clone());
        assert_eq!(merged.document.as_json(), &want, "{}", case["what"]);
        let mut silent = Merger::new();
        for config in configs {
            silent.add(0, document(config));
        }
        let silent = silent.finish();
        assert_eq!(silent.document, merged.document, "{}", case["what"]);
        assert_eq!(silent.provenance, [], "{}", case["what"]);
    }
}

#[test]
fn provenance_is_shown_field_by_field() {
    let file = json!({ "path": "/a b", "mode": 1, "contents": { "source": "data:,a", "compression": "gzip" } });
    let units = |enabled| json!([{ "name": "a.service", "enabled": enabled, "dropins": [{ "name": "x.conf", "contents": "" }] }]);
    let users =
        |key| json!([{ "name": "core", "sshAuthorizedKeys": ["k", key], "groups": ["wheel"] }]);
    let configs = [
        json!({ "storage": { "files": [file] }, "systemd": { "units": units(true) }, "passwd": { "users": users("a") } }),
        json!({ "storage": { "files": [{ "path": "/a b", "mode": 2, "user": { "id": 5 }, "append": [{ "source": "data:,x" }] }] } }),
        json!({ "systemd": { "units": units(false) }, "passwd": { "users": users("b") } }),
        json!({ "storage": { "files": [{ "path": "/a b", "mode": 3, "contents": { "compression": "" } }, { "path": "/new\n" }] } }),
    ];
    let want = [
        "passwd.users[core] 0 []",
        "passwd.users[core].groups[wheel] 2 [0]",
        "passwd.users[core].name 2 [0]",
        "passwd.users[core].sshAuthorizedKeys[0] 2 [0]",
        "passwd.users[core].sshAuthorizedKeys[1] 0 []",
        "passwd.users[core].sshAuthorizedKeys[2] 2 []",
        "storage.files[/a b] 0 []",
        "storage.files[/a b].append[0] 1 []",
        "storage.files[/a b].contents 3 [0]",
        "storage.files[/a b].mode 3 [0, 1]",
        "storage.files[/a b].path 3 [0, 1]",
        "storage.files[/a b].user.id 1 []",
        "storage.files[/new\\n] 3 []",
        "storage.files[/new\\n].path 3 []",
        "systemd.units[a.service] 0 []",
        "systemd.units[a.service].dropins[x.conf] 0 []",
        "systemd.units[a.service].dropins[x.conf].contents 2 [0]",
        "systemd.units[a.service].dropins[x.conf].name 2 [0]",
        "systemd.units[a.service].enabled 2 [0]",
        "systemd.units[a.service].name 2 [0]",
    ];
    assert_eq!(origins(configs), want);
}

#[test]
fn provenance_lists_removed_values() {
    let file = |mode| json!({ "storage": { "files": [{ "path": "/a", "mode": mode }] } });
    let directory = json!({ "storage": { "directories": [{ "path": "/a" }] }, "kernelArguments": { "shouldNotExist": ["q"] } });
    let argument = json!({ "kernelArguments": { "shouldExist": ["q"] } });
    assert_eq!(
        origins([file(1), argument, file(2), directory]),
        [
            "kernelArguments.shouldNotExist[q] 3 [1]",
            "storage.directories[/a] 3 [0, 2]",
            "storage.directories[/a].path 3 []",
        ]
    );
}

#[test]
fn nothing_shows_a_secret() {
    let config = json!({
        "ignition": { "security": { "tls": { "certificateAuthorities": [{ "source": "data:,hunter2" }] } } },
        "passwd": { "users": [{ "name": "a", "passwordHash": "hunter2", "sshAuthorizedKeys": ["hunter2"] }] },
        "storage": { "luks": [{ "name": "l", "device": "/d", "clevis": { "tang": [{ "url": "https://u:hunter2@h/", "thumbprint": "t" }] } }] },
    });
    let mut merger = Merger::explaining();
    merger.add(0, document(config.clone()));
    let before = format!("{merger:?}");
    let value_origin = format!("{before} {:?} {:?}", merger.finish(), origins([config]));
    let shown = "storage.luks[l].clevis.tang[0].url";
    assert!(value_origin.contains(shown), "{value_origin}");
    assert!(!value_origin.contains("hunter2"), "{value_origin}");
}

#[test]
fn merging_many_configs_takes_linear_time() {
    // Rebuilding what was merged for each config would take minutes.
    let mut merger = Merger::explaining();
    for n in 0..5_000 {
        let own = json!({ "path": format!("/own/{n}"), "contents": { "source": "data:,x" } });
        let common = json!({ "path": "/common", "mode": n % 512 });
        let config = json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [own, common], "directories": [{ "path": format!("/d/{n}") }] },
            "kernelArguments": { "shouldExist": [n.to_string()] },
        });
        merger.add(n, Document::read(&config).unwrap().document);
    }
    let merged = merger.finish();
    let files = &merged.document.as_json()["storage"]["files"];
    assert_eq!(files.as_array().unwrap().len(), 5_001);
    assert_eq!(files[1], json!({ "path": "/common", "mode": 4_999 % 512 }));
    let mode = merged.provenance.iter().find(|p| p.place == "storage.files[/common].mode");
    assert_eq!(mode.unwrap().overrides.len(), 4_999);
}
