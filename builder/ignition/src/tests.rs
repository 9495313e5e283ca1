//! The table that `tests/oracle/ignition_oracle.rs` gives to the real Ignition too, and what only
//! this crate promises.

use serde_json::{Value, json};

use super::*;
use mosb_types::{Diagnostic as _, Finding};

/// Each line: what it is about, the versions it holds for, the config without its version, and the
/// problems and warnings it gets, as `code field`.
const CASES: &str = include_str!("../../../testdata/ignition/cases.jsonl");

fn strings(value: &Value) -> Vec<String> {
    let mut strings: Vec<String> = serde_json::from_value(value.clone()).unwrap();
    strings.sort();
    strings
}

fn described(findings: &[Finding]) -> Vec<String> {
    let mut described: Vec<String> = findings
        .iter()
        .map(|f| format!("{} {}", f.code, f.object.as_deref().unwrap_or("-")))
        .collect();
    described.sort();
    described
}

fn with_version(config: &Value, version: SpecVersion) -> Value {
    let mut config = config.clone();
    config["ignition"]["version"] = json!(version.as_str());
    config
}

fn parsed(mut config: Value) -> Parsed {
    config["ignition"]["version"] = json!("3.5.0");
    parse(&config).unwrap()
}

#[test]
fn every_case_of_the_table() {
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (first, last) = {
            let spec = case["spec"].as_str().unwrap();
            let (first, last) = spec.split_once('-').unwrap_or((spec, spec));
            (format!("{first}.0"), format!("{last}.0"))
        };
        let (first, last): (SpecVersion, SpecVersion) =
            (first.parse().unwrap(), last.parse().unwrap());
        for version in SpecVersion::ALL.into_iter().filter(|v| (first..=last).contains(v)) {
            let (problems, warnings) = match parse(&with_version(&case["config"], version)) {
                Ok(parsed) => {
                    assert_eq!(parsed.config.version, version);
                    (Vec::new(), parsed.warnings)
                }
                // The warnings of a refused config reach no one.
                Err(Error::Invalid { problems }) => (problems, Vec::new()),
                Err(other) => panic!("{}: {version}: {other}", case["what"]),
            };
            assert_eq!(
                described(&problems),
                strings(&case["problems"]),
                "{}: {version}",
                case["what"]
            );
            assert_eq!(
                described(&warnings),
                strings(&case["warnings"]),
                "{}: {version}",
                case["what"]
            );
        }
    }
}

#[test]
fn the_version_decides_first() {
    for (what, config, want) in [
        ("no object", json!([]), "invalid-ignition"),
        ("nothing", json!(null), "invalid-ignition"),
        ("no section", json!({ "storage": 5 }), "unknown-ignition-spec"),
        ("null", json!({ "ignition": null }), "unknown-ignition-spec"),
        ("no version", json!({ "ignition": {} }), "unknown-ignition-spec"),
        ("a number", json!({ "ignition": { "version": 3 } }), "invalid-ignition"),
        ("a list", json!({ "ignition": [] }), "invalid-ignition"),
        (
            "spec 2",
            json!({ "ignition": { "version": "2.2.0" }, "storage": 5 }),
            "old-ignition-spec",
        ),
        ("the next", json!({ "ignition": { "version": "3.7.0" } }), "unknown-ignition-spec"),
        (
            "two versions",
            json!({ "ignition": { "version": "3.1.0", "Version": "3.5.0" } }),
            "invalid-ignition",
        ),
        (
            "two headers",
            json!({ "ignition": { "version": "3.1.0" }, "IGNITION": {} }),
            "invalid-ignition",
        ),
    ] {
        assert_eq!(parse(&config).unwrap_err().code(), want, "{what}");
    }
    let other_case = json!({ "Ignition": { "VERSION": "3.1.0" } });
    assert_eq!(parse(&other_case).unwrap().config.version, SpecVersion::V3_1);
}

#[test]
fn the_typed_form() {
    let config = parsed(json!({
        "storage": {
            "files": [
                { "path": "/a", "mode": 0o4755, "overwrite": true, "user": { "id": 5, "name": "" }, "group": { "name": "g" },
                  "contents": { "source": "data:,a", "compression": "gzip", "verification": { "hash": format!("sha256-{}", "aB".repeat(32)) } },
                  "append": [{ "source": "" }] },
                { "path": "/b", "contents": { "compression": "gzip" } },
                { "path": "/c", "contents": { "source": "" } },
            ],
            "directories": [{ "path": "/d", "mode": 0o1777, "overwrite": false }],
            "links": [{ "path": "/l", "target": "../x" }, { "path": "/h", "target": "x", "hard": true }],
        },
        "systemd": { "units": [{ "name": "a.service", "enabled": false, "mask": true, "contents": "", "dropins": [{ "name": "x.conf" }] }] },
    }))
    .config;
    let node = |path: &str| File {
        path: path.to_owned(),
        overwrite: None,
        mode: None,
        user: Owner::Unset,
        group: Owner::Unset,
        contents: None,
        append: Vec::new(),
    };
    let empty = Resource { source: Some(String::new()), ..Resource::default() };
    let verification = Verification { function: HashFunction::Sha256, sum: "ab".repeat(32) };
    let contents = Resource {
        source: Some("data:,a".to_owned()),
        compression: Compression::Gzip,
        verification: Some(verification),
    };
    assert_eq!(
        config.storage.files,
        [
            File {
                mode: Some(0o755),
                overwrite: Some(true),
                user: Owner::Id(5),
                group: Owner::Name("g".to_owned()),
                contents: Some(contents),
                append: vec![empty.clone()],
                ..node("/a")
            },
            node("/b"),
            File { contents: Some(empty), ..node("/c") },
        ]
    );
    let directory = &config.storage.directories[0];
    assert_eq!(
        (directory.path.as_str(), directory.mode, directory.overwrite),
        ("/d", Some(0o777), Some(false))
    );
    let links: Vec<_> =
        config.storage.links.iter().map(|l| (l.path.as_str(), l.target.as_str(), l.hard)).collect();
    assert_eq!(links, [("/l", "../x", false), ("/h", "x", true)]);
    let unit = &config.systemd.units[0];
    assert_eq!(
        (unit.enabled, unit.mask, unit.contents.as_deref()),
        (Some(false), Some(true), Some(""))
    );
    assert_eq!(unit.dropins, [Dropin { name: "x.conf".to_owned(), contents: None }]);
}

#[test]
fn fields_left_to_machine_are_listed_without_secrets() {
    let parsed = parsed(json!({
        "passwd": {
            "users": [{ "name": "core", "passwordHash": "hunter2", "sshAuthorizedKeys": ["hunter2"] },
                { "name": "eve", "passwordHash": "hunter2" }],
            "groups": [{ "name": "wheel", "passwordHash": "hunter2" }],
        },
        "kernelArguments": { "shouldExist": ["quiet"], "shouldNotExist": ["rhgb"] },
        "storage": {
            "disks": [{ "device": "/dev/sda" }],
            "raid": [{ "name": "data", "level": "1", "devices": ["/dev/a"] }],
            "filesystems": [{ "device": "/dev/md0" }],
            "luks": [{ "name": "root", "device": "/dev/b", "keyFile": { "source": "data:,hunter2" } }],
        },
    }));
    let left = parsed.config.left_to_machine(false);
    assert_eq!(
        described(&left),
        [
            r#"at-installation disk "/dev/sda""#,
            r#"at-installation filesystem "/dev/md0""#,
            r#"at-installation group "wheel""#,
            r#"at-installation luks volume "root""#,
            r#"at-installation raid "data""#,
            r#"at-installation user "eve""#,
            r#"left-to-machine kernel argument "quiet""#,
            r#"left-to-machine kernel argument to remove "rhgb""#,
            r#"left-to-machine user "core""#,
        ]
    );
    let with_arguments = parsed.config.left_to_machine(true);
    assert!(
        !with_arguments
            .iter()
            .any(|one| one.object.as_deref() == Some("kernel argument \"quiet\""))
    );
    assert_eq!(with_arguments.len(), left.len() - 1);
    let shown = format!("{left:?} {parsed:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn no_error_shows_a_secret() {
    let secret = "hunter2-hunter2-hunter2";
    let config = json!({
        "ignition": {
            "version": "3.5.0",
            "config": { "merge": [{ "source": format!("https://u:{secret}@host/") }] },
            "proxy": { "httpProxy": format!("ftp://u:{secret}@host/") },
        },
        "passwd": { "users": [
            { "name": "a", "sshAuthorizedKeys": [secret, secret] },
            { "name": "b", "passwordHash": [secret] },
        ] },
        "storage": {
            "files": [
                { "path": "/a", "contents": { "source": format!("data:,{secret} ") } },
                { "path": "/b", "contents": { "source": format!("{secret}:x") } },
                { "path": "/c", "contents": { "source": format!("https://u:{secret}@host/") } },
                { "path": "/d", "contents": { "source": "data:,a", "compression": secret } },
                { "path": "/e", "contents": { "source": "data:,a", "verification": { "hash": secret } } },
            ],
            "luks": [{ "name": "a", "device": "/d", "keyFile": { "source": secret } }],
        },
        "systemd": { "units": [{ "name": "a.service", "contents": format!("[Service]\n{secret}\n") }] },
    });
    let error = parse(&config).unwrap_err();
    let Error::Invalid { problems } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 11, "{error}");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(secret), "{shown}");
}

#[test]
fn a_message_names_field_path_and_remedy() {
    let config = json!({
        "ignition": { "version": "3.2.0" },
        "storage": { "files": [{ "path": "/etc/x", "contents": { "source": "https://example.com/x" } }] },
    });
    assert_eq!(
        parse(&config).unwrap_err().to_string(),
        "the Ignition config is not valid: storage.files[0].contents.source (\"/etc/x\"): lies elsewhere (host \
         \"example.com\"), and nothing is fetched while an image is built; render the config first, with the contents in it"
    );
}

#[test]
fn a_message_names_what_was_found() {
    let file = |contents: Value| json!({ "storage": { "files": [{ "path": "/a", "contents": contents }] } });
    let hash = |hash: &str| file(json!({ "source": "data:,a", "verification": { "hash": hash } }));
    let unit = |unit: Value| json!({ "systemd": { "units": [{ "name": "b.service" }, unit] } });
    for (config, want) in [
        (
            file(json!({ "source": "data:,a", "compression": "zstd" })),
            r#"storage.files[0].contents.compression ("/a"): "zstd" must be "gzip""#,
        ),
        (hash("md5-0123"), r#""md5" and 4 characters must begin with"#),
        (hash("sha512-0123"), r#""sha512" and 4 characters must have 128 hex digits"#),
        (hash("0123"), "a text of 4 characters must be the hash function, a dash"),
        (file(json!({ "source": "ftp://u:p@a/" })), r#"has the scheme "ftp", which"#),
        (file(json!({ "source": "a/b" })), "has no scheme; give"),
        (file(json!({ "source": "https://u:p@a.example/x?y" })), r#"(host "a.example"), and"#),
        (
            unit(json!({ "name": "a.service", "contents": "[Unit" })),
            r#"systemd.units[1].contents: unit "a.service" is not a unit file"#,
        ),
        (
            unit(
                json!({ "name": "a.service", "dropins": [{ "name": "x.conf", "contents": "[Unit" }] }),
            ),
            r#"drop-in "x.conf" of unit "a.service" is not a unit file"#,
        ),
        (unit(json!({ "name": "b.service" })), r#"systemd.units[1]: "b.service" is listed twice"#),
    ] {
        let error = parse(&with_version(&config, SpecVersion::V3_5)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(want), "{want}\n{message}");
    }
}

#[test]
fn many_nodes_and_large_contents_are_no_work() {
    // Quadratic work on this would be noticed: 20 000 nodes under 5 000 links' worth of prefixes,
    // and 8 MB of text.
    let files: Vec<Value> =
        (0..20_000).map(|n| json!({ "path": format!("/etc/{n}/a/b/c/d") })).collect();
    let links: Vec<Value> =
        (0..5_000).map(|n| json!({ "path": format!("/usr/{n}"), "target": "x" })).collect();
    let options = format!("A={}\n", "x".repeat(2000)).repeat(2000);
    let units = json!([{ "name": "a.service", "contents": format!("[Unit]\n{options}") }]);
    let large = format!("data:;base64,{}", "QUJD".repeat(1_000_000));
    let mut config =
        json!({ "storage": { "files": files, "links": links }, "systemd": { "units": units } });
    config["storage"]["files"][0]["contents"] = json!({ "source": large });
    assert_eq!(parsed(config).config.storage.files.len(), 20_000);
}

#[test]
fn hostile_config_does_not_fill_memory_with_findings() {
    let config =
        json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": vec![0; 20_000] } });
    let Err(Error::Invalid { problems }) = parse(&config) else { panic!("no file is a number") };
    assert_eq!(problems.len(), 1000);
    let fields: serde_json::Map<_, _> = (0..20_000).map(|n| (n.to_string(), json!(0))).collect();
    assert_eq!(parsed(json!({ "storage": fields })).warnings.len(), 1000);
}
