//! Deliberate differences from Ignition and ign-converter: both results and the reason.

use serde_json::{Value, json};

use super::compare::{merge, without_empties};
use mosb_tests::Oracle;

/// The result at one place of a config.
enum Outcome {
    Is(Value),
    /// The error message contains this text, or the error has this code.
    Refused(&'static str),
}

use Outcome::{Is, Refused};

struct Decision {
    why: &'static str,
    configs: Vec<Value>,
    /// The JSON pointer of the compared value.
    place: &'static str,
    theirs: Outcome,
    ours: Outcome,
}

/// Asserts every decision on both sides.
pub fn hold(oracle: &mut Oracle) {
    for Decision { why, configs, place, theirs, ours } in all() {
        let real = oracle.merge(&configs);
        let there = || without_empties(real["config"].pointer(place).unwrap_or(&Value::Null));
        match theirs {
            Is(wanted) => assert_eq!(there(), wanted, "{why}: {real}"),
            Refused(words) => {
                assert_eq!(real["accepted"], false, "{why}: {real}");
                assert!(real["error"].as_str().unwrap().contains(words), "{why}: {real}");
            }
        }
        match (ours, merge(&configs)) {
            (Is(wanted), Ok(own)) => {
                let own = own.pointer(place).unwrap_or(&Value::Null);
                assert_eq!(own, &wanted, "{why}");
            }
            (Refused(code), Err(refused)) => {
                assert!(refused.codes.contains(code), "{why}: {refused:?}");
            }
            (_, outcome) => panic!("{why}: {outcome:?}"),
        }
    }
}

fn all() -> Vec<Decision> {
    let mut all = of_contents();
    for (why, config, place, theirs, ours) in of_spec_2() {
        all.push(Decision { why, configs: vec![config], place, theirs, ours });
    }
    all
}

/// The message of the converter about partitions of spec 2.2 and older.
const SECTORS: &str = "size is deprecated";

/// For each case: the reason, a config of the newest version of spec 2, a place, and the results
/// there.
fn of_spec_2() -> Vec<(&'static str, Value, &'static str, Outcome, Outcome)> {
    let stated = |mut config: Value, version: &str| {
        config["ignition"]["version"] = json!(version);
        config
    };
    let newest = |config| stated(config, "2.4.0");
    let storage = |storage: Value| newest(json!({"storage": storage}));
    let users = |users: Value| newest(json!({"passwd": {"users": users}}));
    let units = |units: Value| newest(json!({"systemd": {"units": units}}));
    let file = |path: &str, source: &str| json!({"filesystem": "root", "path": path, "mode": 420, "contents": {"source": source}});
    let appended = |path: &str, source: &str| json!({"filesystem": "root", "path": path, "mode": 420, "append": true, "contents": {"source": source}});
    let partitions = |partition: Value, version: &str| {
        stated(
            json!({"storage": {"disks": [{"device": "/d", "partitions": [partition]}]}}),
            version,
        )
    };
    let mut decisions = vec![
        (
            "a user would be made without what `create` says",
            users(json!([{"name": "a", "create": {"uid": 5}}])),
            "/passwd/users",
            Is(json!([{"name": "a"}])),
            Refused("no-spec3-equal"),
        ),
        (
            "a root file system that is to be made would not be made",
            storage(
                json!({"filesystems": [{"name": "root", "mount": {"device": "/d", "format": "ext4"}}]}),
            ),
            "/storage",
            Is(json!({})),
            Refused("no-spec3-equal"),
        ),
        (
            "`create` of a file system would be lost, and with it its options",
            storage(
                json!({"filesystems": [{"name": "data", "mount": {"device": "/d", "format": "ext4", "create": {"force": true}}}]}),
            ),
            "/storage/filesystems",
            Is(json!([{"device": "/d", "format": "ext4"}])),
            Refused("no-spec3-equal"),
        ),
        (
            "the path of a file system that root has anyway would be taken for root's",
            storage(json!({"filesystems": [{"name": "root", "path": "/mnt"}]})),
            "/storage",
            Is(json!({})),
            Refused("no-spec3-equal"),
        ),
        (
            "a file of a file system that nobody defined would land on root",
            storage(json!({"files": [{"filesystem": "data", "path": "/x", "mode": 420}]})),
            "/storage/files/0/path",
            Is(json!("/x")),
            Refused("undefined-filesystem"),
        ),
        (
            "a file of a file system that is only mounted would land on root",
            storage(json!({
                "filesystems": [{"name": "data", "mount": {"device": "/d", "format": "ext4"}}],
                "files": [{"filesystem": "data", "path": "/x", "mode": 420}],
            })),
            "/storage/files/0/path",
            Is(json!("/x")),
            Refused("no-spec3-equal"),
        ),
        (
            "a name that begins like a link's is no path below it",
            storage(json!({
                "links": [{"filesystem": "root", "path": "/etc/foo", "target": "/t"}],
                "files": [file("/etc/foobar", "data:,a")],
            })),
            "/storage/files/0/path",
            Refused("uses link defined in config"),
            Is(json!("/etc/foobar")),
        ),
        (
            "the last of two files counts, where the first stands",
            storage(
                json!({"files": [file("/a", "data:,1"), file("/b", "data:,2"), file("//a", "data:,3")]}),
            ),
            "/storage/files",
            Refused("conflicting inodes"),
            Is(json!([
                {"path": "/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,3"}},
                {"path": "/b", "mode": 420, "overwrite": true, "contents": {"source": "data:,2"}},
            ])),
        ),
        (
            "what is appended to a file of the same config is appended",
            storage(
                json!({"files": [file("/a", "data:,1"), appended("/a", "data:,2"), appended("/a", "data:,3")]}),
            ),
            "/storage/files/0/append",
            Refused("conflicting inodes"),
            Is(json!([{"source": "data:,2"}, {"source": "data:,3"}])),
        ),
        (
            "the last word on each field of a unit counts",
            units(json!([
                {"name": "a.service", "enabled": true, "contents": "[Unit]\n"},
                {"name": "b.service"},
                {"name": "a.service", "enabled": false, "mask": true},
            ])),
            "/systemd/units",
            Refused("duplicate unit name"),
            Is(json!([
                {"name": "a.service", "enabled": false, "mask": true, "contents": "[Unit]\n"},
                {"name": "b.service"},
            ])),
        ),
        (
            "the last of two drop-ins counts",
            units(json!([{"name": "a.service", "dropins": [
                {"name": "a.conf", "contents": "[Unit]\n"}, {"name": "a.conf", "contents": "[Unit]\nA=b\n"}]}])),
            "/systemd/units/0/dropins",
            Refused("duplicate dropin name"),
            Is(json!([{"name": "a.conf", "contents": "[Unit]\nA=b\n"}])),
        ),
        (
            "a user has the keys of both entries, in order",
            users(json!([
                {"name": "a", "uid": 5, "sshAuthorizedKeys": ["1", "2"]},
                {"name": "b"},
                {"name": "a", "sshAuthorizedKeys": ["2", "3"]},
            ])),
            "/passwd/users",
            Refused("duplicate entry"),
            Is(
                json!([{"name": "a", "uid": 5, "sshAuthorizedKeys": ["1", "2", "3"]}, {"name": "b"}]),
            ),
        ),
        (
            "a key that stands there twice is one key",
            users(json!([{"name": "a", "sshAuthorizedKeys": ["1", "1"]}])),
            "/passwd/users/0/sshAuthorizedKeys",
            Refused("duplicate entry"),
            Is(json!(["1"])),
        ),
        (
            "a config that is replaced by none is an error on the machine; nothing would be replaced",
            newest(json!({"ignition": {"config": {"replace": {"source": ""}}}})),
            "/ignition/config/replace",
            Is(json!({"source": ""})),
            Refused("bad-source"),
        ),
        (
            "the converter gives all references of a list the source of the last one",
            newest(
                json!({"ignition": {"config": {"append": [{"source": "http://a/a"}, {"source": "http://a/b"}]}}}),
            ),
            "/ignition/config/merge",
            Refused("duplicate entry"),
            Is(json!([{"source": "http://a/a"}, {"source": "http://a/b"}])),
        ),
        (
            "the same of certificate authorities",
            newest(json!({"ignition": {"security": {"tls": {"certificateAuthorities": [
                {"source": "http://a/a"}, {"source": "http://a/b"}]}}}})),
            "/ignition/security/tls/certificateAuthorities",
            Refused("duplicate entry"),
            Is(json!([{"source": "http://a/a"}, {"source": "http://a/b"}])),
        ),
    ];
    for version in ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"] {
        decisions.push((
            "sectors that are whole MiB are those",
            partitions(json!({"number": 1, "start": 2048, "size": 4096}), version),
            "/storage/disks/0/partitions",
            Refused(SECTORS),
            Is(json!([{"number": 1, "startMiB": 1, "sizeMiB": 2}])),
        ));
        decisions.push((
            "sectors that are no whole MiB can't be said",
            partitions(json!({"number": 1, "start": 2048, "size": 4095}), version),
            "/storage/disks/0/partitions",
            Refused(SECTORS),
            Refused("bad-disk"),
        ));
    }
    decisions
}

fn of_contents() -> Vec<Decision> {
    let config = |contents: Value| {
        json!({"ignition": {"version": "3.5.0"}, "storage": {
            "files": [{"path": "/f", "contents": contents}],
        }})
    };
    let key = |contents: Value| {
        json!({"ignition": {"version": "3.5.0"}, "storage": {
            "luks": [{"name": "l", "device": "/d", "keyFile": contents}],
        }})
    };
    let hash = format!("sha512-{}", "a".repeat(128));
    let remote = json!({
        "source": "http://a/a", "compression": "gzip", "verification": {"hash": hash}, "httpHeaders": [{"name": "a", "value": "b"}],
    });
    let mixed = json!({
        "source": "data:,b", "compression": "gzip", "verification": {"hash": hash}, "httpHeaders": [{"name": "a", "value": "b"}],
    });
    let own = json!({"source": "data:,b"});
    vec![
        Decision {
            why: "nodes can't read new contents with the compression, hash and headers of former ones",
            configs: vec![config(remote.clone()), config(own.clone())],
            place: "/storage/files/0/contents",
            theirs: Is(mixed.clone()),
            ours: Is(own.clone()),
        },
        Decision {
            why: "the same of the key of an encrypted volume",
            configs: vec![key(remote), key(own.clone())],
            place: "/storage/luks/0/keyFile",
            theirs: Is(mixed),
            ours: Is(own),
        },
    ]
}
