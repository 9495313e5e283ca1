//! The tag of a base moves: a plan and a build say it of the image that machines have.

use std::fs;

use serde_json::{Value, json};

use mosb_tests::{Compression, Layout, Mosb, Registry, Tree, build_fixture};

/// Pushes a base of this version, made in this month, under the same tag.
fn push_base(registry: &Registry, version: &str, month: u8) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(&folder.path().join("base"));
    let image = build_fixture::base()
        .label("org.opencontainers.image.version", version)
        .label("org.opencontainers.image.created", &format!("2026-{month:02}-01T00:00:00Z"));
    layout.put("base", &image);
    registry.push(&layout, "base", "os/base:stable");
}

#[test]
fn a_base_that_is_older_than_its_tag_is_named() {
    let (mosb, mut registry) = (Mosb::new(), Registry::plain());
    let tag = registry.repository("os/base:stable");
    let mut config: Value = serde_json::from_str(&build_fixture::config()).unwrap();
    config["spec"]["osImageURL"] = json!(tag);
    let config = config.to_string();
    push_base(&registry, "2", 2);
    let output = registry.repository("os/worker");
    let build = |more: &[&str]| {
        let arguments = ["build", "-", "--output", &output, "--tls-verify=false", "-o", "json"];
        mosb.run_with([&arguments[..], more].concat(), config.as_bytes()).ok().json()
    };
    let built = build(&[]);
    let digest = built["base"]["manifest"].as_str().unwrap().to_owned();
    let image = built["image"].as_str().unwrap().to_owned();
    // On a base that is there, whatever the tag names.
    let base = format!("{}@{digest}", registry.repository("os/base"));
    let plan = |more: &[&str]| {
        let plan = ["plan", "-", "--base", &base, "--previous", &image, "--tls-verify=false"];
        mosb.run_with([&plan[..], more].concat(), config.as_bytes()).ok()
    };
    let named = |found: &Value| {
        let warnings = found["warnings"].as_array().cloned().unwrap_or_default();
        let newer = warnings.into_iter().find(|warning| warning["code"] == "newer-base");
        newer.map(|newer| newer["message"].as_str().unwrap().to_owned())
    };
    let planned = || named(&plan(&["-o", "json"]).json());
    assert_eq!(planned(), None, "the tag names the same");

    push_base(&registry, "3", 3);
    let message = planned().expect("the tag names a newer base");
    for part in [&*image, &tag, &digest, "version 2", "version 3"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(plan(&[]).text().contains("version 3, made"));
    assert_eq!(named(&build(&["--previous", &image])), Some(message.clone()));
    assert_eq!(named(&build(&["--previous", &image, "--dry-run"])), Some(message));

    push_base(&registry, "1", 1);
    assert_eq!(planned(), None, "it moved back");

    // A layout needs no registry.
    registry.stop();
    let layout = Layout::create(&mosb.home().join("base"));
    layout.put("base", &build_fixture::base());
    let (base, target) =
        (layout.reference("base"), format!("oci:{}", mosb.home().join("out").display()));
    let arguments = ["build", "-", "--base", &base, "--output", &target, "--previous", &image];
    let arguments = [&arguments[..], &["--tls-verify=false", "-o", "json"]].concat();
    assert_eq!(named(&mosb.run_with(arguments, config.as_bytes()).ok().json()), None);
}

#[test]
fn the_os_of_two_configs_is_compared() {
    let (mosb, mut registry) = (Mosb::new(), Registry::plain());
    let layout = Layout::create(&mosb.home().join("bases"));
    let kernel = Tree::new().file("usr/lib/modules/6.1.148/vmlinuz", 0o755, "kernel").tar();
    layout.put("a", &build_fixture::base());
    layout.put("b", &build_fixture::base().layer(Compression::Gzip, kernel));
    for tag in ["a", "b"] {
        registry.push(&layout, tag, &format!("os/base:{tag}"));
    }
    let [a, b] = ["a", "b"].map(|tag| {
        let mut config: Value = serde_json::from_str(&build_fixture::config()).unwrap();
        config["spec"]["osImageURL"] = json!(registry.repository(&format!("os/base:{tag}")));
        let path = mosb.home().join(format!("{tag}.json"));
        fs::write(&path, config.to_string()).unwrap();
        path.display().to_string()
    });
    let run = |words: &[&str], code: i32| {
        let finished = mosb.run([words, &["--tls-verify=false", "-o", "json"]].concat());
        assert_eq!(finished.code(), Some(code), "{}", finished.stderr);
        finished
    };
    let kernel = |os: &Value| os["kernel"]["to"].clone();
    let files_only = run(&["diff", &a, &b], 1).json();
    assert_eq!(files_only["os"], Value::Null, "two files are compared without the network");
    assert_eq!(kernel(&run(&["diff", &a, &b, "--os"], 1).json()["os"]), "6.1.148");
    assert_eq!(run(&["diff", &a, &a, "--os"], 0).json()["os"], Value::Null);
    let planned = |previous: &str| run(&["plan", &b, "--previous", previous], 0).json();
    assert_eq!(kernel(&planned(&a)["change"]["os"]), "6.1.148");
    assert_eq!(planned(&b)["change"]["os"], Value::Null);
    let output = registry.repository("os/worker");
    let image = run(&["build", &a, "--output", &output], 0).json()["image"].clone();
    let image = image.as_str().unwrap();
    assert_eq!(kernel(&planned(image)["change"]["os"]), "6.1.148");
    assert_eq!(kernel(&run(&["diff", image, &b], 1).json()["os"]), "6.1.148");
    let text = mosb.run(["plan", &b, "--previous", &a, "--tls-verify=false"]).ok();
    assert!(text.text().contains("none -> 6.1.148"), "{}", text.text());

    registry.stop();
    let finished = run(&["diff", &a, &b, "--os"], 1);
    assert_eq!(finished.json()["os"], Value::Null);
    assert!(finished.stderr.contains("is not compared: "), "{}", finished.stderr);
}
