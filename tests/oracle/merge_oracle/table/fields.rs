//! Every field of the spec, alone and left out.

use serde_json::{Map, Value, json};

use super::Case;

/// Every field of spec 3.5, in two variants.
fn full(variant: usize) -> Value {
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
