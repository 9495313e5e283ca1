//! Helpers for the tests of the sections, and tests of the whole translation.

use serde_json::json;

use super::super::normalize::prune;
use super::*;
use mosb_types::Diagnostic as _;

/// The translation without its version, or place and code of each problem.
pub(super) fn translated(version: &str, mut config: Value) -> Result<Value, Vec<String>> {
    config["ignition"]["version"] = version.into();
    match translate(&config) {
        Ok(Translated { mut config, .. }) => {
            prune(&mut config);
            let ignition = config["ignition"].as_object_mut().unwrap();
            assert_eq!(ignition.remove("version").unwrap(), "3.5.0");
            if ignition.is_empty() {
                config.as_object_mut().unwrap().remove("ignition");
            }
            Ok(config)
        }
        Err(Error::Invalid { problems }) => Err(codes_at(&problems)),
        Err(other) => panic!("{other}"),
    }
}

/// Place and code of each warning of a valid config.
pub(super) fn warned(version: &str, mut config: Value) -> Vec<String> {
    config["ignition"]["version"] = version.into();
    codes_at(&translate(&config).unwrap().warnings)
}

fn codes_at(findings: &[Finding]) -> Vec<String> {
    let place_and_code =
        |f: &Finding| format!("{}: {}", f.object.as_deref().unwrap_or("?"), f.code);
    findings.iter().map(place_and_code).collect()
}

/// Checks a table of valid configs: what, version, config, translation.
pub(super) fn become_these<const N: usize>(table: [(&str, &str, Value, Value); N]) {
    for (what, version, config, want) in table {
        assert_eq!(translated(version, config), Ok(want), "{what}");
    }
}

/// Checks a table of invalid configs: what, version, config, place and code of each problem.
pub(super) fn are_refused<const N: usize>(table: [(&str, &str, Value, &[&str]); N]) {
    for (what, version, config, want) in table {
        let problems = translated(version, config).expect_err(what);
        assert_eq!(problems, want, "{what}");
    }
}

/// The same lists, each entry on the root file system.
pub(super) fn on_root(mut storage: Value) -> Value {
    for list in storage.as_object_mut().unwrap().values_mut() {
        for node in list.as_array_mut().unwrap() {
            node["filesystem"] = "root".into();
        }
    }
    json!({ "storage": storage })
}

#[test]
fn exactly_five_versions_are_translated() {
    for version in ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"] {
        assert_eq!(translated(version, json!({})), Ok(json!({})));
    }
    for version in ["2.5.0", "2.4.0-experimental", "2.4", "1.0.0", "3.5.0", ""] {
        let error = translate(&json!({ "ignition": { "version": version } })).unwrap_err();
        assert_eq!(error.code(), "unknown-ignition-spec", "{version}");
    }
}

#[test]
fn all_problems_are_reported_at_their_original_places() {
    let file = |path: &str| json!({ "filesystem": "root", "path": path, "mode": 420 });
    let config = json!({
        "networkd": { "units": [{ "name": "a.network" }] },
        "storage": {
            "files": [
                file("/a"),
                file("/a"),
                file("relative"),
                { "filesystem": "root", "path": "/b", "mode": 420, "append": true, "contents": { "source": "data:,[" } },
                { "filesystem": "data", "path": "/c", "mode": 5000 },
            ],
            "filesystems": [
                { "name": "root", "path": "/sysroot" },
                { "name": "data", "mount": { "device": "dev/sdb", "format": "ext4" } },
            ],
        },
        "systemd": { "units": [{ "name": "a.service" }, { "name": "a.service" }, { "name": "b" }] },
    });
    let mut problems = translated("2.2.0", config).unwrap_err();
    problems.sort_unstable();
    assert_eq!(
        problems,
        [
            "networkd.units[0]: no-spec3-equal",
            "storage.files[2].path: bad-path",
            "storage.files[3].contents.source: bad-data-url",
            "storage.files[4].filesystem: no-spec3-equal",
            "storage.files[4].mode: bad-mode",
            "storage.filesystems[1].mount.device: bad-filesystem",
            "systemd.units[2].name: bad-unit-name",
        ]
    );
}

#[test]
fn wrong_type_hides_no_problem_and_makes_none() {
    let config = json!({
        "storage": { "files": [
            { "filesystem": "root", "path": 7, "contents": { "source": [] } },
            { "filesystem": "none", "path": "/b" },
        ] },
    });
    let want: &[&str] = &[
        "storage.files[0].path: wrong-type",
        "storage.files[0].contents.source: wrong-type",
        "storage.files[1].filesystem: undefined-filesystem",
    ];
    are_refused([("types", "2.4.0", config, want)]);
}

#[test]
fn newer_and_unknown_fields_are_dropped_with_warnings() {
    let config = json!({
        "ignition": { "security": {}, "timeouts": { "httpTotal": 5 } },
        "storage": { "links": [], "luks": [], "files": [
            { "filesystem": "root", "path": "/a", "mode": 420, "append": true, "user": { "name": "core" } },
        ] },
        "systemd": { "units": [{ "name": "a.service", "enabled": true }] },
    });
    assert_eq!(
        warned("2.0.0", config),
        [
            "ignition.security: newer-field",
            "ignition.timeouts: newer-field",
            "storage.files[0].user.name: newer-field",
            "storage.files[0].append: newer-field",
            "storage.links: newer-field",
            "storage.luks: unknown-field",
            "systemd.units[0].enabled: newer-field",
        ]
    );
}

#[test]
fn a_translation_is_a_config_of_spec_3() {
    let config = json!({
        "ignition": { "version": "2.4.0" },
        "passwd": { "users": [{ "name": "core", "sshAuthorizedKeys": ["a", "a"] }] },
        "storage": { "files": [{ "filesystem": "root", "path": "//etc/./motd/", "mode": 420, "contents": { "source": "data:,hi" } }] },
        "systemd": { "units": [{ "name": "a.service", "enable": true, "contents": "[Install]\nWantedBy=x.target" }] },
    });
    let parsed = super::super::parse(&translate(&config).unwrap().config).unwrap();
    assert_eq!(parsed.config.storage.files[0].path, "/etc/motd");
    assert_eq!(parsed.config.systemd.units[0].enabled, Some(true));
    assert_eq!(parsed.warnings, []);
}

#[test]
fn secrets_are_in_no_message() {
    let config = json!({
        "ignition": { "version": "2.4.0", "config": { "append": [{ "source": "oem:hunter2", "httpHeaders": [{ "name": "hunter2", "value": "hunter2" }] }] } },
        "passwd": { "users": [{ "name": "core", "passwordHash": "hunter2", "sshAuthorizedKeys": ["hunter2"], "create": { "gecos": "hunter2" } }] },
        "networkd": { "units": [{ "name": "a.network", "contents": "hunter2" }] },
        "storage": { "files": [{ "filesystem": "root", "path": "/a", "contents": { "source": "gs://hunter2", "verification": { "hash": "md5-hunter2" } } }] },
        "systemd": { "units": [{ "name": "a.service", "contents": "[Unit]\nhunter2\n" }] },
    });
    let error = translate(&config).unwrap_err();
    let Error::Invalid { problems } = &error else { panic!("{error}") };
    assert!(problems.len() >= 6, "{error}");
    assert!(!format!("{problems:?}").contains("hunter2"), "{error}");
}
