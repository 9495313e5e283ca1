//! `mosb boot-images golden`, which needs no cluster.

use std::fs;

use serde_json::{Value, json};

use crate::cli_commands::{Desk, words};
use mosb_api::yaml;

fn stream() -> String {
    let file = mosb_tests::repository().join("testdata/boot-image/fedora-coreos.json");
    fs::read_to_string(file).unwrap()
}

#[test]
fn a_published_stream_becomes_the_golden_config_map() {
    let desk = Desk::new();
    fs::write(desk.at("stable.json"), stream()).unwrap();
    let line = "boot-images golden --stream stable.json";
    let printed = desk.mosb.run(words(&format!("{line} -o json"))).ok().json();
    assert_eq!(
        printed["metadata"],
        json!({"name": "coreos-bootimages", "namespace": "mosb-system"})
    );
    assert_eq!(printed["data"]["releaseVersion"], "42.20250609.3.0");
    let read: Value = serde_json::from_str(printed["data"]["stream"].as_str().unwrap()).unwrap();
    assert_eq!(read, serde_json::from_str::<Value>(&stream()).unwrap());

    let finished = desk.mosb.run(words(line)).ok();
    let note = "releaseVersion is 42.20250609.3.0, the newest of the stream, so no image waits";
    assert!(finished.stderr.contains(note), "{}", finished.stderr);
    let text = finished.text();
    assert_eq!(yaml::parse_one(text.as_bytes()).unwrap(), printed, "as YAML");
    assert_eq!(desk.mosb.run(words(line)).ok().text(), text, "the same bytes again");
    let piped = words("boot-images golden --stream -");
    assert_eq!(desk.mosb.run_with(piped, stream().as_bytes()).ok().text(), text, "from stdin");

    let other = desk.mosb.run(words(&format!(
        "{line} --namespace boot-images --release-version 41.20250105.3.0 -o json"
    )));
    let other = other.ok();
    assert!(!other.stderr.contains("no image waits"), "{}", other.stderr);
    let other = other.json();
    assert_eq!(other["metadata"]["namespace"], "boot-images");
    assert_eq!(other["data"]["releaseVersion"], "41.20250105.3.0");
}

#[test]
fn what_is_no_stream_prints_no_config_map() {
    let desk = Desk::new();
    let files = [
        ("page.json", "<html>".to_owned()),
        ("list.json", "[]".to_owned()),
        ("releases.json", r#"{"releases": []}"#.to_owned()),
        ("types.json", r#"{"architectures": {"x86_64": {"images": {"aws": 7}}}}"#.to_owned()),
        ("deep.json", format!("{{\"a\": {}", "[".repeat(100_000))),
        ("large.json", format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20))),
        ("stable.json", stream()),
    ];
    for (name, content) in files {
        fs::write(desk.at(name), content).unwrap();
    }
    fs::write(desk.at("binary.json"), b"{\xff}").unwrap();
    let cases = [
        ("no file", "none.json", "", "unreadable-file"),
        ("a page", "page.json", "", "bad-stream"),
        ("a list", "list.json", "", "bad-stream"),
        ("another file of Fedora", "releases.json", "", "empty-stream"),
        ("a wrong type", "types.json", "", "bad-stream"),
        ("deep", "deep.json", "", "bad-stream"),
        ("more than a ConfigMap holds", "large.json", "", "stream-too-large"),
        ("no text", "binary.json", "", "bad-file"),
        ("no namespace", "stable.json", "--namespace A", "wrong-use"),
        ("two names as one", "stable.json", "--namespace a.b", "wrong-use"),
        ("no release", "stable.json", "--release-version stable", "wrong-use"),
    ];
    for (what, file, more, code) in cases {
        let (exit, error) = desk.object(&format!("boot-images golden --stream {file} {more}"));
        assert_eq!((exit, &error["code"]), (2, &json!(code)), "{what}: {error:#}");
        let names_file = error["message"].as_str().unwrap().contains(file);
        assert!(names_file || !more.is_empty(), "{what}: {error:#}");
    }
}
