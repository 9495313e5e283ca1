//! A base that is inconsistent, hostile or missing leads to one error message and leaves no files.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use mosb_tests::build_fixture::{BuildFixture, assert_refused, base, config, with};
use mosb_tests::{Compression, Layout, Registry, Tree, sha256};

/// No content of a base requires a gigabyte of memory.
pub fn bounded(fixture: BuildFixture) -> BuildFixture {
    fixture.with_memory(1 << 30)
}

#[track_caller]
pub fn refused(
    fixture: &BuildFixture,
    what: &str,
    more: &[&str],
    exit: i32,
    code: &str,
    words: &[&str],
) {
    let finished = fixture.build(config().as_bytes(), more);
    assert_refused(&finished, what, exit, code, words);
    assert!(!fixture.output().join("index.json").exists(), "{what}");
    fixture.assert_clean(what);
}

#[test]
fn a_missing_or_wrong_base_is_named() {
    let fixture = BuildFixture::new();
    let image = |architecture| base().architecture(architecture);
    fixture.base.put_index("all", &[image("amd64"), image("arm64")]);
    let registry = Registry::plain();
    let dir = fixture.base.directory.display().to_string();
    let (all, nowhere) = (fixture.base.reference("all"), format!("oci:{dir}-not:base"));
    let missing = registry.repository("acme/base:v1");
    let cases: [(&str, &[&str], i32, &str, &[&str]); 9] = [
        (
            "no layout",
            &["--base", &nowhere],
            2,
            "file-error",
            &["base-not: no folder that can be read: No such file or directory; check the name"],
        ),
        ("no tag", &["--base", &format!("oci:{dir}:none")], 2, "bad-layout", &["none", "base"]),
        (
            "no digest",
            &["--base", &format!("oci:{dir}@sha256:{}", "0".repeat(64))],
            2,
            "bad-layout",
            &["sha256:000"],
        ),
        (
            "several",
            &["--base", &format!("oci:{dir}")],
            2,
            "layout-ambiguous",
            &["all", "base", ":TAG"],
        ),
        ("no repository", &["--base", &missing], 2, "not-found", &["acme/base:v1", "not found"]),
        (
            "no registry",
            &["--base", "127.0.0.1:1/acme/base:v1"],
            3,
            "unreachable",
            &["127.0.0.1:1"],
        ),
        (
            "no platform",
            &["--base", &all],
            2,
            "platform-ambiguous",
            &["linux/amd64", "linux/arm64", "--platform"],
        ),
        (
            "other platform",
            &["--base", &all, "--platform", "linux/s390x"],
            2,
            "platform-missing",
            &["linux/s390x", "linux/amd64", "linux/arm64"],
        ),
        (
            "one other platform",
            &["--platform", "linux/arm64"],
            2,
            "platform-missing",
            &["linux/arm64", "linux/amd64"],
        ),
    ];
    for (what, more, exit, code, words) in cases {
        refused(&fixture, what, more, exit, code, words);
    }
    // Neither `--base` nor `spec.osImageURL`.
    let target = fixture.target();
    let finished = fixture
        .mosb
        .run_with(["build", "-", "--output", &target, "-o", "json"], config().as_bytes());
    assert_refused(&finished, "no base", 2, "no-base", &["spec.osImageURL", "--base"]);
    let mut other: Value = serde_json::from_str(&config()).unwrap();
    other["spec"]["osImageURL"] = json!("fedora\nRUN x");
    let finished = fixture
        .mosb
        .run_with(["build", "-", "--output", &target, "-o", "json"], other.to_string().as_bytes());
    assert_refused(
        &finished,
        "a base by no name",
        2,
        "bad-reference",
        &["spec.osImageURL", "fedora\\nRUN x"],
    );
}

/// One with a unified kernel, which no machine boots with a layer on top.
#[test]
fn a_sealed_base_is_refused() {
    for kernel in ["boot/EFI/Linux/6.1.efi", "usr/lib/modules/6.1/6.1.efi"] {
        let mut tree = Tree::new();
        for (at, _) in kernel.match_indices('/') {
            tree = tree.directory(&kernel[..at], 0o755);
        }
        let sealed = base().layer(Compression::Gzip, tree.file(kernel, 0o644, "MZ").tar());
        let fixture = bounded(BuildFixture::with(&sealed));
        refused(&fixture, "sealed", &[], 2, "sealed-base", &[kernel, "bootc container ukify"]);
    }
}

#[test]
fn bases_of_mosb_need_the_option() {
    let fixture = BuildFixture::new();
    fixture.build(config().as_bytes(), &[]).ok();
    let built = fixture.target();
    let out = format!("oci:{}", fixture.mosb.home().join("second").display());
    let finished = fixture.build(
        config().as_bytes(),
        &["--base", &format!("{built}:{}", mosb_tests::build_fixture::NAME), "--output", &out],
    );
    assert_refused(&finished, "built", 2, "base-already-built", &["--on-top", "rendered-worker"]);
    let on_top = format!("{built}:{}", mosb_tests::build_fixture::NAME);
    let other = with("storage", json!({ "links": [{ "path": "/etc/other", "target": "x" }] }));
    fixture.build(other.as_bytes(), &["--base", &on_top, "--output", &out, "--on-top"]).ok();
}

type Spoil = fn(&Layout);

fn manifest(layout: &Layout) -> Value {
    layout.json(&layout.digest("base"))
}

fn layer(layout: &Layout) -> PathBuf {
    layout.blob_path(manifest(layout)["layers"][1]["digest"].as_str().unwrap())
}

/// Replaces the manifest by a changed one with a matching digest.
fn change(layout: &Layout, change: impl Fn(&mut Value)) {
    let mut manifest = manifest(layout);
    change(&mut manifest);
    put(layout, &manifest, |_| ());
}

fn put(layout: &Layout, manifest: &Value, also: impl Fn(&mut Value)) {
    let bytes = manifest.to_string();
    let digest = format!("sha256:{}", sha256(bytes.as_bytes()));
    fs::write(layout.blob_path(&digest), &bytes).unwrap();
    let mut entry = layout.index()[0].clone();
    entry["digest"] = json!(digest);
    entry["size"] = json!(bytes.len());
    also(&mut entry);
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    fs::write(layout.directory.join("index.json"), index.to_string()).unwrap();
}

/// Replaces the config by a changed one with matching digests.
fn change_config(layout: &Layout, change_it: impl Fn(&mut Value)) {
    let mut config = layout.json(manifest(layout)["config"]["digest"].as_str().unwrap());
    change_it(&mut config);
    let bytes = config.to_string();
    let digest = format!("sha256:{}", sha256(bytes.as_bytes()));
    fs::write(layout.blob_path(&digest), &bytes).unwrap();
    change(layout, |manifest| {
        manifest["config"]["digest"] = json!(digest);
        manifest["config"]["size"] = json!(bytes.len());
    });
}

#[test]
fn a_base_that_lies_is_refused() {
    let spoils: [(&str, Spoil, &str, &[&str]); 19] = [
        (
            "a layer's bytes",
            |l| {
                let mut bytes = fs::read(layer(l)).unwrap();
                bytes[600] ^= 1;
                fs::write(layer(l), bytes).unwrap();
            },
            "layer-digest",
            &["base@sha256:", "its bytes are those of"],
        ),
        (
            "a layer's diffID",
            |l| {
                change_config(l, |c| {
                    c["rootfs"]["diff_ids"][1] = json!(format!("sha256:{}", "1".repeat(64)))
                })
            },
            "layer-diff-id",
            &["sha256:111"],
        ),
        (
            "fewer diffIDs",
            |l| change_config(l, |c| c["rootfs"]["diff_ids"] = json!([])),
            "bad-base",
            &["2 layers", "config 0"],
        ),
        (
            "a layer's size",
            |l| change(l, |m| m["layers"][1]["size"] = json!(600)),
            "layer-digest",
            &["its bytes are those of"],
        ),
        (
            "a huge layer",
            |l| change(l, |m| m["layers"][1]["size"] = json!(1_u64 << 62)),
            "layer-limit",
            &["46116860184273", "68719476736"],
        ),
        (
            "a negative size",
            |l| change(l, |m| m["layers"][1]["size"] = json!(-1)),
            "bad-manifest",
            &["`-1`", "damaged"],
        ),
        (
            "a huge config",
            |l| change(l, |m| m["config"]["size"] = json!(1_u64 << 62)),
            "too-large",
            &["config has 4611686018427387904 bytes", "1048576"],
        ),
        (
            "a layer that isn't there",
            |l| fs::remove_file(layer(l)).unwrap(),
            "bad-layout",
            &["sha256:", "missing"],
        ),
        (
            "a layer that is a link",
            |l| {
                fs::remove_file(layer(l)).unwrap();
                symlink("/etc/passwd", layer(l)).unwrap();
            },
            "bad-layout",
            &["links are not followed"],
        ),
        (
            "a digest that climbs",
            |l| change(l, |m| m["layers"][1]["digest"] = json!("sha256:../../../../etc/passwd")),
            "bad-manifest",
            &["digest"],
        ),
        (
            "a layer of no known kind",
            |l| change(l, |m| m["layers"][1]["mediaType"] = json!("application/x-thing")),
            "layer-media-type",
            &["application/x-thing"],
        ),
        (
            "an index that is a link",
            |l| {
                let index = l.directory.join("index.json");
                fs::rename(&index, l.directory.join("else")).unwrap();
                symlink("else", index).unwrap();
            },
            "bad-layout",
            &["index.json", "links are not followed"],
        ),
        (
            "an index of a gigabyte",
            |l| {
                File::options()
                    .write(true)
                    .open(l.directory.join("index.json"))
                    .unwrap()
                    .set_len(1 << 30)
                    .unwrap()
            },
            "too-large",
            &["index.json"],
        ),
        (
            "an index that is a folder",
            |l| {
                fs::remove_file(l.directory.join("index.json")).unwrap();
                fs::create_dir(l.directory.join("index.json")).unwrap();
            },
            "bad-layout",
            &["index.json"],
        ),
        (
            "a manifest of a gigabyte",
            |l| {
                File::options()
                    .write(true)
                    .open(l.blob_path(&l.digest("base")))
                    .unwrap()
                    .set_len(1 << 30)
                    .unwrap()
            },
            "too-large",
            &["manifest"],
        ),
        (
            "blobs that are a link",
            |l| {
                fs::rename(l.directory.join("blobs"), l.directory.join("else")).unwrap();
                symlink("else", l.directory.join("blobs")).unwrap();
            },
            "bad-layout",
            &["blobs"],
        ),
        (
            "another version",
            |l| {
                fs::write(l.directory.join("oci-layout"), r#"{"imageLayoutVersion":"9.0.0"}"#)
                    .unwrap()
            },
            "bad-layout",
            &["version 1"],
        ),
        (
            "a config without a platform",
            |l| {
                change_config(l, |c| {
                    c.as_object_mut().unwrap().remove("os");
                })
            },
            "bad-platform",
            &["os"],
        ),
        (
            "a config that is a list",
            |l| change_config(l, |c| *c = json!([])),
            "bad-base",
            &["config"],
        ),
    ];
    for (what, spoil, code, words) in spoils {
        let fixture = bounded(BuildFixture::new());
        spoil(&fixture.base);
        refused(&fixture, what, &[], 2, code, words);
    }
}
