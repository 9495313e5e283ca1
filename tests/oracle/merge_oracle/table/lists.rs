//! Every list of the spec, in several orders.

use mosb_ignition::SpecVersion;
use serde_json::{Value, json};

use super::{Case, letter};

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
