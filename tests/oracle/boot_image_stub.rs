//! What becomes of user data when a machine gets a newer boot image: the real Ignition accepts the
//! converted stub, merges it to the same config, and fetches with it.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_boot_image::Stub;
use mosb_tests::{Certificate, Oracle, SecureWeb, ignition_fetch, reply};

/// The stub of an installation, with the fields that each version of spec 2 has.
fn installed(version: &str, url: &str, authority: &[u8]) -> Value {
    let authority = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(authority));
    let mut stub = json!({ "ignition": {
        "config": { "append": [{ "source": url, "verification": {} }] }, "version": version,
    }, "networkd": {}, "passwd": {}, "storage": {}, "systemd": {} });
    if version > "2.0.0" {
        stub["ignition"]["timeouts"] = json!({ "httpResponseHeaders": 10, "httpTotal": 5 });
    }
    if version > "2.1.0" {
        stub["ignition"]["security"] = json!({ "tls": { "certificateAuthorities": [{ "source": authority, "verification": {} }] } });
    }
    stub
}

fn parse(stub: &Value) -> Stub {
    Stub::parse(stub.to_string().as_bytes()).unwrap()
}

fn json_of(stub: &Stub) -> Value {
    serde_json::from_slice(&stub.to_bytes()).unwrap()
}

#[test]
fn ignition_merges_converted_stubs_to_the_same() {
    let mut oracle = Oracle::start();
    let url = "https://api-int.example.com:22623/config/worker";
    let more = |stub: &mut Value| {
        stub["storage"] = json!({ "files": [{ "filesystem": "root", "path": "/etc/a", "mode": 420, "contents": { "source": "data:,a" } }] });
        // Spec 2.0.0 has no `enabled`.
        let enabled = if stub["ignition"]["version"] == "2.0.0" { "enable" } else { "enabled" };
        stub["systemd"] = json!({ "units": [{ "name": "a.service", (enabled): true, "contents": "[Unit]\n[Install]\nWantedBy=multi-user.target\n" }] });
    };
    let directory = TempDir::new().unwrap();
    let authority = fs::read(Certificate::authority(directory.path(), "a").certificate).unwrap();
    for version in ["2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"] {
        for with_more in [false, true] {
            let what = format!("{version}, {with_more}");
            let mut stub = installed(version, url, &authority);
            if with_more {
                more(&mut stub);
            }
            let converted = json_of(&parse(&stub).upgrade_to_oldest().unwrap().unwrap());
            let verdict = oracle.judge(&converted);
            assert_eq!(verdict["accepted"], true, "{what}: {verdict:#}");
            assert_eq!(verdict["entries"].as_array().map(Vec::len), Some(0), "{what}: {verdict:#}");
            let (before, after) = (oracle.merge(&[stub]), oracle.merge(&[converted]));
            assert_eq!(before["accepted"], true, "{what}: {before:#}");
            assert_eq!(after["config"], before["config"], "{what}");
            assert!(after["config"].to_string().contains(url), "{what}: {after:#}");
        }
    }
}

#[test]
fn ignition_fetches_with_a_converted_stub() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("config")).unwrap();
    let fetched = json!({ "ignition": { "version": "3.1.0" }, "storage": { "files": [{ "path": "/etc/from-the-pool" }] } });
    let answer =
        reply(200, &[("content-type", "application/json")], fetched.to_string().as_bytes());
    let server = SecureWeb::start(directory.path(), &[("config/worker", answer)]);
    let url = server.url("config/worker");

    let stub = parse(&installed("2.2.0", &url, &server.authority()));
    let converted = stub.upgrade_to_oldest().unwrap().unwrap();
    assert_eq!(converted.pool(), Some("worker"));
    let used = ignition_fetch(&converted.to_bytes()).unwrap();
    assert!(used.to_string().contains("/etc/from-the-pool"), "{used:#}");

    // The server's certificate is of a CA that the stub does not trust yet.
    let other = TempDir::new().unwrap();
    let other = fs::read(Certificate::authority(other.path(), "other").certificate).unwrap();
    let outdated = converted.with_authority(&other).unwrap().unwrap();
    let error = ignition_fetch(&outdated.to_bytes()).unwrap_err();
    assert!(error.contains("x509"), "{error}");
    let current = outdated.with_authority(&server.authority()).unwrap().unwrap();
    let used = ignition_fetch(&current.to_bytes()).unwrap();
    assert!(used.to_string().contains("/etc/from-the-pool"), "{used:#}");
}
