//! A table of configs: every list of the spec, every field, and every pair of spec versions.

use mosb_ignition::SpecVersion;
use serde_json::{Map, Value, json};

use super::generated2;

/// A description and several configs. Later ones override earlier ones.
pub type Case = (String, Vec<Value>);

/// A list of the spec: its place, and a function that returns its entry for a key and a variant.
type List = (&'static str, fn(usize, usize) -> Value);

/// Every list of spec 3.5 without nested lists. A list within an entry has the place
/// `place/0/list`.
const LISTS: [List; 33] = [
    ("/ignition/config/merge", reference),
    ("/ignition/config/replace/httpHeaders", header),
    ("/ignition/proxy/noProxy", text),
    ("/ignition/security/tls/certificateAuthorities", reference),
    ("/ignition/security/tls/certificateAuthorities/0/httpHeaders", header),
    ("/kernelArguments/shouldExist", text),
    ("/kernelArguments/shouldNotExist", text),
    ("/passwd/groups", |key, variant| json!({"name": letter(key), "gid": variant})),
    (
        "/passwd/users",
        |key, variant| json!({"name": letter(key), "uid": variant, "sshAuthorizedKeys": [format!("{variant}")]}),
    ),
    ("/passwd/users/0/groups", text),
    ("/passwd/users/0/sshAuthorizedKeys", text),
    ("/storage/directories", |key, variant| json!({"path": path(key), "mode": variant})),
    ("/storage/disks", |key, variant| json!({"device": path(key), "wipeTable": variant == 1})),
    (
        "/storage/disks/0/partitions",
        |key, variant| json!({"number": key + 1, "sizeMiB": 5, "startMiB": 100 * key + 10 * variant + 1}),
    ),
    (
        "/storage/disks/0/partitions",
        |key, variant| json!({"label": letter(key), "typeGuid": "", "shouldExist": true, "resize": false, "sizeMiB": variant + 1}),
    ),
    (
        "/storage/files",
        |key, variant| json!({"path": path(key), "contents": {"source": format!("data:,{variant}")}}),
    ),
    ("/storage/files/0/append", |key, variant| json!({"source": format!("data:,{key}{variant}")})),
    ("/storage/files/0/contents/httpHeaders", header),
    ("/storage/files/0/append/0/httpHeaders", header),
    (
        "/storage/filesystems",
        |key, variant| json!({"device": path(key), "format": "ext4", "label": letter(variant)}),
    ),
    ("/storage/filesystems/0/options", text),
    ("/storage/filesystems/0/mountOptions", text),
    ("/storage/links", |key, variant| json!({"path": path(key), "target": letter(variant)})),
    ("/storage/luks", |key, variant| json!({"name": letter(key), "device": path(variant)})),
    (
        "/storage/luks/0/clevis/tang",
        |key, variant| json!({"url": format!("http://{}", letter(key)), "thumbprint": letter(variant)}),
    ),
    ("/storage/luks/0/keyFile/httpHeaders", header),
    ("/storage/luks/0/options", text),
    ("/storage/luks/0/openOptions", text),
    (
        "/storage/raid",
        |key, variant| json!({"name": letter(key), "level": "raid1", "devices": [path(variant)]}),
    ),
    ("/storage/raid/0/devices", |key, _| json!(path(key))),
    ("/storage/raid/0/options", text),
    (
        "/systemd/units",
        |key, variant| json!({"name": format!("{}.service", letter(key)), "enabled": variant == 1}),
    ),
    (
        "/systemd/units/0/dropins",
        |key, variant| json!({"name": format!("{}.conf", letter(key)), "contents": format!("[Unit]\nA={variant}\n")}),
    ),
];

fn letter(at: usize) -> String {
    char::from(b'a' + u8::try_from(at).expect("few keys")).to_string()
}

fn path(at: usize) -> String {
    format!("/{}", letter(at))
}

fn text(key: usize, _: usize) -> Value {
    json!(letter(key))
}

fn header(key: usize, variant: usize) -> Value {
    match variant {
        // This removes the header.
        9 => json!({"name": letter(key)}),
        _ => json!({"name": letter(key), "value": letter(variant)}),
    }
}

fn reference(key: usize, variant: usize) -> Value {
    json!({"source": format!("http://a/{key}"), "compression": (["", "gzip"][variant % 2])})
}

/// The keys and variants of one list in several configs.
const ORDERS: [&[&[(usize, usize)]]; 12] = [
    &[&[(0, 0), (1, 0)], &[(1, 1), (2, 0)]],
    &[&[(0, 0)], &[]],
    &[&[], &[(0, 0)]],
    &[&[(0, 0), (1, 0), (2, 0)], &[(2, 1), (1, 1), (0, 1)]],
    &[&[(0, 0)], &[(1, 0)], &[(0, 1)]],
    &[&[(0, 0)], &[(0, 0)], &[(0, 0)]],
    &[&[(1, 0), (0, 0)], &[(2, 0), (0, 1)], &[(3, 0), (1, 1), (2, 1)]],
    &[&[(0, 0), (1, 0)], &[(1, 9)]],
    &[&[(0, 0), (1, 0)], &[(1, 9)], &[(1, 0)]],
    &[&[(0, 0)], &[(1, 9), (0, 1)]],
    &[&[(0, 0), (0, 1)], &[(0, 1)]],
    &[&[(0, 0)], &[(0, 1), (0, 0)]],
];

/// Each list in each order, with configs of different versions.
pub fn lists() -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, entry) in LISTS {
        for (step, order) in ORDERS.iter().enumerate() {
            for (first, version) in SpecVersion::ALL.iter().enumerate().skip(step % 2).step_by(2) {
                let configs = order.iter().enumerate().map(|(at, entries)| {
                    let entries = entries.iter().map(|&(key, variant)| entry(key, variant));
                    let version = SpecVersion::ALL[(first + at * step) % SpecVersion::ALL.len()];
                    holding(place, entries.collect(), version.as_str())
                });
                let what = format!("{place} {order:?}, from {version} in steps of {step}");
                cases.push((what, configs.collect()));
            }
        }
    }
    cases
}

/// A config with this list and the entries that it needs.
fn holding(place: &str, entries: Value, version: &str) -> Value {
    let mut config = around(place);
    *config.pointer_mut(place).expect("it was made") = entries;
    config["ignition"]["version"] = json!(version);
    config
}

/// The smallest config with a value at this place.
fn around(place: &str) -> Value {
    let remote = json!({"source": "http://a/0", "httpHeaders": []});
    let mut config = json!({"ignition": {}});
    let mut node = &mut config;
    for (at, step) in place.split('/').enumerate().skip(1) {
        if step == "0" {
            let list = place.split('/').nth(at - 1).expect("a list has a name");
            *node = json!([match list {
                "users" => json!({"name": "core"}),
                "disks" => json!({"device": "/d"}),
                "files" => json!({"path": "/f"}),
                "filesystems" => json!({"device": "/d", "format": "ext4"}),
                "luks" => json!({"name": "l", "device": "/d"}),
                "raid" => json!({"name": "r", "level": "raid1", "devices": ["/d"]}),
                "units" => json!({"name": "u.service"}),
                _ => remote.clone(),
            }]);
            node = &mut node[0];
        } else {
            if node.is_null() {
                *node = match place.split('/').nth(at - 1) {
                    Some("contents" | "keyFile" | "replace") => remote.clone(),
                    _ => json!({}),
                };
            }
            node = &mut node[step];
        }
    }
    config
}

/// Every field of spec 3.5, in two variants.
pub fn full(variant: usize) -> Value {
    let flag = variant == 0;
    let word = ["a", "b"][variant];
    let hash = format!("sha512-{}", word.repeat(128));
    let guid = format!("01234567-89AB-CDEF-EDCB-A9876543210{variant}");
    let resource = |host: &str| {
        json!({
            "source": format!("http://{host}/{word}"),
            "compression": (["gzip", ""][variant]),
            "verification": {"hash": hash},
            "httpHeaders": [{"name": "both", "value": word}, {"name": word, "value": word}],
        })
    };
    let mut authority = resource("ca");
    authority["source"] = json!("http://ca/both");
    let node = |path: &str| json!({"path": path, "overwrite": flag, "user": {"id": variant}, "group": {"name": word}});
    let with = |mut node: Value, more: Value| {
        let more: Map<_, _> = more.as_object().expect("an object").clone();
        node.as_object_mut().expect("an object").extend(more);
        node
    };
    json!({
        "ignition": {
            "version": "3.5.0",
            "config": {"merge": [resource("merge")], "replace": resource("replace")},
            "proxy": {"httpProxy": format!("http://{word}"), "httpsProxy": format!("https://{word}"), "noProxy": ["both", word]},
            "security": {"tls": {"certificateAuthorities": [authority, resource("ca")]}},
            "timeouts": {"httpResponseHeaders": variant, "httpTotal": variant + 5},
        },
        "kernelArguments": {"shouldExist": ["both", word], "shouldNotExist": [format!("not-{word}"), "none"]},
        "passwd": {
            "users": [{
                "name": "core", "uid": variant, "gecos": word, "homeDir": format!("/{word}"), "noCreateHome": flag, "primaryGroup": word,
                "groups": ["both", word], "noUserGroup": flag, "noLogInit": flag, "shell": word, "shouldExist": flag, "system": flag,
                "passwordHash": word, "sshAuthorizedKeys": ["both", word],
            }],
            "groups": [{"name": "wheel", "gid": variant, "passwordHash": word, "shouldExist": flag, "system": flag}],
        },
        "storage": {
            "disks": [{"device": "/dev/a", "wipeTable": flag, "partitions": [{
                "number": 1, "label": word, "shouldExist": true, "resize": flag, "sizeMiB": variant, "startMiB": variant,
                "guid": guid, "typeGuid": guid, "wipePartitionEntry": flag,
            }]}],
            "raid": [{"name": "r", "level": (["raid1", "raid5"][variant]), "spares": variant, "devices": ["/both", format!("/{word}")], "options": ["both", word]}],
            "filesystems": [{
                "device": "/dev/b", "format": (["ext4", "xfs"][variant]), "label": word, "path": format!("/{word}"), "uuid": word,
                "options": ["both", word], "mountOptions": ["both", word], "wipeFilesystem": flag,
            }],
            "luks": [{
                "name": "l", "device": format!("/dev/{word}"), "label": word, "uuid": word, "options": ["both", word], "openOptions": ["both", word],
                "discard": flag, "wipeVolume": flag, "keyFile": resource("key"),
                "clevis": {
                    "tang": [{"url": "http://tang", "thumbprint": word, "advertisement": (["{}", ""][variant])}],
                    "tpm2": flag, "threshold": variant + 1,
                },
            }, {
                "name": "m", "device": "/dev/c",
                "clevis": {"custom": {"pin": (["sss", "tpm2"][variant]), "config": word, "needsNetwork": flag}},
            }, {"name": "n", "device": "/dev/d", "cex": {"enabled": flag}}],
            "files": [
                with(node("/etc/f"), json!({"mode": variant, "contents": resource("file")})),
                with(node("/etc/g"), json!({"append": [resource("append")], "overwrite": false})),
            ],
            "directories": [with(node("/etc/d"), json!({"mode": variant}))],
            "links": [with(node("/etc/l"), json!({"target": word, "hard": false}))],
        },
        "systemd": {"units": [{
            "name": "u.service", "enabled": flag, "mask": flag, "contents": format!("[Unit]\nA={word}\n"),
            "dropins": [{"name": "d.conf", "contents": format!("[Unit]\nB={word}\n")}],
        }]},
    })
}

/// The fields that identify an entry, and the required ones.
const KEYS: [&str; 9] =
    ["name", "path", "device", "number", "url", "version", "thumbprint", "level", "format"];

/// Each value of the full config, alone or left out, before and after the other variant of the full
/// config.
pub fn fields() -> Vec<Case> {
    let base = full(0);
    let other = full(1);
    let mut cases = vec![
        ("all fields".to_owned(), vec![base.clone(), other.clone()]),
        ("all fields, twice".to_owned(), vec![base.clone(), base.clone()]),
    ];
    let mut places = Vec::new();
    every_place(&other, "", &mut places);
    for place in places {
        // Other sections do not affect the result.
        let section: String = place.split_inclusive('/').take(3).collect();
        let section = section.trim_end_matches('/');
        let base = part(&base, section);
        let other = part(&other, section);
        for (what, config) in [("only", part(&other, &place)), ("without", without(&other, &place))]
        {
            cases.push((format!("{what} {place}, later"), vec![base.clone(), config.clone()]));
            cases.push((format!("{what} {place}, first"), vec![config, base.clone()]));
        }
    }
    cases
}

/// The part of a config at this place, with the version.
fn part(config: &Value, place: &str) -> Value {
    let mut part = only(config, place);
    part["ignition"]["version"] = json!("3.5.0");
    part
}

fn every_place(value: &Value, place: &str, places: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => (0..).map(|at: usize| at.to_string()).zip(items).collect(),
        _ => return,
    };
    for (name, member) in members {
        let place = format!("{place}/{name}");
        every_place(member, &place, places);
        places.push(place);
    }
}

/// The value at this place, the path to it, and the keys on that path.
fn only(value: &Value, place: &str) -> Value {
    let Some((name, rest)) = place.strip_prefix('/').map(|p| p.split_once('/').unwrap_or((p, "")))
    else {
        return value.clone();
    };
    let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
    match value {
        Value::Object(members) => members
            .iter()
            .filter_map(|(own, member)| {
                if own == name {
                    Some((own.clone(), only(member, &rest)))
                } else {
                    KEYS.contains(&own.as_str()).then(|| (own.clone(), member.clone()))
                }
            })
            .collect(),
        Value::Array(items) => {
            json!([only(&items[name.parse::<usize>().expect("an index")], &rest)])
        }
        other => other.clone(),
    }
}

fn without(value: &Value, place: &str) -> Value {
    let mut value = value.clone();
    let (parent, name) = place.rsplit_once('/').expect("a place below the root");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(name)),
        Some(Value::Array(items)) => drop(items.remove(name.parse().expect("an index"))),
        _ => unreachable!("the place is one of the value"),
    }
    value
}

/// Each version merged with each version, and then a third config.
pub fn versions() -> Vec<Case> {
    let mut all: Vec<(&str, fn(usize, &str) -> Value)> = Vec::new();
    all.extend(generated2::VERSIONS.map(|version| (version, typical2 as fn(usize, &str) -> Value)));
    all.extend(SpecVersion::ALL.map(|version| (version.as_str(), typical3 as _)));
    let mut cases = Vec::new();
    for (first, of_first) in &all {
        cases.push((first.to_string(), vec![of_first(0, first)]));
        cases.push((format!("{first}, second"), vec![of_first(1, first)]));
        for (number, (second, of_second)) in all.iter().enumerate() {
            let (third, of_third) = all[(number + 4) % all.len()];
            cases.push((
                format!("{first}, then {second}, then {third}"),
                vec![of_first(0, first), of_second(1, second), of_third(2, third)],
            ));
        }
    }
    cases
}

/// Typical content of a MachineConfig of spec 3.
fn typical3(number: usize, version: &str) -> Value {
    let own = letter(number);
    json!({
        "ignition": {"version": version, "security": {"tls": {"certificateAuthorities": [{"source": "data:,ca"}]}}},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["both", own], "passwordHash": own, "shouldExist": true}]},
        "kernelArguments": {"shouldExist": [own]},
        "storage": {
            "files": [
                {"path": "/etc/both", "mode": 420, "contents": {"source": format!("data:,{own}"), "compression": (["", "gzip"][number % 2])}},
                {"path": format!("/etc/{own}"), "overwrite": true, "contents": {"source": "data:,x"}},
                {"path": "/etc/mode", "mode": 384 + number},
            ],
            "directories": [{"path": "/var/both", "mode": 448 + number, "user": {"id": number}}],
            "links": [{"path": format!("/links/{own}"), "target": "/x", "hard": number == 1}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": number + 1, "label": own, "sizeMiB": 5, "startMiB": 10 * number + 1}]}],
            "luks": [{"name": "data", "device": "/dev/a", "clevis": {"tpm2": true}, "discard": number == 0}],
        },
        "systemd": {"units": [
            {"name": "both.service", "enabled": number != 1, "contents": format!("[Unit]\nA={own}\n[Install]\nWantedBy=b\n")},
            {"name": "crio.service", "dropins": [{"name": format!("{own}.conf"), "contents": "[Unit]\n"}, {"name": "both.conf", "contents": format!("[Unit]\nA={own}\n")}]},
        ]},
    })
}

/// Typical content of a MachineConfig of spec 2.
fn typical2(number: usize, version: &str) -> Value {
    let own = letter(number);
    let mut config = json!({
        "ignition": {"version": version, "security": {"tls": {"certificateAuthorities": [{"source": "data:,ca"}]}}},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["both", own], "passwordHash": own}]},
        "storage": {
            "files": [
                {"filesystem": "root", "path": "/etc/both", "mode": 420, "contents": {"source": format!("data:,{own}"), "compression": (["", "gzip"][number % 2])}},
                {"filesystem": "root", "path": format!("/etc/{own}"), "overwrite": true, "contents": {"source": "data:,x"}},
                {"filesystem": "root", "path": "/etc/mode", "mode": 384 + number},
            ],
            "directories": [{"filesystem": "root", "path": "/var/both", "mode": 448 + number, "user": {"id": number}}],
            "links": [{"filesystem": "root", "path": format!("/links/{own}"), "target": "/x", "hard": number == 1}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": number + 1, "label": own, "sizeMiB": 5, "startMiB": 10 * number + 1}]}],
        },
        "systemd": {"units": [
            {"name": "both.service", "enabled": number != 1, "contents": format!("[Unit]\nA={own}\n[Install]\nWantedBy=b\n")},
            {"name": "crio.service", "dropins": [{"name": format!("{own}.conf"), "contents": "[Unit]\n"}, {"name": "both.conf", "contents": format!("[Unit]\nA={own}\n")}]},
        ]},
    });
    if version < "2.3" {
        // ign-converter rejects the partitions of these versions.
        config["storage"]["disks"] = json!([]);
    }
    config
}
