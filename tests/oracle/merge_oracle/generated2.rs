//! Generated configs of spec 2.0 to 2.4 without the deliberate differences from ign-converter,
//! which `decisions.rs` tests.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::generated::{
    GUIDS, group, headers, mode, number, state, systemd, tidy, user, user_core, word, words,
};
use crate::ignition_oracle::generated::{Values, list, mostly, object, texts, truth};

pub const VERSIONS: [&str; 5] = ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"];

/// A config of any of these versions, with fields of all of them.
pub fn config() -> Values {
    let root = object(vec![
        ("ignition", 100, ignition()),
        ("storage", 70, storage()),
        ("systemd", 50, systemd(&["contents", "enabled", "enable", "mask"])),
        ("passwd", 40, passwd()),
        ("networkd", 2, networkd()),
    ]);
    (root, select(VERSIONS.to_vec()))
        .prop_map(|(mut config, version)| {
            state(&mut config, version);
            drop_other_spellings(&mut config);
            tidy(&mut config);
            decided(&mut config, version);
            config
        })
        .boxed()
}

/// The decisions about names expect the spelling `NAME`; `rules.rs` tests other spellings.
fn drop_other_spellings(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name.bytes().any(|byte| byte.is_ascii_lowercase()));
            members.values_mut().for_each(drop_other_spellings);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_other_spellings),
        _ => {}
    }
}

/// Removes entries with deliberate differences.
fn decided(config: &mut Value, version: &str) {
    let ignition = &mut config["ignition"];
    for list in ["/config/append", "/security/tls/certificateAuthorities"] {
        // The converter gives all references the source of the last one.
        if let Some(Value::Array(items)) = ignition.pointer_mut(list) {
            items.truncate(1);
        }
    }
    if let Some(Value::Object(references)) = ignition.pointer_mut("/config")
        && references.get("replace").is_some_and(|replace| replace["source"].is_null())
    {
        references.remove("replace");
    }
    let Some(Value::Object(storage)) = config.get_mut("storage") else {
        return;
    };
    if let Some(Value::Array(disks)) = storage.get_mut("disks")
        && version < "2.3"
    {
        for disk in disks.iter_mut().filter_map(Value::as_object_mut) {
            disk.remove("partitions");
        }
    }
    // Different spellings of the same node, and nodes below a link.
    let mut nodes = BTreeSet::new();
    for list in ["files", "directories", "links"] {
        if let Some(Value::Array(items)) = storage.get_mut(list) {
            for item in items.iter_mut() {
                // The config does not define the file system.
                if item["filesystem"].is_string() {
                    item["filesystem"] = json!("root");
                }
            }
            items.retain(|item| {
                let path = item["path"].as_str().unwrap_or_default();
                nodes.insert(path.replace("//", "/").trim_end_matches('/').to_owned())
            });
        }
    }
}

fn hash() -> Values {
    let hash = mostly(
        &[json!(format!("sha512-{}", "a".repeat(128)))],
        &[json!("sha512-a"), json!(format!("sha256-{}", "a".repeat(64)))],
    );
    object(vec![("hash", 90, hash)])
}

fn reference() -> Values {
    object(vec![
        ("source", 97, word(&["http://a/a", "https://b/b", "data:,{}"])),
        ("verification", 20, hash()),
        ("httpHeaders", 10, headers()),
    ])
}

fn ignition() -> Values {
    object(vec![
        (
            "config",
            15,
            object(vec![("append", 60, list(reference(), 1)), ("replace", 30, reference())]),
        ),
        (
            "proxy",
            20,
            object(vec![
                ("httpProxy", 50, word(&["http://a", ""])),
                ("httpsProxy", 50, word(&["https://a", ""])),
                ("noProxy", 50, words(&["a", "b", "c"])),
            ]),
        ),
        (
            "security",
            20,
            object(vec![(
                "tls",
                95,
                object(vec![("certificateAuthorities", 95, list(reference(), 1))]),
            )]),
        ),
        (
            "timeouts",
            20,
            object(vec![("httpTotal", 60, number()), ("httpResponseHeaders", 60, number())]),
        ),
    ])
}

fn passwd() -> Values {
    object(vec![
        ("users", 80, list(object([user_core(), user()].concat()), 3)),
        ("groups", 50, list(object(group()), 3)),
    ])
}

fn networkd() -> Values {
    let unit = object(vec![
        ("name", 99, word(&["a.network"])),
        ("contents", 80, word(&["[Match]\nName=a\n"])),
    ]);
    object(vec![("units", 90, list(unit, 1))])
}

const PATHS: [&str; 6] = ["/etc/a", "/etc//b", "/a/", "/c/../d", "/e/f", "/g"];
const LINKS: [&str; 2] = ["/links/a", "/links/b"];

fn node(paths: &[&str]) -> Vec<(&'static str, u32, Values)> {
    let owner = |id| object(vec![("id", id, number()), ("name", 10, word(&["core", ""]))]);
    vec![
        ("filesystem", 99, word(&["root"])),
        ("path", 99, word(paths)),
        ("overwrite", 20, truth()),
        ("user", 25, owner(80)),
        ("group", 25, owner(80)),
    ]
}

fn storage() -> Values {
    let contents = object(vec![
        ("source", 90, word(&["data:,a", "data:;base64,YQ==", "http://a/a", ""])),
        ("compression", 25, word(&["gzip", ""])),
        ("verification", 20, hash()),
        ("httpHeaders", 5, headers()),
    ]);
    let mut file = node(&PATHS);
    file.push(("mode", 70, mode()));
    file.push(("contents", 85, contents));
    file.push(("append", 10, truth()));
    let mut directory = node(&PATHS);
    directory.push(("mode", 60, mode()));
    let mut link = node(&LINKS);
    link.push(("target", 95, word(&["x", "/etc/y", "../z"])));
    link.push(("hard", 30, truth()));
    object(vec![
        ("files", 80, list(object(file), 4)),
        ("directories", 40, list(object(directory), 2)),
        ("links", 30, list(object(link), 1)),
        ("disks", 20, list(disk(), 2)),
        ("filesystems", 5, list(filesystem(), 1)),
        ("raid", 20, list(raid(), 2)),
    ])
}

fn disk() -> Values {
    let partition = object(vec![
        ("number", 80, select(vec![json!(1), json!(2)]).boxed()),
        ("label", 60, word(&["a", "b", "c"])),
        ("shouldExist", 10, select(vec![json!(true)]).boxed()),
        ("sizeMiB", 50, number()),
        ("startMiB", 50, number()),
        ("guid", 15, word(&GUIDS)),
        ("typeGuid", 15, word(&GUIDS)),
        ("wipePartitionEntry", 15, truth()),
    ]);
    object(vec![
        ("device", 99, word(&["/dev/a", "/dev/b"])),
        ("wipeTable", 30, truth()),
        ("partitions", 70, list(partition, 2)),
    ])
}

/// `root` with its path as in every example, or another file system, which spec 3 cannot express.
fn filesystem() -> Values {
    prop_oneof![
        3 => Just(json!({"name": "root", "path": "/sysroot"})),
        1 => Just(json!({"name": "root", "path": "/"})),
        1 => object(vec![
            ("name", 95, word(&["data"])),
            ("mount", 95, object(vec![
                ("device", 99, word(&["/dev/a"])),
                ("format", 99, mostly(&texts(&["ext4", "xfs"]), &texts(&["none"]))),
            ])),
        ]),
    ]
    .boxed()
}

fn raid() -> Values {
    object(vec![
        ("name", 99, word(&["a", "b"])),
        ("level", 97, word(&["raid1", "raid5", "linear"])),
        ("devices", 97, list(word(&["/a", "/b", "/c"]), 3)),
        ("spares", 20, select(vec![json!(0), json!(1)]).boxed()),
        ("options", 30, words(&["a", "b"])),
    ])
}
