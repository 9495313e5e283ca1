//! Generated configs of spec 3.0 to 3.6. They use few keys, so that configs share entries, and
//! every field occurs.

use std::collections::BTreeSet;

use mosb_ignition::SpecVersion;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::ignition_oracle::generated::{Values, list, mostly, object, texts, truth, unit_text};

/// A config of any of these versions. Most keys occur once.
pub fn config() -> Values {
    let root = object(vec![
        ("ignition", 100, ignition()),
        ("storage", 70, storage()),
        ("systemd", 50, systemd(&["contents", "enabled", "mask"])),
        ("passwd", 40, passwd()),
        ("kernelArguments", 30, kernel_arguments()),
    ]);
    (root, select(SpecVersion::ALL.to_vec()), 0..100_u32)
        .prop_map(|(mut config, version, oddity)| {
            state(&mut config, version.as_str());
            if oddity < 97 {
                tidy(&mut config);
            }
            config
        })
        .boxed()
}

/// Sets the version of a config.
pub fn state(config: &mut Value, version: &str) {
    let members = config.as_object_mut().expect("an object was generated");
    let ignition = members.entry("ignition").or_insert_with(|| json!({}));
    if !ignition.is_object() {
        *ignition = json!({});
    }
    ignition["version"] = json!(version);
}

/// Sets the version of a config that has none, in whichever spelling of the key.
pub fn set_missing_version(config: &mut Value, version: &str) {
    let members = config.as_object_mut().expect("a config is an object");
    let spelt = |name: &&String| name.eq_ignore_ascii_case("ignition");
    let name = members.keys().find(spelt).cloned();
    let ignition = &mut config[name.as_deref().unwrap_or("ignition")];
    if ignition["version"].is_null() {
        ignition["version"] = json!(version);
    }
}

/// Removes entries with repeated keys.
pub fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // The keys that several lists share.
            let mut shared = BTreeSet::new();
            for (name, member) in members.iter_mut() {
                let mut own = BTreeSet::new();
                let seen = match name.as_str() {
                    "files" | "directories" | "links" | "shouldExist" | "shouldNotExist" => {
                        &mut shared
                    }
                    "options" | "mountOptions" | "append" => {
                        continue;
                    }
                    _ => &mut own,
                };
                if let Value::Array(items) = member {
                    items.retain(|item| key(name, item).is_none_or(|key| seen.insert(key)));
                }
                tidy(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn key(list: &str, item: &Value) -> Option<String> {
    let field = match list {
        "files" | "directories" | "links" => "path",
        "disks" | "filesystems" => "device",
        "certificateAuthorities" | "merge" => "source",
        "tang" => "url",
        "partitions" => {
            let number = &item["number"];
            let label = &item["label"];
            return Some(match number.as_i64() {
                Some(number) if number != 0 => number.to_string(),
                _ => label.to_string(),
            });
        }
        _ if item.is_object() => "name",
        _ => return item.as_str().map(str::to_owned),
    };
    // Go reads a missing name as an empty one.
    Some(item[field].as_str().unwrap_or_default().to_owned())
}

/// One of these words.
pub fn word(words: &[&str]) -> Values {
    select(texts(words)).boxed()
}

/// A few of these words.
pub fn words(all: &[&str]) -> Values {
    list(word(all), 3)
}

pub fn number() -> Values {
    select(vec![json!(0), json!(1), json!(1000)]).boxed()
}

fn hash() -> Values {
    let hash = |digit: &str, length| json!(format!("sha{}-{}", length * 4, digit.repeat(length)));
    object(vec![("hash", 90, mostly(&[hash("a", 128), hash("b", 64)], &[json!("sha512-a")]))])
}

pub fn headers() -> Values {
    let header = object(vec![
        ("name", 99, word(&["a", "b", "c"])),
        ("value", 70, mostly(&texts(&["x", "y"]), &texts(&[""]))),
    ]);
    list(header, 3)
}

const COMPRESSIONS: [&str; 2] = ["gzip", ""];
/// Addresses without user and query, because Ignition validates those and merging does not use
/// them.
const REMOTE: [&str; 3] = ["http://a/a", "https://b/b", "s3://c/c"];
const DATA: [&str; 4] = ["data:,a", "data:;base64,YQ==", "data:,", ""];

/// Embedded or remote contents, some of them without a source.
fn resource(sources: &'static [&'static str], percent: u32) -> Values {
    let common = || vec![("compression", 25, word(&COMPRESSIONS)), ("verification", 20, hash())];
    let mut embedded = common();
    embedded.push(("source", percent, word(sources)));
    let mut remote = common();
    remote.push(("source", 97, word(&REMOTE)));
    remote.push(("httpHeaders", 50, headers()));
    prop_oneof![3 => object(embedded), 2 => object(remote)].boxed()
}

fn ignition() -> Values {
    let proxy = |w: &'static [&'static str]| word(w);
    object(vec![
        (
            "config",
            15,
            object(vec![
                ("merge", 60, list(resource(&["data:,{}", "data:,[]"], 97), 2)),
                ("replace", 30, resource(&["data:,{}"], 97)),
            ]),
        ),
        (
            "proxy",
            20,
            object(vec![
                ("httpProxy", 50, proxy(&["http://a", "http://b"])),
                ("httpsProxy", 50, proxy(&["https://a", "https://b"])),
                ("noProxy", 50, words(&["a", "b", "c"])),
            ]),
        ),
        (
            "security",
            20,
            object(vec![(
                "tls",
                95,
                object(vec![(
                    "certificateAuthorities",
                    95,
                    list(resource(&["data:,a", "data:,b"], 99), 3),
                )]),
            )]),
        ),
        (
            "timeouts",
            20,
            object(vec![("httpTotal", 60, number()), ("httpResponseHeaders", 60, number())]),
        ),
    ])
}

fn kernel_arguments() -> Values {
    let all = ["a", "b=1", "c", "d"];
    object(vec![("shouldExist", 80, words(&all)), ("shouldNotExist", 60, words(&all))])
}

pub fn systemd(fields: &[&'static str]) -> Values {
    let dropin = object(vec![
        ("name", 99, word(&["a.conf", "b.conf", "c.conf"])),
        ("contents", 80, contents_of_unit()),
    ]);
    let mut unit = vec![
        ("name", 99, word(&["a.service", "b.socket", "c@.service"])),
        ("dropins", 40, list(dropin, 3)),
    ];
    for field in fields {
        unit.push((
            field,
            50,
            match *field {
                "contents" => contents_of_unit(),
                _ => truth(),
            },
        ));
    }
    object(vec![("units", 95, list(object(unit), 3))])
}

fn contents_of_unit() -> Values {
    let good = word(&["", "[Unit]\nA=b\n", "[Service]\nA=c\n[Install]\nB=d\n"]);
    prop_oneof![30 => good, 1 => unit_text()].boxed()
}

/// The fields of a user without name and keys.
pub fn user() -> Vec<(&'static str, u32, Values)> {
    vec![
        ("uid", 20, number()),
        ("gecos", 20, word(&["a", "b", ""])),
        ("homeDir", 20, word(&["/home/a", "/home/b", ""])),
        ("noCreateHome", 20, truth()),
        ("primaryGroup", 20, word(&["a", "b"])),
        ("groups", 40, words(&["a", "b", "c"])),
        ("noUserGroup", 20, truth()),
        ("noLogInit", 20, truth()),
        ("shell", 20, word(&["/bin/a", "/bin/b", ""])),
        ("system", 20, truth()),
    ]
}

/// The fields of a user that every version has.
pub fn user_core() -> Vec<(&'static str, u32, Values)> {
    vec![
        ("name", 99, word(&["core", "root", "a"])),
        ("passwordHash", 30, word(&["a", "b", ""])),
        ("sshAuthorizedKeys", 60, words(&["a", "b", "c"])),
    ]
}

pub fn group() -> Vec<(&'static str, u32, Values)> {
    vec![
        ("name", 99, word(&["a", "b", "c"])),
        ("gid", 40, number()),
        ("passwordHash", 20, word(&["a", "b", ""])),
        ("system", 30, truth()),
    ]
}

fn passwd() -> Values {
    let mut group = group();
    group.push(("shouldExist", 30, truth()));
    let mut users = [user_core(), user()].concat();
    users.push(("shouldExist", 20, truth()));
    object(vec![("users", 80, list(object(users), 3)), ("groups", 50, list(object(group), 3))])
}

const PATHS: [&str; 7] =
    ["/etc/a", "/etc/b", "/a", "/b/c", "/b/c/d", "/etc/systemd/system/a.service", "/var/x"];

fn owner() -> Values {
    prop_oneof![
        6 => object(vec![("id", 90, number())]),
        3 => object(vec![("name", 90, word(&["core", "root", ""]))]),
        1 => object(vec![("id", 50, number()), ("name", 50, word(&["core", ""]))]),
    ]
    .boxed()
}

pub fn mode() -> Values {
    select(vec![json!(0o644), json!(0o755), json!(0), json!(0o4711)]).boxed()
}

fn storage() -> Values {
    let node = |percent| {
        vec![
            ("path", percent, word(&PATHS)),
            ("overwrite", 20, truth()),
            ("user", 25, owner()),
            ("group", 25, owner()),
        ]
    };
    let mut file = node(99);
    file.push(("mode", 50, mode()));
    file.push(("contents", 75, resource(&DATA, 90)));
    file.push(("append", 15, list(resource(&DATA, 99), 2)));
    let mut directory = node(99);
    directory.push(("mode", 50, mode()));
    let mut link = node(99);
    link.push(("target", 95, word(&["x", "/etc/y", "../z"])));
    link.push(("hard", 30, truth()));
    object(vec![
        ("files", 80, list(object(file), 4)),
        ("directories", 40, list(object(directory), 2)),
        ("links", 30, list(object(link), 1)),
        ("disks", 20, list(disk(), 2)),
        ("filesystems", 20, list(filesystem(), 2)),
        ("raid", 20, list(raid(), 2)),
        ("luks", 20, list(luks(), 2)),
    ])
}

fn disk() -> Values {
    let partition = object(vec![
        ("number", 70, select(vec![json!(0), json!(1), json!(2)]).boxed()),
        ("label", 70, word(&["a", "b", "c"])),
        ("shouldExist", 15, select(vec![json!(true)]).boxed()),
        ("sizeMiB", 40, number()),
        ("startMiB", 40, number()),
        ("guid", 15, word(&GUIDS)),
        ("typeGuid", 15, word(&GUIDS)),
        ("resize", 10, truth()),
        ("wipePartitionEntry", 15, truth()),
    ]);
    object(vec![
        ("device", 99, word(&["/dev/a", "/dev/b"])),
        ("wipeTable", 30, truth()),
        ("partitions", 70, list(partition, 2)),
    ])
}

pub const GUIDS: [&str; 3] =
    ["01234567-89AB-CDEF-EDCB-A98765432101", "01234567-89AB-CDEF-EDCB-A98765432102", ""];

fn filesystem() -> Values {
    object(vec![
        ("device", 99, word(&["/dev/a", "/dev/b"])),
        ("format", 90, word(&["ext4", "xfs", "swap", "none"])),
        ("label", 30, word(&["a", "b"])),
        ("path", 40, word(&["/x", "/y"])),
        ("uuid", 30, word(&["a", "b", ""])),
        ("options", 30, words(&["a", "b"])),
        ("mountOptions", 30, words(&["a", "b"])),
        ("wipeFilesystem", 30, truth()),
    ])
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

fn luks() -> Values {
    let tang = object(vec![
        ("url", 99, word(&["http://a", "http://b"])),
        ("thumbprint", 97, word(&["a", "b"])),
        ("advertisement", 20, word(&["{}", ""])),
    ]);
    let custom = object(vec![
        ("pin", 95, word(&["sss", "tpm2"])),
        ("config", 95, word(&["a", "b"])),
        ("needsNetwork", 30, truth()),
    ]);
    let clevis = prop_oneof![
        4 => object(vec![
            ("tang", 60, list(tang, 2)),
            ("tpm2", 40, truth()),
            ("threshold", 40, select(vec![json!(0), json!(1)]).boxed()),
        ]),
        1 => object(vec![("custom", 95, custom)]),
    ];
    object(vec![
        ("name", 99, word(&["a", "b"])),
        ("device", 97, word(&["/dev/a", "/dev/b"])),
        ("label", 20, word(&["a", "b"])),
        ("uuid", 20, word(&["a", "b"])),
        ("keyFile", 30, resource(&DATA, 97)),
        ("clevis", 40, clevis.boxed()),
        ("cex", 5, object(vec![("enabled", 90, truth())])),
        ("options", 30, words(&["a", "b"])),
        ("openOptions", 20, words(&["a", "b"])),
        ("discard", 20, truth()),
        ("wipeVolume", 20, truth()),
    ])
}
