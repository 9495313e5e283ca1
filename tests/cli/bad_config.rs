//! A config that can't be built leads to one error message that names the fault, and leaves no
//! files.

use std::io::Write as _;
use std::process::Stdio;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use mosb_tests::Mosb;
use mosb_tests::build_fixture::{BuildFixture, NAME, assert_refused, names, rendered, with};

/// A description, the config, the error code, and words of the message.
type Case = (&'static str, Vec<u8>, &'static str, &'static [&'static str]);

/// Runs the cases. Each error has the class of invalid input.
fn all_refused(cases: impl IntoIterator<Item = Case>) {
    // A run that needs a gigabyte of memory fails.
    let fixture = BuildFixture::new().with_memory(1 << 30);
    for (what, config, code, words) in cases {
        let finished = fixture.build(&config, &[]);
        assert_refused(&finished, what, 2, code, words);
        assert!(!fixture.output().exists(), "{what}");
        fixture.assert_clean(what);
    }
}

fn named(name: &str) -> Vec<u8> {
    let mut config = rendered(&json!({ "ignition": { "version": "3.4.0" } }));
    config["metadata"]["name"] = json!(name);
    config.to_string().into_bytes()
}

fn version(version: &str) -> Vec<u8> {
    rendered(&json!({ "ignition": { "version": version } })).to_string().into_bytes()
}

fn file(path: &str, contents: Value) -> Vec<u8> {
    with("storage", json!({ "files": [{ "path": path, "contents": contents }] })).into_bytes()
}

fn field(name: &str, value: Value) -> Vec<u8> {
    let mut config = rendered(&json!({ "ignition": { "version": "3.4.0" } }));
    config["spec"][name] = value;
    config.to_string().into_bytes()
}

#[test]
fn only_rendered_configs_are_accepted() {
    let whole = String::from_utf8(named(NAME)).unwrap();
    let cases: Vec<Case> = vec![
        ("not YAML", b"a: [b".to_vec(), "bad-file", &["stdin", "YAML", "line"]),
        ("not JSON", b"{\"a\": ".to_vec(), "bad-file", &["stdin", "JSON", "line"]),
        ("binary", b"\x7fELF\xff\0".to_vec(), "bad-file", &["stdin", "UTF-8"]),
        ("empty", b"\n".to_vec(), "bad-file", &["stdin", "empty"]),
        ("a list", b"- a\n".to_vec(), "bad-config", &["stdin", "MachineConfig"]),
        (
            "other kind",
            b"apiVersion: v1\nkind: Pod\n".to_vec(),
            "bad-config",
            &["stdin", "\"Pod\"", "rendered MachineConfig"],
        ),
        ("no kind", b"a: b\n".to_vec(), "bad-config", &["stdin", "without a kind"]),
        (
            "several documents",
            format!("{whole}\n{whole}").into_bytes(),
            "bad-file",
            &["stdin", "2 documents", "one"],
        ),
        (
            "several documents of YAML",
            b"a: 1\n---\nb: 1\n".to_vec(),
            "bad-file",
            &["stdin", "2 documents", "one"],
        ),
        ("deep", format!("a: {}", "[".repeat(100_000)).into_bytes(), "bad-file", &["stdin"]),
        (
            "deep JSON",
            format!("{{\"a\": {}", "[".repeat(100_000)).into_bytes(),
            "bad-file",
            &["stdin"],
        ),
        (
            "unrendered",
            named("00-worker"),
            "bad-config",
            &["metadata.name", "\"00-worker\"", "rendered-<pool>-"],
        ),
        ("no name", named(""), "bad-config", &["metadata.name"]),
        (
            "newline",
            named("rendered-a\nRUN x-0123456789abcdef0123456789abcdef"),
            "bad-config",
            &["metadata.name", "a\\nRUN x"],
        ),
        (
            "space",
            named("rendered-a b-0123456789abcdef0123456789abcdef"),
            "bad-config",
            &["metadata.name"],
        ),
        (
            "slash",
            named("rendered-a/b-0123456789abcdef0123456789abcdef"),
            "bad-config",
            &["metadata.name"],
        ),
        (
            "dots",
            named("rendered-..-0123456789abcdef0123456789abcdef"),
            "bad-config",
            &["metadata.name"],
        ),
        (
            "capitals",
            named("rendered-A-0123456789abcdef0123456789abcdef"),
            "bad-config",
            &["metadata.name"],
        ),
        ("short hash", named("rendered-worker-012345"), "bad-config", &["metadata.name"]),
        (
            "a string for fips",
            field("fips", json!("yes")),
            "bad-config",
            &[NAME, "spec.fips", "true or false"],
        ),
        (
            "unknown kernel",
            field("kernelType", json!("fast")),
            "bad-config",
            &["spec.kernelType", "\"fast\"", "realtime"],
        ),
        ("a list for the base", field("osImageURL", json!([])), "bad-config", &["spec.osImageURL"]),
    ];
    all_refused(cases);
}

#[test]
fn configs_that_ignition_rejects_are_rejected() {
    let mut bomb = GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![0; 100 << 20]).unwrap();
    let bomb = format!("data:;base64,{}", STANDARD.encode(bomb.finish().unwrap()));
    let source = |source: &str| json!({ "source": source });
    let gzip = |source: &str| json!({ "source": source, "compression": "gzip" });
    let hash = format!("sha256-{}", "0".repeat(64));
    let hashed = json!({ "source": "data:,x", "verification": { "hash": hash } });
    let unit = |unit: Value| with("systemd", json!({ "units": [unit] })).into_bytes();
    let files = |files: Value| with("storage", json!({ "files": files })).into_bytes();
    let climbing = json!({ "name": "../../x.service", "contents": "" });
    let absolute = json!({ "name": "x.service", "dropins": [{ "name": "/etc/x.conf" }] });
    let owned = json!([{ "path": "/etc/x", "user": { "name": "nobody-knows" } }]);
    let ignition = |ignition: Value| rendered(&ignition).to_string().into_bytes();
    let (bad, odd) = ("invalid-ignition", "conflicts-with-base");
    let cases: Vec<Case> = vec![
        (
            "unknown spec",
            version("3.99.0"),
            "unknown-ignition-spec",
            &[NAME, "spec.config", "3.99.0", "3.5.0"],
        ),
        (
            "old spec",
            version("2.2.0"),
            "old-ignition-spec",
            &[NAME, "spec.config", "2.2.0", "render"],
        ),
        ("no version", ignition(json!({})), "unknown-ignition-spec", &[NAME, "ignition.version"]),
        ("a list", ignition(json!([])), bad, &[NAME, "spec.config"]),
        ("dots", file("/etc/../x", json!({})), bad, &["/etc/../x", ".."]),
        ("relative", file("etc/x", json!({})), bad, &["etc/x", "absolute"]),
        ("remote", file("/etc/x", source("https://example.com/x")), bad, &["/etc/x", "render"]),
        ("broken", file("/etc/x", source("data:;base64,x")), bad, &["/etc/x"]),
        ("wrong hash", file("/etc/x", hashed), "wrong-hash", &["/etc/x", "sha256"]),
        ("bomb", file("/etc/x", gzip(&bomb)), "contents-too-large", &["/etc/x", "67108864"]),
        ("no gzip", file("/etc/x", gzip("data:,x")), "bad-gzip", &["/etc/x", "gzip"]),
        ("a unit that climbs", unit(climbing), bad, &["../../x.service"]),
        ("a drop-in elsewhere", unit(absolute), bad, &["/etc/x.conf"]),
        ("twice", files(json!([{ "path": "/a" }, { "path": "/a" }])), bad, &["/a"]),
        ("below a file", files(json!([{ "path": "/etc/passwd/x" }])), odd, &[NAME, "/etc/passwd"]),
        ("a stranger", files(owned), odd, &[NAME, "/etc/x", "nobody-knows"]),
    ];
    all_refused(cases);
}

#[test]
fn a_gigabyte_on_stdin_is_not_buffered() {
    let mosb = Mosb::new().within(["prlimit", "--data=268435456"]);
    let mut child = mosb
        .command(["plan", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let head = rendered(&json!({ "ignition": { "version": "3.4.0" } })).to_string();
        let (head, _) = head.split_once("}}").unwrap();
        let start = format!(
            "{head}, \"storage\": {{\"files\": [{{\"path\": \"/x\", \"contents\": {{\"source\": \"data:,"
        );
        let piece = [b'a'; 1 << 20];
        // The program closes stdin long before the end of the input.
        stdin.write_all(start.as_bytes()).ok();
        (0..1024).take_while(|_| stdin.write_all(&piece).is_ok()).count()
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["code"], "file-too-large", "{error:#}");
    assert!(writer.join().unwrap() < 64, "all of it was read");
    assert_eq!(names(&mosb.tmp()), [""; 0]);
}
